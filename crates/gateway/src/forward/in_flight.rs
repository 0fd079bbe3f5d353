//! Calls of a tenant that a service has not answered to their end: so many, and so much of their requests in memory, so that
//! one tenant leaves room for the others.

use std::sync::Arc;

use dashmap::DashMap;
use portico_kernel::{Code, Problem, seconds};

use crate::calls::too_many_calls;
use crate::party::Party;

/// How many calls of one tenant a service may have at once.
const CALLS_MAX: usize = 256;
/// How many bytes of them may be in memory, because their requests are read whole to be checked.
const HELD_BYTES_MAX: u64 = 32 << 20;
/// Smaller requests are not counted.
const COUNTED_BYTES: u64 = 64 << 10;

/// The calls that a service has, by tenant.
#[derive(Default)]
pub struct CallsInFlight(Arc<DashMap<Party, Load>>);

/// What a tenant has at a service.
#[derive(Default)]
struct Load {
    calls: usize,
    held_bytes: u64,
}

/// A call that a service has, until it is dropped.
pub(super) struct InFlight {
    loads: Arc<DashMap<Party, Load>>,
    party: Party,
    held_bytes: u64,
}

impl CallsInFlight {
    /// One more call of that tenant; 429 when there are too many.
    pub(super) fn begin(&self, party: Party) -> Result<InFlight, Problem> {
        let mut load = self.0.entry(party.clone()).or_default();
        if load.calls >= CALLS_MAX {
            return Err(too_many_calls(CALLS_MAX, "service"));
        }
        load.calls += 1;
        drop(load);
        Ok(InFlight { loads: self.0.clone(), party, held_bytes: 0 })
    }
}

impl InFlight {
    /// From now on so many bytes of its request are in memory; 429 when those of its tenant become too many. Fewer than
    /// before are never refused.
    pub(super) fn hold(&mut self, bytes: u64) -> Result<(), Problem> {
        let bytes = if bytes < COUNTED_BYTES { 0 } else { bytes };
        // It is there for as long as one of its calls is.
        let Some(mut load) = self.loads.get_mut(&self.party) else { return Ok(()) };
        let held = load.held_bytes - self.held_bytes + bytes;
        if held > HELD_BYTES_MAX && bytes > self.held_bytes {
            let message = "Too many large requests of the account are under way at this service.";
            let metadata = [("limit", HELD_BYTES_MAX.to_string())];
            let problem = Problem::new(Code::RateLimited, message);
            return Err(problem.with_info("HELD_BYTES", "gateway", metadata).retry_after(seconds(1)));
        }
        load.held_bytes = held;
        self.held_bytes = bytes;
        Ok(())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.loads.remove_if_mut(&self.party, |_, load| {
            load.calls -= 1;
            load.held_bytes -= self.held_bytes;
            load.calls == 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_so_many_and_leaves_nothing_behind() {
        let calls = CallsInFlight::default();
        let party = |name: &str| Party::Caller(name.to_owned());
        let mut greedy: Vec<_> = (0..CALLS_MAX).map(|_| calls.begin(party("greedy")).unwrap()).collect();
        assert!(calls.begin(party("greedy")).is_err());
        let other = calls.begin(party("other")).unwrap();
        greedy.pop();
        greedy.push(calls.begin(party("greedy")).unwrap());
        drop((greedy, other));
        assert!(calls.0.is_empty());
    }

    #[test]
    fn what_is_held_of_a_tenants_requests_is_bounded() {
        let calls = CallsInFlight::default();
        let begin = |name: &str| calls.begin(Party::Caller(name.to_owned())).unwrap();
        let (mut first, mut second, mut other) = (begin("greedy"), begin("greedy"), begin("other"));
        first.hold(HELD_BYTES_MAX - COUNTED_BYTES).unwrap();
        second.hold(COUNTED_BYTES).unwrap();
        assert_eq!(second.hold(COUNTED_BYTES + 1).unwrap_err().code(), Code::RateLimited);
        other.hold(HELD_BYTES_MAX).unwrap();
        begin("greedy").hold(COUNTED_BYTES - 1).unwrap();
        // Less arrived than was announced.
        first.hold(1).unwrap();
        second.hold(HELD_BYTES_MAX).unwrap();
        drop(second);
        first.hold(HELD_BYTES_MAX).unwrap();
        drop((first, other));
        assert!(calls.0.is_empty());
    }
}

//! Calls of a tenant that a service has not answered to their end: so many, so that one tenant leaves room for the others.

use std::sync::Arc;

use dashmap::DashMap;
use portico_kernel::Problem;

use crate::calls::too_many_calls;
use crate::party::Party;

/// How many calls of one tenant a service may have at once.
const CALLS_MAX: usize = 256;

/// The calls that a service has, by tenant.
#[derive(Default)]
pub struct CallsInFlight(Arc<DashMap<Party, usize>>);

/// One of them, until it is dropped.
pub(super) struct InFlight {
    calls: Arc<DashMap<Party, usize>>,
    party: Party,
}

impl CallsInFlight {
    /// One more call of that tenant; 429 when there are too many.
    pub(super) fn begin(&self, party: Party) -> Result<InFlight, Problem> {
        let mut calls = self.0.entry(party.clone()).or_default();
        if *calls >= CALLS_MAX {
            return Err(too_many_calls(CALLS_MAX, "service"));
        }
        *calls += 1;
        drop(calls);
        Ok(InFlight { calls: self.0.clone(), party })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.calls.remove_if_mut(&self.party, |_, calls| {
            *calls -= 1;
            *calls == 0
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
}

//! Refusals of callers who do not stop: counted, and not recorded one by one.
//!
//! A call that was refused for want of a scope, of room in the minute or of units takes nothing that runs out, so a caller
//! can make as many of them as the network carries. The first of a caller in each minute are records of the journal and
//! stand in the log of requests like every other call. Those after them are counted here, and one record of the journal
//! says how many of a kind there were: usage and series stay exact, and nothing grows.

use dashmap::DashMap;
use portico_kernel::{AccountId, Hour, Month, Problem, Timestamp};

use crate::journal::{Record, SubjectId};
use crate::metering::journal_failure;
use crate::{Metering, limits};

/// Refusals that differ in nothing that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RefusalKind {
    account: AccountId,
    subject: SubjectId,
    operation: u16,
    status: u16,
    code: u8,
    hour: Hour,
}

/// Refusals that are not in the journal yet.
#[derive(Debug, Default)]
pub(crate) struct RefusalCounts(DashMap<RefusalKind, (u32, Timestamp)>);

impl RefusalCounts {
    /// Counts a refusal that is not recorded by itself.
    pub(crate) fn add(&self, record: &Record<'_>) {
        let &Record { at, account, subject, operation, status, code, .. } = record;
        self.put(RefusalKind { account, subject, operation, status, code, hour: Hour::of(at) }, 1, at);
    }

    fn put(&self, kind: RefusalKind, count: u32, at: Timestamp) {
        let mut counted = self.0.entry(kind).or_insert((0, at));
        counted.0 = counted.0.saturating_add(count);
    }

    /// Takes out what was counted so far.
    fn take(&self) -> Vec<(RefusalKind, u32, Timestamp)> {
        let mut taken = Vec::new();
        self.0.retain(|kind, (count, at)| {
            taken.push((*kind, *count, *at));
            false
        });
        taken
    }
}

/// How many refusals of a caller were recorded in a minute.
#[derive(Debug, Default)]
pub(crate) struct RefusalSample {
    minute: i64,
    recorded: u32,
}

impl RefusalSample {
    /// Is this refusal one of those that are recorded by themselves?
    pub(crate) fn take(&mut self, now: Timestamp) -> bool {
        let minute = now.as_seconds() / 60;
        if self.minute != minute {
            *self = Self { minute, recorded: 0 };
        }
        let is_recorded = self.recorded < limits::REFUSALS_RECORDED_PER_MINUTE;
        self.recorded += u32::from(is_recorded);
        is_recorded
    }
}

impl Metering {
    /// Writes the refusals that were only counted so far into the journal, one record for each kind. They are counted on
    /// while the journal has no room to spare. Nobody who counts waits for the disk meanwhile.
    pub(crate) fn record_refusals(&self) -> Result<(), Problem> {
        let journal = self.journal()?;
        let mut result = Ok(());
        for (kind, count, at) in self.refusals.take() {
            if result.is_ok() {
                let appended = journal
                    .make_room(limits::UNDER_WAY_MAX)
                    .and_then(|()| journal.append(&kind.record(count, at)));
                result = appended.map(|number| self.metrics.recorded(number));
            }
            if result.is_err() {
                self.refusals.put(kind, count, at);
            }
        }
        result.map_err(journal_failure)
    }
}

impl RefusalKind {
    fn record(&self, count: u32, at: Timestamp) -> Record<'static> {
        let &Self { account, subject, operation, status, code, .. } = self;
        Record {
            at,
            account,
            subject,
            operation,
            status,
            code,
            leased: false,
            micros: 0,
            units: 0,
            tokens: 0,
            month: Month::of(at),
            repeats: count,
            request_id: "".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn some_of_each_minute_are_recorded() {
        let mut sample = RefusalSample::default();
        let now = Timestamp::from_seconds(1_800_000_000);
        let recorded = |sample: &mut RefusalSample, now| (0..1_000).filter(|_| sample.take(now)).count();
        let max = limits::REFUSALS_RECORDED_PER_MINUTE as usize;
        assert_eq!(recorded(&mut sample, now), max);
        assert_eq!(recorded(&mut sample, now + Duration::from_secs(59)), 0);
        assert_eq!(recorded(&mut sample, now + Duration::from_mins(1)), max);
    }
}

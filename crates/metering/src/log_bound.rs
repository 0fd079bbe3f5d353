//! How many calls of an account the log of requests takes in a day.
//!
//! Every call is counted in usage; the log beside it is what grows with each of them. So a plan says how many calls it
//! takes in a day. What is over that is only counted.

use dashmap::DashMap;
use portico_kernel::{AccountId, Day, Plan, Timestamp};
use portico_store::{StoreError, Tx};

use crate::{limits, sql};

/// What the log has taken of each account today.
#[derive(Debug, Default)]
pub(crate) struct LoggedToday(DashMap<AccountId, LoggedDay>);

#[derive(Debug, Clone, Copy)]
struct LoggedDay {
    day: Day,
    calls: i64,
    /// When the database was asked; other servers log calls of the same account.
    read_at: Timestamp,
}

impl LoggedToday {
    /// Takes room for `calls` of the account; returns for how many there is.
    pub(crate) async fn take(
        &self,
        tx: &mut Tx,
        account: AccountId,
        plan: &Plan,
        now: Timestamp,
        calls: usize,
    ) -> Result<usize, StoreError> {
        let day = Day::of(now);
        let known = self.0.get(&account).map(|known| *known);
        let is_fresh = |known: &LoggedDay| {
            known.day == day && known.read_at <= now && now.since(known.read_at) < limits::LOGGED_LIFE
        };
        let mut logged = if let Some(fresh) = known.filter(is_fresh) {
            fresh
        } else {
            LoggedDay { day, calls: sql::count_logged(tx, account, day.start()).await?, read_at: now }
        };
        let left = i64::from(plan.log_entries_per_day) - logged.calls;
        let taken = calls.min(usize::try_from(left).unwrap_or(0));
        logged.calls += i64::try_from(taken).unwrap_or(i64::MAX);
        self.0.insert(account, logged);
        Ok(taken)
    }

    /// Forgets what is asked for anew anyway.
    pub(crate) fn forget_old(&self, now: Timestamp) {
        self.0.retain(|_, logged| now.since(logged.read_at) < limits::LOGGED_LIFE);
    }
}

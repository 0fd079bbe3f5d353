//! How much an account may have asked of resolvers at once, so that others have room beside it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use portico_kernel::AccountId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What accounts have under way.
pub(crate) struct Shares {
    /// How much each may.
    each: usize,
    /// Of those that have anything under way.
    accounts: Mutex<BTreeMap<AccountId, Weak<Semaphore>>>,
}

impl Shares {
    pub(crate) const fn new(each: usize) -> Self {
        Self { each, accounts: Mutex::new(BTreeMap::new()) }
    }

    fn of(&self, account: AccountId) -> Arc<Semaphore> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = accounts.get(&account).and_then(Weak::upgrade) {
            return known;
        }
        accounts.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.each));
        accounts.insert(account, Arc::downgrade(&share));
        share
    }

    /// Waits until the account has less under way than it may; whoever came first goes first. What is returned is the right to
    /// ask, until it is dropped. `None` never comes, since nobody closes what is waited at.
    pub(crate) async fn take(&self, account: AccountId) -> Option<OwnedSemaphorePermit> {
        self.of(account).acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn each_account_has_a_share_of_its_own() {
        let shares = Shares::new(2);
        let (ada, eve) = (AccountId::from_u128(1), AccountId::from_u128(2));
        let first = shares.take(ada).now_or_never().flatten().unwrap();
        let second = shares.take(ada).now_or_never().flatten().unwrap();
        let mut third = Box::pin(shares.take(ada));
        assert!((&mut third).now_or_never().is_none(), "it waits");
        let other = shares.take(eve).now_or_never().flatten().unwrap();
        drop(first);
        assert!(shares.take(ada).now_or_never().is_none(), "whoever came first goes first");
        let third = (&mut third).now_or_never().flatten().unwrap();
        drop((second, third, other));
        drop(shares.take(eve).await);
        assert_eq!(shares.accounts.lock().unwrap().len(), 1, "those with nothing under way are forgotten");
    }
}

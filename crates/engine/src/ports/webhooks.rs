//! What webhooks gives to the others: deliveries of what has happened.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use portico_kernel::{AccountId, Timestamp};
use portico_store::{StoreError, Tx};

use super::NewEvent;

/// What is done once a transaction is committed, and not without it.
pub type AfterCommit = Box<dyn FnOnce() + Send + Sync>;

/// Deliveries of events to whoever asked for them. Kept by webhooks.
pub trait Outbox: Send + Sync {
    /// Makes the deliveries of these events of the account, which are in the order of their numbers, in the transaction
    /// that made the events. The returned function hands them to the sender, after the commit.
    fn fill<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        now: Timestamp,
        events: Arc<[NewEvent]>,
    ) -> BoxFuture<'a, Result<AfterCommit, StoreError>>;
}

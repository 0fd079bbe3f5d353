//! What domains gives to the others: what an account has proven to control.

use futures_util::future::BoxFuture;
use portico_kernel::AccountId;
use portico_store::StoreError;

use crate::Engine;

/// Domains that accounts have proven. Kept by domains.
pub trait Domains: Send + Sync {
    /// Is `host` a verified domain of the account, or under one? What was answered may not be kept: another account may
    /// prove the domain at any time.
    fn covers<'a>(
        &'a self,
        engine: &'a Engine,
        account: AccountId,
        host: &'a str,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;
}

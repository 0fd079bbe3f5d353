//! What metering gives to the others: the price of a call, and units that are used elsewhere.

use futures_util::future::BoxFuture;
use portico_kernel::{AccountId, Code, Problem, Timestamp};

use crate::Ctx;

/// What a call costs its account. Kept by metering.
pub trait Charge: Send + Sync {
    /// Takes the price of the call, just before its operation runs. Returns `None` when that was possible in memory;
    /// otherwise the future asks the database, and may refuse.
    fn pay(&self) -> Option<BoxFuture<'_, Result<(), Problem>>>;

    /// The call costs `units`, and not its price: only its answer tells how much it was worth. What the account has no
    /// units for is counted all the same, because it is done.
    fn reprice(&self, units: u32) -> BoxFuture<'_, Result<(), Problem>>;

    /// The operation ended, with the code of its refusal if it was one. Refunds the price of a fault of ours.
    fn settle(&self, code: Option<Code>);
}

/// Units that were used somewhere else than in a call of the gateway.
#[derive(Debug, Clone)]
pub struct ReportedUsage {
    /// The account that used them.
    pub account: AccountId,
    /// The key or API token; none where only the account is known.
    pub credential: Option<String>,
    /// What usage calls it, `service.name`.
    pub name: String,
    /// How many, at most 32 bits of them.
    pub units: u32,
    /// When.
    pub at: Timestamp,
}

/// What is left of an account's units.
#[derive(Debug, Clone, Copy)]
pub struct UnitsLeft {
    /// Units that remain of this month.
    pub remaining: i64,
    /// When the next month begins.
    pub resets_at: Timestamp,
}

/// Units of accounts. Kept by metering.
pub trait Units: Send + Sync {
    /// What is left of the account's units; `None` where there is no such account.
    fn left<'a>(
        &'a self,
        ctx: &'a mut Ctx,
        account: AccountId,
    ) -> BoxFuture<'a, Result<Option<UnitsLeft>, Problem>>;

    /// Counts what a service reports, each as one call, in the transaction of `ctx`.
    fn report<'a>(
        &'a self,
        ctx: &'a mut Ctx,
        service: &'a str,
        reports: Vec<ReportedUsage>,
    ) -> BoxFuture<'a, Result<(), Problem>>;
}

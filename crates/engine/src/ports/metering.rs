//! What metering gives to the others: the price of a call.

use futures_util::future::BoxFuture;
use portico_kernel::{Code, Problem};

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

//! The clock.

use std::pin::Pin;
use std::time::Duration;

use crate::Timestamp;

/// A wait that ends when the clock says so.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the time and waits. Passed in everywhere, so that tests can set it.
pub trait Clock: Send + Sync + 'static {
    /// What time it is.
    fn now(&self) -> Timestamp;
    /// A future that ends once `wait` has gone by on this clock.
    fn sleep(&self, wait: Duration) -> Sleep;
}

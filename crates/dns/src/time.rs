//! The one file that asks how time passes. It is the runtime's time, which a test can hold still.

pub(crate) use tokio::time::Instant;

/// A point in time, to be compared with another one.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing of the platform is known here; durations are all that is taken from it"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

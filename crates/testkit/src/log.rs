//! Errors that were logged: a test must expect them, or it fails.

use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

static ERRORS: AtomicUsize = AtomicUsize::new(0);

struct CountErrors;

impl<S: Subscriber> Layer<S> for CountErrors {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == Level::ERROR {
            ERRORS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Begins to count and to print. Each test is a process of its own, so the count is the test's own.
pub(crate) fn begin() {
    let print = tracing_subscriber::fmt::layer().with_test_writer().with_filter(LevelFilter::WARN);
    let _ = tracing_subscriber::registry()
        .with(CountErrors.with_filter(LevelFilter::ERROR))
        .with(print)
        .try_init();
}

/// How many errors were logged since it was last asked.
pub(crate) fn take_errors() -> usize {
    ERRORS.swap(0, Ordering::Relaxed)
}

//! The log: errors that a test must expect, or it fails, and all of it for whoever looks for something.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

static ERRORS: AtomicUsize = AtomicUsize::new(0);
static CAPTURING: AtomicBool = AtomicBool::new(false);
static CAPTURED: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ALONE: AtomicBool = AtomicBool::new(false);

/// Writes to [`CAPTURED`].
struct Capture;

impl io::Write for Capture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        CAPTURED.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Says that this process is no test: it runs one thing after the other, and whatever is logged is its own.
pub fn run_outside_nextest() {
    ALONE.store(true, Ordering::Relaxed);
}

/// Fails a test that shares its process with others: it would see what they log, and they would count its errors.
#[expect(
    clippy::disallowed_methods,
    reason = "nextest tells tests through the environment that it runs them"
)]
fn require_nextest() {
    assert!(
        ALONE.load(Ordering::Relaxed) || std::env::var_os("NEXTEST").is_some(),
        "Run the tests with `cargo nextest run` (or `make test`): what is logged is counted by process, and `cargo test` \
         runs many tests in one."
    );
}

/// Keeps every line from here on, down to the smallest.
pub fn capture_log() {
    require_nextest();
    CAPTURING.store(true, Ordering::Relaxed);
}

/// The lines that were kept.
pub fn captured_log() -> String {
    let captured = CAPTURED.lock().unwrap_or_else(PoisonError::into_inner);
    String::from_utf8_lossy(&captured).into_owned()
}

struct CountErrors;

impl<S: Subscriber> Layer<S> for CountErrors {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == Level::ERROR {
            ERRORS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Begins to count and to print. Under nextest each test is a process of its own, so the count is the test's own.
pub(crate) fn begin() {
    require_nextest();
    let print = tracing_subscriber::fmt::layer().with_test_writer().with_filter(LevelFilter::WARN);
    let _ = tracing_subscriber::registry()
        .with(CountErrors.with_filter(LevelFilter::ERROR))
        .with(print)
        .with(
            tracing_subscriber::fmt::layer()
                .with_ansi(false)
                .with_writer(|| Capture)
                .with_filter(filter_fn(|_| CAPTURING.load(Ordering::Relaxed))),
        )
        .try_init();
}

/// How many errors were logged since it was last asked.
pub(crate) fn take_errors() -> usize {
    ERRORS.swap(0, Ordering::Relaxed)
}

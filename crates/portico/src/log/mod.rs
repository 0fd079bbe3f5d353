//! The log: to standard error, so that standard output is for answers.
//!
//! A line of every request would be a call of the kernel for every request. Lines are gathered instead, and a thread of
//! its own writes them out: every few milliseconds, and at once when there is a warning or worse. Nobody waits for it: when
//! whoever reads the log does not, lines are dropped and counted.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, filter, fmt};

use crate::config::{Config, LogFormat};

mod text;

use text::Text;

/// How long a line waits at most.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Beyond this, lines are dropped.
const GATHERED_BYTES_MAX: usize = 4 << 20;
/// How long the end of the program waits for the last lines to be taken.
const LAST_WAIT_MAX: Duration = Duration::from_secs(1);

/// Begins to log as `config` says; others' chatter is kept to warnings. The log goes on until what this gives is dropped.
pub(crate) fn begin(config: &Config) -> Log {
    let log = Log::start();
    // The resolver names the names that it is asked for, and no log of ours says where a delivery went.
    let filter = filter::Targets::new()
        .with_default(Level::WARN)
        .with_target("hickory", LevelFilter::OFF)
        .with_target("portico", config.log);
    let stderr_is_terminal = io::stderr().is_terminal();
    let layer = fmt::layer().with_writer(Writer(log.0.clone())).with_ansi(stderr_is_terminal);
    let layer = match config.log_format {
        LogFormat::Text => layer.event_format(Text { ansi: stderr_is_terminal }).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    // A second start within one process (tests) keeps the first log.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
    log
}

/// The log as long as it is held; dropped, it writes out what there is.
pub(crate) struct Log(Arc<Shared>);

#[derive(Default)]
struct Shared {
    gathered: Mutex<Gathered>,
    /// Told when there is something to write, and when it must not wait.
    more: Condvar,
    /// Told when everything is written.
    written: Condvar,
}

#[derive(Default)]
struct Gathered {
    lines: Vec<u8>,
    /// Lines that there was no room for.
    dropped: u64,
    /// Must it be written at once?
    urgent: bool,
    /// Is the thread writing?
    writing: bool,
}

impl Log {
    fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        std::thread::spawn(move || {
            loop {
                of_thread.write_out();
            }
        });
        Self(shared)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let mut gathered = self.0.gathered();
        gathered.urgent = true;
        self.0.more.notify_one();
        let unwritten = |gathered: &mut Gathered| gathered.writing || !gathered.lines.is_empty();
        let _ = self.0.written.wait_timeout_while(gathered, LAST_WAIT_MAX, unwritten).map(drop);
    }
}

impl Shared {
    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for lines, a little longer for others, and writes them.
    fn write_out(&self) {
        let nothing = |gathered: &mut Gathered| gathered.lines.is_empty();
        let gathered = self.more.wait_while(self.gathered(), nothing).unwrap_or_else(PoisonError::into_inner);
        let early =
            |gathered: &mut Gathered| !gathered.urgent && gathered.lines.len() < GATHERED_BYTES_MAX / 4;
        let waited = self.more.wait_timeout_while(gathered, WAIT_MAX, early);
        let (mut gathered, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let (mut lines, dropped) =
            (std::mem::take(&mut gathered.lines), std::mem::take(&mut gathered.dropped));
        (gathered.urgent, gathered.writing) = (false, true);
        drop(gathered);
        if dropped > 0 {
            lines.extend_from_slice(
                format!("{dropped} lines of the log were dropped: nobody took them\n").as_bytes(),
            );
        }
        // There is nobody to tell that the log cannot be written.
        let _ = io::stderr().write_all(&lines);
        self.gathered().writing = false;
        self.written.notify_all();
    }

    fn gather(&self, line: &[u8], urgent: bool) {
        let mut gathered = self.gathered();
        if gathered.lines.len() + line.len() > GATHERED_BYTES_MAX {
            gathered.dropped += 1;
            return;
        }
        let wake = gathered.lines.is_empty() || gathered.lines.len() >= GATHERED_BYTES_MAX / 4 || urgent;
        gathered.lines.extend_from_slice(line);
        gathered.urgent |= urgent;
        if wake {
            self.more.notify_one();
        }
    }
}

/// Gathers lines.
struct Writer(Arc<Shared>);

/// One line.
struct Line<'a> {
    shared: &'a Shared,
    at_once: bool,
}

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { shared: &self.0, at_once: true }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line<'a> {
        Line { shared: &self.0, at_once: *meta.level() <= Level::WARN }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.shared.gather(line, self.at_once);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

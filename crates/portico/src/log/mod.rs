//! The log: to standard error, so that standard output is for answers.
//!
//! Writing the line of each request by itself would be a system call for each. Lines are buffered instead, and a thread
//! writes them: every few milliseconds, and at once for a warning or an error. No request waits for it: when nobody reads
//! the log and the buffer is full, lines are dropped and counted.

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
/// The size of the buffer; beyond it lines are dropped.
const BUFFER_BYTES_MAX: usize = 4 << 20;
/// How long the end of the program waits for the last lines to be written.
const LAST_WAIT_MAX: Duration = Duration::from_secs(1);

/// Starts to log as `config` says; of other crates only warnings are logged. The log is written until the value is
/// dropped.
pub(crate) fn begin(config: &Config) -> Log {
    let log = Log::start();
    // The resolver logs the names that it looks up, and the log must not say where a delivery went.
    let filter = filter::Targets::new()
        .with_default(Level::WARN)
        .with_target("hickory", LevelFilter::OFF)
        .with_target("portico", config.log);
    let stderr_is_terminal = io::stderr().is_terminal();
    let layer = fmt::layer().with_writer(LogWriter(log.0.clone())).with_ansi(stderr_is_terminal);
    let layer = match config.log_format {
        LogFormat::Text => layer.event_format(Text { ansi: stderr_is_terminal }).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    // A second start within one process (tests) keeps the first log.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
    log
}

/// The running log. Dropping it writes what is buffered.
pub(crate) struct Log(Arc<LogBuffer>);

#[derive(Default)]
struct LogBuffer {
    state: Mutex<BufferState>,
    /// Notified when there is something to write, and when it must not wait.
    more: Condvar,
    /// Notified when everything is written.
    written: Condvar,
}

#[derive(Default)]
struct BufferState {
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
        let buffer = Arc::new(LogBuffer::default());
        let thread_buffer = buffer.clone();
        std::thread::spawn(move || {
            let mut written = Vec::new();
            loop {
                written = thread_buffer.write_out(written);
            }
        });
        Self(buffer)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.urgent = true;
        self.0.more.notify_one();
        let unwritten = |state: &mut BufferState| state.writing || !state.lines.is_empty();
        let _ = self.0.written.wait_timeout_while(state, LAST_WAIT_MAX, unwritten).map(drop);
    }
}

impl LogBuffer {
    fn state(&self) -> MutexGuard<'_, BufferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a line, then a little longer for more, and writes them. `lines` is the memory of those that were written
    /// before: the next ones go there, and what these take is returned for the ones after them.
    fn write_out(&self, mut lines: Vec<u8>) -> Vec<u8> {
        let nothing = |state: &mut BufferState| state.lines.is_empty();
        let state = self.more.wait_while(self.state(), nothing).unwrap_or_else(PoisonError::into_inner);
        let early = |state: &mut BufferState| !state.urgent && state.lines.len() < BUFFER_BYTES_MAX / 4;
        let waited = self.more.wait_timeout_while(state, WAIT_MAX, early);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut state.lines, &mut lines);
        let dropped = std::mem::take(&mut state.dropped);
        (state.urgent, state.writing) = (false, true);
        drop(state);
        if dropped > 0 {
            lines.extend_from_slice(
                format!("{dropped} log lines were dropped: the log was not read fast enough\n").as_bytes(),
            );
        }
        // There is nobody to tell that the log cannot be written.
        let _ = io::stderr().write_all(&lines);
        self.state().writing = false;
        self.written.notify_all();
        let used = lines.len();
        lines.clear();
        // After a busy time it is given back.
        lines.shrink_to(2 * used);
        lines
    }

    fn push(&self, line: &[u8], urgent: bool) {
        let mut state = self.state();
        if state.lines.len() + line.len() > BUFFER_BYTES_MAX {
            state.dropped += 1;
            return;
        }
        let wake = state.lines.is_empty() || state.lines.len() >= BUFFER_BYTES_MAX / 4 || urgent;
        state.lines.extend_from_slice(line);
        state.urgent |= urgent;
        if wake {
            self.more.notify_one();
        }
    }
}

/// Makes a writer for each line.
struct LogWriter(Arc<LogBuffer>);

/// Writes one line into the buffer.
struct LineWriter<'a> {
    buffer: &'a LogBuffer,
    at_once: bool,
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter { buffer: &self.0, at_once: true }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> LineWriter<'a> {
        LineWriter { buffer: &self.0, at_once: *meta.level() <= Level::WARN }
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.buffer.push(line, self.at_once);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! The log: to standard error, so that standard output is for answers.
//!
//! A line of every request would be a call of the kernel for every request. Lines are gathered instead, and a thread of
//! its own writes them out every few milliseconds. What is a warning or worse goes out at once, with everything before it.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, filter, fmt};

use crate::config::{Config, LogFormat};

mod text;

use text::Text;

/// How long a line waits at most.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Beyond this, whoever has a line to write waits for the thread: a reader that is slow must not fill the memory.
const GATHERED_BYTES_MAX: usize = 1 << 20;

/// Begins to log as `config` says; others' chatter is kept to warnings. The log goes on until what this gives is dropped.
pub(crate) fn begin(config: &Config) -> Log {
    let log = Log::start();
    let filter = filter::Targets::new().with_default(Level::WARN).with_target("portico", config.log);
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
    gathered: Mutex<Vec<u8>>,
    /// Told when there is something to write, and when there is much.
    more: Condvar,
    /// Told when there is room again.
    room: Condvar,
}

impl Log {
    fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let weak = Arc::downgrade(&shared);
        std::thread::spawn(move || {
            while let Some(shared) = weak.upgrade() {
                shared.wait();
                shared.write_out();
            }
        });
        Self(shared)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.0.write_out();
    }
}

impl Shared {
    fn gathered(&self) -> MutexGuard<'_, Vec<u8>> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let nothing = |gathered: &mut Vec<u8>| gathered.is_empty();
        let gathered = self.more.wait_while(self.gathered(), nothing).unwrap_or_else(PoisonError::into_inner);
        let little = |gathered: &mut Vec<u8>| gathered.len() < GATHERED_BYTES_MAX / 2;
        let _ = self.more.wait_timeout_while(gathered, WAIT_MAX, little).map(drop);
    }

    fn write_out(&self) {
        // Held while it writes, so that lines stay in their order whoever writes them.
        let mut stderr = io::stderr().lock();
        let lines = std::mem::take(&mut *self.gathered());
        self.room.notify_all();
        // There is nobody to tell that the log cannot be written.
        let _ = stderr.write_all(&lines);
    }

    fn gather(&self, line: &[u8]) {
        let full = |gathered: &mut Vec<u8>| gathered.len() >= GATHERED_BYTES_MAX;
        let mut gathered =
            self.room.wait_while(self.gathered(), full).unwrap_or_else(PoisonError::into_inner);
        let first = gathered.is_empty();
        gathered.extend_from_slice(line);
        if first || gathered.len() >= GATHERED_BYTES_MAX / 2 {
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
        self.shared.gather(line);
        if self.at_once {
            self.shared.write_out();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.shared.write_out();
        Ok(())
    }
}

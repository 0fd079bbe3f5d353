//! The log: to standard error, so that standard output is for answers.

use std::io::IsTerminal;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, filter, fmt};

use crate::config::{Config, LogFormat};

/// Begins to log as `config` says. Others' chatter is kept to warnings.
pub(crate) fn begin(config: &Config) {
    let filter = filter::Targets::new().with_default(tracing::Level::WARN).with_target("portico", config.log);
    let stderr_is_terminal = std::io::stderr().is_terminal();
    let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(stderr_is_terminal);
    let layer = match config.log_format {
        LogFormat::Text => layer.with_target(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    // A second start within one process (tests) keeps the first log.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
}

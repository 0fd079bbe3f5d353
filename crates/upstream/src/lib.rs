//! The way from a gateway to the targets of a service that stands behind it.
//!
//! [`Upstream::send`] picks the target with the fewest calls in flight, hands it the request as it comes, and hands back the
//! answer as it comes. Nothing is held whole, so a slow caller slows its target and costs no memory. Whoever drops the
//! future or the body ends the call at the target.
//!
//! A target is judged by its calls (`breaker.rs`) and, where there is a path for it, by probes (`health.rs`). Only what a
//! target cannot have seen, and a GET or HEAD that no byte was answered to, is sent again.
//!
//! HTTP/1.1 is spoken by our own client (`http1/`), HTTP/2 by `h2` (`http2.rs`): see `docs/decisions/0049`.
//!
//! Start reading at `upstream.rs`. What a request and an answer may carry is in `headers.rs`.
//!
//! Invariant: an answer that breaks off, or that can be understood in two ways, never ends as if it were whole.

mod answer;
mod breaker;
mod connect;
mod deadline;
mod failure;
mod figures;
mod forwarded;
mod headers;
mod health;
mod http1;
mod http2;
mod io;
mod pool;
mod state;
mod target;
mod time;
mod upgrade;
mod upstream;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use portico_egress::TrustedRoots;

pub use answer::{Answer, AnswerBody};
pub use failure::{AnswerError, Failure};
pub use figures::{BOUNDS, CLASSES, SecondsFigures, TargetFigures};
pub use forwarded::{append_forwarded, forwarded_element};
pub use headers::{UNITS, strip_answer, strip_request, strip_trailers, units};
pub use state::Waited;
pub use target::{Target, TargetError};
pub use upgrade::{Upgrade, Upgraded, splice};
pub use upstream::Upstream;

/// The limit of an answer's head, its interim answers included.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The limit of its headers, and of its trailers.
const HEADERS_MAX: usize = 128;
/// The limit of its trailers.
const TRAILER_BYTES_MAX: usize = 16 << 10;

/// What is known of a service's targets.
#[derive(Debug, Clone)]
pub struct UpstreamConfig {
    /// The service's name, for logs.
    pub name: Arc<str>,
    /// Where it is reached.
    pub targets: Vec<Target>,
    /// The path of its probe, if it has one.
    pub health: Option<String>,
    /// The time limit from the last byte of a request to the head of its answer. A target that takes nothing of a request
    /// for as long is too slow as well.
    pub timeout: Duration,
    /// Certificates that targets show, beside those of the public roots.
    pub roots: TrustedRoots,
    /// The other times.
    pub timing: Timing,
}

/// Times that are the same for every service.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// The time limit of a connection with its handshake, if that of an answer is not shorter.
    pub connect: Duration,
    /// For how long a connection is kept for the next call. Many servers close theirs after five seconds.
    pub idle: Duration,
    /// For how long a target is left out that failed again and again.
    pub left_out: Duration,
    /// How often a target is probed.
    pub probe_every: Duration,
    /// The time limit of a probe.
    pub probe: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            idle: Duration::from_secs(4),
            left_out: Duration::from_secs(5),
            probe_every: Duration::from_secs(5),
            probe: Duration::from_secs(3),
        }
    }
}

/// Why a service cannot be reached as it is described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamError {
    /// It has no target.
    NoTarget,
    /// It has this target twice.
    Twice(Arc<str>),
    /// The path of its probe is none.
    HealthPath,
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTarget => f.write_str("a service has at least one target"),
            Self::Twice(target) => write!(f, "{target} is a target twice"),
            Self::HealthPath => f.write_str("the path of the probe begins with a slash and has no fragment"),
        }
    }
}

impl std::error::Error for UpstreamError {}

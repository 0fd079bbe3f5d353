//! The rules of deliveries, without I/O.

mod attempt_window;
mod backlog;
mod concurrency;
mod latency;
mod schedule;
mod signature;
mod transition;

use portico_kernel::text_enum;
use portico_store::text_value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use attempt_window::AttemptWindow;
pub(crate) use backlog::room;
pub(crate) use concurrency::ConcurrencyLimit;
pub(crate) use latency::{latency_bucket, latency_histogram, latency_percentile_ms};
pub(crate) use schedule::next_gap;
pub use signature::{SigningKey, signed};
pub(crate) use signature::{Verdict, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, Webhook, verdict};
pub(crate) use transition::{AttemptOutcome, AttemptResult, DeliveryState, GONE, Transition, transition};

text_enum! {
    /// How a delivery stands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Status {
        /// It is to be sent, or sent again.
        Pending = "pending",
        /// The receiver took it.
        Delivered = "delivered",
        /// It was not taken, and is not sent again by itself, because the endpoint was disabled.
        Failed = "failed",
        /// It was not taken in eight attempts.
        Abandoned = "abandoned",
    }
}

text_enum! {
    /// How an attempt ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Outcome {
        /// The receiver answered with 2xx.
        Delivered = "delivered",
        /// It answered with another status.
        Status = "status",
        /// It did not answer in time.
        Timeout = "timeout",
        /// It could not be reached, or broke off.
        Connection = "connection",
        /// No secure connection could be made.
        Tls = "tls",
        /// Its name is not known.
        Dns = "dns",
        /// Its address must not be called.
        BlockedAddress = "blocked_address",
        /// It answered with a redirect, which is not followed.
        Redirect = "redirect",
    }
}

text_value!(Status, Outcome, Verdict);

/// A count as the wire has it.
pub(crate) fn int32(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Which of an endpoint's three queues a delivery is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum QueueKind {
    /// Not attempted yet, or sent again by hand.
    New,
    /// Attempted before.
    Retry,
    /// Sent one at a time, in the order of their events.
    Ordered,
}

impl QueueKind {
    /// The one type whose deliveries keep their order (SPEC.md, Event types).
    pub(crate) const ORDERED_TYPE: &'static str = "audit.event";

    /// The queue of a new delivery of that event type.
    pub(crate) fn of_type(event_type: &str) -> Self {
        if event_type == Self::ORDERED_TYPE { Self::Ordered } else { Self::New }
    }

    /// The number in the column `lane`.
    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::New => 0,
            Self::Retry => 1,
            Self::Ordered => 2,
        }
    }

    pub(crate) const fn from_number(number: i64) -> Self {
        match number {
            0 => Self::New,
            1 => Self::Retry,
            _ => Self::Ordered,
        }
    }
}

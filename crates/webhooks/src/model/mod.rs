//! Records, states and their moves, without a database.

mod moves;
mod pace;
mod schedule;
mod signature;
mod steps;

use portico_kernel::text_enum;
use portico_store::text_value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use moves::{After, Before, Ended, GONE, after};
pub(crate) use pace::Pace;
pub(crate) use schedule::next_gap;
pub use signature::{SigningKey, signed};
pub(crate) use signature::{Verdict, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, Webhook, verdict};
pub(crate) use steps::{quantile, step_of};

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

/// The queue of an endpoint that a delivery stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// Not tried yet, or asked for by hand.
    First,
    /// Tried before.
    Again,
    /// One after the other.
    InOrder,
}

impl Lane {
    /// The one type whose deliveries keep their order (SPEC.md, Event types).
    pub(crate) const ORDERED_TYPE: &'static str = "audit.event";

    /// Where a new delivery of that type stands.
    pub(crate) fn of_type(event_type: &str) -> Self {
        if event_type == Self::ORDERED_TYPE { Self::InOrder } else { Self::First }
    }

    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::First => 0,
            Self::Again => 1,
            Self::InOrder => 2,
        }
    }

    pub(crate) const fn from_number(number: i64) -> Self {
        match number {
            0 => Self::First,
            1 => Self::Again,
            _ => Self::InOrder,
        }
    }
}

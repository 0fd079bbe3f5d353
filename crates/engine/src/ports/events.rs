//! What events gives to the others: streams of what has happened.

use std::borrow::Cow;
use std::sync::Arc;

use portico_kernel::{AccountId, EndpointId, EventId, Timestamp};

use crate::Engine;

/// An event that is written with a transaction. Its number within the account is known once that is committed.
#[derive(Debug)]
pub struct NewEvent {
    /// How many events of the account the transaction writes after it.
    pub behind: i64,
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub event_type: Cow<'static, str>,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// Its data, as JSON.
    pub data: String,
    /// The one endpoint that it is for, whatever that subscribes.
    pub only_to: Option<EndpointId>,
}

/// Streams of events to whoever listens. Kept by events.
pub trait Streams: Send + Sync {
    /// Is anybody listening here to the account's events?
    fn is_watched(&self, account: AccountId) -> bool;

    /// The account's events up to `last` are committed. `events` are the newest of them, in order, if anybody listens
    /// here; should they not be given, or come late, the streams read them from the database.
    fn committed(&self, engine: &Arc<Engine>, account: AccountId, last: i64, events: &[NewEvent]);
}

//! An event as streams send it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use portico_engine::ports::NewEvent;
use portico_engine::{EventRow, envelope_text};
use portico_kernel::{AccountId, EventId, Timestamp};

use crate::Cursor;

/// The forms in which protocols send a frame.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A block of server-sent events.
    Sse,
    /// A frame of the socket.
    Socket,
    /// What follows the head of an MQTT 5 packet.
    Mqtt,
}

const SHAPES: usize = 3;

/// An event, serialised once and shared by every stream that sends it.
#[derive(Debug)]
pub struct Frame {
    /// Its number within the account.
    pub sequence: i64,
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub event_type: Box<str>,
    /// The envelope, as JSON.
    pub envelope: Bytes,
    shapes: [OnceLock<Bytes>; SHAPES],
}

impl Frame {
    fn new(
        account: AccountId,
        sequence: i64,
        id: EventId,
        event_type: &str,
        at: Timestamp,
        data: &str,
    ) -> Arc<Self> {
        let envelope = envelope_text(id, event_type, at, account, data).into();
        Arc::new(Self { sequence, id, event_type: event_type.into(), envelope, shapes: Default::default() })
    }

    /// An event that was just committed.
    pub(crate) fn from_committed(account: AccountId, sequence: i64, event: &NewEvent) -> Arc<Self> {
        Self::new(account, sequence, event.id, &event.event_type, event.occurred_at, &event.data)
    }

    /// An event that was read from the log.
    pub(crate) fn from_row(account: AccountId, row: &EventRow) -> Arc<Self> {
        Self::new(account, row.sequence, row.id, &row.event_type, row.occurred_at, &row.data)
    }

    /// The cursor after this event.
    pub fn cursor(&self) -> Cursor {
        Cursor::after(self.sequence, self.id)
    }

    /// Its size in memory and on the wire, roughly.
    pub fn size(&self) -> usize {
        self.envelope.len() + 64
    }

    /// The frame in that form, which is serialised at its first use and then shared.
    pub fn shape(&self, shape: Shape, make: impl FnOnce(&Self) -> Bytes) -> Bytes {
        self.shapes[shape as usize].get_or_init(|| make(self)).clone()
    }
}

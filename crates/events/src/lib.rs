//! Streams of events, and the catalogue of event types.
//!
//! There is one log, which every protocol reads: a [`Feed`] is a cursor and a filter over the events of an account. The
//! [`Hub`] wakes it when an event was committed, here or on another server, and keeps the newest events in memory, each
//! serialised once for all streams. A stream that does not keep up reads pages from the database until it does: nobody is
//! disconnected for being slow, and nothing is dropped. [`Slots`] limits the number of streams, [`Session`] is the state
//! of an MQTT client that may come back.
//!
//! An event type belongs to the area that sends it. The ones declared here are promised by the specification and move
//! to their own area's crate, unchanged, when that area is built: a receiver can be written against them today.
//!
//! Absent on purpose: queues. An account's log is the only one.
//!
//! The way of an event to a stream:
//!
//! 1. Opening a stream is an operation like any other (`OpenStream`, `OpenSocket`, `OpenMqtt`): it is admitted,
//!    counted and run, and answers with `StreamParams`, from which the gateway opens the connection. That takes a
//!    slot, or is refused with 429.
//! 2. `Feed::open` finds the cursor in the log. A position that is no longer there gives a resync.
//! 3. An operation commits an event, and `Hub::committed` is called. If anybody listens here, the events are handed
//!    over as they are, and the `Channel` of the account adds them to its tail in the order of their numbers. Other
//!    servers are told by `NOTIFY`, and read what they miss; a poll finds what no notification told.
//! 4. `Feed::next` wakes and returns the next frames that pass the filter. `Frame::shape` serialises an event once for
//!    each protocol; every stream is sent the same bytes.
//! 5. A peer that does not read blocks its own connection and nothing else. When it reads again, `TailRead::Behind`
//!    makes its feed read pages from the database until it has caught up.
//! 6. The gateway ends the connection when its credential is revoked or expires, after a day, or when the server
//!    stops.

mod channel;
mod cursor;
mod declared;
mod feed;
mod frame;
mod hub;
pub mod limits;
mod open;
mod open_streams;
mod sessions;
mod slots;
mod sql;
mod types;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use portico_engine::clock::SystemClock;
use portico_engine::{Area, Engine, Service};
use portico_kernel::{Clock, Sleep};
use tokio::sync::watch;

pub use cursor::{Cursor, Start};
pub use feed::{Feed, Filter, Resync};
pub use frame::{Frame, Shape};
pub use hub::Hub;
pub use open::StreamParams;
pub use open_streams::StreamHolder;
pub use sessions::{Session, SessionState};
pub use slots::{Slot, Slots};

/// Waits between the background steps of streams: before a gap is filled, a notification sent, a poll repeated. On the
/// machine's clock and not on the engine's, since a test's clock stands still until it is advanced, and events would then
/// not arrive. No event and no limit depends on these waits.
fn pause(wait: Duration) -> Sleep {
    SystemClock.sleep(wait)
}

/// The area's state.
pub struct Events {
    /// The streams' source of events.
    pub hub: Arc<Hub>,
    /// The limit on the number of streams.
    pub slots: Arc<Slots>,
}

impl Events {
    /// The area's state; `shared` says that other servers may use the same database.
    pub fn new(shared: bool) -> Arc<Self> {
        Arc::new(Self { hub: Arc::new(Hub::new(shared)), slots: Arc::new(Slots::new(shared)) })
    }
}

impl Service for Events {
    fn run(&self, engine: Arc<Engine>, stop: watch::Receiver<bool>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            tokio::join!(self.hub.run(&engine, stop.clone()), self.slots.run(&engine, stop));
        })
    }
}

/// The area's operations, and the event types that have no area yet.
pub fn area(events: &Arc<Events>) -> Area {
    Area::builder("events", events.clone())
        .scope(
            "events:read",
            "Read the event catalogue and the account's events, which tell each action in the account and who did it.",
        )
        .op::<types::ListEventTypes>()
        .op::<open::OpenStream>()
        .op::<open::OpenSocket>()
        .op::<open::OpenMqtt>()
        .event::<declared::RadarDigestPublished>()
        .job(sessions::PruneSessions)
        .service(events.clone())
        .probe(sql::PROBE)
        .erases(&sql::ERASE)
        .build()
}

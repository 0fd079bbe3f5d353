//! Events on their way to whoever listens, and the catalogue of their types.
//!
//! There is one log, which every transport reads: a [`Feed`] is a cursor and a filter over the events of an account. The
//! [`Hub`] wakes it when something was committed, here or on another server, and keeps the newest events in memory, each
//! written once for everyone. Whoever does not keep up reads pages from the database until it does: nobody is cut off for
//! being slow, and nothing is dropped. [`Slots`] bounds how many streams there are, [`Session`] is what an MQTT client
//! leaves when it goes.
//!
//! An event type belongs to the area that sends it. The ones declared here are promised by the specification and move
//! to their own area's crate, unchanged, when that area is built: a receiver can be written against them today.
//!
//! Absent on purpose: queues. An account's log is the only one.

mod channel;
mod cursor;
mod declared;
mod feed;
mod frame;
mod hub;
pub mod limits;
mod open;
mod sessions;
mod slots;
mod sql;
mod types;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use portico_engine::{Area, Engine, Service};
use tokio::sync::watch;

pub use cursor::{Cursor, Start};
pub use feed::{Feed, Filter, Resync};
pub use frame::{Frame, Shape};
pub use hub::Hub;
pub use open::Opening;
pub use sessions::{Session, SessionState};
pub use slots::{Slot, Slots};

/// What the area holds.
pub struct Events {
    /// Who listens to what.
    pub hub: Arc<Hub>,
    /// How many may.
    pub places: Arc<Slots>,
}

impl Events {
    /// The area's state; `shared` says that other servers may use the same database.
    pub fn new(shared: bool) -> Arc<Self> {
        Arc::new(Self { hub: Arc::new(Hub::new(shared)), places: Arc::new(Slots::new(shared)) })
    }
}

impl Service for Events {
    fn run(&self, engine: Arc<Engine>, stop: watch::Receiver<bool>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            tokio::join!(self.hub.run(&engine, stop.clone()), self.places.run(&engine, stop));
        })
    }
}

/// The area's operations, and the event types that have no area yet.
pub fn area(events: &Arc<Events>) -> Area {
    Area::builder("events", events.clone())
        .op::<types::ListEventTypes>()
        .op::<open::OpenStream>()
        .op::<open::OpenSocket>()
        .op::<open::OpenMqtt>()
        .event::<declared::DomainVerified>()
        .event::<declared::DomainUnverified>()
        .event::<declared::DomainTransferred>()
        .event::<declared::RadarDigestPublished>()
        .job(sessions::PruneSessions)
        .service(events.clone())
        .probe(sql::PROBE)
        .erases(&sql::ERASE)
        .build()
}

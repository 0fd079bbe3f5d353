//! The catalogue of event types, and the types of areas that are still to come.
//!
//! An event type belongs to the area that sends it. The ones declared here are promised by the specification and move
//! to their own area's crate, unchanged, when that area is built: a receiver can be written against them today.

mod declared;
mod sql;
mod types;

use std::sync::Arc;

use portico_engine::Area;

/// What the area holds: nothing of its own.
pub struct Events;

/// The area's operations, and the event types that have no area yet.
pub fn area() -> Area {
    Area::builder("events", Arc::new(Events))
        .op::<types::ListEventTypes>()
        .event::<declared::DomainVerified>()
        .event::<declared::DomainUnverified>()
        .event::<declared::DomainTransferred>()
        .event::<declared::RadarDigestPublished>()
        .probe(sql::PROBE)
        .build()
}

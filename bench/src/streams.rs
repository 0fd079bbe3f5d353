//! Streams of events: what a connection costs that is idle, what an event costs that goes to many, how soon it is there,
//! and what clients that never read cost.
//!
//! The server is a process of its own; whoever makes events, over HTTP, and whoever listens are this one. All of them
//! share the machine.

mod crowd;
mod delay;
mod fanout;
mod handshake;
mod idle;
mod kind;
mod load;
mod mosquitto;
mod setup;
mod span;
mod stalled;

use portico_testkit::Database;

use crate::report::Report;

pub(crate) async fn measure(report: &mut Report, database: Database) {
    if database == Database::Sqlite {
        // Neither depends on the database.
        idle::measure(report).await;
        stalled::measure(report).await;
    }
    fanout::measure(report, database).await;
    delay::measure(report, database).await;
}

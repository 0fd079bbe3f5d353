//! A whole platform for a test: real router, real database, a clock that is turned by hand.
//!
//! [`TestApp`] runs in the test's own process, on SQLite or on PostgreSQL; [`on_both_databases!`] makes two tests of
//! one story. When it is dropped it fails the test if an error was logged that nobody expected. The [`lab`] is an area
//! that exists only here: its operations exercise the rules that the platform's own do not.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test that fails panics"
)]

mod app;
mod browser;
mod clock;
mod database;
pub mod lab;
mod log;
mod mcp;
mod mqtt;
mod receiver;
mod request;
mod served;

pub use app::{AUTH_URL, BASE_URL, CONSOLE_URL, TestApp, TestAppOptions, turn};
pub use browser::{Browser, form};
pub use clock::FakeClock;
pub use database::{Database, TestDatabase, kills};
pub use log::{capture_log, captured_log};
pub use mcp::{NEWEST, old_rpc, rpc, rpc_as};
pub use mqtt::{MqttClient, MqttPublished, mqtt_text};
pub use receiver::{Answering, Received, Receiver};
pub use request::{Answer, Sent};
pub use served::{Block, Served, SocketClient, SseClient, soon, thing};

/// Makes of each story a test on SQLite and a test on PostgreSQL.
#[macro_export]
macro_rules! on_both_databases {
    ($($(#[$meta:meta])* async fn $name:ident($app:ident: TestApp) $body:block)+) => {$(
        mod $name {
            use super::*;

            async fn story($app: $crate::TestApp) $body

            $(#[$meta])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                story($crate::TestApp::new($crate::Database::Sqlite).await).await;
            }

            $(#[$meta])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                story($crate::TestApp::new($crate::Database::Postgres).await).await;
            }
        }
    )+};
}

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
mod dns;
pub mod lab;
mod log;
mod mcp;
mod mqtt;
mod provider;
mod receiver;
mod request;
mod server;
mod services;
mod waiting;

pub use app::{AUTH_URL, BASE_URL, CONSOLE_URL, TestApp, TestAppOptions, turn};
pub use browser::{Browser, form};
pub use clock::FakeClock;
pub use database::{Database, TestDatabase, kills, volume};
pub use dns::{DnsFault, DnsQuestion, NameServer, TestDns, World};
pub use log::{capture_log, captured_log, run_outside_nextest};
pub use mcp::{NEWEST, old_rpc, rpc, rpc_as};
pub use mqtt::{MqttClient, MqttMessage, mqtt_text};
pub use provider::{Provider, ProviderAnswer, ProviderCall};
pub use receiver::{ReceivedRequest, Receiver, ReceiverReply};
pub use request::{Answer, TestRequest};
pub use server::{Block, SocketClient, SseClient, TestServer, thing};
pub use services::service_table;
pub use waiting::{Stall, soon, until, while_moving};

/// Makes a test on SQLite and a test on PostgreSQL of each story: an `async fn` of that name, in the same module, that
/// takes a [`TestApp`]. The tests are `name::sqlite` and `name::postgres`.
#[macro_export]
macro_rules! on_both_databases {
    ($($(#[$meta:meta])* $story:ident),+ $(,)?) => {$(
        mod $story {
            $(#[$meta])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$story($crate::TestApp::new($crate::Database::Sqlite).await).await;
            }

            $(#[$meta])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$story($crate::TestApp::new($crate::Database::Postgres).await).await;
            }
        }
    )+};
}

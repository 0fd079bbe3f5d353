//! The edge: HTTP in, one `Problem` or answer out.
//!
//! A request goes through `rest.rs`: route, token, scope, account, size, type, parse, then
//! [`dispatch`](portico_engine::dispatch). What leaves the process, whoever refused it, is JSON in one envelope with an
//! `x-request-id`; `edge.rs` sees to it even for what is not HTTP enough to reach a handler.
//!
//! Invariant: this is the only crate that opens sockets to callers, and no area behind it sees a token.

mod answered;
mod arrived;
mod auth;
mod body;
mod cors;
mod edge;
mod message;
mod metrics;
pub mod openapi;
mod platform;
mod respond;
mod rest;
mod routes;
mod server;
mod tokens;

pub use arrived::Stopping;
pub use auth::AuthServer;
pub use cors::Origins;
pub use metrics::{Metrics, MetricsServer};
pub use platform::{Platform, area};
pub use rest::Gateway;
pub use routes::RouteError;
pub use server::{Connection, Handler, serve};

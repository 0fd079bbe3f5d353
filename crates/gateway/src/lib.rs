//! The edge: HTTP in, one `Problem` or answer out.
//!
//! A request goes through `rest.rs`: route, token, scope, account, size, type, parse, then
//! [`dispatch`](portico_engine::dispatch). What leaves the process, whoever refused it, is JSON in one envelope with an
//! `x-request-id`; `edge.rs` sees to it even for what is not HTTP enough to reach a handler.
//!
//! Invariant: this is the only crate that opens sockets to callers, and no area behind it sees a token.

mod answered;
mod arrived;
pub mod asyncapi;
mod auth;
mod body;
mod calls;
mod carried;
mod cors;
mod edge;
mod lines;
mod mcp;
mod message;
mod metrics;
mod mqtt;
pub mod openapi;
mod outgoing;
mod platform;
mod respond;
mod rest;
mod routes;
mod scope;
mod server;
mod socket;
mod sse;
mod tokens;
mod unnamed;

pub use arrived::Stopping;
pub use auth::AuthServer;
pub use cors::Origins;
pub use lines::Lines;
pub use metrics::{Metrics, MetricsServer};
pub use mqtt::{Tls, serve_mqtt};
pub use outgoing::Outgoing;
pub use platform::{Platform, area};
pub use rest::Gateway;
pub use routes::RouteError;
pub use server::{Connection, Handler, serve};

//! The edge: HTTP in, one `Problem` or answer out.
//!
//! A request goes through `rest.rs`: route, token, scope, account, size, type, parse, then
//! [`dispatch`](portico_engine::dispatch). What leaves the process, whoever refused it, is JSON in one envelope with an
//! `x-request-id`; `edge.rs` sees to it even for what is not HTTP enough to reach a handler.
//!
//! Modules import downwards only: bytes (`tls`, `transport`, `edge`, `http2`, `incoming`, `response`), then calls (`scope`, `calls`,
//! `connections`, `verify`), then protocols (`sse`, `socket`, `mqtt`, `mcp`), then `rest` and `server`, which know them all.
//!
//! Invariant: this is the only crate that opens sockets to callers, and no area behind it sees a token.

mod answer_pace;
pub mod asyncapi;
mod auth;
mod body;
mod bytes_answer;
mod calls;
mod client_ids;
mod client_stream;
mod connection_limits;
mod connections;
mod console;
mod cors;
mod credential;
mod edge;
pub mod forward;
mod framing;
mod http2;
mod incoming;
mod listener;
mod mcp;
mod message;
mod metrics;
mod mqtt;
mod on_wake;
pub mod openapi;
mod outgoing;
mod pace;
mod party;
mod platform;
mod preauth;
mod response;
mod rest;
mod routes;
mod scope;
mod server;
mod socket;
mod sse;
mod stranger_lines;
mod tls;
mod tokens;
mod transport;
mod turns;
mod unread;
mod upgrade;
mod verify;
mod websocket;

pub use auth::AuthServer;
pub use body::HttpBody;
pub use connection_limits::{ConnectionLimits, ConnectionSettings};
pub use connections::Connections;
pub use console::{ConsoleFile, ConsoleServer, ConsoleSettings};
pub use cors::Origins;
pub use incoming::Stopping;
pub use listener::Handler;
pub use metrics::{Metrics, MetricsServer};
pub use outgoing::Outgoing;
pub use platform::{Platform, area};
pub use rest::{Gateway, Tables};
pub use routes::RouteError;
pub use server::{serve, serve_mqtt};
pub use tls::{Certificate, Certificates, Tls};
pub use tokens::Tokens;
pub use transport::PeerAddress;

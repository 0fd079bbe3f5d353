//! The suite: stories that read as the specification, on both databases.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::path::PathBuf;

mod answers;
mod apps;
mod audit;
mod authorize;
mod brand;
mod bytes;
mod canary;
mod connection_limits;
mod connections;
mod crash;
mod dns;
mod documents;
mod domains;
mod erasure;
mod errors;
mod exchange;
mod forwarding;
mod fuzz;
mod http2;
mod idempotency;
mod input;
mod introspect;
mod invitations;
mod keys;
mod listen;
mod mcp;
mod mcp_fuzz;
mod mcp_tools;
mod metadata;
mod metering;
mod metering_reports;
mod metering_servers;
mod mqtt;
mod orgs;
mod paging;
mod passkeys;
mod people;
mod program;
mod queries;
mod queues;
mod refresh;
mod refusals;
mod register;
mod registry;
mod rotation;
mod routes;
mod scopes;
mod service_metrics;
mod services;
mod settings;
mod signin;
mod signup;
mod socket;
mod steps;
mod store;
mod store_sqlite;
mod streams;
mod streams_servers;
mod streams_shared;
mod structure;
mod tls;
mod tokens;
mod trigger;
mod webhooks;
mod webhooks_history;
mod webhooks_inbox;
mod webhooks_limits;
mod webhooks_roles;
mod webhooks_servers;
mod wire;
mod writes;

/// The root of the repository. Asked when the test runs: a path that was compiled in could be another clone's.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells tests where their crate is through the environment"
)]
fn root() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..")
}

//! The settings of outgoing calls: where they may go, whom they trust, and whom they ask for names.

use std::net::SocketAddr;
use std::path::PathBuf;

use portico_egress::{Networks, TrustedRoots};

use crate::config::{ConfigError, named};

pub(crate) fn networks(name: &str, value: Option<String>) -> Result<Networks, ConfigError> {
    value.unwrap_or_default().parse().map_err(|error| ConfigError(format!("{name}: {error}")))
}

/// The certificates in that file; none without a file.
pub(crate) fn trusted_roots(file: Option<PathBuf>) -> Result<TrustedRoots, ConfigError> {
    let Some(file) = named(file) else { return Ok(TrustedRoots::default()) };
    TrustedRoots::read(&file).map_err(|error| ConfigError(format!("egress_ca_file: {error}")))
}

pub(crate) fn name_servers(text: &str) -> Result<Vec<SocketAddr>, ConfigError> {
    let servers = text.split(',').map(str::trim).filter(|server| !server.is_empty());
    let parse = |server: &str| {
        let message = "egress_name_servers must be addresses with ports, such as 10.0.0.53:53";
        server.parse().map_err(|_| ConfigError(format!("{message}, not {server:?}")))
    };
    servers.map(parse).collect()
}

/// The servers with commas between them.
pub(crate) fn listed(servers: &[SocketAddr]) -> String {
    servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

//! How many connections there may be, and how many files the process may have open: every connection is one.

use portico_egress::Networks;
use portico_gateway::ConnectionSettings;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::ConfigError;

/// Of four files that may be open, connections get three: the database, the journal, the listeners and outgoing calls
/// need some, too.
const CONNECTIONS_OF_FOUR: u64 = 3;

/// What the configuration says about connections.
pub(crate) fn connections(
    total: Option<usize>,
    per_network: Option<usize>,
    proxies: &Networks,
) -> Result<ConnectionSettings, ConfigError> {
    let default = ConnectionSettings::default();
    let settings = ConnectionSettings {
        total: total.unwrap_or(default.total),
        per_network: per_network.unwrap_or(default.per_network),
        proxies: proxies.clone(),
    };
    if settings.total == 0 || settings.per_network == 0 {
        let message = "max_connections and max_connections_per_address must be at least 1";
        return Err(ConfigError(message.to_owned()));
    }
    Ok(settings)
}

/// Raises the number of files that may be open as far as the system lets us; returns what it is then.
pub(crate) fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit { current: limit.maximum, ..limit };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, most)
    {
        tracing::warn!(%error, "Failed to raise the number of files that may be open");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The settings, with no more connections than there may be files for them.
pub(crate) fn within(settings: &ConnectionSettings, files: u64) -> ConnectionSettings {
    let room = usize::try_from(files / 4 * CONNECTIONS_OF_FOUR).unwrap_or(usize::MAX);
    if room < settings.total {
        tracing::warn!(
            files,
            connections = room,
            "The system lets this process open few files, so there can be fewer connections than configured"
        );
    }
    ConnectionSettings { total: settings.total.min(room), ..settings.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        let settings = ConnectionSettings { total: 20_000, ..ConnectionSettings::default() };
        assert_eq!(within(&settings, 1_024).total, 768);
        assert_eq!(within(&settings, 1_000_000).total, 20_000);
        assert_eq!(within(&settings, u64::MAX).total, 20_000);
    }
}

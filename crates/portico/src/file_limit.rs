//! How many connections there may be, and how many files the process may have open: every connection is one.

use portico_egress::Networks;
use portico_gateway::ConnectionSettings;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::ConfigError;

/// Files that are no connections of callers: outgoing calls (webhooks alone have up to 512 in flight and keep 512 for the
/// next), the metrics listener, the database, the journal, uploads.
const OTHER_FILES: u64 = 1_536;
/// Where there are few files, connections get this part of them,
const CONNECTIONS_PART: u64 = 4;
/// and where that is fewer than configured, one address this part of them, or more if it was configured to have more.
const ADDRESS_PART: usize = 4;

/// What the configuration says about connections.
pub(crate) fn connections(
    total: Option<usize>,
    per_network: Option<usize>,
    per_account: Option<usize>,
    proxies: &Networks,
) -> Result<ConnectionSettings, ConfigError> {
    let default = ConnectionSettings::default();
    let settings = ConnectionSettings {
        total: total.unwrap_or(default.total),
        per_network: per_network.unwrap_or(default.per_network),
        per_account: per_account.unwrap_or(default.per_account),
        proxies: proxies.clone(),
    };
    if settings.total == 0 || settings.per_network == 0 || settings.per_account == 0 {
        let message =
            "max_connections, max_connections_per_address and max_connections_per_account must be at least 1";
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

/// The settings, with no more connections than there may be files for them. A call of a service has a second connection, to
/// its target.
pub(crate) fn within(settings: &ConnectionSettings, files: u64, has_services: bool) -> ConnectionSettings {
    let of_callers = files.saturating_sub(OTHER_FILES) / if has_services { 2 } else { 1 };
    let room = of_callers.max(files / CONNECTIONS_PART).max(1);
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    if room >= settings.total {
        return settings.clone();
    }
    tracing::warn!(
        files,
        connections = room,
        "The system lets this process open few files, so there can be fewer connections than configured"
    );
    let configured_part = settings.per_network.min(settings.total).saturating_mul(room) / settings.total;
    let per_network = settings.per_network.min(configured_part.max(room / ADDRESS_PART).max(1));
    ConnectionSettings { total: room, per_network, ..settings.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        let settings =
            ConnectionSettings { total: 20_000, per_network: 5_000, ..ConnectionSettings::default() };
        let within = |files: u64, has_services: bool| {
            let ConnectionSettings { total, per_network, .. } = within(&settings, files, has_services);
            (total, per_network)
        };
        let of = |files: u64| within(files, false);
        assert_eq!(of(1_024), (256, 64), "no address gets all of them");
        assert_eq!(of(4_096), (2_560, 640));
        assert_eq!(of(20_000), (18_464, 4_616));
        assert_eq!(of(21_536), (20_000, 5_000));
        assert_eq!(of(u64::MAX), (20_000, 5_000));
        assert_eq!(of(0), (1, 1));
        assert_eq!(within(21_536, true), (10_000, 2_500), "half of them are connections to targets");
        assert_eq!(within(41_536, true), (20_000, 5_000));
        assert_eq!(within(2_048, true), (512, 128));
    }

    #[test]
    fn one_address_keeps_the_part_that_was_configured() {
        let per_address = |per_network: usize, files: u64| {
            let settings = ConnectionSettings { total: 20_000, per_network, ..ConnectionSettings::default() };
            within(&settings, files, false).per_network
        };
        assert_eq!(per_address(20_000, 20_000), 18_464, "the operator lets one address have all");
        assert_eq!(per_address(50_000, 20_000), 18_464);
        assert_eq!(per_address(10_000, 20_000), 9_232);
        assert_eq!(per_address(100, 20_000), 100, "what is small anyway stays");
    }
}

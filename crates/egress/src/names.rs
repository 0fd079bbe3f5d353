//! From a name to every address it has.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver, system_conf};

use crate::EgressError;

/// For how long an answer counts, good or bad. Long enough for a burst of calls to one name, and short enough that a
/// call can be said to ask where its name leads.
pub(crate) const CACHE_LIFE: Duration = Duration::from_secs(1);
/// What the cache holds: two answers for a name.
const CACHED_MAX: u64 = 4096;
/// For how long the addresses of one family are waited for. Some servers never answer for the family they lack.
const FAMILY_TIME: Duration = Duration::from_secs(5);

/// Whoever knows where names lead.
pub(crate) struct Names {
    hosts: Hosts,
    /// None where the system does not say whom to ask.
    servers: Option<TokioResolver>,
}

impl Names {
    /// Asks whom the system would ask, as it was configured when this was made.
    pub(crate) fn of_system() -> Self {
        let hosts = Hosts::from_system().unwrap_or_default();
        match system_conf::read_system_conf() {
            Ok((config, options)) => Self::new(hosts, config.name_servers, options, CACHE_LIFE),
            Err(error) => {
                tracing::warn!(%error, "no name servers are known; names lead nowhere but by the hosts file");
                Self { hosts, servers: None }
            }
        }
    }

    /// Asks `servers`, after the hosts file of the system.
    pub(crate) fn of_servers(servers: &[SocketAddr], cache_life: Duration) -> Self {
        let hosts = Hosts::from_system().unwrap_or_default();
        let servers = servers.iter().map(|server| name_server(*server)).collect();
        Self::new(hosts, servers, ResolverOpts::default(), cache_life)
    }

    fn new(
        hosts: Hosts,
        servers: Vec<NameServerConfig>,
        mut options: ResolverOpts,
        cache_life: Duration,
    ) -> Self {
        options.cache_size = if cache_life.is_zero() { 0 } else { CACHED_MAX };
        options.positive_max_ttl = Some(cache_life);
        options.negative_max_ttl = Some(cache_life);
        // Looked at here: where the file knows a name, nobody else is asked, not even for the other family.
        options.use_hosts_file = ResolveHosts::Never;
        // Neither a domain nor a search list: a name is what it says, wherever the machine stands.
        let config = ResolverConfig::from_parts(None, Vec::new(), servers);
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let servers = builder.with_options(options).build();
        if let Err(error) = &servers {
            tracing::warn!(%error, "the name servers cannot be asked");
        }
        Self { hosts, servers: servers.ok() }
    }

    /// Every address of `name`, of both families. A family that has none, or whose answer does not come, leaves the
    /// other: only what was found can be called, so that nothing is won by hiding one.
    pub(crate) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, EgressError> {
        let mut name = Name::from_ascii(name).map_err(|_| EgressError::Dns)?;
        name.set_fqdn(true);
        let known = self.known(&name);
        if !known.is_empty() {
            return Ok(known);
        }
        let (v4, v6) = tokio::join!(self.ask(&name, RecordType::A), self.ask(&name, RecordType::AAAA));
        let found: Vec<IpAddr> = v4.into_iter().chain(v6).collect();
        if found.is_empty() { Err(EgressError::Dns) } else { Ok(found) }
    }

    /// What the hosts file says.
    fn known(&self, name: &Name) -> Vec<IpAddr> {
        let families = [RecordType::A, RecordType::AAAA].into_iter();
        let lookups =
            families.filter_map(|family| self.hosts.lookup_static_host(&Query::query(name.clone(), family)));
        lookups
            .flat_map(|found| {
                found.answers().iter().filter_map(|record| record.data.ip_addr()).collect::<Vec<_>>()
            })
            .collect()
    }

    async fn ask(&self, name: &Name, family: RecordType) -> Vec<IpAddr> {
        let Some(servers) = &self.servers else { return Vec::new() };
        match tokio::time::timeout(FAMILY_TIME, servers.lookup(name.clone(), family)).await {
            Ok(Ok(found)) => found.answers().iter().filter_map(|record| record.data.ip_addr()).collect(),
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    }
}

fn name_server(server: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = server.port();
        connection
    });
    NameServerConfig::new(server.ip(), true, connections.into())
}

//! DNS: from a name to all its addresses.

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
/// Some servers never answer for the family that they lack, and the other is not to wait for good.
const FAMILY_TIME: Duration = Duration::from_secs(5);

/// Looks names up, in the hosts file and at name servers.
pub(crate) struct Resolver {
    hosts: Hosts,
    /// `None` where the system has no name servers.
    servers: Option<TokioResolver>,
    /// How long to wait for the addresses of one family.
    family_time: Duration,
}

impl Resolver {
    /// Uses the name servers of the system, as they are configured now.
    pub(crate) fn of_system() -> Self {
        let hosts = Hosts::from_system().unwrap_or_default();
        match system_conf::read_system_conf() {
            Ok((config, options)) => Self::new(hosts, config.name_servers, options, CACHE_LIFE),
            Err(error) => {
                tracing::warn!(%error, "No name servers are configured; names are looked up in the hosts file only");
                Self { hosts, servers: None, family_time: FAMILY_TIME }
            }
        }
    }

    /// Uses `servers`, after the hosts file of the system.
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
            tracing::warn!(%error, "Failed to set up the name servers");
        }
        Self { hosts, servers: servers.ok(), family_time: FAMILY_TIME }
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
        match tokio::time::timeout(self.family_time, servers.lookup(name.clone(), family)).await {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::dns::{Dns, Says};

    fn texts(found: Result<Vec<IpAddr>, EgressError>) -> Vec<String> {
        found.unwrap().iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn one_family_does_not_need_the_other() {
        for (family, address) in [(RecordType::A, "1.1.1.1"), (RecordType::AAAA, "2606:4700::1")] {
            for other in [Says::Unknown, Says::Addresses(&[]), Says::Silence] {
                let dns = Dns::start(move |_, asked, _| {
                    let both = Says::Addresses(&["1.1.1.1", "2606:4700::1"]);
                    if asked == family { both } else { other }
                })
                .await;
                let resolver = Resolver::of_servers(&[dns.address], Duration::ZERO);
                let resolver = Resolver { family_time: Duration::from_millis(200), ..resolver };
                assert_eq!(texts(resolver.addresses("hook.example").await), [address]);
            }
        }
        let both = Dns::saying(Says::Addresses(&["1.1.1.1", "2606:4700::1", "1.0.0.1"])).await;
        let resolver = Resolver::of_servers(&[both.address], Duration::ZERO);
        assert_eq!(texts(resolver.addresses("hook.example").await), ["1.1.1.1", "1.0.0.1", "2606:4700::1"]);
    }

    #[tokio::test]
    async fn whoever_never_answers_is_not_waited_for() {
        let dns = Dns::saying(Says::Silence).await;
        let resolver = Resolver::of_servers(&[dns.address], Duration::ZERO);
        let resolver = Resolver { family_time: Duration::from_millis(50), ..resolver };
        assert_eq!(resolver.addresses("hook.example").await, Err(EgressError::Dns));
    }

    /// What the machine's configuration says of search lists is for people who type.
    #[tokio::test]
    async fn no_domain_is_added() {
        let dns = Dns::start(|name, _, _| match name {
            "hook.example.inner.example." => Says::Addresses(&["10.0.0.1"]),
            _ => Says::Unknown,
        })
        .await;
        let text = "nameserver 127.0.0.1\ndomain inner.example\nsearch inner.example\noptions ndots:15\n";
        let (_, options) = system_conf::parse_resolv_conf(text).unwrap();
        let servers = vec![name_server(dns.address)];
        let resolver = Resolver::new(Hosts::default(), servers, options, Duration::ZERO);
        assert_eq!(resolver.addresses("hook.example").await, Err(EgressError::Dns));
        assert_eq!(dns.asked(), ["hook.example."]);
    }

    #[tokio::test]
    async fn the_hosts_file_comes_first() {
        let dns = Dns::saying(Says::Addresses(&["1.1.1.1", "2606:4700::1"])).await;
        let mut hosts = Hosts::default();
        let text =
            "10.1.2.3 known.example other # not.example\nfd00::7 Both.example\n10.1.2.4 both.example\n";
        hosts.read_hosts_conf(text.as_bytes()).unwrap();
        let servers = vec![name_server(dns.address)];
        let resolver = Resolver::new(hosts, servers, ResolverOpts::default(), Duration::ZERO);
        assert_eq!(texts(resolver.addresses("known.example").await), ["10.1.2.3"]);
        assert_eq!(texts(resolver.addresses("both.example").await), ["10.1.2.4", "fd00::7"]);
        assert_eq!(dns.questions(), 0, "not even for the other family");
        assert_eq!(texts(resolver.addresses("not.example").await), ["1.1.1.1", "2606:4700::1"]);
    }

    #[tokio::test]
    async fn no_is_an_answer_for_as_short_a_time() {
        let dns = Dns::saying(Says::Unknown).await;
        let resolver = Resolver::of_servers(&[dns.address], CACHE_LIFE);
        let servers = resolver.servers.as_ref().unwrap().options();
        assert_eq!(
            (servers.positive_max_ttl, servers.negative_max_ttl),
            (Some(CACHE_LIFE), Some(CACHE_LIFE))
        );
        assert_eq!((servers.positive_min_ttl, servers.negative_min_ttl), (None, None));
        for bad in ["hook.example", &"x".repeat(64), &"x.".repeat(200)] {
            assert_eq!(resolver.addresses(bad).await, Err(EgressError::Dns));
        }
    }

    #[tokio::test]
    async fn without_servers_there_is_the_hosts_file() {
        let mut hosts = Hosts::default();
        hosts.read_hosts_conf(&b"10.1.2.3 known.example"[..]).unwrap();
        let resolver = Resolver { hosts, servers: None, family_time: FAMILY_TIME };
        assert_eq!(texts(resolver.addresses("known.example").await), ["10.1.2.3"]);
        assert_eq!(resolver.addresses("hook.example").await, Err(EgressError::Dns));
    }
}

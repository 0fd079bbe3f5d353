//! How many connections there may be: in all, and from one network.
//!
//! A connection whose client has not authenticated is worth little. When there is no room, the oldest of these ends that
//! has no request under way, in the network that has the most of them. So whoever opens thousands and says nothing ends
//! their own, and the next client that has something to say gets in.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portico_egress::Networks;
use portico_engine::Metric;
use tokio::sync::Notify;

use crate::transport::Flag;

/// How many connections of one network may wait for their client to authenticate.
const UNAUTHENTICATED_PER_NETWORK: usize = 512;
/// A site (an IPv6 network of 48 bits) may have so many times as many connections as one network.
const NETWORKS_PER_SITE: usize = 2;

/// How many connections there may be.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// In all.
    pub total: usize,
    /// From one network: an IPv4 address, or an IPv6 network of 64 bits.
    pub per_network: usize,
    /// Networks of proxies, behind which anybody may be: they count in the total alone.
    pub proxies: Networks,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self { total: 20_000, per_network: 5_000, proxies: Networks::default() }
    }
}

/// Whoever may be one and the same at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Bucket {
    /// An IPv4 address, or an IPv6 network of 64 bits.
    Network(IpAddr),
    /// An IPv6 network of 48 bits.
    Site(u64),
}

fn buckets(address: IpAddr) -> (Bucket, Option<Bucket>) {
    match address.to_canonical() {
        IpAddr::V4(address) => (Bucket::Network(address.into()), None),
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            let site = u64::try_from(address.to_bits() >> 80).unwrap_or(u64::MAX);
            (Bucket::Network(IpAddr::V6(network.into())), Some(Bucket::Site(site)))
        }
    }
}

/// Counts the connections of every listener but that of the metrics.
#[derive(Debug)]
pub struct ConnectionLimits {
    settings: ConnectionSettings,
    state: Mutex<LimitState>,
    refused: AtomicU64,
    ended: AtomicU64,
}

#[derive(Debug, Default)]
struct LimitState {
    open: usize,
    buckets: HashMap<Bucket, BucketState>,
    next_id: u64,
}

#[derive(Debug, Default)]
struct BucketState {
    open: usize,
    /// Those whose client has not authenticated, in the order in which they came.
    unauthenticated: BTreeMap<u64, Arc<PermitState>>,
}

/// A connection may stay until this is dropped, or until [`cut`](Self::cut) says otherwise.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    limits: Arc<ConnectionLimits>,
    buckets: (Bucket, Option<Bucket>),
    state: Arc<PermitState>,
}

#[derive(Debug)]
struct PermitState {
    id: u64,
    /// Is a request under way?
    busy: Flag,
    authenticated: Flag,
    cut: Notify,
}

impl LimitState {
    /// Ends one connection of that network whose client has not authenticated; returns whether there was one. It
    /// counts until it is gone, which is at once.
    fn end_oldest(&mut self, network: Bucket) -> bool {
        let Some(bucket) = self.buckets.get_mut(&network) else { return false };
        let idle = bucket.unauthenticated.values().find(|permit| !permit.busy.is_set());
        let Some(id) = idle.or_else(|| bucket.unauthenticated.values().next()).map(|permit| permit.id) else {
            return false;
        };
        if let Some(permit) = bucket.unauthenticated.remove(&id) {
            permit.cut.notify_one();
        }
        true
    }

    /// The network with the most connections whose client has not authenticated.
    fn most_unauthenticated(&self) -> Option<Bucket> {
        let waiting = self.buckets.iter().filter(|(_, bucket)| !bucket.unauthenticated.is_empty());
        waiting.max_by_key(|(_, bucket)| bucket.unauthenticated.len()).map(|(network, _)| *network)
    }

    fn open_of(&self, bucket: Bucket) -> usize {
        self.buckets.get(&bucket).map_or(0, |bucket| bucket.open)
    }

    fn add(&mut self, bucket: Bucket) -> &mut BucketState {
        let state = self.buckets.entry(bucket).or_default();
        state.open += 1;
        state
    }

    fn remove(&mut self, bucket: Bucket, id: u64) {
        let Some(state) = self.buckets.get_mut(&bucket) else { return };
        state.open = state.open.saturating_sub(1);
        state.unauthenticated.remove(&id);
        if state.open == 0 {
            self.buckets.remove(&bucket);
        }
    }
}

impl ConnectionLimits {
    /// No connections yet.
    pub fn new(settings: ConnectionSettings) -> Arc<Self> {
        let (refused, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { settings, state: Mutex::default(), refused, ended })
    }

    fn state(&self) -> MutexGuard<'_, LimitState> {
        // Every change is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A permit for a connection from that address; `None` when there is no room for it.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let is_proxy = self.settings.proxies.contains(address);
        let buckets = buckets(address);
        let mut state = self.state();
        let admitted = self.make_room(&mut state, buckets, is_proxy);
        if !admitted {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        state.next_id += 1;
        let permit = Arc::new(PermitState {
            id: state.next_id,
            busy: Flag::default(),
            authenticated: Flag::default(),
            cut: Notify::new(),
        });
        state.open += 1;
        let (network, site) = buckets;
        let waiting = &mut state.add(network).unauthenticated;
        if !is_proxy {
            waiting.insert(permit.id, permit.clone());
        }
        site.map(|site| state.add(site).open);
        drop(state);
        Some(ConnectionPermit { limits: self.clone(), buckets, state: permit })
    }

    /// Makes room for one more connection; returns whether there is.
    fn make_room(&self, state: &mut LimitState, buckets: (Bucket, Option<Bucket>), is_proxy: bool) -> bool {
        let (network, site) = buckets;
        let end = |state: &mut LimitState, network: Bucket| {
            let found = state.end_oldest(network);
            self.ended.fetch_add(u64::from(found), Ordering::Relaxed);
            found
        };
        if !is_proxy {
            let waiting = state.buckets.get(&network).map_or(0, |bucket| bucket.unauthenticated.len());
            let full = state.open_of(network) >= self.settings.per_network
                || site
                    .is_some_and(|site| state.open_of(site) >= self.settings.per_network * NETWORKS_PER_SITE);
            if full && !end(state, network) {
                return false;
            }
            if !full && waiting >= UNAUTHENTICATED_PER_NETWORK {
                end(state, network);
            }
        }
        if state.open < self.settings.total {
            return true;
        }
        state.most_unauthenticated().is_some_and(|network| end(state, network))
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let open = i64::try_from(self.state().open).unwrap_or(i64::MAX);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            Metric::gauge("connections_open", "Connections of all listeners but that of the metrics", open),
            Metric::counter(
                "connections_refused",
                "Connections that were closed at once, because there was no room for them",
                count(&self.refused),
            ),
            Metric::counter(
                "connections_ended_for_room",
                "Connections that ended before their client had authenticated, to make room for others",
                count(&self.ended),
            ),
        ]
    }
}

impl ConnectionPermit {
    /// A request begins or ends.
    pub(crate) fn set_busy(&self, busy: bool) {
        self.state.busy.set(busy);
    }

    /// Its client has authenticated: it is not ended for others any more.
    pub(crate) fn set_authenticated(&self) {
        if self.state.authenticated.is_set() {
            return;
        }
        self.state.authenticated.set(true);
        if let Some(bucket) = self.limits.state().buckets.get_mut(&self.buckets.0) {
            bucket.unauthenticated.remove(&self.state.id);
        }
    }

    /// Resolves when the connection must end, to make room for another.
    pub(crate) async fn cut(&self) {
        self.state.cut.notified().await;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut state = self.limits.state();
        state.open = state.open.saturating_sub(1);
        let (network, site) = self.buckets;
        state.remove(network, self.state.id);
        if let Some(site) = site {
            state.remove(site, self.state.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use futures_util::FutureExt;

    use super::*;

    fn limits(total: usize, per_network: usize) -> Arc<ConnectionLimits> {
        ConnectionLimits::new(ConnectionSettings {
            total,
            per_network,
            proxies: "10.0.0.0/8".parse().unwrap(),
        })
    }

    fn v4(last: u8) -> IpAddr {
        [203, 0, 113, last].into()
    }

    fn is_cut(permit: &ConnectionPermit) -> bool {
        permit.cut().now_or_never().is_some()
    }

    #[test]
    fn whoever_says_nothing_ends_their_own() {
        let limits = limits(10_000, 5_000);
        let first = limits.admit(v4(1)).unwrap();
        first.set_busy(true);
        let idle: Vec<_> = (0..600).map(|_| limits.admit(v4(1)).unwrap()).collect();
        let cut = idle.iter().filter(|permit| is_cut(permit)).count();
        assert_eq!(cut, 601 - UNAUTHENTICATED_PER_NETWORK);
        assert!(!is_cut(&first), "one with a request under way goes last");
        assert!(!is_cut(&limits.admit(v4(2)).unwrap()));
    }

    #[test]
    fn when_it_is_full_the_network_with_the_most_makes_room() {
        let limits = limits(100, 90);
        let silent: Vec<_> = (0..80).map(|_| limits.admit(v4(1)).unwrap()).collect();
        let honest: Vec<_> = (0..20).map(|_| limits.admit(v4(2)).unwrap()).collect();
        honest.iter().for_each(ConnectionPermit::set_authenticated);
        let next = limits.admit(v4(3)).unwrap();
        assert!(is_cut(&silent[0]) && !is_cut(&silent[1]) && !is_cut(&next));
        assert!(!honest.iter().any(is_cut));
        silent.iter().for_each(ConnectionPermit::set_authenticated);
        let last = limits.admit(v4(4));
        assert!(last.is_some() && is_cut(&next), "the only one that has not authenticated");
        last.unwrap().set_authenticated();
        assert_eq!(limits.state().open, 101, "those that were cut count until they are gone");
        drop(silent);
        assert_eq!(limits.state().open, 21);
        drop((honest, next));
        assert!(limits.state().open == 0 && limits.state().buckets.is_empty());
    }

    #[test]
    fn a_network_has_its_own_limit_and_a_site_two_of_them() {
        let limits = limits(1_000, 10);
        let v6 = |site: u16, network: u16, host: u16| {
            Ipv6Addr::new(0x2001, 0xdb8, site, network, 0, 0, 0, host).into()
        };
        let known = |address: IpAddr| limits.admit(address).inspect(ConnectionPermit::set_authenticated);
        let one: Vec<_> = (0..10).map(|host| known(v6(1, 1, host)).unwrap()).collect();
        assert!(known(v6(1, 1, 99)).is_none(), "another address of the same network");
        let two: Vec<_> = (0..10).map(|host| known(v6(1, 2, host)).unwrap()).collect();
        assert!(known(v6(1, 3, 1)).is_none(), "another network of the same site");
        assert!(known(v6(2, 1, 1)).is_some());
        drop(one);
        assert!(known(v6(1, 3, 1)).is_some());
        drop(two);
        let mapped = |last: u16| Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0xcb00, 0x7100 + last).into();
        let held: Vec<_> = (0..10).map(|_| known(v4(7)).unwrap()).collect();
        assert!(known(mapped(7)).is_none(), "an IPv4 address written as IPv6");
        drop(held);
    }

    #[test]
    fn behind_a_proxy_anybody_may_be() {
        let limits = limits(30, 10);
        let proxy = [10, 1, 2, 3].into();
        let open: Vec<_> = (0..30).map(|_| limits.admit(proxy).unwrap()).collect();
        assert!(!open.iter().any(is_cut));
        assert!(limits.admit(proxy).is_none(), "but no more than there may be in all");
        assert_eq!(limits.refused.load(Ordering::Relaxed), 1);
    }
}

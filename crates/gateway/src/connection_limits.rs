//! How many connections there may be: in all, and from one network.
//!
//! A connection whose client has not authenticated is worth little. When there is no room, the oldest of these ends for
//! which nothing is being done, in the network that has the most of them. So whoever opens thousands and says nothing, or
//! says it slowly, ends their own, and the next client that has something to say gets in. Where all have authenticated, one
//! ends that is only kept for a next request, as any server of HTTP may end it; streams and sockets stay.

use std::collections::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use portico_egress::Networks;
use portico_engine::Metric;
use portico_identity::client_address;
use tokio::sync::Notify;

use crate::pace::Paces;
use crate::party::{Bucket, Buckets, Party};
use crate::transport::Flag;

/// How many connections of one network may wait for their client to authenticate.
const UNAUTHENTICATED_PER_NETWORK: usize = 512;
/// How many connections there may be.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// In all.
    pub total: usize,
    /// From one network: an IPv4 address, or an IPv6 network of 64 bits.
    pub per_network: usize,
    /// Whose clients act in one account.
    pub per_account: usize,
    /// Networks of proxies, behind which anybody may be: they count in the total alone.
    pub proxies: Networks,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self { total: 20_000, per_network: 5_000, per_account: 2_000, proxies: Networks::default() }
    }
}

/// Counts the connections of every listener but that of the metrics.
#[derive(Debug)]
pub struct ConnectionLimits {
    settings: ConnectionSettings,
    state: Mutex<LimitState>,
    refused: AtomicU64,
    ended: AtomicU64,
    /// How fast the requests on them may go on.
    pub(crate) paces: Paces,
}

#[derive(Debug, Default)]
struct LimitState {
    open: usize,
    buckets: HashMap<Bucket, BucketState>,
    /// Those whose client has authenticated, by whom it acts for.
    tenants: HashMap<Party, TenantState>,
    owners: HashMap<u64, Party>,
    next_id: u64,
}

#[derive(Debug, Default)]
struct TenantState {
    open: usize,
    /// Those that do not last.
    authenticated: Waiting,
}

#[derive(Debug, Default)]
struct BucketState {
    open: usize,
    /// Those whose client has not authenticated, in the order in which they came,
    unauthenticated: Waiting,
    /// and those whose client has, without the ones that last.
    authenticated: Waiting,
}

/// Connections that may be ended to make room.
type Waiting = BTreeMap<u64, Arc<PermitState>>;

/// A connection may stay until this is dropped, or until [`cut`](Self::cut) says otherwise.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    limits: Arc<ConnectionLimits>,
    state: Arc<PermitState>,
}

#[derive(Debug)]
struct PermitState {
    id: u64,
    address: IpAddr,
    buckets: Buckets,
    /// May it be ended to make room? Those of proxies may not.
    endable: bool,
    /// Is a request that has come whole being answered?
    busy: Flag,
    /// Does an answer go on and on?
    streaming: Flag,
    /// Is an answer on its way that is not written yet?
    answering: Flag,
    authenticated: Flag,
    /// Tells for whom its client acts.
    owner: AtomicU64,
    cut: Notify,
}

impl PermitState {
    /// Does it only wait for its client?
    fn is_idle(&self) -> bool {
        !self.busy.is_set() && !self.streaming.is_set() && !self.answering.is_set()
    }
}

impl BucketState {
    /// The one that is worth least.
    fn oldest(&self) -> Option<&Arc<PermitState>> {
        let is_idle = |permit: &&Arc<PermitState>| permit.is_idle();
        let unauthenticated = self.unauthenticated.values().find(is_idle);
        let unauthenticated = unauthenticated.or_else(|| self.unauthenticated.values().next());
        unauthenticated.or_else(|| self.authenticated.values().find(is_idle))
    }
}

impl LimitState {
    /// Ends the connection of that bucket that is worth least; returns whether there was one. It counts until it is gone,
    /// which is at once.
    fn end_oldest(&mut self, bucket: Bucket) -> bool {
        let Some(oldest) = self.buckets.get(&bucket).and_then(BucketState::oldest).cloned() else {
            return false;
        };
        self.take_out(&oldest);
        oldest.cut.notify_one();
        true
    }

    /// The bucket with the most connections that may be ended, and whose clients have not authenticated if there are such.
    /// A site has at least as many as each of its networks, so whoever has many networks gains nothing by spreading over
    /// them.
    fn fullest(&self) -> Option<Bucket> {
        let most = |waiting: fn(&BucketState) -> &Waiting| {
            let buckets = self.buckets.iter().map(|(bucket, state)| (waiting(state).len(), *bucket));
            buckets.filter(|(count, _)| *count > 0).max_by_key(|(count, _)| *count).map(|(_, bucket)| bucket)
        };
        most(|bucket| &bucket.unauthenticated).or_else(|| most(|bucket| &bucket.authenticated))
    }

    fn add(&mut self, permit: &Arc<PermitState>) {
        self.open += 1;
        for bucket in permit.buckets.each() {
            let bucket = self.buckets.entry(bucket).or_default();
            bucket.open += 1;
            if permit.endable {
                bucket.unauthenticated.insert(permit.id, permit.clone());
            }
        }
    }

    /// Its client has authenticated. One that was told to end is no longer there.
    fn authenticate(&mut self, permit: &PermitState) {
        for bucket in permit.buckets.each() {
            if let Some(bucket) = self.buckets.get_mut(&bucket)
                && let Some(permit) = bucket.unauthenticated.remove(&permit.id)
            {
                bucket.authenticated.insert(permit.id, permit);
            }
        }
    }

    /// It cannot be ended any more, or was.
    fn take_out(&mut self, permit: &PermitState) {
        for bucket in permit.buckets.each() {
            if let Some(bucket) = self.buckets.get_mut(&bucket) {
                bucket.unauthenticated.remove(&permit.id);
                bucket.authenticated.remove(&permit.id);
            }
        }
        if let Some(tenant) = self.owners.get(&permit.id).and_then(|owner| self.tenants.get_mut(owner)) {
            tenant.authenticated.remove(&permit.id);
        }
    }

    /// Its client acts for that party from now on, which may have so many connections; returns whether there is room.
    /// Where there is none, the oldest one ends that only waits for its client.
    fn join(&mut self, permit: &Arc<PermitState>, party: &Party, most: usize) -> bool {
        self.leave(permit);
        let tenant = self.tenants.entry(party.clone()).or_default();
        if tenant.open >= most {
            let Some(idle) = tenant.authenticated.values().find(|permit| permit.is_idle()).cloned() else {
                return false;
            };
            self.take_out(&idle);
            idle.cut.notify_one();
        }
        let tenant = self.tenants.entry(party.clone()).or_default();
        tenant.open += 1;
        tenant.authenticated.insert(permit.id, permit.clone());
        self.owners.insert(permit.id, party.clone());
        true
    }

    /// Its client acts for nobody any more.
    fn leave(&mut self, permit: &PermitState) {
        let Some(owner) = self.owners.remove(&permit.id) else { return };
        if let Entry::Occupied(mut entry) = self.tenants.entry(owner) {
            let tenant = entry.get_mut();
            tenant.authenticated.remove(&permit.id);
            tenant.open = tenant.open.saturating_sub(1);
            if tenant.open == 0 {
                entry.remove();
            }
        }
    }

    fn remove(&mut self, permit: &PermitState) {
        self.open = self.open.saturating_sub(1);
        self.take_out(permit);
        self.leave(permit);
        for bucket in permit.buckets.each() {
            let Entry::Occupied(mut entry) = self.buckets.entry(bucket) else { continue };
            entry.get_mut().open = entry.get().open.saturating_sub(1);
            if entry.get().open == 0 {
                entry.remove();
            }
        }
    }
}

impl ConnectionLimits {
    /// No connections yet.
    pub fn new(settings: ConnectionSettings) -> Arc<Self> {
        let (refused, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { settings, state: Mutex::default(), refused, ended, paces: Paces::default() })
    }

    fn state(&self) -> MutexGuard<'_, LimitState> {
        // Every change is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A permit for a connection from that address; `None` when there is no room for it.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let is_proxy = self.settings.proxies.contains(address);
        let buckets = Buckets::of(address);
        let mut state = self.state();
        let admitted = self.make_room(&mut state, buckets, is_proxy);
        if !admitted {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        state.next_id += 1;
        let permit = Arc::new(PermitState {
            id: state.next_id,
            address,
            buckets,
            endable: !is_proxy,
            busy: Flag::default(),
            streaming: Flag::default(),
            answering: Flag::default(),
            authenticated: Flag::default(),
            owner: AtomicU64::new(0),
            cut: Notify::new(),
        });
        state.add(&permit);
        drop(state);
        Some(ConnectionPermit { limits: self.clone(), state: permit })
    }

    /// Makes room for one more connection; returns whether there is.
    fn make_room(&self, state: &mut LimitState, buckets: Buckets, is_proxy: bool) -> bool {
        let end = |state: &mut LimitState, bucket: Bucket| {
            let found = state.end_oldest(bucket);
            self.ended.fetch_add(u64::from(found), Ordering::Relaxed);
            found
        };
        for bucket in buckets.each().filter(|_| !is_proxy) {
            let Some(BucketState { open, unauthenticated, .. }) = state.buckets.get(&bucket) else {
                continue;
            };
            let full = *open >= self.settings.per_network.saturating_mul(bucket.networks());
            let crowded = unauthenticated.len() >= UNAUTHENTICATED_PER_NETWORK * bucket.networks();
            if (full || crowded) && end(state, bucket) {
                // Its place is the new one's, in the larger bucket and in all, too.
                return true;
            }
            if full {
                return false;
            }
        }
        if state.open < self.settings.total {
            return true;
        }
        state.fullest().is_some_and(|bucket| end(state, bucket))
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let open = i64::try_from(self.state().open).unwrap_or(i64::MAX);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let connections = [
            Metric::gauge("connections_open", "Connections of all listeners but that of the metrics", open),
            Metric::counter(
                "connections_refused",
                "Connections that were closed at once, because there was no room for them",
                count(&self.refused),
            ),
            Metric::counter(
                "connections_ended_for_room",
                "Connections that ended to make room for others",
                count(&self.ended),
            ),
        ];
        connections.into_iter().chain(self.paces.metrics()).collect()
    }
}

impl ConnectionPermit {
    /// Is it a proxy's, behind which anybody may be?
    pub(crate) fn is_of_proxy(&self) -> bool {
        !self.state.endable
    }

    /// Where the other end is.
    pub(crate) fn buckets(&self) -> Buckets {
        self.state.buckets
    }

    /// Where the client is for whom a proxy sends these headers, if it says so.
    pub(crate) fn client(&self, headers: &HeaderMap) -> Option<Buckets> {
        let proxies = &self.limits.settings.proxies;
        let client = client_address(self.state.address, headers, proxies);
        (!proxies.contains(client)).then(|| Buckets::of(client))
    }

    pub(crate) fn paces(&self) -> &Paces {
        &self.limits.paces
    }

    /// The answer to a request that has come whole begins, or is there.
    pub(crate) fn set_busy(&self, busy: bool) {
        self.state.busy.set(busy);
    }

    /// An answer that goes on and on begins or ends.
    pub(crate) fn set_streaming(&self, streaming: bool) {
        self.state.streaming.set(streaming);
    }

    /// An answer is on its way, or has been written.
    pub(crate) fn set_answering(&self, answering: bool) {
        self.state.answering.set(answering);
    }

    /// Its client has authenticated, and acts for that party: it is not ended for others while there are such whose client
    /// has not. Returns whether the party may have one more.
    pub(crate) fn set_authenticated(&self, party: &Party) -> bool {
        let owner = party.number();
        if self.state.owner.load(Ordering::Relaxed) == owner {
            return true;
        }
        self.state.authenticated.set(true);
        let mut state = self.limits.state();
        state.authenticate(&self.state);
        // A proxy's is of many.
        let joined = self.is_of_proxy() || state.join(&self.state, party, self.limits.settings.per_account);
        drop(state);
        if joined {
            self.state.owner.store(owner, Ordering::Relaxed);
        } else {
            self.limits.refused.fetch_add(1, Ordering::Relaxed);
        }
        joined
    }

    /// It carries something that lasts, for a client that has authenticated: it is not ended for others.
    pub(crate) fn set_lasting(&self) {
        self.state.authenticated.set(true);
        self.limits.state().take_out(&self.state);
    }

    /// Resolves when the connection must end, to make room for another.
    pub(crate) async fn cut(&self) {
        self.state.cut.notified().await;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limits.state().remove(&self.state);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use futures_util::FutureExt;

    use super::*;
    use crate::party::NETWORKS_PER_SITE;

    fn limits(total: usize, per_network: usize) -> Arc<ConnectionLimits> {
        ConnectionLimits::new(ConnectionSettings {
            total,
            per_network,
            per_account: 1_000,
            proxies: "10.0.0.0/8".parse().unwrap(),
        })
    }

    fn v4(last: u8) -> IpAddr {
        [203, 0, 113, last].into()
    }

    fn party(name: &str) -> Party {
        Party::Caller(name.to_owned())
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
        honest.iter().for_each(ConnectionPermit::set_lasting);
        let next = limits.admit(v4(3)).unwrap();
        assert!(is_cut(&silent[0]) && !is_cut(&silent[1]) && !is_cut(&next));
        assert!(!honest.iter().any(is_cut));
        silent.iter().for_each(ConnectionPermit::set_lasting);
        let last = limits.admit(v4(4));
        assert!(last.is_some() && is_cut(&next), "the only one that has not authenticated");
        drop(last);
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
        let known = |address: IpAddr| limits.admit(address).inspect(ConnectionPermit::set_lasting);
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
    fn whoever_authenticates_and_waits_does_not_fill_the_server() {
        let limits = limits(60, 50);
        let known = |address: IpAddr| {
            limits.admit(address).inspect(|permit| assert!(permit.set_authenticated(&party("a"))))
        };
        let greedy: Vec<_> = (0..50).map(|_| known(v4(1)).unwrap()).collect();
        let honest: Vec<_> = (0..10).map(|_| known(v4(2)).unwrap()).collect();
        greedy[0].set_busy(true);
        greedy[1].set_streaming(true);
        greedy[2].set_lasting();
        let stranger = limits.admit(v4(3)).unwrap();
        assert!(is_cut(&greedy[3]), "the oldest that only waits, of the address that has the most");
        let next = known(v4(4)).unwrap();
        assert!(is_cut(&stranger), "but strangers go first");
        assert!(
            known(v4(1)).is_some_and(|own| !is_cut(&own)) && is_cut(&greedy[4]),
            "its own place, when that is full"
        );
        assert!(!honest.iter().chain(&greedy[..3]).chain([&next]).any(is_cut));
    }

    #[test]
    fn a_tenant_with_too_many_ends_one_of_its_own_that_is_idle() {
        let limits =
            ConnectionLimits::new(ConnectionSettings { per_account: 3, ..ConnectionSettings::default() });
        let open = |last: u8, name: &str| {
            let permit = limits.admit(v4(last)).unwrap();
            let joined = permit.set_authenticated(&party(name));
            (permit, joined)
        };
        let greedy: Vec<_> = (1..4).map(|last| open(last, "greedy").0).collect();
        let (honest, joined) = open(1, "honest");
        assert!(joined);
        greedy[0].set_answering(true);
        let (fourth, joined) = open(4, "greedy");
        assert!(joined && is_cut(&greedy[1]), "the oldest that only waits");
        assert!(!is_cut(&greedy[0]), "one in the middle of an answer is not idle");
        drop(greedy.into_iter().nth(1));
        fourth.set_busy(true);
        let (busy, joined) = open(5, "other");
        assert!(joined);
        busy.set_busy(true);
        assert!(busy.set_authenticated(&party("greedy")), "it acts for another one now");
        assert!(!is_cut(&honest));
        drop((fourth, busy, honest));
        let state = limits.state();
        assert!(state.tenants.is_empty() && state.owners.is_empty() && state.open == 0);
    }

    #[test]
    fn a_tenant_whose_connections_are_all_busy_gets_no_more() {
        let limits =
            ConnectionLimits::new(ConnectionSettings { per_account: 2, ..ConnectionSettings::default() });
        let busy: Vec<_> = (0..2).map(|_| limits.admit(v4(1)).unwrap()).collect();
        for permit in &busy {
            assert!(permit.set_authenticated(&party("a")));
            permit.set_busy(true);
        }
        let next = limits.admit(v4(2)).unwrap();
        assert!(!next.set_authenticated(&party("a")));
        drop(busy);
        assert!(next.set_authenticated(&party("a")), "it may try again");
    }

    #[test]
    fn spreading_over_the_networks_of_a_site_gains_nothing() {
        let v6 = |site: u16, network: u16| Ipv6Addr::new(0x2001, 0xdb8, site, network, 0, 0, 0, 1).into();
        let crowded = limits(10_000, 5_000);
        let spread: Vec<_> = (0..2_000).map(|network| crowded.admit(v6(1, network)).unwrap()).collect();
        let cut = spread.iter().filter(|permit| is_cut(permit)).count();
        assert_eq!(cut, 2_000 - UNAUTHENTICATED_PER_NETWORK * NETWORKS_PER_SITE);
        let full = limits(100, 90);
        let honest = full.admit(v6(2, 1)).unwrap();
        let spread: Vec<_> = (0..99).map(|network| full.admit(v6(1, network)).unwrap()).collect();
        let others: Vec<_> = (3..53).map(|site| full.admit(v6(site, 1)).unwrap()).collect();
        assert!(!is_cut(&honest) && !others.iter().any(is_cut));
        assert!(spread[..50].iter().all(is_cut) && !spread[50..].iter().any(is_cut));
        let neighbour = limits(1_000, 10);
        let silent: Vec<_> = (0..20).map(|network| neighbour.admit(v6(1, network)).unwrap()).collect();
        assert!(
            neighbour.admit(v6(1, 99)).is_some(),
            "a site full of silent ones still lets the next one in"
        );
        assert!(is_cut(&silent[0]) && !silent[1..].iter().any(is_cut));
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

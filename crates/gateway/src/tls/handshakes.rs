//! How many TLS handshakes one address may ask for.
//!
//! A handshake is the dearest thing that a stranger can ask for with a few bytes: a millisecond of a processor with an RSA key. So
//! those of one network take turns, at a rate that no honest client notices.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use portico_engine::clock::Stopwatch;

/// So often a network may ask for one,
const EVERY: Duration = Duration::from_millis(10);
/// and so many it may ask for at once.
const AT_ONCE: u32 = 500;
/// When so many networks are known, those that have nothing to wait for are forgotten.
const NETWORKS_KEPT: usize = 10_000;

/// The handshakes of each network, an IPv4 address or an IPv6 network of 48 bits.
#[derive(Debug)]
pub(super) struct HandshakeRate {
    since: Stopwatch,
    /// When each network will have paid for what it had.
    paid_at: Mutex<HashMap<IpAddr, Duration>>,
}

impl Default for HandshakeRate {
    fn default() -> Self {
        Self { since: Stopwatch::start(), paid_at: Mutex::default() }
    }
}

impl HandshakeRate {
    /// How long the next handshake of that address has to wait; `None` when that is longer than `wait_max`.
    pub(super) fn turn(&self, address: IpAddr, wait_max: Duration) -> Option<Duration> {
        self.turn_at(self.since.elapsed(), address, wait_max)
    }

    fn turn_at(&self, now: Duration, address: IpAddr, wait_max: Duration) -> Option<Duration> {
        let mut all = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= NETWORKS_KEPT {
            all.retain(|_, paid_at| *paid_at > now);
        }
        let paid_at = all.entry(network(address)).or_default();
        let begun = (*paid_at).max(now);
        let turn = begun.saturating_sub(now + EVERY * AT_ONCE);
        if turn > wait_max {
            return None;
        }
        *paid_at = begun + EVERY;
        Some(turn)
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from(address.to_bits() >> 80 << 80).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT_MAX: Duration = Duration::from_secs(10);

    #[test]
    fn who_asks_too_often_waits_and_others_do_not() {
        let rate = HandshakeRate::default();
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let turn = |now: u64, address| rate.turn_at(Duration::from_secs(now), address, WAIT_MAX);
        for _ in 0..=AT_ONCE {
            assert_eq!(turn(0, one), Some(Duration::ZERO));
        }
        assert_eq!(turn(0, one), Some(EVERY));
        let waiting = std::iter::repeat_with(|| turn(0, one)).take_while(Option::is_some).count();
        assert_eq!(waiting, 999, "as many as get their turn in time");
        assert_eq!(turn(0, other), Some(Duration::ZERO));
        assert_eq!(turn(60, one), Some(Duration::ZERO));
    }

    #[test]
    fn an_ipv6_customer_is_one_network() {
        let address = |text: &str| network(text.parse().unwrap());
        assert_eq!(address("2001:db8:1:2::3"), address("2001:db8:1:9::1"));
        assert_ne!(address("2001:db8:1::1"), address("2001:db8:2::1"));
        assert_eq!(address("::ffff:10.0.0.1"), address("10.0.0.1"));
    }
}

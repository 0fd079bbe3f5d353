//! Whoever is taken together where there is not enough for everybody.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use portico_kernel::{AccountId, Caller};

/// A site (an IPv6 network of 48 bits) may have so many times as much as one network.
pub(crate) const NETWORKS_PER_SITE: usize = 2;

/// Whoever may be one and the same at the other end of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Bucket {
    /// An IPv4 address, or an IPv6 network of 64 bits.
    Network(IpAddr),
    /// An IPv6 network of 48 bits.
    Site(u64),
}

impl Bucket {
    /// How many times as much it may have as one network.
    pub(crate) fn networks(self) -> usize {
        match self {
            Self::Network(_) => 1,
            Self::Site(_) => NETWORKS_PER_SITE,
        }
    }
}

/// The buckets that an address is in, the smaller one first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buckets {
    pub(crate) network: Bucket,
    pub(crate) site: Option<Bucket>,
}

impl Buckets {
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self { network: Bucket::Network(address.into()), site: None },
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                let site = u64::try_from(address.to_bits() >> 80).unwrap_or(u64::MAX);
                Self { network: Bucket::Network(IpAddr::V6(network.into())), site: Some(Bucket::Site(site)) }
            }
        }
    }

    pub(crate) fn each(self) -> impl Iterator<Item = Bucket> {
        std::iter::once(self.network).chain(self.site)
    }
}

/// One tenant, or one place that strangers come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    /// Everybody who acts in that account.
    Account(AccountId),
    /// A caller whose account is not known yet, such as a person.
    Caller(String),
    /// Those who come from there and have not authenticated.
    Bucket(Bucket),
}

impl Party {
    /// Whose the caller's work is.
    pub(crate) fn of(caller: &Caller) -> Self {
        caller.org.map_or_else(|| Self::Caller(caller.subject.clone()), Self::Account)
    }

    /// A number that tells it from others.
    pub(crate) fn number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        // 0 stands for nobody.
        hasher.finish().max(1)
    }

    /// How many times as much it may have as one network or account.
    pub(crate) fn networks(&self) -> u32 {
        match self {
            Self::Bucket(Bucket::Site(_)) => u32::try_from(NETWORKS_PER_SITE).unwrap_or(1),
            _ => 1,
        }
    }
}

//! From a target to the addresses that may be called.

use std::net::{IpAddr, SocketAddr};

use url::Host;

use crate::dns::Resolver;
use crate::target::Target;
use crate::{EgressError, Networks};

/// Looks `target` up once. The caller connects to the returned addresses and to no others, so that a name cannot lead
/// elsewhere between the check and the call.
pub(crate) async fn resolve(
    target: &Target,
    resolver: &Resolver,
    allow: &Networks,
) -> Result<Vec<SocketAddr>, EgressError> {
    check(target, allow)?;
    let found = match &target.host {
        Host::Ipv4(address) => vec![(*address).into()],
        Host::Ipv6(address) => vec![(*address).into()],
        // Apart from the caller's future, which most calls would carry it around in for nothing.
        Host::Domain(name) => Box::pin(resolver.addresses(name)).await?,
    };
    let addresses = check_all(found, target.only_if_allowed(), allow)?;
    Ok(addresses.into_iter().map(|address| SocketAddr::new(address, target.port)).collect())
}

/// The checks that need no lookup.
pub(crate) fn check(target: &Target, allow: &Networks) -> Result<(), EgressError> {
    let only_if_allowed = target.only_if_allowed();
    // Nothing can come of it, and nobody shall learn from us which names the inside knows.
    if only_if_allowed && allow.is_empty() {
        return Err(EgressError::Blocked);
    }
    let is_allowed = match &target.host {
        Host::Ipv4(address) => is_allowed((*address).into(), only_if_allowed, allow),
        Host::Ipv6(address) => is_allowed((*address).into(), only_if_allowed, allow),
        Host::Domain(_) => true,
    };
    if is_allowed { Ok(()) } else { Err(EgressError::Blocked) }
}

fn is_allowed(address: IpAddr, only_if_allowed: bool, allow: &Networks) -> bool {
    if only_if_allowed { allow.contains(address) } else { allow.permits(address) }
}

/// All addresses must be allowed: one that is not shows what the name is for.
fn check_all(
    found: Vec<IpAddr>,
    only_if_allowed: bool,
    allow: &Networks,
) -> Result<Vec<IpAddr>, EgressError> {
    if found.is_empty() {
        return Err(EgressError::Dns);
    }
    if found.iter().all(|address| is_allowed(*address, only_if_allowed, allow)) {
        // What is called is what was looked at: the short form, without a zone.
        Ok(found.into_iter().map(|address| address.to_canonical()).collect())
    } else {
        Err(EgressError::Blocked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(found: &[&str], only_if_allowed: bool, allow: &str) -> Result<Vec<IpAddr>, EgressError> {
        let found = found.iter().map(|address| address.parse().unwrap()).collect();
        check_all(found, only_if_allowed, &allow.parse().unwrap())
    }

    #[test]
    fn every_answer_must_pass() {
        assert_eq!(checked(&["1.1.1.1", "2606:4700::1"], false, "").map(|good| good.len()), Ok(2));
        for found in [
            &["127.0.0.1"][..],
            &["1.1.1.1", "127.0.0.1"],
            &["1.1.1.1", "::1"],
            &["::ffff:10.0.0.1", "1.1.1.1"],
            &["0.0.0.0"],
            &["169.254.169.254"],
            &["64:ff9b::a00:1"],
        ] {
            assert_eq!(checked(found, false, "192.168.0.0/16"), Err(EgressError::Blocked), "{found:?}");
        }
        assert_eq!(checked(&[], false, ""), Err(EgressError::Dns));
    }

    #[test]
    fn what_is_allowed_passes_beside_what_is_public() {
        let allow = "10.0.0.0/8";
        assert!(checked(&["10.0.0.1", "1.1.1.1"], false, allow).is_ok());
        assert_eq!(checked(&["::ffff:10.0.0.1"], false, allow), Ok(vec!["10.0.0.1".parse().unwrap()]));
        assert!(checked(&["10.0.0.1"], true, allow).is_ok());
        assert_eq!(checked(&["10.0.0.1", "1.1.1.1"], true, allow), Err(EgressError::Blocked));
    }
}

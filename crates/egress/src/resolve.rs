//! From a target to the addresses that may be called.

use std::net::{IpAddr, SocketAddr};

use url::Host;

use crate::address::is_public;
use crate::target::Target;
use crate::{EgressError, Networks};

/// Asks once where `target` is. The caller connects to what this answers and to nothing else, so that a name cannot
/// lead elsewhere between the check and the call.
pub(crate) async fn resolve(target: &Target, allow: &Networks) -> Result<Vec<SocketAddr>, EgressError> {
    // Nothing can come of it, and nobody shall learn from us which names the inside knows.
    if target.only_if_allowed() && allow.is_empty() {
        return Err(EgressError::Blocked);
    }
    let port = target.port;
    let found = match &target.host {
        Host::Ipv4(address) => vec![(*address).into()],
        Host::Ipv6(address) => vec![(*address).into()],
        Host::Domain(name) => {
            let found = tokio::net::lookup_host((name.as_str(), port)).await;
            found.map_err(|_| EgressError::Dns)?.map(|address| address.ip()).collect()
        }
    };
    let addresses = check(found, target.only_if_allowed(), allow)?;
    Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
}

/// All of them must be good: one that is not shows what the name is for.
fn check(found: Vec<IpAddr>, only_if_allowed: bool, allow: &Networks) -> Result<Vec<IpAddr>, EgressError> {
    if found.is_empty() {
        return Err(EgressError::Dns);
    }
    let is_good = |address| allow.contains(address) || (!only_if_allowed && is_public(address));
    if found.iter().copied().all(is_good) {
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
        check(found, only_if_allowed, &allow.parse().unwrap())
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

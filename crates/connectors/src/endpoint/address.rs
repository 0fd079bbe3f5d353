//! The address of a service, and the paths below it.

use percent_encoding::percent_decode;
use url::{Host, Url};

use crate::field::CONFIG_VALUE_MAX;
use crate::spec::Executor;
use crate::text::host_name;

/// The longest path of a call.
const PATH_BYTES_MAX: usize = 8 * 1024;
// The bound of a configuration's value is the bound of a base URL too.
const _: () = assert!(CONFIG_VALUE_MAX < PATH_BYTES_MAX);

/// The address of a service: nothing but scheme, host, port and path.
pub(super) fn base_url(text: &str, executor: Executor) -> Result<Url, String> {
    const FAULT: &str = "must be an address such as https://api.example.com/v1";
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
    let after_scheme = text.split_once("://").map(|(_, rest)| rest);
    if text.chars().any(is_odd) || after_scheme.is_none_or(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Err(FAULT.to_owned());
    }
    let url = Url::parse(text).map_err(|_| FAULT.to_owned())?;
    if !matches!(url.scheme(), "https" | "http") {
        return Err("must begin with https://".to_owned());
    }
    // The parser forgets an empty user.
    let authority = after_scheme.unwrap_or_default().split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') || url.query().is_some() || url.fragment().is_some() {
        return Err("must have no user, query or fragment".to_owned());
    }
    if url.port() == Some(0) {
        return Err("must have a port from 1 to 65535, or none".to_owned());
    }
    match url.host() {
        Some(Host::Domain(name)) if executor == Executor::Cloud => {
            host_name(name).map_err(|_| "must have the name of a host".to_owned())?;
        }
        Some(Host::Ipv4(_) | Host::Ipv6(_)) if executor == Executor::Cloud => {
            return Err("must have the name of a host, not an IP address".to_owned());
        }
        Some(_) => {}
        None => return Err(FAULT.to_owned()),
    }
    let path =
        text.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..])).unwrap_or("/");
    check_path(path).map_err(str::to_owned)?;
    Ok(url)
}

/// Does the path begin with a slash, and stay below where it is appended, however often it is decoded?
pub(super) fn check_path(path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        return Err("must begin with a slash");
    }
    if path.len() > PATH_BYTES_MAX {
        return Err("is too long");
    }
    let bytes = path.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    if !(0..bytes.len()).all(|at| bytes[at] != b'%' || (is_hex(at + 1) && is_hex(at + 2))) {
        return Err("has a % that encodes nothing");
    }
    if path.contains(['?', '#']) {
        return Err("must have no query and no fragment");
    }
    // Each round makes it shorter, or is the last.
    let mut decoded = bytes.to_vec();
    loop {
        if leaves(&decoded) {
            return Err("must not leave the address of the service, or have // or a backslash");
        }
        let next: Vec<u8> = percent_decode(&decoded).collect();
        if next.len() == decoded.len() {
            return Ok(());
        }
        decoded = next;
    }
}

fn leaves(path: &[u8]) -> bool {
    let is_dots = |segment: &[u8]| matches!(segment, b"." | b"..");
    path.windows(2).any(|pair| pair == b"//")
        || path.iter().any(|byte| *byte == b'\\' || byte.is_ascii_control())
        || path.split(|byte| *byte == b'/').any(is_dots)
}

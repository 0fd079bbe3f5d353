//! A request to `{auth_url}`, and what its handlers read from it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use cookie::Cookie;
use http::header::{CONTENT_TYPE, COOKIE, ORIGIN, USER_AGENT};
use http::{HeaderMap, Request};
use portico_egress::Networks;
use portico_engine::Engine;
use portico_engine::input::parse_form;
use portico_kernel::Timestamp;

use crate::oauth::OAuthError;

const FORM: &str = "application/x-www-form-urlencoded";
const USER_AGENT_CHARACTERS_MAX: usize = 200;

/// What the listener knows about a request and its headers do not say.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The address at the other end of the connection.
    pub peer: IpAddr,
    /// The request's id.
    pub request_id: Arc<str>,
}

/// The parameters of a query or a form, each given once.
#[derive(Debug, Default)]
pub(crate) struct Params(BTreeMap<String, Vec<String>>);

impl Params {
    pub(crate) fn parse(text: &str) -> Result<Self, OAuthError> {
        let pairs =
            parse_form(text).map_err(|_| OAuthError::invalid_request("The form is badly encoded."))?;
        let mut params: BTreeMap<String, Vec<String>> = BTreeMap::new();
        // A parameter without a value counts as left out (RFC 6749, section 3.2).
        for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
            params.entry(name).or_default().push(value);
        }
        Ok(Self(params))
    }

    /// Refuses a parameter that is given twice; `resource` may be (RFC 8707).
    pub(crate) fn check_single(&self) -> Result<(), OAuthError> {
        match self.0.iter().find(|(name, values)| values.len() > 1 && *name != "resource") {
            Some(_) => Err(OAuthError::invalid_request("A parameter is given more than once.")),
            None => Ok(()),
        }
    }

    /// The parameter's value; empty when there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.first().map(String::as_str)
    }

    pub(crate) fn required(&self, name: &str) -> Result<&str, OAuthError> {
        self.get(name).ok_or_else(|| OAuthError::invalid_request(format!("{name} is missing.")))
    }

    pub(crate) fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }
}

/// A request, who sent it, and when.
pub(crate) struct RequestContext<'a> {
    pub(crate) engine: &'a Arc<Engine>,
    pub(crate) http: &'a Request<Bytes>,
    pub(crate) address: IpAddr,
    pub(crate) request_id: Arc<str>,
    pub(crate) now: Timestamp,
}

impl<'a> RequestContext<'a> {
    pub(crate) fn new(engine: &'a Arc<Engine>, http: &'a Request<Bytes>, proxies: &Networks) -> Self {
        let arrival = http.extensions().get::<Arrival>();
        let peer = arrival.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |arrival| arrival.peer);
        Self {
            engine,
            http,
            address: client_address(peer, http.headers(), proxies),
            request_id: arrival.map_or_else(|| "".into(), |arrival| arrival.request_id.clone()),
            now: engine.clock.now(),
        }
    }

    pub(crate) fn query(&self) -> Result<Params, OAuthError> {
        Params::parse(self.http.uri().query().unwrap_or_default())
    }

    /// The posted form.
    pub(crate) fn form(&self) -> Result<Params, OAuthError> {
        if !self.has_content_type(FORM) {
            return Err(OAuthError::invalid_request(format!("The content type must be {FORM}.")));
        }
        let text = str::from_utf8(self.http.body())
            .map_err(|_| OAuthError::invalid_request("The form is not UTF-8."))?;
        Params::parse(text)
    }

    pub(crate) fn has_content_type(&self, expected: &str) -> bool {
        let content_type = header(self.http.headers(), CONTENT_TYPE.as_str());
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case(expected)
    }

    pub(crate) fn cookie(&self, name: &str) -> Option<String> {
        let headers = self.http.headers().get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = headers.flat_map(Cookie::split_parse).filter_map(Result::ok);
        cookies.find(|cookie| cookie.name() == name).map(|cookie| cookie.value().to_owned())
    }

    pub(crate) fn user_agent(&self) -> String {
        let text = header(self.http.headers(), USER_AGENT.as_str());
        text.chars().filter(|c| !c.is_control()).take(USER_AGENT_CHARACTERS_MAX).collect()
    }

    /// Does the browser say that another site sent this? A form of ours is sent without a referrer, and so with the
    /// origin `null`.
    pub(crate) fn is_cross_site(&self, own: &str) -> bool {
        let headers = self.http.headers();
        let site = header(headers, "sec-fetch-site");
        let origin = header(headers, ORIGIN.as_str());
        !matches!(site, "" | "same-origin" | "none") || !(matches!(origin, "" | "null") || origin == own)
    }

    /// The address as rate limits count it: IPv6 by its /64 network, since a household has a whole one.
    pub(crate) fn address_bucket(&self) -> String {
        match self.address.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                format!("{}/64", Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
        }
    }

    /// The /48 network of an IPv6 address: a customer of a provider may have a whole one, and in it 65,536 of the others.
    pub(crate) fn network_bucket(&self) -> Option<String> {
        match self.address.to_canonical() {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => {
                let [a, b, c, ..] = address.segments();
                Some(format!("{}/48", Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)))
            }
        }
    }

    /// Whom the request shares a queue with: the widest bucket of its address.
    pub(crate) fn network(&self) -> String {
        self.network_bucket().unwrap_or_else(|| self.address_bucket())
    }
}

pub(crate) fn header<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The client's address: the last one in `X-Forwarded-For` that a trusted proxy added, read from the end, where only
/// our proxies write. Nobody else's header is believed.
pub fn client_address(peer: IpAddr, headers: &HeaderMap, proxies: &Networks) -> IpAddr {
    let forwarded = headers.get_all("x-forwarded-for").iter();
    let forwarded: Vec<_> = forwarded.flat_map(|value| value.to_str().unwrap_or("?").split(',')).collect();
    let mut address = peer;
    for part in forwarded.into_iter().rev() {
        match forwarded_address(part.trim()) {
            Some(before) if proxies.contains(address) => address = before,
            _ => break,
        }
    }
    address
}

/// An address, with or without a port.
fn forwarded_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_proxies_are_believed() {
        let proxies: Networks = "10.0.0.0/8".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", "1.1.1.1, 9.9.9.9, 10.0.0.7".parse().unwrap());
        let address = |peer: &str| client_address(peer.parse().unwrap(), &headers, &proxies).to_string();
        assert_eq!(address("10.0.0.1"), "9.9.9.9");
        assert_eq!(address("8.8.8.8"), "8.8.8.8");
        for (forged, real) in [
            ("198.51.100.1, x, 203.0.113.9", "203.0.113.9"),
            ("198.51.100.1, 203.0.113.9:4711", "203.0.113.9"),
            ("198.51.100.1, [2001:db8::1]:80", "2001:db8::1"),
            ("203.0.113.9, x", "10.0.0.1"),
            ("", "10.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", forged.parse().unwrap());
            assert_eq!(
                client_address("10.0.0.1".parse().unwrap(), &headers, &proxies).to_string(),
                real,
                "{forged}"
            );
        }
        assert_eq!(
            client_address("10.0.0.1".parse().unwrap(), &HeaderMap::new(), &proxies).to_string(),
            "10.0.0.1"
        );
    }
}

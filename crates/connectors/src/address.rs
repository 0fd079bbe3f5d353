//! Addresses: which hosts a manifest calls, and who chose them.

use http::Method;
use url::Url;

use crate::fault::Fault;
use crate::overrides::BaseUrl;
use crate::path::PathTemplate;
use crate::template::{Part, Root, Template, Variable};
use crate::text::{host_name, is_label};
use crate::values::{Room, Scope};

/// The longest address of a request.
const ADDRESS_BYTES_MAX: usize = 32 * 1024;

/// Where a request goes, by who chose its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    /// One of the manifest's `hosts`.
    Listed,
    /// A host outside of `hosts` that the account chose, by an endpoint's address or a field of the configuration.
    Chosen,
    /// What the operator put in the place of the provider; it may be called.
    Operator,
}

/// Does one of the hosts, or names below one that begins with a dot, have this name?
pub(crate) fn covers(hosts: &[String], name: &str) -> bool {
    hosts.iter().any(|host| match host.strip_prefix('.') {
        Some(_) => name.len() > host.len() && name.ends_with(host.as_str()),
        None => name == host,
    })
}

/// One of a manifest's `hosts`, checked.
pub(crate) fn parse_host(text: &str) -> Result<String, String> {
    let name = text.strip_prefix('.').unwrap_or(text);
    let read = host_name(name)?;
    if read == name { Ok(text.to_owned()) } else { Err(format!("must be written as {read}")) }
}

/// The host of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostTemplate {
    /// Always the same.
    Fixed(String),
    /// A field of the configuration, and what follows it: nothing, or a dot and a domain.
    Field { name: String, suffix: String },
}

/// An address that begins with scheme and host: a base URL, or a URL of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddressTemplate {
    is_plain: bool,
    pub(crate) host: HostTemplate,
    port: Option<u16>,
    pub(crate) path: PathTemplate,
}

impl AddressTemplate {
    /// Reads an address without query and fragment. With http only the operator can let it be called.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (is_plain, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err("must begin with https://".to_owned()),
        };
        let slash = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(parse_port(port)?)),
            None => (authority, None),
        };
        Ok(Self { is_plain, host: HostTemplate::parse(host)?, port, path: PathTemplate::parse(path)? })
    }

    /// Reads an address that paths are appended to.
    pub(crate) fn parse_base(text: &str) -> Result<Self, String> {
        let address = Self::parse(text)?;
        Ok(Self { path: address.path.into_base(), ..address })
    }

    /// Its host, and who chose it.
    pub(crate) fn destination(
        &self,
        scope: &Scope<'_>,
        hosts: &[String],
        base: Option<&BaseUrl>,
    ) -> Result<(String, Destination), Fault> {
        if let Some(base) = base {
            return Ok((base.host().to_owned(), Destination::Operator));
        }
        let host = self.host.render(scope)?;
        let destination = if covers(hosts, &host) { Destination::Listed } else { Destination::Chosen };
        Ok((host, destination))
    }

    /// The address with its own path and `rest`, a path and maybe a query.
    pub(crate) fn render(
        &self,
        scope: &Scope<'_>,
        hosts: &[String],
        base: Option<&BaseUrl>,
        rest: &Rest,
    ) -> Result<(Url, Destination), Fault> {
        let (host, destination) = self.destination(scope, hosts, base)?;
        let path = format!("{}{}", self.path.render(scope, &Room::new(ADDRESS_BYTES_MAX))?, rest.path);
        let own = || {
            let scheme = if self.is_plain { "http" } else { "https" };
            let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
            format!("{scheme}://{host}{port}")
        };
        let origin = base.map_or_else(own, |base| base.prefix().to_owned());
        let query = if rest.query.is_empty() { String::new() } else { format!("?{}", rest.query) };
        let text = format!("{origin}{path}{query}");
        let url = Url::parse(&text).ok().filter(|url| {
            // Whoever reads the address later understands what was meant here.
            let path_is_kept = url.path().ends_with(if path.is_empty() { "/" } else { &path });
            url.host_str() == Some(host.as_str())
                && path_is_kept
                && url.query().unwrap_or_default() == rest.query
        });
        let url = url.filter(|_| text.len() <= ADDRESS_BYTES_MAX);
        url.map(|url| (url, destination)).ok_or_else(|| Fault::new("", "makes no address"))
    }
}

/// What follows a base URL.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    pub(crate) path: String,
    pub(crate) query: String,
}

impl HostTemplate {
    fn parse(text: &str) -> Result<Self, String> {
        let template = Template::parse(text)?;
        match template.parts.as_slice() {
            [Part::Text(host)] => match host_name(host)? {
                read if read == *host => Ok(Self::Fixed(read)),
                read => Err(format!("must have its host written as {read}")),
            },
            [Part::Variable(Variable { root: Root::Config, name })] => {
                Ok(Self::Field { name: name.clone(), suffix: String::new() })
            }
            [Part::Variable(Variable { root: Root::Config, name }), Part::Text(suffix)] => {
                let domain = suffix
                    .strip_prefix('.')
                    .and_then(|domain| host_name(domain).ok().filter(|read| read == domain));
                domain.ok_or("must have a dot and a domain after the first label of its host")?;
                Ok(Self::Field { name: name.clone(), suffix: suffix.clone() })
            }
            _ => Err("must have a host that is fixed, or a field of the configuration".to_owned()),
        }
    }

    /// The name of the host.
    pub(crate) fn render(&self, scope: &Scope<'_>) -> Result<String, Fault> {
        match self {
            Self::Fixed(host) => Ok(host.clone()),
            Self::Field { name, suffix } => {
                let variable = Variable { root: Root::Config, name: name.clone() };
                let value = scope.required(&variable)?;
                host_of(&value, suffix).map_err(|message| Fault::new(variable.field(), message))
            }
        }
    }
}

/// The host that a value of a configuration names.
pub(crate) fn host_of(value: &str, suffix: &str) -> Result<String, String> {
    if suffix.is_empty() {
        return host_name(value);
    }
    let label = value.to_ascii_lowercase();
    if is_label(&label) {
        Ok(format!("{label}{suffix}"))
    } else {
        Err(format!("must be what stands before {suffix}"))
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0 && !text.starts_with(['+', '0']));
    port.ok_or_else(|| "must have a port from 1 to 65535, or none".to_owned())
}

/// The methods that a request can have.
pub(crate) const METHODS: [(&str, Method); 5] = [
    ("GET", Method::GET),
    ("POST", Method::POST),
    ("PUT", Method::PUT),
    ("PATCH", Method::PATCH),
    ("DELETE", Method::DELETE),
];

/// A method by its name.
pub(crate) fn parse_method(name: &str) -> Option<Method> {
    METHODS.into_iter().find(|(known, _)| *known == name).map(|(_, method)| method)
}

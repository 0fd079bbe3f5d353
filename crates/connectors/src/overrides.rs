//! What an operator puts in the place of providers.

use std::collections::BTreeMap;

use url::Url;

use crate::text::{is_connector_id, shown};

/// What stands in the place of scheme and host of every URL of a connector; paths are appended to its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    url: Url,
    /// Scheme, host, port and path, without a slash at the end.
    prefix: String,
}

impl BaseUrl {
    /// Reads an address: http or https, a host, maybe a port and a path, and nothing else.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refusal = || format!("{} is not the address of a provider", shown(text));
        let url = Url::parse(text).map_err(|_| refusal())?;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() || !is_plain {
            return Err(refusal());
        }
        let prefix = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { url, prefix })
    }

    /// Its host.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }
}

/// The operator's addresses by connector: `github=http://127.0.0.1:9000/gh,gitlab=…`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides(BTreeMap<String, BaseUrl>);

impl Overrides {
    /// Reads the configuration; empty text has none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut found = BTreeMap::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (id, url) = entry.split_once('=').ok_or_else(|| format!("{} has no =", shown(entry)))?;
            let (id, url) = (id.trim(), url.trim());
            if !is_connector_id(id) {
                return Err(format!("{} is not the id of a connector", shown(id)));
            }
            if found.insert(id.to_owned(), BaseUrl::parse(url)?).is_some() {
                return Err(format!("{id} is given twice"));
            }
        }
        Ok(Self(found))
    }

    /// The address for a connector.
    pub fn get(&self, connector: &str) -> Option<&BaseUrl> {
        self.0.get(connector)
    }

    /// The ids of the connectors that have an address.
    pub fn connectors(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_by_connector() {
        let read =
            Overrides::parse(" github=http://127.0.0.1:9000/gh , gitlab = https://mock.example/ ,").unwrap();
        assert_eq!(read.get("github").unwrap().prefix(), "http://127.0.0.1:9000/gh");
        assert_eq!(read.get("gitlab").unwrap().prefix(), "https://mock.example");
        assert_eq!(read.get("gitlab").unwrap().host(), "mock.example");
        assert_eq!(read.get("slack"), None);
        assert_eq!(Overrides::parse("").unwrap(), Overrides::default());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in [
            "github",
            "=http://a.b",
            "github=",
            "github=ftp://a.b",
            "github=http://a.b?x",
            "github=http://a.b#x",
            "github=http://u@a.b",
            "github=http://a.b,github=http://a.c",
            "Git Hub=http://a.b",
            "github=//a.b",
        ] {
            assert!(Overrides::parse(bad).is_err(), "{bad}");
        }
    }
}

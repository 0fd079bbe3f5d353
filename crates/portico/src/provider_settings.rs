//! What the operator says of connections to outside providers.

use std::collections::BTreeMap;

use portico_connections::{ChosenHosts, ConnectionsSettings, OAuthClient, Overrides};
use portico_kernel::Secret;

use crate::config::ConfigError;
use crate::settings::Settings;

/// What the operator says of connections to outside providers, and how it was written.
#[derive(Debug, Clone, Default)]
pub struct ProviderSettings {
    /// What is used.
    pub used: ConnectionsSettings,
    base_urls: String,
    hosts: String,
}

/// `connector=CLIENT_ID:SECRET` with commas between them. A secret may hold colons.
fn oauth_clients(text: &str) -> Result<BTreeMap<String, OAuthClient>, ConfigError> {
    let mut clients = BTreeMap::new();
    for client in text.split(',').map(str::trim).filter(|client| !client.is_empty()) {
        // Nothing of it is repeated: it holds a secret.
        let malformed =
            || ConfigError("connections_oauth_clients must be connector=CLIENT_ID:SECRET,…".to_owned());
        let (connector, client) = client.split_once('=').ok_or_else(malformed)?;
        let (id, secret) = client.split_once(':').ok_or_else(malformed)?;
        if connector.is_empty() || id.is_empty() {
            return Err(malformed());
        }
        if !portico_connections::has_sign_in(connector) {
            let message = format!("connections_oauth_clients: people do not sign in at {connector:?}");
            return Err(ConfigError(message));
        }
        let client = OAuthClient { id: id.to_owned(), secret: Secret::new(secret.to_owned()) };
        if clients.insert(connector.to_owned(), client).is_some() {
            return Err(ConfigError(format!("connections_oauth_clients names {connector} twice")));
        }
    }
    Ok(clients)
}

/// What stands in the place of connectors, each of which there is.
fn overrides(text: &str) -> Result<Overrides, ConfigError> {
    let refused = |error: String| ConfigError(format!("connections_base_urls: {error}"));
    let overrides = Overrides::parse(text).map_err(refused)?;
    // Of one that is misspelled, the real provider would be called.
    let unknown = overrides.connectors().find(|connector| !portico_connections::is_connector(connector));
    match unknown {
        Some(connector) => Err(refused(format!("there is no connector {connector:?}"))),
        None => Ok(overrides),
    }
}

impl ProviderSettings {
    /// What the keys say, checked.
    pub(crate) fn of(settings: &Settings) -> Result<Self, ConfigError> {
        let clients = settings.connections_oauth_clients.as_deref();
        Self::read(settings.connections_base_urls.clone(), clients, settings.connections_hosts.clone())
    }

    /// Checks what stands in the place of providers, the OAuth clients, and the hosts that accounts may choose.
    pub fn read(
        base_urls: Option<String>,
        clients: Option<&str>,
        hosts: Option<String>,
    ) -> Result<Self, ConfigError> {
        let (addresses, hosts) = (base_urls.unwrap_or_default(), hosts.unwrap_or_default());
        let refused = |error: String| ConfigError(format!("connections_hosts: {error}"));
        let used = ConnectionsSettings {
            console_url: String::new(),
            base_urls: overrides(&addresses)?,
            oauth_clients: oauth_clients(clients.unwrap_or_default())?,
            hosts: ChosenHosts::parse(&hosts).map_err(refused)?,
        };
        Ok(Self { used, base_urls: addresses, hosts })
    }

    /// The keys and what was decided, for a person; secrets are left out.
    pub(crate) fn describe(&self) -> [(&'static str, String); 3] {
        let clients =
            self.used.oauth_clients.iter().map(|(connector, client)| format!("{connector}={}:…", client.id));
        [
            ("connections_base_urls", self.base_urls.clone()),
            ("connections_oauth_clients", clients.collect::<Vec<_>>().join(",")),
            ("connections_hosts", self.hosts.clone()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_read_and_their_secrets_are_not_shown() {
        let read = |clients: &str| ProviderSettings::read(None, Some(clients), None);
        let settings = read("gitlab=app-1:s3cr:et, linear=app-2:other").unwrap();
        assert_eq!(settings.used.oauth_clients["gitlab"].secret.expose(), "s3cr:et");
        let described = format!("{:?} {settings:?}", settings.describe());
        assert!(described.contains("gitlab=app-1:…,linear=app-2:…"), "{described}");
        for secret in ["s3cr", "other"] {
            assert!(!described.contains(secret), "{described}");
        }
        for bad in
            ["gitlab", "gitlab=app", "=app:secret", "gitlab=:x", "nowhere=a:b", "gitlab=a:b,gitlab=c:d"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_and_hosts_are_checked() {
        let read = |urls: &str, hosts: &str| {
            ProviderSettings::read(Some(urls.to_owned()), None, Some(hosts.to_owned()))
        };
        assert!(read("github=http://127.0.0.1:9000/gh", "api.example.com,.example.org").is_ok());
        assert!(read("github", "").is_err());
        let unknown = read("gitlab=http://127.0.0.1:9000/gl,gitlb=http://127.0.0.1:9000/gl", "").unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "configuration: connections_base_urls: there is no connector \"gitlb\""
        );
        assert!(read("", "https://example.com").is_err());
    }
}

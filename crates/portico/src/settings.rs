//! The keys of the configuration: one file, the environment and flags, all with the same keys.
//!
//! [`Settings`] is the one list of keys. Its fields are the keys of the file, `--flags` of every command, and, in
//! capitals behind `PORTICO_`, variables of the environment; a flag wins over the environment, and that over the file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use clap::Args;
use portico_kernel::PlanTerms;
use serde::Deserialize;

use crate::blob_settings::S3Table;
use crate::brand_settings::BrandTable;
use crate::config::ConfigError;
use crate::services::ServiceTable;

/// The keys. Each may stand in the file, the environment or a flag; without any of them the server runs.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[command(next_help_heading = "Configuration")]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// A TOML file with these keys.
    #[arg(long, env = "PORTICO_CONFIG", global = true, value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// The folder for the database and the keyring [default: ./data]
    #[arg(long, env = "PORTICO_DATA_DIR", global = true, value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    /// `postgres://…`, or `sqlite:FILE` [default: SQLite in the data folder]
    #[arg(long, env = "PORTICO_DATABASE_URL", global = true, value_name = "URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// The file with the keys that seal secrets, the same for all servers of a database [default: `keyring` in the
    /// data folder]
    #[arg(long, env = "PORTICO_KEYRING_FILE", global = true, value_name = "FILE")]
    pub keyring_file: Option<PathBuf>,
    /// The address at which callers reach the API [default: where it listens]
    #[arg(long, env = "PORTICO_BASE_URL", global = true, value_name = "URL")]
    pub base_url: Option<String>,
    /// The address at which callers reach the identity provider; the issuer of tokens [default: where it listens]
    #[arg(long, env = "PORTICO_AUTH_URL", global = true, value_name = "URL")]
    pub auth_url: Option<String>,
    /// The address of the console, whose pages may call the API [default: where it listens]
    #[arg(long, env = "PORTICO_CONSOLE_URL", global = true, value_name = "URL")]
    pub console_url: Option<String>,
    /// Other origins whose pages may call the API, with commas between them
    #[arg(long, env = "PORTICO_ALLOW_ORIGINS", global = true, value_name = "ORIGINS")]
    pub allow_origins: Option<String>,
    /// Networks of proxies whose `X-Forwarded-For` is believed, with commas between them [default: none]
    #[arg(long, env = "PORTICO_TRUSTED_PROXIES", global = true, value_name = "NETWORKS")]
    pub trusted_proxies: Option<String>,
    /// How many connections there may be at once [default: 20000, or what the files that the process may open allow]
    #[arg(long, env = "PORTICO_MAX_CONNECTIONS", global = true, value_name = "NUMBER")]
    pub max_connections: Option<usize>,
    /// How many of them may come from one IPv4 address or one IPv6 network of 64 bits [default: 5000]
    #[arg(long, env = "PORTICO_MAX_CONNECTIONS_PER_ADDRESS", global = true, value_name = "NUMBER")]
    pub max_connections_per_address: Option<usize>,
    /// How many of them may be of clients that act in one account; idle ones give way [default: 2000]
    #[arg(long, env = "PORTICO_MAX_CONNECTIONS_PER_ACCOUNT", global = true, value_name = "NUMBER")]
    pub max_connections_per_account: Option<usize>,
    /// How many days after a person let an app in its refresh tokens end, however often they were used [default: 90]
    #[arg(long, env = "PORTICO_REFRESH_TOKEN_DAYS", global = true, value_name = "DAYS")]
    pub refresh_token_days: Option<u16>,
    /// How many teams on the first plan one person may own [default: 5]
    #[arg(long, env = "PORTICO_FREE_TEAMS_PER_PERSON", global = true, value_name = "NUMBER")]
    pub free_teams_per_person: Option<u16>,
    /// Networks that outgoing calls may reach beside the public ones, also without TLS, with commas between them; for
    /// development [default: none]
    #[arg(long, env = "PORTICO_EGRESS_ALLOW", global = true, value_name = "NETWORKS")]
    pub egress_allow: Option<String>,
    /// Root certificates that outgoing calls trust beside the public ones, as PEM [default: none]
    #[arg(long, env = "PORTICO_EGRESS_CA_FILE", global = true, value_name = "FILE")]
    pub egress_ca_file: Option<PathBuf>,
    /// The name servers that outgoing calls ask, such as 10.0.0.53:53, with commas between them [default: the system's]
    #[arg(long, env = "PORTICO_EGRESS_NAME_SERVERS", global = true, value_name = "HOST:PORT,…")]
    pub egress_name_servers: Option<String>,
    /// Resolvers that are asked how the world sees the records of domains, 1 to 8, such as 9.9.9.9:53, with commas between
    /// them [default: 1.1.1.1:53,8.8.8.8:53,9.9.9.9:53,208.67.222.222:53]
    #[arg(long, env = "PORTICO_DNS_RESOLVERS", global = true, value_name = "HOST:PORT,…")]
    pub dns_resolvers: Option<String>,
    /// The port at which the name servers of domains themselves are asked; 0 asks none of them, others are for tests
    /// [default: 53]
    #[arg(long, env = "PORTICO_DNS_AUTHORITATIVE_PORT", global = true, value_name = "PORT")]
    pub dns_authoritative_port: Option<u16>,
    /// What stands in the place of providers of connections, such as `github=http://127.0.0.1:9000/gh`, with commas between
    /// them; for tests and for provider's own installations [default: none]
    #[arg(long, env = "PORTICO_CONNECTIONS_BASE_URLS", global = true, value_name = "CONNECTOR=URL,…")]
    pub connections_base_urls: Option<String>,
    /// The OAuth clients with which people sign in at providers, such as `gitlab=CLIENT_ID:SECRET`, with commas between them
    /// [default: none]
    #[arg(
        long,
        env = "PORTICO_CONNECTIONS_OAUTH_CLIENTS",
        global = true,
        value_name = "CONNECTOR=ID:SECRET,…",
        hide_env_values = true
    )]
    pub connections_oauth_clients: Option<String>,
    /// Hosts beside those of its verified domains that every account may connect, such as `.example.com`, with commas between
    /// them; `*` for any [default: none]
    #[arg(long, env = "PORTICO_CONNECTIONS_HOSTS", global = true, value_name = "HOSTS")]
    pub connections_hosts: Option<String>,
    /// The server that sends mail, such as `smtps://user:password@mail.example`; without one, links are shown instead
    #[arg(long, env = "PORTICO_SMTP_URL", global = true, value_name = "URL", hide_env_values = true)]
    pub smtp_url: Option<String>,
    /// The sender of mail, such as "Acme <api@acme.example>"
    #[arg(long, env = "PORTICO_MAIL_FROM", global = true, value_name = "ADDRESS")]
    pub mail_from: Option<String>,
    /// Where the API listens; empty turns it off [default: 127.0.0.1:8080]
    #[arg(long, env = "PORTICO_LISTEN_API", global = true, value_name = "HOST:PORT")]
    pub listen_api: Option<String>,
    /// Where the identity provider listens; empty turns it off [default: localhost:8081]
    #[arg(long, env = "PORTICO_LISTEN_AUTH", global = true, value_name = "HOST:PORT")]
    pub listen_auth: Option<String>,
    /// Where the console listens; empty turns it off [default: localhost:8082]
    #[arg(long, env = "PORTICO_LISTEN_CONSOLE", global = true, value_name = "HOST:PORT")]
    pub listen_console: Option<String>,
    /// Where MQTT listens, without TLS; empty turns it off [default: 127.0.0.1:1883]
    #[arg(long, env = "PORTICO_LISTEN_MQTT", global = true, value_name = "HOST:PORT")]
    pub listen_mqtt: Option<String>,
    /// The certificate of the listeners that have none of their own and those above it, as PEM; without one they speak no TLS
    /// [default: none]
    #[arg(long, env = "PORTICO_TLS_CERTIFICATE", global = true, value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,
    /// The key of that certificate, as PEM [default: none]
    #[arg(long, env = "PORTICO_TLS_KEY", global = true, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// The certificate of the identity provider, where it has its own [default: `tls_certificate`]
    #[arg(long, env = "PORTICO_AUTH_TLS_CERTIFICATE", global = true, value_name = "FILE")]
    pub auth_tls_certificate: Option<PathBuf>,
    /// The key of that certificate, as PEM [default: `tls_key`]
    #[arg(long, env = "PORTICO_AUTH_TLS_KEY", global = true, value_name = "FILE")]
    pub auth_tls_key: Option<PathBuf>,
    /// The certificate of the console, where it has its own [default: `tls_certificate`]
    #[arg(long, env = "PORTICO_CONSOLE_TLS_CERTIFICATE", global = true, value_name = "FILE")]
    pub console_tls_certificate: Option<PathBuf>,
    /// The key of that certificate, as PEM [default: `tls_key`]
    #[arg(long, env = "PORTICO_CONSOLE_TLS_KEY", global = true, value_name = "FILE")]
    pub console_tls_key: Option<PathBuf>,
    /// Where MQTT listens with TLS, once there is a certificate; empty turns it off [default: 0.0.0.0:8883]
    #[arg(long, env = "PORTICO_LISTEN_MQTTS", global = true, value_name = "HOST:PORT")]
    pub listen_mqtts: Option<String>,
    /// The certificate of MQTT with TLS, where it has its own [default: `tls_certificate`]
    #[arg(long, env = "PORTICO_MQTT_TLS_CERTIFICATE", global = true, value_name = "FILE")]
    pub mqtt_tls_certificate: Option<PathBuf>,
    /// The key of that certificate, as PEM [default: `tls_key`]
    #[arg(long, env = "PORTICO_MQTT_TLS_KEY", global = true, value_name = "FILE")]
    pub mqtt_tls_key: Option<PathBuf>,
    /// Where Prometheus finds the metrics; empty turns it off [default: 127.0.0.1:8083]
    #[arg(long, env = "PORTICO_LISTEN_METRICS", global = true, value_name = "HOST:PORT")]
    pub listen_metrics: Option<String>,
    /// The least level that is logged: error, warn, info, debug or trace [default: info]
    #[arg(long, env = "PORTICO_LOG", global = true, value_name = "LEVEL")]
    pub log: Option<String>,
    /// How the log is written: text or json [default: text]
    #[arg(long, env = "PORTICO_LOG_FORMAT", global = true, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Where uploads are kept: `files` in the data folder, or `s3` [default: files]
    #[arg(long, env = "PORTICO_BLOBS", global = true, value_name = "KIND")]
    pub blobs: Option<String>,
    /// The service for `blobs = "s3"`. It stands in the file alone.
    #[arg(skip)]
    pub s3: Option<S3Table>,
    /// What this installation is called, and how it looks. It stands in the file alone.
    #[arg(skip)]
    pub brand: Option<BrandTable>,
    /// What accounts may spend, a table for each plan. They stand in the file alone.
    #[arg(skip)]
    pub plans: Option<BTreeMap<String, PlanTerms>>,
    /// A company's own services, a table for each. They stand in the file alone.
    #[arg(skip)]
    pub services: Option<BTreeMap<String, ServiceTable>>,
}

/// Sets each key of `$into` that is `None`. A key that is forgotten here does not compile.
macro_rules! fill {
    ($into:ident, $from:ident, $($key:ident)+) => {
        let Settings { config: _, $($key),+ } = $from;
        $($into.$key = $into.$key.or($key);)+
    };
}

impl Settings {
    /// These settings, with the file's where they say nothing.
    pub(crate) fn with_file(mut self) -> Result<Self, ConfigError> {
        let Some(path) = &self.config else { return Ok(self) };
        let named = |error: &dyn fmt::Display| ConfigError(format!("{}: {error}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| named(&error))?;
        let file: Self = toml::from_str(&text).map_err(|error| named(&error))?;
        fill!(self, file, data_dir database_url keyring_file base_url auth_url console_url allow_origins trusted_proxies
            refresh_token_days free_teams_per_person max_connections max_connections_per_address
            max_connections_per_account egress_allow egress_ca_file egress_name_servers dns_resolvers dns_authoritative_port
            connections_base_urls connections_oauth_clients connections_hosts
            smtp_url mail_from listen_api
            listen_auth listen_console tls_certificate tls_key auth_tls_certificate auth_tls_key console_tls_certificate console_tls_key
            listen_mqtt listen_mqtts mqtt_tls_certificate mqtt_tls_key listen_metrics log log_format blobs s3 brand plans services);
        Ok(self)
    }
}

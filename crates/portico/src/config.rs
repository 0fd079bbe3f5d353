//! Configuration: one file, the environment and flags, all with the same keys.
//!
//! [`Settings`] is the one list of keys. Its fields are the keys of the file, `--flags` of every command, and, in
//! capitals behind `PORTICO_`, variables of the environment; a flag wins over the environment, and that over the file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use clap::Args;
use portico_egress::Networks;
use portico_gateway::Origins;
use portico_kernel::{Plan, PlanTerms, Plans, Timestamp};
use portico_mail::Smtp;
use serde::Deserialize;

use crate::blob_settings::S3Table;
use crate::{BlobSettings, Environment};

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
    /// The address of the console, whose pages may call the API [default: port 8082 here]
    #[arg(long, env = "PORTICO_CONSOLE_URL", global = true, value_name = "URL")]
    pub console_url: Option<String>,
    /// Other origins whose pages may call the API, with commas between them
    #[arg(long, env = "PORTICO_ALLOW_ORIGINS", global = true, value_name = "ORIGINS")]
    pub allow_origins: Option<String>,
    /// Networks of proxies whose `X-Forwarded-For` is believed, with commas between them [default: none]
    #[arg(long, env = "PORTICO_TRUSTED_PROXIES", global = true, value_name = "NETWORKS")]
    pub trusted_proxies: Option<String>,
    /// Networks that outgoing calls may reach beside the public ones, also without TLS, with commas between them; for
    /// development [default: none]
    #[arg(long, env = "PORTICO_EGRESS_ALLOW", global = true, value_name = "NETWORKS")]
    pub egress_allow: Option<String>,
    /// The name servers that outgoing calls ask, such as 10.0.0.53:53, with commas between them [default: the system's]
    #[arg(long, env = "PORTICO_EGRESS_NAME_SERVERS", global = true, value_name = "HOST:PORT,…")]
    pub egress_name_servers: Option<String>,
    /// The server that sends mail, such as `smtps://user:password@mail.example`; without one, links are shown instead
    #[arg(long, env = "PORTICO_SMTP_URL", global = true, value_name = "URL", hide_env_values = true)]
    pub smtp_url: Option<String>,
    /// The sender of mail, such as "Acme <api@acme.example>"
    #[arg(long, env = "PORTICO_MAIL_FROM", global = true, value_name = "ADDRESS")]
    pub mail_from: Option<String>,
    /// Where the API listens; empty turns it off [default: 127.0.0.1:8080]
    #[arg(long, env = "PORTICO_LISTEN_API", global = true, value_name = "HOST:PORT")]
    pub listen_api: Option<String>,
    /// Where the identity provider listens; empty turns it off [default: 127.0.0.1:8081]
    #[arg(long, env = "PORTICO_LISTEN_AUTH", global = true, value_name = "HOST:PORT")]
    pub listen_auth: Option<String>,
    /// Where MQTT listens, without TLS; empty turns it off [default: 127.0.0.1:1883]
    #[arg(long, env = "PORTICO_LISTEN_MQTT", global = true, value_name = "HOST:PORT")]
    pub listen_mqtt: Option<String>,
    /// Where MQTT listens with TLS, once there is a certificate; empty turns it off [default: 0.0.0.0:8883]
    #[arg(long, env = "PORTICO_LISTEN_MQTTS", global = true, value_name = "HOST:PORT")]
    pub listen_mqtts: Option<String>,
    /// The certificate of MQTT with TLS and those above it, as PEM [default: none]
    #[arg(long, env = "PORTICO_MQTT_TLS_CERTIFICATE", global = true, value_name = "FILE")]
    pub mqtt_tls_certificate: Option<PathBuf>,
    /// The key of that certificate, as PEM [default: none]
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
    /// What accounts may spend, a table for each plan. They stand in the file alone.
    #[arg(skip)]
    pub plans: Option<BTreeMap<String, PlanTerms>>,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines, one object a line.
    Json,
}

/// The configuration of the process, with a value for every key.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folder for the database and the keyring.
    pub data_dir: PathBuf,
    /// The database.
    pub database_url: String,
    /// The keyring.
    pub keyring_file: PathBuf,
    /// What the areas are told.
    pub environment: Environment,
    /// Origins beside the console's whose pages may call the API.
    pub allow_origins: Vec<String>,
    /// Where the API listens.
    pub listen_api: Option<String>,
    /// Where the identity provider listens.
    pub listen_auth: Option<String>,
    /// Where MQTT listens, without TLS.
    pub listen_mqtt: Option<String>,
    /// Where MQTT listens with TLS, and with what.
    pub mqtts: Option<Mqtts>,
    /// Where the metrics are.
    pub listen_metrics: Option<String>,
    /// The least level that is logged.
    pub log: tracing::Level,
    /// How it is written.
    pub log_format: LogFormat,
    /// What accounts may spend.
    pub plans: Plans,
}

/// MQTT with TLS.
#[derive(Debug, Clone)]
pub struct Mqtts {
    /// Where it listens.
    pub listen: String,
    /// The file with the certificate and those above it.
    pub certificate: PathBuf,
    /// The file with its key.
    pub key: PathBuf,
}

/// Why the configuration cannot be used.
#[derive(Debug)]
pub struct ConfigError(pub(crate) String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration: {}", self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Sets each key of `$into` that is `None`. A key that is forgotten here does not compile.
macro_rules! fill {
    ($into:ident, $from:ident, $($key:ident)+) => {
        let Settings { config: _, $($key),+ } = $from;
        $($into.$key = $into.$key.or($key);)+
    };
}

impl Settings {
    /// These settings, with the file's where they say nothing.
    fn with_file(mut self) -> Result<Self, ConfigError> {
        let Some(path) = &self.config else { return Ok(self) };
        let named = |error: &dyn fmt::Display| ConfigError(format!("{}: {error}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| named(&error))?;
        let file: Self = toml::from_str(&text).map_err(|error| named(&error))?;
        fill!(self, file, data_dir database_url keyring_file base_url auth_url console_url allow_origins trusted_proxies
            egress_allow egress_name_servers smtp_url mail_from listen_api
            listen_auth listen_mqtt listen_mqtts mqtt_tls_certificate mqtt_tls_key listen_metrics log log_format blobs s3 plans);
        Ok(self)
    }
}

pub(crate) fn url(name: &str, value: String) -> Result<String, ConfigError> {
    let host = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://")).unwrap_or_default();
    if host.is_empty()
        || host.ends_with('/')
        || value.contains(|c: char| c.is_whitespace() || c == '?' || c == '#')
    {
        let message =
            format!("{name} must be an http or https address without a slash at its end, not {value:?}");
        return Err(ConfigError(message));
    }
    Ok(value)
}

/// An address that has a host and no path: its cookies are for the whole of it.
fn origin(name: &str, value: String) -> Result<String, ConfigError> {
    let value = url(name, value)?;
    if value.splitn(4, '/').count() > 3 {
        return Err(ConfigError(format!("{name} must have no path, not {value:?}")));
    }
    Ok(value)
}

fn networks(name: &str, value: Option<String>) -> Result<Networks, ConfigError> {
    value.unwrap_or_default().parse().map_err(|error| ConfigError(format!("{name}: {error}")))
}

fn smtp(url: Option<String>, from: Option<String>) -> Result<Option<Smtp>, ConfigError> {
    match (url.filter(|url| !url.is_empty()), from.filter(|from| !from.is_empty())) {
        (None, None) => Ok(None),
        (Some(url), Some(from)) => Ok(Some(Smtp { url, from })),
        _ => Err(ConfigError("smtp_url and mail_from go together".to_owned())),
    }
}

/// MQTT with TLS; `None` without a certificate, or when it is turned off.
fn mqtts(
    address: Option<String>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Result<Option<Mqtts>, ConfigError> {
    let named = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
    let (certificate, key) = match (named(certificate), named(key)) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) => return Ok(None),
        _ => return Err(ConfigError("mqtt_tls_certificate and mqtt_tls_key go together".to_owned())),
    };
    let listen = listen("listen_mqtts", address, "0.0.0.0:8883")?;
    Ok(listen.map(|listen| Mqtts { listen, certificate, key }))
}

/// A listener's address; `None` when it is turned off.
fn listen(name: &str, value: Option<String>, default: &str) -> Result<Option<String>, ConfigError> {
    let value = value.unwrap_or_else(|| default.to_owned());
    if value.is_empty() {
        return Ok(None);
    }
    match value.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Some(value)),
        _ => Err(ConfigError(format!("{name} must be host:port, not {value:?}"))),
    }
}

impl Config {
    /// Reads the file, and gives every key its value.
    pub fn load(settings: Settings) -> Result<Self, ConfigError> {
        let written_at = settings.config.as_deref().map(written_at).unwrap_or_default();
        let settings = settings.with_file()?;
        let plans = Plans::default().configured(settings.plans.unwrap_or_default(), &written_at);
        let data_dir = settings.data_dir.unwrap_or_else(|| PathBuf::from("data"));
        let listen_api = listen("listen_api", settings.listen_api, "127.0.0.1:8080")?;
        let listen_auth = listen("listen_auth", settings.listen_auth, "127.0.0.1:8081")?;
        let here = |listen: &Option<String>| format!("http://{}", listen.as_deref().unwrap_or("127.0.0.1"));
        let console_url =
            url("console_url", settings.console_url.unwrap_or_else(|| "http://127.0.0.1:8082".to_owned()))?;
        let others = settings.allow_origins.unwrap_or_default();
        let others = others.split(',').map(str::trim).filter(|origin| !origin.is_empty());
        let allow_origins =
            others.map(|origin| url("allow_origins", origin.to_owned())).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            database_url: settings.database_url.unwrap_or_else(|| sqlite_in(&data_dir)),
            keyring_file: settings.keyring_file.unwrap_or_else(|| data_dir.join("keyring")),
            environment: Environment {
                base_url: url("base_url", settings.base_url.unwrap_or_else(|| here(&listen_api)))?,
                auth_url: origin("auth_url", settings.auth_url.unwrap_or_else(|| here(&listen_auth)))?,
                console_url,
                trusted_proxies: networks("trusted_proxies", settings.trusted_proxies)?,
                egress_allow: networks("egress_allow", settings.egress_allow)?,
                egress_name_servers: name_servers(&settings.egress_name_servers.unwrap_or_default())?,
                smtp: smtp(settings.smtp_url, settings.mail_from)?,
                journal: data_dir.join("journal"),
                blobs: BlobSettings::read(settings.blobs.as_deref(), settings.s3, &data_dir)?,
            },
            allow_origins,
            listen_mqtt: listen("listen_mqtt", settings.listen_mqtt, "127.0.0.1:1883")?,
            mqtts: mqtts(settings.listen_mqtts, settings.mqtt_tls_certificate, settings.mqtt_tls_key)?,
            listen_metrics: listen("listen_metrics", settings.listen_metrics, "127.0.0.1:8083")?,
            log: level(settings.log.as_deref().unwrap_or("info"))?,
            log_format: format(settings.log_format.as_deref().unwrap_or("text"))?,
            plans: plans.map_err(|error| ConfigError(error.to_string()))?,
            data_dir,
            listen_api,
            listen_auth,
        })
    }

    /// The origins whose pages may call the API.
    pub fn origins(&self) -> Origins {
        self.allow_origins.iter().chain([&self.environment.console_url]).cloned().collect()
    }

    /// The keys and what was decided, for a person; a password in the database's address is left out.
    pub fn describe(&self) -> String {
        let environment = &self.environment;
        let listen = |listen: &Option<String>| listen.clone().unwrap_or_else(|| "off".to_owned());
        let file = |path: Option<&PathBuf>| path.map(|path| path.display().to_string()).unwrap_or_default();
        [
            ("data_dir", self.data_dir.display().to_string()),
            ("database_url", without_password(&self.database_url)),
            ("keyring_file", self.keyring_file.display().to_string()),
            ("base_url", environment.base_url.clone()),
            ("auth_url", environment.auth_url.clone()),
            ("console_url", environment.console_url.clone()),
            ("allow_origins", self.allow_origins.join(",")),
            ("trusted_proxies", environment.trusted_proxies.to_string()),
            ("egress_allow", environment.egress_allow.to_string()),
            ("egress_name_servers", listed(&environment.egress_name_servers)),
            (
                "smtp_url",
                environment.smtp.as_ref().map(|smtp| without_password(&smtp.url)).unwrap_or_default(),
            ),
            ("mail_from", environment.smtp.as_ref().map(|smtp| smtp.from.clone()).unwrap_or_default()),
            ("listen_api", listen(&self.listen_api)),
            ("listen_auth", listen(&self.listen_auth)),
            ("listen_mqtt", listen(&self.listen_mqtt)),
            ("listen_mqtts", listen(&self.mqtts.as_ref().map(|mqtts| mqtts.listen.clone()))),
            ("mqtt_tls_certificate", file(self.mqtts.as_ref().map(|mqtts| &mqtts.certificate))),
            ("mqtt_tls_key", file(self.mqtts.as_ref().map(|mqtts| &mqtts.key))),
            ("listen_metrics", listen(&self.listen_metrics)),
            ("blobs", environment.blobs.to_string()),
            ("log", self.log.to_string().to_lowercase()),
            ("log_format", format!("{:?}", self.log_format).to_lowercase()),
        ]
        .map(|(key, value)| format!("{key} = {value:?}"))
        .into_iter()
        .chain(self.plans.iter().map(describe_plan))
        .collect::<Vec<_>>()
        .join("\n")
    }
}

fn describe_plan(plan: &Plan) -> String {
    format!(
        "plans.{}: monthly_units = {}, calls_per_minute = {}, at_zero = {:?}",
        plan.name,
        plan.monthly_units,
        plan.calls_per_minute,
        plan.at_zero.name()
    )
}

/// When the file was last changed; empty when that is not known.
fn written_at(file: &Path) -> String {
    let modified = fs::metadata(file).and_then(|file| file.modified()).ok();
    let since = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map(|since| (Timestamp::from_seconds(0) + since).to_string()).unwrap_or_default()
}

fn sqlite_in(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("portico.db").display())
}

fn listed(servers: &[SocketAddr]) -> String {
    servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn name_servers(text: &str) -> Result<Vec<SocketAddr>, ConfigError> {
    let servers = text.split(',').map(str::trim).filter(|server| !server.is_empty());
    let parse = |server: &str| {
        let message = "egress_name_servers must be addresses with ports, such as 10.0.0.53:53";
        server.parse().map_err(|_| ConfigError(format!("{message}, not {server:?}")))
    };
    servers.map(parse).collect()
}

fn level(name: &str) -> Result<tracing::Level, ConfigError> {
    name.parse()
        .map_err(|_| ConfigError(format!("log must be error, warn, info, debug or trace, not {name:?}")))
}

fn format(name: &str) -> Result<LogFormat, ConfigError> {
    match name {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(ConfigError(format!("log_format must be text or json, not {other:?}"))),
    }
}

/// The address without what only its owner may know: no password, and no parameters, which may hold one too.
fn without_password(url: &str) -> String {
    let url = url.split('?').next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let Some((user, host)) = rest.rsplit_once('@') else { return url.to_owned() };
    format!("{scheme}://{}@{host}", user.split(':').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Result<Settings, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn it_runs_without_any_key() {
        let config = Config::load(Settings::default()).unwrap();
        assert_eq!(config.database_url, "sqlite:data/portico.db");
        assert_eq!(config.environment.base_url, "http://127.0.0.1:8080");
        assert_eq!(config.environment.auth_url, "http://127.0.0.1:8081");
    }

    #[test]
    fn unknown_keys_and_bad_values_refuse_to_start() {
        assert!(file("data_dir = \"x\"\nlisten_apj = \"y\"").is_err());
        assert!(file("data_dir = 5").is_err());
        for bad in [
            "listen_api = \"8080\"",
            "base_url = \"example.com\"",
            "auth_url = \"https://a.b/\"",
            "log = \"loud\"",
            "mqtt_tls_key = \"key.pem\"",
        ] {
            assert!(Config::load(file(bad).unwrap()).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_empty_value_turns_a_listener_off_and_passwords_are_not_shown() {
        let config =
            Config::load(file("listen_metrics = \"\"\ndatabase_url = \"postgres://u:secret@h/db\"").unwrap())
                .unwrap();
        assert_eq!(config.listen_metrics, None);
        assert!(!config.describe().contains("secret"));
        assert_eq!(without_password("postgres://h/db?user=u&password=secret"), "postgres://h/db");
    }
}

//! The configuration of the process: what the [`Settings`] say, checked, and a value for what they leave out.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use portico_accounts::FreeTeamsPerPerson;
use portico_gateway::{ConsoleSettings, Origins};
use portico_identity::RefreshTokenDays;
use portico_kernel::{Plan, Plans, Timestamp};
use portico_mail::Smtp;

use crate::egress_settings::{listed, name_servers, networks, trusted_roots};
use crate::services::{SERVICES_MAX, ServiceSettings, ServiceTable};
use crate::settings::Settings;
use crate::tls_settings::{TlsFiles, TlsSettings};
use crate::{BlobSettings, DnsSettings, Environment, ProviderSettings, brand_settings, file_limit};

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
    /// Where the console listens.
    pub listen_console: Option<String>,
    /// Where MQTT listens, without TLS.
    pub listen_mqtt: Option<String>,
    /// Where MQTT listens with TLS, if there is a certificate.
    pub listen_mqtts: Option<String>,
    /// The certificates of the listeners.
    pub tls: TlsSettings,
    /// Where the metrics are.
    pub listen_metrics: Option<String>,
    /// The least level that is logged.
    pub log: tracing::Level,
    /// How it is written.
    pub log_format: LogFormat,
    /// What accounts may spend.
    pub plans: Plans,
    /// A company's own services.
    pub services: Vec<ServiceSettings>,
    /// The folder of the configuration's file, beside which documents of services are.
    pub folder: PathBuf,
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

/// A path, unless it is empty.
pub(crate) fn named(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}

fn refresh_token_days(value: Option<u16>) -> Result<RefreshTokenDays, ConfigError> {
    let Some(days) = value else { return Ok(RefreshTokenDays::default()) };
    let (least, most) = (RefreshTokenDays::RANGE.start(), RefreshTokenDays::RANGE.end());
    let message = || ConfigError(format!("refresh_token_days must be {least} to {most}, not {days}"));
    RefreshTokenDays::new(days).ok_or_else(message)
}

fn free_teams_per_person(value: Option<u16>) -> FreeTeamsPerPerson {
    value.map_or_else(FreeTeamsPerPerson::default, FreeTeamsPerPerson)
}

fn services(tables: BTreeMap<String, ServiceTable>) -> Result<Vec<ServiceSettings>, ConfigError> {
    if tables.len() > SERVICES_MAX {
        return Err(ConfigError(format!(
            "there may be at most {SERVICES_MAX} services, not {}",
            tables.len()
        )));
    }
    tables.into_iter().map(|(name, table)| ServiceSettings::read(&name, table)).collect()
}

fn smtp(url: Option<String>, from: Option<String>) -> Result<Option<Smtp>, ConfigError> {
    match (url.filter(|url| !url.is_empty()), from.filter(|from| !from.is_empty())) {
        (None, None) => Ok(None),
        (Some(url), Some(from)) => Ok(Some(Smtp { url, from })),
        _ => Err(ConfigError("smtp_url and mail_from go together".to_owned())),
    }
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

/// Other origins, with commas between them.
fn origins(others: &str) -> Result<Vec<String>, ConfigError> {
    let others = others.split(',').map(str::trim).filter(|origin| !origin.is_empty());
    others.map(|origin| url("allow_origins", origin.to_owned())).collect()
}

impl Config {
    /// Reads the file, and gives every key its value.
    pub fn load(settings: Settings) -> Result<Self, ConfigError> {
        let written_at = settings.config.as_deref().map(written_at).unwrap_or_default();
        let folder =
            settings.config.as_deref().and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
        let settings = settings.with_file()?;
        let providers = ProviderSettings::of(&settings)?;
        let services = services(settings.services.unwrap_or_default())?;
        let plans = Plans::default().configured(settings.plans.unwrap_or_default(), &written_at);
        let data_dir = settings.data_dir.unwrap_or_else(|| PathBuf::from("data"));
        let listen_api = listen("listen_api", settings.listen_api, "127.0.0.1:8080")?;
        let listen_auth = listen("listen_auth", settings.listen_auth, "localhost:8081")?;
        let listen_console = listen("listen_console", settings.listen_console, "localhost:8082")?;
        let tls = TlsSettings::read(
            (settings.tls_certificate, settings.tls_key),
            (settings.auth_tls_certificate, settings.auth_tls_key),
            (settings.console_tls_certificate, settings.console_tls_key),
            (settings.mqtt_tls_certificate, settings.mqtt_tls_key),
        )?;
        let here = |listen: &Option<String>, tls: &Option<TlsFiles>| {
            let scheme = if tls.is_some() { "https" } else { "http" };
            format!("{scheme}://{}", listen.as_deref().unwrap_or("localhost"))
        };
        let console_url = settings.console_url.unwrap_or_else(|| here(&listen_console, &tls.console));
        let console_url = url("console_url", console_url)?;
        let trusted_proxies = networks("trusted_proxies", settings.trusted_proxies)?;
        let allow_origins = origins(&settings.allow_origins.unwrap_or_default())?;
        Ok(Self {
            database_url: settings.database_url.unwrap_or_else(|| sqlite_in(&data_dir)),
            keyring_file: settings.keyring_file.unwrap_or_else(|| data_dir.join("keyring")),
            environment: Environment {
                base_url: url("base_url", settings.base_url.unwrap_or_else(|| here(&listen_api, &tls.api)))?,
                auth_url: origin(
                    "auth_url",
                    settings.auth_url.unwrap_or_else(|| here(&listen_auth, &tls.auth)),
                )?,
                console_url,
                connections: file_limit::connections(
                    settings.max_connections,
                    settings.max_connections_per_address,
                    settings.max_connections_per_account,
                    &trusted_proxies,
                )?,
                trusted_proxies,
                refresh_token_days: refresh_token_days(settings.refresh_token_days)?,
                free_teams_per_person: free_teams_per_person(settings.free_teams_per_person),
                egress_allow: networks("egress_allow", settings.egress_allow)?,
                egress_roots: trusted_roots(settings.egress_ca_file)?,
                egress_name_servers: name_servers(&settings.egress_name_servers.unwrap_or_default())?,
                dns: DnsSettings::read(settings.dns_resolvers, settings.dns_authoritative_port)?,
                providers,
                smtp: smtp(settings.smtp_url, settings.mail_from)?,
                journal: data_dir.join("journal"),
                blobs: BlobSettings::read(settings.blobs.as_deref(), settings.s3, &data_dir)?,
                brand: settings.brand.unwrap_or_default().read()?,
            },
            allow_origins,
            listen_mqtt: listen("listen_mqtt", settings.listen_mqtt, "127.0.0.1:1883")?,
            listen_mqtts: listen("listen_mqtts", settings.listen_mqtts, "0.0.0.0:8883")?
                .filter(|_| tls.mqtt.is_some()),
            tls,
            listen_metrics: listen("listen_metrics", settings.listen_metrics, "127.0.0.1:8083")?,
            log: level(settings.log.as_deref().unwrap_or("info"))?,
            log_format: format(settings.log_format.as_deref().unwrap_or("text"))?,
            plans: plans.map_err(|error| ConfigError(error.to_string()))?,
            data_dir,
            services,
            folder,
            listen_api,
            listen_auth,
            listen_console,
        })
    }

    /// The origins whose pages may call the API.
    pub fn origins(&self) -> Origins {
        self.allow_origins.iter().chain([&self.environment.console_url]).cloned().collect()
    }

    /// What the console is told.
    pub fn console_settings(&self) -> ConsoleSettings {
        let Environment { base_url, auth_url, console_url, brand, .. } = self.environment.clone();
        ConsoleSettings { base_url, auth_url, console_url, brand }
    }

    /// The keys and what was decided, for a person; a password in the database's address is left out.
    pub fn describe(&self) -> String {
        let environment = &self.environment;
        let listen = |listen: &Option<String>| listen.clone().unwrap_or_else(|| "off".to_owned());
        let tls =
            |files: &Option<TlsFiles>| files.as_ref().map_or_else(|| "off".to_owned(), ToString::to_string);
        [
            ("data_dir", self.data_dir.display().to_string()),
            ("database_url", without_password(&self.database_url)),
            ("keyring_file", self.keyring_file.display().to_string()),
            ("base_url", environment.base_url.clone()),
            ("auth_url", environment.auth_url.clone()),
            ("console_url", environment.console_url.clone()),
            ("allow_origins", self.allow_origins.join(",")),
            ("trusted_proxies", environment.trusted_proxies.to_string()),
            ("refresh_token_days", environment.refresh_token_days.to_string()),
            ("free_teams_per_person", environment.free_teams_per_person.0.to_string()),
            ("max_connections", environment.connections.total.to_string()),
            ("max_connections_per_address", environment.connections.per_network.to_string()),
            ("max_connections_per_account", environment.connections.per_account.to_string()),
            ("egress_allow", environment.egress_allow.to_string()),
            ("egress_ca_file", environment.egress_roots.to_string()),
            ("egress_name_servers", listed(&environment.egress_name_servers)),
            ("dns_resolvers", environment.dns.to_string()),
            ("dns_authoritative_port", environment.dns.0.authoritative_port.to_string()),
            (
                "smtp_url",
                environment.smtp.as_ref().map(|smtp| without_password(&smtp.url)).unwrap_or_default(),
            ),
            ("mail_from", environment.smtp.as_ref().map(|smtp| smtp.from.clone()).unwrap_or_default()),
            ("listen_api", listen(&self.listen_api)),
            ("listen_auth", listen(&self.listen_auth)),
            ("listen_console", listen(&self.listen_console)),
            ("listen_mqtt", listen(&self.listen_mqtt)),
            ("listen_mqtts", listen(&self.listen_mqtts)),
            ("tls_certificate", tls(&self.tls.api)),
            ("auth_tls_certificate", tls(&self.tls.auth)),
            ("console_tls_certificate", tls(&self.tls.console)),
            ("mqtt_tls_certificate", tls(&self.tls.mqtt)),
            ("listen_metrics", listen(&self.listen_metrics)),
            ("blobs", environment.blobs.to_string()),
            ("brand", brand_settings::describe(&environment.brand)),
            ("log", self.log.to_string().to_lowercase()),
            ("log_format", format!("{:?}", self.log_format).to_lowercase()),
        ]
        .into_iter()
        .chain(environment.providers.describe())
        .map(|(key, value)| format!("{key} = {value:?}"))
        .chain(self.plans.iter().map(describe_plan))
        .collect::<Vec<_>>()
        .join("\n")
    }
}

fn describe_plan(plan: &Plan) -> String {
    format!(
        "plans.{}: monthly_units = {}, calls_per_minute = {}, deliveries_per_minute = {}, \
         log_entries_per_day = {}, at_zero = {:?}",
        plan.name,
        plan.monthly_units,
        plan.calls_per_minute,
        plan.deliveries_per_minute,
        plan.log_entries_per_day,
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
        assert_eq!(config.environment.auth_url, "http://localhost:8081");
        assert_eq!(config.environment.console_url, "http://localhost:8082");
        assert_eq!(config.environment.refresh_token_days.to_string(), "90");
        assert_eq!(config.environment.free_teams_per_person.0, 5);
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
            "tls_certificate = \"certificate.pem\"",
            "auth_tls_certificate = \"certificate.pem\"",
            "egress_ca_file = \"/does/not/exist.pem\"",
            "refresh_token_days = 0",
            "refresh_token_days = 3651",
            "dns_resolvers = \"9.9.9.9\"",
            "dns_resolvers = \"\"",
        ] {
            assert!(Config::load(file(bad).unwrap()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_certificate_is_for_all_listeners_that_have_none_of_their_own() {
        let config = Config::load(Settings::default()).unwrap();
        assert_eq!((config.tls, config.listen_mqtts), (TlsSettings::default(), None));
        let text = "tls_certificate = \"all.pem\"\ntls_key = \"all.key\"\n\
                    auth_tls_certificate = \"auth.pem\"\nauth_tls_key = \"auth.key\"";
        let config = Config::load(file(text).unwrap()).unwrap();
        assert_eq!(config.environment.base_url, "https://127.0.0.1:8080");
        assert_eq!(config.environment.auth_url, "https://localhost:8081");
        assert_eq!(config.environment.console_url, "https://localhost:8082");
        assert_eq!(config.listen_mqtts.as_deref(), Some("0.0.0.0:8883"));
        assert_eq!(config.tls.mqtt, config.tls.api);
        let description = config.describe();
        assert!(description.contains("auth_tls_certificate = \"auth.pem with the key auth.key\""));
        assert!(description.contains("mqtt_tls_certificate = \"all.pem with the key all.key\""));
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

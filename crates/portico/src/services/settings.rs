//! `[services.NAME]`: a company's own service, as the file tells of it.

use std::time::Duration;

use serde::Deserialize;
use url::Url;

use crate::config::ConfigError;

/// How many services there may be.
pub(crate) const SERVICES_MAX: usize = 32;
/// How long a name may be.
const NAME_CHARACTERS_MAX: usize = 32;
/// How long an audience may be.
const AUDIENCE_BYTES_MAX: usize = 256;
/// How long a target may take to begin its answer: usually, and at most.
const TIMEOUT: Duration = Duration::from_secs(30);
const TIMEOUT_MAX: Duration = Duration::from_mins(10);
/// How large a request may be: usually, and at most.
const BODY_MAX: u64 = 2 << 20;
const BODY_MAX_MAX: u64 = 1 << 30;

/// A service as it stands in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceTable {
    openapi: String,
    targets: Vec<String>,
    required: Option<bool>,
    health: Option<String>,
    timeout: Option<String>,
    body_max: Option<String>,
    check: Option<Check>,
    errors: Option<Errors>,
    audience: Option<String>,
    calls_per_minute: Option<u32>,
}

/// What of a request is checked against the document before it is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Check {
    /// All of it.
    Requests,
    /// Nothing.
    Off,
}

/// What becomes of the errors of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Errors {
    /// They get the envelope of every refusal.
    Envelope,
    /// They pass as they are.
    Pass,
}

/// A service, with every value decided.
#[derive(Debug, Clone)]
pub struct ServiceSettings {
    pub(crate) name: String,
    /// Where its document is: a file beside the configuration, or an address.
    pub(crate) openapi: String,
    pub(crate) targets: Vec<String>,
    pub(crate) required: bool,
    pub(crate) health: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) body_max: u64,
    pub(crate) check: Check,
    pub(crate) errors: Errors,
    /// What tokens are for that open this service alone, and that it checks by itself.
    pub(crate) audience: Option<String>,
    /// How many calls it may make itself in 60 seconds; `None` for the usual number.
    pub(crate) calls_per_minute: Option<u32>,
}

impl ServiceSettings {
    /// The service of that name in the file.
    pub(crate) fn read(name: &str, table: ServiceTable) -> Result<Self, ConfigError> {
        let refuse = |what: String| Err(ConfigError(format!("services.{name}: {what}")));
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        if !begins || name.len() > NAME_CHARACTERS_MAX || !name.bytes().all(is_word) {
            return refuse(format!(
                "the name of a service is a small letter, then at most {} small letters, digits and dashes",
                NAME_CHARACTERS_MAX - 1
            ));
        }
        if table.targets.is_empty() {
            return refuse("targets must name at least one address, such as \"http://10.0.0.5:9000\"".into());
        }
        if table.health.as_ref().is_some_and(|path| !path.starts_with('/')) {
            return refuse("health must be a path that begins with a slash, such as \"/healthz\"".into());
        }
        let timeout = match table.timeout.as_deref().map(duration) {
            None => TIMEOUT,
            Some(Some(time)) if !time.is_zero() && time <= TIMEOUT_MAX => time,
            Some(_) => {
                return refuse("timeout must be at most 10 minutes, such as \"30s\" or \"5 min\"".into());
            }
        };
        let body_max = match table.body_max.as_deref().map(size) {
            None => BODY_MAX,
            Some(Some(bytes)) if bytes <= BODY_MAX_MAX => bytes,
            Some(_) => return refuse("body_max must be at most 1 GiB, such as \"2 MiB\"".into()),
        };
        if table.audience.as_deref().is_some_and(|audience| !is_audience(audience)) {
            return refuse(format!(
                "audience must be an address without a fragment, of at most {AUDIENCE_BYTES_MAX} characters, such as \
                 \"https://api.acme.example\""
            ));
        }
        if table.calls_per_minute == Some(0) {
            return refuse("calls_per_minute must be at least 1".into());
        }
        Ok(Self {
            name: name.to_owned(),
            openapi: table.openapi,
            targets: table.targets,
            required: table.required.unwrap_or(true),
            health: table.health,
            timeout,
            body_max,
            check: table.check.unwrap_or(Check::Requests),
            errors: table.errors.unwrap_or(Errors::Envelope),
            audience: table.audience,
            calls_per_minute: table.calls_per_minute,
        })
    }
}

/// An audience is what apps name as the resource of a token (RFC 8707).
fn is_audience(text: &str) -> bool {
    let address = Url::parse(text).ok().filter(|url| url.has_host() && url.fragment().is_none());
    text.len() <= AUDIENCE_BYTES_MAX && address.is_some()
}

/// A number and its unit, with or without a space between them.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}

/// A time such as `500ms`, `30s`, `5 min` or `1h`.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(milliseconds)?))
}

/// A size such as `512 KiB`, `2 MiB` or `1 GiB`.
fn size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let bytes = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, lines: &str) -> Result<ServiceSettings, String> {
        let file = format!("openapi = \"a.yaml\"\n{lines}");
        let table: ServiceTable = toml::from_str(&file).map_err(|error| error.to_string())?;
        ServiceSettings::read(name, table).map_err(|error| error.to_string())
    }

    #[test]
    fn a_service_needs_a_document_and_a_target() {
        let service = read("invoices", "targets = [\"http://127.0.0.1:9\"]").unwrap();
        assert_eq!((service.timeout, service.body_max), (TIMEOUT, BODY_MAX));
        assert!(service.required && service.check == Check::Requests && service.errors == Errors::Envelope);
        assert!(read("invoices", "targets = []").unwrap_err().contains("targets must name"));
        assert!(read("invoices", "").unwrap_err().contains("targets"));
    }

    #[test]
    fn names_and_units_are_refused_with_what_would_fit() {
        let targets = "targets = [\"http://127.0.0.1:9\"]\n";
        for name in ["", "Invoices", "1st", "in_voices", &"a".repeat(33)] {
            assert!(read(name, targets).is_err(), "{name}");
        }
        for (line, fits) in [
            ("timeout = \"10 min\"", true),
            ("timeout = \"601s\"", false),
            ("timeout = \"0s\"", false),
            ("timeout = \"soon\"", false),
            ("body_max = \"1 GiB\"", true),
            ("body_max = \"1025 MiB\"", false),
            ("body_max = \"18446744073709551615 GiB\"", false),
            ("health = \"healthz\"", false),
            ("check = \"some\"", false),
            ("audience = \"https://api.acme.example\"", true),
            ("audience = \"acme\"", false),
            ("audience = \"https://api.acme.example/#top\"", false),
            ("audience = \"\"", false),
            ("calls_per_minute = 4294967295", true),
            ("calls_per_minute = 0", false),
            ("calls_per_minute = -1", false),
            ("calls_per_minute = 4294967296", false),
            ("calls_per_minute = \"many\"", false),
            ("unknown = 1", false),
        ] {
            assert_eq!(read("invoices", &format!("{targets}{line}")).is_ok(), fits, "{line}");
        }
    }
}

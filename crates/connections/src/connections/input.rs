//! What callers send, checked before anything else happens.

use std::collections::BTreeMap;

use http::HeaderMap;
use portico_connectors::endpoint::{Endpoint, Injection};
use portico_connectors::{Credentials, Executor, Manifest, Mode};
use portico_engine::Engine;
use portico_kernel::Problem;

use crate::provider::SECRET;
use crate::{limits, refusals};

/// What a connection proves itself with, as it was sent.
#[derive(Clone)]
pub(super) struct Given {
    /// `None` for an account's own service.
    pub(super) mode: Option<Mode>,
    /// What the record says that it is.
    pub(super) kind: &'static str,
    pub(super) values: Credentials,
}

/// The prefixes of references to secrets, which an agent resolves.
const SECRET_REF_PREFIXES: [&str; 4] = ["vault:", "k8s:", "env:", "file:"];

/// Checks a name and a description.
pub(crate) fn check_texts(name: Option<&str>, description: Option<&str>) -> Result<(), Problem> {
    let check = |field: &str, text: Option<&str>, least: usize, most: usize| {
        let Some(text) = text else { return Ok(()) };
        let count = text.chars().count();
        if count < least || count > most {
            let words = format!("must be {least} to {most} characters, not {count}");
            return Err(Problem::field(field, words));
        }
        // A description may have several lines.
        let is_plain =
            |letter: char| !letter.is_control() || (field == "description" && "\n\t".contains(letter));
        if !text.chars().all(is_plain) {
            return Err(Problem::field(field, "holds a control character"));
        }
        Ok(())
    };
    check("name", name, 1, limits::NAME_CHARACTERS_MAX)?;
    check("description", description, 0, limits::DESCRIPTION_CHARACTERS_MAX)
}

/// Checks a configuration as such; what it means is for the kind to say.
pub(crate) fn check_config_sizes(config: &BTreeMap<String, String>) -> Result<(), Problem> {
    let long = config.iter().find(|(_, value)| value.chars().count() > limits::CONFIG_CHARACTERS_MAX);
    match long {
        Some((name, _)) => {
            let words = format!("is longer than {} characters", limits::CONFIG_CHARACTERS_MAX);
            Err(Problem::field(format!("config.{name}"), words))
        }
        None => Ok(()),
    }
}

/// A field that the kind does not take.
pub(super) fn not_taken(field: &str) -> Problem {
    Problem::field(field, "is not taken by this kind of connection")
}

/// Checks a secret.
pub(crate) fn secret_field(field: &str, secret: &str) -> Result<(), Problem> {
    if secret.is_empty() || secret.len() > limits::SECRET_BYTES_MAX {
        return Err(Problem::field(field, format!("must be 1 to {} bytes", limits::SECRET_BYTES_MAX)));
    }
    if secret.chars().any(char::is_control) {
        return Err(Problem::field(field, "holds a control character"));
    }
    Ok(())
}

/// Checks the credential of a connector.
pub(super) fn connector_credential(
    manifest: &Manifest,
    mode: Option<&str>,
    credentials: &BTreeMap<String, String>,
) -> Result<Given, Problem> {
    let mode = manifest.check_credentials(mode, credentials).map_err(refusals::faults)?;
    let mut values = Credentials::default();
    for (name, value) in credentials {
        values.insert(name.as_str(), value.as_str());
    }
    Ok(Given { mode: Some(mode), kind: mode.name(), values })
}

/// Checks the configuration of an account's own service.
pub(super) fn own_service(
    engine: &Engine,
    config: &BTreeMap<String, String>,
    executor: Executor,
) -> Result<Endpoint, Problem> {
    let endpoint = Endpoint::new(config, executor).map_err(refusals::faults)?;
    if executor == Executor::Cloud
        && let Some(base_url) = config.get("base_url")
        && let Err(error) = engine.egress.check(base_url)
    {
        return Err(Problem::field("config.base_url", format!("cannot be called: {error}")));
    }
    Ok(endpoint)
}

/// Checks the secret of an account's own service, which this server calls.
pub(super) fn own_secret(endpoint: &Endpoint, secret: Option<&str>) -> Result<Given, Problem> {
    let needs_none = *endpoint.injection() == Injection::None;
    let mut values = Credentials::default();
    match secret {
        Some(_) if needs_none => {
            return Err(Problem::field("secret", "is not taken where `config.auth` is `none`"));
        }
        None if needs_none => return Ok(Given { mode: None, kind: "none", values }),
        None => return Err(Problem::field("secret", "is missing")),
        Some(secret) => {
            secret_field("secret", secret)?;
            endpoint.injection().inject(secret, &mut HeaderMap::new()).map_err(refusals::fault)?;
            values.insert(SECRET, secret);
        }
    }
    Ok(Given { mode: None, kind: SECRET, values })
}

/// Checks a reference to a secret.
pub(super) fn check_secret_ref(reference: &str) -> Result<(), Problem> {
    let rest = SECRET_REF_PREFIXES.iter().find_map(|prefix| reference.strip_prefix(prefix));
    let is_plain =
        reference.len() <= limits::SECRET_REF_BYTES_MAX && !reference.chars().any(char::is_control);
    if rest.is_none_or(str::is_empty) || !is_plain {
        let words = format!(
            "must begin with `vault:`, `k8s:`, `env:` or `file:`, and have at most {} bytes",
            limits::SECRET_REF_BYTES_MAX
        );
        return Err(Problem::field("secret_ref", words));
    }
    Ok(())
}

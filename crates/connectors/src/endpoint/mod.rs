//! An account's own service: the kind `endpoint`.

mod address;
mod catalogue;

use std::collections::BTreeMap;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Map, Value, json};
use url::Url;

use crate::action::Reading;
use crate::address::{Destination, parse_method};
use crate::answer::{Answer, Message};
use crate::body::JSON_TYPE;
use crate::fault::Fault;
use crate::request::{HttpRequest, REQUEST_BYTES_MAX, basic_header, header_value, query};
use crate::rules::{Failure, Rules};
use crate::scrub::Scrubber;
use crate::spec::Executor;
use crate::text::{header_name, shown};
use crate::values::{basic, config_value, scalar};

use address::{base_url, check_path};
use catalogue::CONFIG;
pub use catalogue::{actions, kind};

/// The name of the kind.
pub const NAME: &str = "endpoint";
/// The longest query.
const QUERY_BYTES_MAX: usize = 24 * 1024;

/// How the secret goes with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Injection {
    /// `authorization: Bearer …`.
    Bearer,
    /// A header of that name.
    Header(HeaderName),
    /// `authorization: Basic …` of `user:password`.
    Basic,
    /// No secret goes with it.
    None,
}

impl Injection {
    /// Its name in a configuration.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Bearer => "bearer",
            Self::Header(_) => "header",
            Self::Basic => "basic",
            Self::None => "none",
        }
    }

    /// Puts the secret into the headers of a request.
    pub fn inject(&self, secret: &str, headers: &mut HeaderMap) -> Result<(), Fault> {
        let fault = |message: String| Fault::new("secret", message);
        let (name, mut value) = match self {
            Self::Bearer => (AUTHORIZATION, header_value(&format!("Bearer {secret}")).map_err(fault)?),
            Self::Header(name) => (name.clone(), header_value(secret).map_err(fault)?),
            Self::Basic => {
                let (user, password) =
                    secret.split_once(':').ok_or_else(|| fault("must be user:password".to_owned()))?;
                (AUTHORIZATION, basic_header(user, password))
            }
            Self::None => return Ok(()),
        };
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(())
    }
}

/// What scrubs the secret from answers, in each form that it was sent in.
pub fn scrubber(secret: &str) -> Scrubber {
    let (user, password) = secret.split_once(':').unwrap_or_default();
    let encoded = basic(user, password);
    let encoded = if user.is_empty() && password.is_empty() { "" } else { encoded.expose() };
    Scrubber::new([secret, encoded])
}

/// An account's own service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Without a slash at its end.
    base_url: Url,
    injection: Injection,
    test_path: String,
}

impl Endpoint {
    /// Reads a configuration; faults name their `config.x`. An IP address is a host for an agent alone.
    pub fn new(config: &BTreeMap<String, String>, executor: Executor) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut fault =
            |name: &str, message: String| faults.push(Fault::new(format!("config.{}", shown(name)), message));
        for (name, value) in config {
            match CONFIG.iter().find(|field| field.field.name == *name) {
                None => fault(name, "is not a field of this kind's configuration".to_owned()),
                Some(_) if value.is_empty() => {}
                Some(field) => {
                    if let Err(message) = field.check(value) {
                        fault(name, message);
                    }
                }
            }
        }
        let value = |name| config_value(&*CONFIG, config, name).unwrap_or_default();
        let base_url =
            base_url(value("base_url"), executor).map_err(|message| fault("base_url", message)).ok();
        let header = match value("auth") {
            "header" => {
                header_name(value("header_name")).map_err(|message| fault("header_name", message)).ok()
            }
            _ => None,
        };
        let injection = match value("auth") {
            "header" => header.map(Injection::Header),
            "basic" => Some(Injection::Basic),
            "none" => Some(Injection::None),
            _ => Some(Injection::Bearer),
        };
        let test_path = value("test_path").to_owned();
        if let Err(message) = check_path(&test_path) {
            fault("test_path", message.to_owned());
        }
        match (base_url, injection) {
            (Some(base_url), Some(injection)) if faults.is_empty() => {
                Ok(Self { base_url, injection, test_path })
            }
            _ => {
                faults.sort();
                faults.dedup_by(|a, b| a.path == b.path);
                Err(faults)
            }
        }
    }

    /// Its host, which labels the connection.
    pub fn host(&self) -> &str {
        self.base_url.host_str().unwrap_or_default()
    }

    /// The address of the service.
    pub const fn base_url(&self) -> &Url {
        &self.base_url
    }

    /// How its secret goes with a request.
    pub const fn injection(&self) -> &Injection {
        &self.injection
    }

    /// The request of an action, with parameters that [`crate::ActionSpec::check_params`] gave. Without a secret, somebody
    /// else puts it in.
    pub fn request(
        &self,
        action: &str,
        params: &Map<String, Value>,
        secret: Option<&str>,
    ) -> Result<HttpRequest, Fault> {
        let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
        let method = if action == "get" { Some(Method::GET) } else { parse_method(text("method")) };
        let method = method.ok_or_else(|| Fault::new("params.method", "is not a method"))?;
        let query = match params.get("query") {
            Some(Value::Object(fields)) => pairs(fields)?,
            _ => Vec::new(),
        };
        let mut request = self.address(text("path"), "params.path", &query, method, secret)?;
        if let Some(body) = params.get("body").filter(|body| action != "get" && !body.is_null()) {
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_TYPE));
            request.body = body.to_string().into_bytes();
            if request.body.len() > REQUEST_BYTES_MAX {
                return Err(Fault::new("params.body", "makes the request too large"));
            }
        }
        Ok(request)
    }

    /// The request of the test, which any 2xx passes.
    pub fn test_request(&self, secret: Option<&str>) -> Result<HttpRequest, Fault> {
        self.address(&self.test_path, "config.test_path", &[], Method::GET, secret)
    }

    fn address(
        &self,
        path: &str,
        field: &str,
        pairs: &[(String, String)],
        method: Method,
        secret: Option<&str>,
    ) -> Result<HttpRequest, Fault> {
        check_path(path).map_err(|message| Fault::new(field, message))?;
        let mut url = self.base_url.clone();
        let whole = format!("{}{path}", self.base_url.path().trim_end_matches('/'));
        url.set_path(&whole);
        let query = query(pairs);
        if query.len() > QUERY_BYTES_MAX {
            return Err(Fault::new("params.query", "makes the request too large"));
        }
        url.set_query((!query.is_empty()).then_some(&query));
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        if let Some(secret) = secret {
            self.injection.inject(secret, &mut headers)?;
        }
        Ok(HttpRequest { method, url, headers, body: Vec::new(), destination: Destination::Chosen })
    }
}

/// What an answer says: `{status, content_type, body}`.
pub fn read(answer: &Answer<'_>, scrubber: &Scrubber) -> Result<Reading, Failure> {
    let message = Message::new(answer, scrubber);
    Rules::default().judge(&message)?;
    let (status, content_type) = (message.status, json!(message.content_type()));
    let result =
        format!(r#"{{"status":{status},"content_type":{content_type},"body":{}}}"#, message.result());
    Ok(Reading { result, next_cursor: String::new(), input_tokens: 0, output_tokens: 0 })
}

/// The pairs of a query.
fn pairs(fields: &Map<String, Value>) -> Result<Vec<(String, String)>, Fault> {
    let fault = || Fault::new("params.query", "must hold strings, numbers, booleans, or lists of them");
    let mut pairs = Vec::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            pairs.push((name.clone(), scalar(value).ok_or_else(fault)?.into_owned()));
        }
    }
    Ok(pairs)
}

//! An account's own service: the kind `endpoint`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use percent_encoding::percent_decode;
use serde_json::{Map, Value, json};
use url::{Host, Url};

use crate::action::Reading;
use crate::address::{Destination, parse_method};
use crate::answer::{Answer, Message, raw};
use crate::body::JSON_TYPE;
use crate::fault::Fault;
use crate::field::{CONFIG_VALUE_MAX, ConfigField, Field, FieldType};
use crate::kind::{Kind, TEST_ACTION, definitions, executors};
use crate::request::{HttpRequest, REQUEST_BYTES_MAX, basic_header, header_value, query};
use crate::rules::{Failure, Rules};
use crate::scrub::Scrubber;
use crate::spec::{ActionSpec, Class, Executor};
use crate::text::{header_name, host_name, shown};
use crate::values::{basic, config_value, scalar};

/// The name of the kind.
pub const NAME: &str = "endpoint";
/// Who can send its requests.
const EXECUTORS: [Executor; 2] = [Executor::Cloud, Executor::Agent];
/// The longest path of a call, and the longest query.
const PATH_BYTES_MAX: usize = 8 * 1024;
const QUERY_BYTES_MAX: usize = 24 * 1024;

static CONFIG: LazyLock<[ConfigField; 4]> = LazyLock::new(|| {
    let field = |field| ConfigField { field, host: false };
    let base_url = Field::new(
        "base_url",
        FieldType::String,
        "The address of the service, such as https://api.example.com/v1.",
    );
    let auth = Field::new(
        "auth",
        FieldType::String,
        "How the secret goes with a request: as a bearer token, in a header of its own, as user:password, or not at all.",
    );
    [
        ConfigField { host: true, ..field(Field { required: true, ..base_url }) },
        field(Field {
            choices: ["bearer", "header", "basic", "none"].map(str::to_owned).to_vec(),
            default_value: "bearer".to_owned(),
            ..auth
        }),
        field(Field::new(
            "header_name",
            FieldType::String,
            "The header that the secret goes in, where auth is header.",
        )),
        field(Field {
            default_value: "/".to_owned(),
            ..Field::new("test_path", FieldType::String, "The path that a test reads; any 2xx passes.")
        }),
    ]
});

static ACTIONS: LazyLock<[ActionSpec; 2]> = LazyLock::new(|| {
    let required = |field| Field { required: true, ..field };
    let path = || {
        required(Field::new(
            "path",
            FieldType::String,
            "The path, which begins with a slash and is appended to the address of the service.",
        ))
    };
    let query = || {
        Field::new(
            "query",
            FieldType::Object,
            "The query: names, and values that are strings, numbers, booleans or lists of them.",
        )
    };
    let method = Field {
        choices: ["POST", "PUT", "PATCH", "DELETE"].map(str::to_owned).to_vec(),
        ..required(Field::new("method", FieldType::String, "The method."))
    };
    let action = |name: &str, description: &str, class, sends_out, params| ActionSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        class,
        reads_private: true,
        reads_untrusted: true,
        sends_out,
        params,
        executors: &EXECUTORS,
    };
    let body = Field::new("body", FieldType::Any, "The body, any JSON.");
    [
        action("get", "Read from the service.", Class::Read, false, vec![path(), query()]),
        action(
            "send",
            "Write to the service.",
            Class::WriteIrreversible,
            true,
            vec![method, path(), query(), body],
        ),
    ]
});

/// Its actions.
pub fn actions() -> &'static [ActionSpec] {
    &*ACTIONS
}

/// Its entry in the catalogue.
pub fn kind() -> Kind {
    Kind {
        name: NAME.to_owned(),
        title: "Own service".to_owned(),
        description: "A service of the account's own, on a domain that it has proven, or in its own network."
            .to_owned(),
        auth: "secret".to_owned(),
        executors: executors(&EXECUTORS),
        test_action: TEST_ACTION.to_owned(),
        config: CONFIG.iter().map(|field| field.field.definition()).collect(),
        actions: definitions(actions()),
    }
}

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

    /// The request of an action, with parameters that [`ActionSpec::check_params`] gave. Without a secret, somebody
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
    Ok(Reading { result: raw(result), next_cursor: String::new(), input_tokens: 0, output_tokens: 0 })
}

/// The address of a service: nothing but scheme, host, port and path.
fn base_url(text: &str, executor: Executor) -> Result<Url, String> {
    const FAULT: &str = "must be an address such as https://api.example.com/v1";
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
    let after_scheme = text.split_once("://").map(|(_, rest)| rest);
    if text.chars().any(is_odd) || after_scheme.is_none_or(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Err(FAULT.to_owned());
    }
    let url = Url::parse(text).map_err(|_| FAULT.to_owned())?;
    if !matches!(url.scheme(), "https" | "http") {
        return Err("must begin with https://".to_owned());
    }
    // The parser forgets an empty user.
    let authority = after_scheme.unwrap_or_default().split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') || url.query().is_some() || url.fragment().is_some() {
        return Err("must have no user, query or fragment".to_owned());
    }
    if url.port() == Some(0) {
        return Err("must have a port from 1 to 65535, or none".to_owned());
    }
    match url.host() {
        Some(Host::Domain(name)) if executor == Executor::Cloud => {
            host_name(name).map_err(|_| "must have the name of a host".to_owned())?;
        }
        Some(Host::Ipv4(_) | Host::Ipv6(_)) if executor == Executor::Cloud => {
            return Err("must have the name of a host, not an IP address".to_owned());
        }
        Some(_) => {}
        None => return Err(FAULT.to_owned()),
    }
    let path =
        text.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..])).unwrap_or("/");
    check_path(path).map_err(str::to_owned)?;
    Ok(url)
}

/// Does the path begin with a slash, and stay below where it is appended, however often it is decoded?
fn check_path(path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        return Err("must begin with a slash");
    }
    if path.len() > PATH_BYTES_MAX {
        return Err("is too long");
    }
    let bytes = path.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    if !(0..bytes.len()).all(|at| bytes[at] != b'%' || (is_hex(at + 1) && is_hex(at + 2))) {
        return Err("has a % that encodes nothing");
    }
    if path.contains(['?', '#']) {
        return Err("must have no query and no fragment");
    }
    // Each round makes it shorter, or is the last.
    let mut decoded = bytes.to_vec();
    loop {
        if leaves(&decoded) {
            return Err("must not leave the address of the service, or have // or a backslash");
        }
        let next: Vec<u8> = percent_decode(&decoded).collect();
        if next.len() == decoded.len() {
            return Ok(());
        }
        decoded = next;
    }
}

fn leaves(path: &[u8]) -> bool {
    let is_dots = |segment: &[u8]| matches!(segment, b"." | b"..");
    path.windows(2).any(|pair| pair == b"//")
        || path.iter().any(|byte| *byte == b'\\' || byte.is_ascii_control())
        || path.split(|byte| *byte == b'/').any(is_dots)
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

// The bound of a configuration's value is the bound of a base URL too.
const _: () = assert!(CONFIG_VALUE_MAX < PATH_BYTES_MAX);

//! What the manifest of a connector says: which requests a provider takes, and what its answers mean.
//!
//! [`Manifest`] is read whole, or refused with every fault at once. It is data: the requests of its actions, of its
//! test and of its sign-in are made from templates, whose values can leave neither their segment of a path, nor their
//! key of a query, nor their header, nor their place in a body. [`Action::read`] and its like say what an answer means.
//! Nothing here does I/O, knows an account, or asks for the time: whoever sends a request asks first whether its
//! [`Destination`] may be called.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use http::{HeaderMap, Method};
use portico_kernel::{Secret, Timestamp, text_enum};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use url::Url;

/// The longest manifest, as JSON or as TOML.
pub const MANIFEST_BYTES_MAX: usize = 128 * 1024;
/// The most actions of a manifest.
pub const ACTIONS_MAX: usize = 100;
/// The longest value of a configuration, in characters.
pub const CONFIG_VALUE_MAX: usize = 2_048;
/// The longest value of a credential, in bytes.
pub const CREDENTIAL_BYTES_MAX: usize = 8_192;
/// The longest body that a request may have.
pub const REQUEST_BYTES_MAX: usize = 1024 * 1024;
/// The longest message of a provider that is passed on, in characters.
pub const PROVIDER_MESSAGE_MAX: usize = 300;

/// One thing that is wrong, and where: `actions[0].class`, `config.host`, `credentials.api_key`, `params.path`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The field; empty for the whole.
    pub path: String,
    /// What is wrong with it, for whoever wrote it.
    pub message: String,
}

text_enum! {
    /// How a connection proves who it is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Mode {
        /// A person signs in at the provider.
        OAuth2 = "oauth2",
        /// A key that the provider gave out.
        ApiKey = "api_key",
        /// A name and a password.
        Basic = "basic",
        /// An app with a private key, which gets tokens for an installation.
        App = "app",
    }
}

text_enum! {
    /// What a call can do to the provider's data; a later one is stricter.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Class {
        /// It changes nothing.
        Read = "read",
        /// What it changes can be changed back.
        WriteReversible = "write_reversible",
        /// It cannot be taken back.
        WriteIrreversible = "write_irreversible",
    }
}

text_enum! {
    /// Who sends a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Executor {
        /// This server.
        Cloud = "cloud",
        /// A program in the customer's network.
        Agent = "agent",
    }
}

text_enum! {
    /// Why an answer is no success.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum ErrorClass {
        /// The provider refuses the credential.
        Auth = "auth",
        /// The credential may not do that.
        Permission = "permission",
        /// There is no such thing, or the credential may not see it.
        NotFound = "not_found",
        /// Another refusal, or an answer that says that it is none.
        Provider4xx = "provider_4xx",
        /// It leads elsewhere, which is not followed.
        Redirect = "redirect",
        /// Too many calls.
        RateLimited = "rate_limited",
        /// The provider failed.
        Provider5xx = "provider_5xx",
    }
}

/// The fields of a credential by name; prints none of them.
#[derive(Clone, Default)]
pub struct Credentials(BTreeMap<String, Secret<String>>);

impl Credentials {
    /// Adds or replaces a field.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), Secret::new(value.into()));
    }

    /// A field's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.expose().as_str())
    }

    /// Every field and its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.expose().as_str()))
    }

    /// What is sealed and kept.
    pub fn to_bytes(&self) -> Secret<Vec<u8>> {
        todo!()
    }

    /// What [`Credentials::to_bytes`] wrote.
    pub fn from_bytes(_bytes: &[u8]) -> Option<Self> {
        todo!()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What the templates of a manifest are filled with.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// How the connection proves who it is.
    pub mode: Mode,
    /// Its configuration, as stored; what is left out has its default.
    pub config: &'a BTreeMap<String, String>,
    /// Its credential: the fields of the mode, and `access_token` and what a test said to keep, where there are such.
    pub auth: &'a Credentials,
    /// The operator's address for this connector.
    pub base_url: Option<&'a BaseUrl>,
}

/// Where a request goes, by who chose its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// One of the manifest's `hosts`.
    Listed,
    /// A host outside of `hosts` that the account chose, by an endpoint's address or a field of the configuration.
    Chosen,
    /// What the operator put in the place of the provider; it may be called, and without TLS.
    Operator,
}

/// A request to a provider.
#[derive(Clone)]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// Where to. https, but http where [`HttpRequest::is_plain`].
    pub url: Url,
    /// All headers but those that every call has: `host`, `user-agent` and the length of the body.
    pub headers: HeaderMap,
    /// The body, empty for none.
    pub body: Vec<u8>,
    /// Who chose the host.
    pub destination: Destination,
}

impl HttpRequest {
    /// The host, as the URL has it.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Does it go without TLS? Then only the operator can allow it, by their own address or by `egress_allow`.
    pub fn is_plain(&self) -> bool {
        self.url.scheme() == "http"
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.method, self.host())
    }
}

/// An answer of a provider.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The body, whole.
    pub body: &'a [u8],
}

/// What an action's answer holds.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The result: JSON as the provider wrote it, text as a string, other bytes as `{content_type, base64}`.
    pub result: Box<RawValue>,
    /// Where the next page begins; empty at the end.
    pub next_cursor: String,
    /// Tokens of a model, read.
    pub input_tokens: u32,
    /// Tokens of a model, written.
    pub output_tokens: u32,
}

/// Why an answer is no success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which sort of failure.
    pub class: ErrorClass,
    /// The status.
    pub status_code: u16,
    /// What the provider says, scrubbed; empty when it says nothing.
    pub provider_message: String,
    /// For how many seconds to wait, 1 to 3,600, where the provider says so.
    pub retry_after: Option<u32>,
    /// The provider refuses the credential: a fresh access token may help, once.
    pub expired: bool,
}

/// What the answer to a test says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestReading {
    /// The account at the provider, for people; the manifest's title where the answer names none.
    pub label: String,
    /// The account at the provider; empty where the answer has no id.
    pub external_id: String,
    /// The scopes that the credential has, where a header names them.
    pub scopes: Option<Vec<String>>,
    /// What is kept with the credential, for templates: `{auth.<name>}`.
    pub keep: Vec<(String, String)>,
}

/// Why a test did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestFailure {
    /// The answer is no success.
    Refused(Failure),
    /// The credential reaches several sites, and the configuration names none.
    ChooseSite,
}

/// Finds a credential's values in what a provider says, and writes `***` in their place.
#[derive(Clone, Default)]
pub struct Scrubber;

impl Scrubber {
    /// Scrubs these values, in every form that a request can give them.
    pub fn new<'a>(_values: impl IntoIterator<Item = &'a str>) -> Self {
        todo!()
    }

    /// Text without the values.
    pub fn text<'a>(&self, _text: &'a str) -> Cow<'a, str> {
        todo!()
    }

    /// JSON without the values, otherwise byte for byte the same.
    pub fn json<'a>(&self, _json: &'a str) -> Cow<'a, str> {
        todo!()
    }

    /// Bytes without the values.
    pub fn bytes<'a>(&self, _bytes: &'a [u8]) -> Cow<'a, [u8]> {
        todo!()
    }
}

/// A field of a configuration or a parameter of an action, as the catalogue shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FieldDefinition {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub field_type: String,
    /// What it is.
    pub description: String,
    /// Whether it must be given.
    pub required: bool,
    /// The only values that it may have; empty for any.
    pub choices: Vec<String>,
    /// What counts when it is not given.
    pub default_value: String,
    /// The smallest value, or the fewest characters.
    pub min: String,
    /// The largest value, or the most characters.
    pub max: String,
}

/// An action, as the catalogue shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ActionDefinition {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it can do to the provider's data: `read`, `write_reversible` or `write_irreversible`.
    pub class: String,
    /// Who can send it.
    pub executors: Vec<String>,
    /// Its parameters.
    pub params: Vec<FieldDefinition>,
    /// A JSON Schema of its parameters, as text.
    pub schema: String,
    /// Whether its answer may hold what cannot be read without the credential.
    pub reads_private: bool,
    /// Whether its answer may hold text that others wrote.
    pub reads_untrusted: bool,
    /// Whether what the caller writes can reach others.
    pub sends_out: bool,
}

/// A kind of connection, as the catalogue shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What it is.
    pub description: String,
    /// How it proves who it is; of several, separated by spaces, the default is first.
    pub auth: String,
    /// Who can send its requests.
    pub executors: Vec<String>,
    /// The action under which its tests are recorded.
    pub test_action: String,
    /// Its configuration.
    pub config: Vec<FieldDefinition>,
    /// Its actions.
    pub actions: Vec<ActionDefinition>,
}

/// What is known of an action but its request: of a connector's, an endpoint's, or an inbound webhook's.
#[derive(Debug, Clone)]
pub struct ActionSpec {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it can do to the provider's data.
    pub class: Class,
    /// Its answer may hold what cannot be read without the credential.
    pub reads_private: bool,
    /// Its answer may hold text that others wrote.
    pub reads_untrusted: bool,
    /// What the caller writes can reach others.
    pub sends_out: bool,
}

impl ActionSpec {
    /// Its parameters.
    pub fn params(&self) -> Vec<FieldDefinition> {
        todo!()
    }

    /// Checks parameters, and gives them with their defaults. Every fault names its `params.x`.
    pub fn check_params(&self, _given: &Map<String, Value>) -> Result<Map<String, Value>, Vec<Fault>> {
        todo!()
    }

    /// The JSON Schema of its parameters.
    pub fn schema(&self) -> Value {
        todo!()
    }

    /// Its entry in the catalogue.
    pub fn definition(&self) -> ActionDefinition {
        todo!()
    }
}

/// A field of a credential, for a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialField {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
    /// The expression that all of it matches; empty for any.
    pub pattern: String,
    /// It is shown to nobody, and scrubbed from answers.
    pub secret: bool,
}

/// A connector, read and checked.
#[derive(Debug)]
pub struct Manifest {
    id: String,
    title: String,
    description: String,
    docs: String,
}

impl Manifest {
    /// Reads a manifest from TOML, or says everything that is wrong with it.
    pub fn from_toml(_text: &str) -> Result<Self, Vec<Fault>> {
        todo!()
    }

    /// Reads a manifest from JSON, or says everything that is wrong with it.
    pub fn from_json(_value: &Value) -> Result<Self, Vec<Fault>> {
        todo!()
    }

    /// What it was read from, as JSON.
    pub fn to_json(&self) -> &Value {
        todo!()
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its name for people.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// What it is.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Where the provider's documents are.
    pub fn docs(&self) -> &str {
        &self.docs
    }

    /// The hosts that it calls; one that begins with a dot stands for every name below it.
    pub fn hosts(&self) -> &[String] {
        todo!()
    }

    /// Its modes, the default first.
    pub fn modes(&self) -> impl Iterator<Item = Mode> {
        std::iter::empty()
    }

    /// The fields of its configuration.
    pub fn config(&self) -> Vec<FieldDefinition> {
        todo!()
    }

    /// The fields of a credential of that mode; none for a mode that it does not have, and for a sign-in.
    pub fn credential_fields(&self, _mode: Mode) -> &[CredentialField] {
        todo!()
    }

    /// Its entry in the catalogue.
    pub fn kind(&self) -> Kind {
        todo!()
    }

    /// All its actions.
    pub fn actions(&self) -> impl Iterator<Item = Action<'_>> {
        std::iter::empty()
    }

    /// An action by its name.
    pub fn action(&self, _name: &str) -> Option<Action<'_>> {
        todo!()
    }

    /// Checks a configuration for a connection of that mode. Every fault names its `config.x`.
    pub fn check_config(&self, _mode: Mode, _config: &BTreeMap<String, String>) -> Result<(), Vec<Fault>> {
        todo!()
    }

    /// Checks a credential, and says which mode it is of. Faults name `auth_mode` or a `credentials.x`.
    ///
    /// A mode may be left out when the fields fit one only. `oauth2` takes no fields: it is for a sign-in.
    pub fn check_credentials(
        &self,
        _mode: Option<&str>,
        _credentials: &BTreeMap<String, String>,
    ) -> Result<Mode, Vec<Fault>> {
        todo!()
    }

    /// Would the credential go to another host with the new configuration than with the old one?
    pub fn moves_host(
        &self,
        _mode: Mode,
        _old: &BTreeMap<String, String>,
        _new: &BTreeMap<String, String>,
    ) -> bool {
        todo!()
    }

    /// Every host that requests of a connection of that mode can go to, with who chose it; sign-in included.
    pub fn destinations(
        &self,
        _mode: Mode,
        _config: &BTreeMap<String, String>,
    ) -> Result<Vec<(String, Destination)>, Fault> {
        todo!()
    }

    /// What scrubs a credential's values from answers.
    pub fn scrubber(&self, _mode: Mode, _auth: &Credentials) -> Scrubber {
        todo!()
    }

    /// The request of the test. A mode `app` needs `jwt` among the values of the credential, see [`App::claims`].
    pub fn test_request(&self, _values: &Values<'_>) -> Result<HttpRequest, Fault> {
        todo!()
    }

    /// Does the test of that mode need the signed claims of [`App::claims`]?
    pub fn test_needs_jwt(&self, _mode: Mode) -> bool {
        todo!()
    }

    /// What the answer to the test says.
    pub fn read_test(
        &self,
        _values: &Values<'_>,
        _answer: &Answer<'_>,
        _scrubber: &Scrubber,
    ) -> Result<TestReading, TestFailure> {
        todo!()
    }

    /// How people sign in, where they can.
    pub fn oauth(&self) -> Option<OAuth<'_>> {
        todo!()
    }

    /// How an app gets its tokens, where there is one.
    pub fn app(&self) -> Option<App<'_>> {
        todo!()
    }

    /// Does this manifest, put in the place of `old`, send credentials elsewhere: other hosts, base URLs or URLs of a
    /// sign-in?
    pub fn leads_elsewhere(&self, _old: &Self) -> bool {
        todo!()
    }

    /// The classes and labels that are less strict than those of `old`.
    pub fn loosened(&self, _old: &Self) -> Vec<Fault> {
        todo!()
    }
}

/// An action of a connector; it is an [`ActionSpec`] with a request.
#[derive(Debug, Clone, Copy)]
pub struct Action<'a> {
    manifest: &'a Manifest,
    spec: &'a ActionSpec,
}

impl Deref for Action<'_> {
    type Target = ActionSpec;

    fn deref(&self) -> &ActionSpec {
        self.spec
    }
}

impl Action<'_> {
    /// Its request. The parameters are those that [`ActionSpec::check_params`] gave.
    pub fn request(&self, _values: &Values<'_>, _params: &Map<String, Value>) -> Result<HttpRequest, Fault> {
        let _ = self.manifest;
        todo!()
    }

    /// What its answer says.
    pub fn read(&self, _answer: &Answer<'_>, _scrubber: &Scrubber) -> Result<Reading, Failure> {
        todo!()
    }
}

/// A client at a provider's OAuth server.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its id.
    pub id: String,
    /// Its secret; empty for none.
    pub secret: Secret<String>,
}

/// A sign-in that begins.
#[derive(Debug, Clone, Copy)]
pub struct SignIn<'a> {
    /// The id of our client.
    pub client_id: &'a str,
    /// Where the provider sends the person back.
    pub redirect_uri: &'a str,
    /// What comes back with them.
    pub state: &'a str,
    /// What the exchange must show; only its SHA-256 is in the address.
    pub verifier: &'a str,
    /// The scopes to ask for; empty for all of the manifest.
    pub scopes: &'a [String],
    /// The configuration of the connection.
    pub config: &'a BTreeMap<String, String>,
    /// The operator's address for this connector.
    pub base_url: Option<&'a BaseUrl>,
}

/// What every call to an OAuth server needs.
#[derive(Debug, Clone, Copy)]
pub struct OAuthCall<'a> {
    /// Our client there.
    pub client: &'a Client,
    /// The configuration of the connection.
    pub config: &'a BTreeMap<String, String>,
    /// The operator's address for this connector.
    pub base_url: Option<&'a BaseUrl>,
}

/// Tokens, as a provider answered them.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// The access token.
    pub access_token: Secret<String>,
    /// The refresh token, where there is one; a refresh that answers none keeps the old one.
    pub refresh_token: Option<Secret<String>>,
    /// When the access token ends, where the provider says so.
    pub expires_at: Option<Timestamp>,
    /// The scopes granted, where the provider says which.
    pub scopes: Option<Vec<String>>,
}

/// Why there are no tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenFailure {
    /// The provider will not take this grant again: a person has to sign in.
    Dead {
        /// The provider's error, at most 64 of `[a-z0-9_.-]`, else `provider_error`.
        error: String,
    },
    /// The provider refuses, or its answer holds no token.
    Refused {
        /// As above.
        error: String,
    },
    /// The provider failed, or wants fewer calls.
    Failed {
        /// The status.
        status_code: u16,
        /// For how many seconds to wait, where the provider says so.
        retry_after: Option<u32>,
    },
}

/// How people sign in at a provider.
#[derive(Debug, Clone, Copy)]
pub struct OAuth<'a> {
    manifest: &'a Manifest,
}

impl OAuth<'_> {
    /// The scopes that it asks for.
    pub fn scopes(&self) -> &[String] {
        let _ = self.manifest;
        todo!()
    }

    /// Where a person is sent, and who chose that host.
    pub fn authorize_url(&self, _sign_in: &SignIn<'_>) -> Result<(Url, Destination), Fault> {
        todo!()
    }

    /// The request that exchanges a code.
    pub fn exchange(
        &self,
        _call: &OAuthCall<'_>,
        _code: &str,
        _verifier: &str,
        _redirect_uri: &str,
    ) -> Result<HttpRequest, Fault> {
        todo!()
    }

    /// The request for a fresh access token.
    pub fn refresh(&self, _call: &OAuthCall<'_>, _refresh_token: &str) -> Result<HttpRequest, Fault> {
        todo!()
    }

    /// The request that revokes a token; `None` where the provider has none.
    pub fn revoke(&self, _call: &OAuthCall<'_>, _token: &str) -> Result<Option<HttpRequest>, Fault> {
        todo!()
    }

    /// Does the answer say that the token is revoked?
    pub fn is_revoked(&self, _answer: &Answer<'_>) -> bool {
        todo!()
    }

    /// The tokens in an answer to an exchange or a refresh.
    pub fn read(&self, _answer: &Answer<'_>, _now: Timestamp) -> Result<Tokens, TokenFailure> {
        todo!()
    }
}

/// What an app signs with its private key, as RS256.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claims {
    /// The app.
    pub iss: String,
    /// When it was signed, in seconds; a minute ago, for clocks that are slow.
    pub iat: i64,
    /// When it ends, in seconds.
    pub exp: i64,
}

/// How an app gets tokens for an installation.
#[derive(Debug, Clone, Copy)]
pub struct App<'a> {
    manifest: &'a Manifest,
}

impl App<'_> {
    /// What the app signs.
    pub fn claims(&self, _auth: &Credentials, _now: Timestamp) -> Result<Claims, Fault> {
        let _ = self.manifest;
        todo!()
    }

    /// The name of the credential's field that holds the private key, as PEM.
    pub fn private_key_field(&self) -> &str {
        todo!()
    }

    /// The request for an installation's token. `jwt` must be among the values of the credential.
    pub fn token_request(&self, _values: &Values<'_>) -> Result<HttpRequest, Fault> {
        todo!()
    }

    /// The token in its answer.
    pub fn read(&self, _answer: &Answer<'_>, _now: Timestamp) -> Result<Tokens, TokenFailure> {
        todo!()
    }
}

/// What the operator put in the place of scheme and host of every URL of a connector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(Url);

/// The operator's addresses by connector: `github=http://127.0.0.1:9000/gh,gitlab=…`.
#[derive(Debug, Clone, Default)]
pub struct Overrides(BTreeMap<String, BaseUrl>);

impl Overrides {
    /// Reads the configuration; empty text holds none.
    pub fn parse(_text: &str) -> Result<Self, String> {
        todo!()
    }

    /// The address for a connector.
    pub fn get(&self, connector: &str) -> Option<&BaseUrl> {
        self.0.get(connector)
    }
}

/// The connectors that every account has, by name.
pub fn builtins() -> &'static [Manifest] {
    todo!()
}

/// The connector of that name that every account has.
pub fn builtin(id: &str) -> Option<&'static Manifest> {
    builtins().iter().find(|manifest| manifest.id == id)
}

/// Which methods, and an account's own service: the kind `endpoint`.
pub mod endpoint {
    use super::*;

    /// How the secret goes with a request.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum Injection {
        /// `authorization: Bearer …`.
        Bearer,
        /// A header of that name.
        Header(String),
        /// `authorization: Basic …` of `user:password`.
        Basic,
        /// No secret goes with it.
        None,
    }

    /// An account's own service.
    #[derive(Debug, Clone)]
    pub struct Endpoint {
        base_url: Url,
    }

    impl Endpoint {
        /// Reads a configuration; faults name their `config.x`. An IP address is a host for an agent alone.
        pub fn new(_config: &BTreeMap<String, String>, _executor: Executor) -> Result<Self, Vec<Fault>> {
            todo!()
        }

        /// Its host, which labels the connection.
        pub fn host(&self) -> &str {
            self.base_url.host_str().unwrap_or_default()
        }

        /// How its secret goes with a request.
        pub fn injection(&self) -> &Injection {
            todo!()
        }

        /// The request of an action. Without a secret, somebody else puts it in.
        pub fn request(
            &self,
            _action: &str,
            _params: &Map<String, Value>,
            _secret: Option<&str>,
        ) -> Result<HttpRequest, Fault> {
            todo!()
        }

        /// The request of the test, which any 2xx passes.
        pub fn test_request(&self, _secret: Option<&str>) -> Result<HttpRequest, Fault> {
            todo!()
        }
    }

    /// What scrubs the secret from answers, in each form that it was sent in.
    pub fn scrubber(_secret: &str) -> Scrubber {
        todo!()
    }

    /// What an answer says: `{status, content_type, body}`.
    pub fn read(_answer: &Answer<'_>, _scrubber: &Scrubber) -> Result<Reading, Failure> {
        todo!()
    }

    /// Its entry in the catalogue.
    pub fn kind() -> Kind {
        todo!()
    }

    /// Its actions.
    pub fn actions() -> &'static [ActionSpec] {
        todo!()
    }
}

/// Messages that others send: the kind `webhook-in`.
pub mod webhook_in {
    use super::*;

    /// Its entry in the catalogue.
    pub fn kind() -> Kind {
        todo!()
    }

    /// Its actions.
    pub fn actions() -> &'static [ActionSpec] {
        todo!()
    }

    /// Checks a configuration; faults name their `config.x`.
    pub fn check_config(_config: &BTreeMap<String, String>) -> Result<(), Vec<Fault>> {
        todo!()
    }
}

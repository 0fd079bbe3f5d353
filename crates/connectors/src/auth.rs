//! Modes: how a connection proves who it is.

use http::HeaderName;
use http::header::AUTHORIZATION;
use portico_kernel::text_enum;
use regex::{Regex, RegexBuilder};

use crate::address::AddressTemplate;
use crate::body::PAIRS_MAX;
use crate::field::{DESCRIPTION_MAX, name};
use crate::pointer::Pointers;
use crate::probe::Probe;
use crate::request::{Headers, header_template};
use crate::rules::Condition;
use crate::source::{Node, Table};
use crate::template::Template;
use crate::text::{has_control, header_name};

/// The longest value of a credential, in bytes.
pub const CREDENTIAL_BYTES_MAX: usize = 8_192;
/// The most fields of a credential.
const FIELDS_MAX: usize = 10;
/// The most scopes that a connector can ask for.
const SCOPES_MAX: usize = 100;
/// How large an expression may become.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// What a credential has beside its own fields.
pub(crate) const GIVEN_NAMES: [&str; 4] = ["access_token", "refresh_token", "jwt", "basic"];
/// What a sign-in puts into its address by itself.
const SIGN_IN_PARAMS: [&str; 7] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "scope",
    "code_challenge",
    "code_challenge_method",
];

text_enum! {
    /// How a connection proves who it is. Where a manifest does not say otherwise, the first of its modes is the default.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Mode {
        /// A key that the provider gave out.
        ApiKey = "api_key",
        /// A name and a password.
        Basic = "basic",
        /// A person signs in at the provider.
        OAuth2 = "oauth2",
        /// An app with a private key, which gets tokens for an installation.
        App = "app",
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
    /// It is scrubbed from answers, and a form hides it.
    pub secret: bool,
}

impl CredentialField {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), description: String::new(), pattern: String::new(), secret: true }
    }

    fn read(node: &Node<'_>) -> Option<Self> {
        node.table(|table| {
            let name = table.required("name").and_then(|node| node.parse(32, name));
            let pattern = table.text("pattern", 200);
            if let Err(message) = expression(&pattern) {
                table.fault("pattern", message);
            }
            if name.as_deref().is_some_and(|name| GIVEN_NAMES.contains(&name)) {
                table.fault("name", "is a name with a meaning of its own");
            }
            let (description, secret) =
                (table.text("description", DESCRIPTION_MAX), table.flag("secret", true));
            Some(Self { name: name?, description, pattern, secret })
        })?
    }

    /// Checks a value.
    pub(crate) fn check(&self, value: &str) -> Result<(), String> {
        if value.is_empty() {
            return Err("must not be empty".to_owned());
        }
        if value.len() > CREDENTIAL_BYTES_MAX {
            return Err(format!("must have at most {CREDENTIAL_BYTES_MAX} bytes"));
        }
        // A private key is lines of text.
        if self.name != "private_key" && has_control(value) {
            return Err("must have no control characters".to_owned());
        }
        match expression(&self.pattern) {
            Ok(expression) if !expression.is_match(value) => {
                Err("does not look like one of this provider".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// The expression that all of a value must match.
fn expression(pattern: &str) -> Result<Regex, String> {
    let whole = if pattern.is_empty() { String::new() } else { format!("^(?:{pattern})$") };
    let built = RegexBuilder::new(&whole).size_limit(PATTERN_BYTES_MAX).build();
    built.map_err(|_| "is not an expression, or a very large one".to_owned())
}

/// What a mode has of its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Detail {
    ApiKey,
    /// What `{auth.basic}` is made of.
    Basic {
        user: Template,
        password: Template,
    },
    OAuth2(Box<OAuth2>),
    App(Box<AppDetail>),
}

/// One mode of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Auth {
    pub(crate) mode: Mode,
    pub(crate) fields: Vec<CredentialField>,
    /// The header that its requests carry.
    pub(crate) header: Headers,
    /// In the place of the manifest's own.
    pub(crate) base_url: Option<AddressTemplate>,
    /// In the place of the manifest's own.
    pub(crate) test: Option<Probe>,
    pub(crate) detail: Detail,
}

/// How a sign-in goes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OAuth2 {
    pub(crate) authorize_url: AddressTemplate,
    pub(crate) token_url: AddressTemplate,
    pub(crate) revoke_url: Option<AddressTemplate>,
    pub(crate) scopes: Vec<String>,
    pub(crate) scope_separator: String,
    pub(crate) authorize_params: Vec<(String, String)>,
    /// The client shows its secret in a header, not in the body.
    pub(crate) is_basic: bool,
    /// Bodies are JSON, not forms.
    pub(crate) is_json: bool,
    pub(crate) token: TokenPointers,
    pub(crate) dead: Vec<Condition>,
}

/// How an app gets its tokens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AppDetail {
    pub(crate) issuer: Template,
    pub(crate) private_key: String,
    pub(crate) token_url: AddressTemplate,
    pub(crate) token: TokenPointers,
}

/// Where the parts of a token's answer stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenPointers {
    pub(crate) access_token: Pointers,
    pub(crate) refresh_token: Pointers,
    pub(crate) expires_in: Pointers,
    pub(crate) expires_at: Pointers,
    pub(crate) scope: Pointers,
}

impl TokenPointers {
    fn read(table: &Table<'_>) -> Self {
        let read = |table: &Table<'_>| Self {
            access_token: Pointers::field_or(table, "access_token", "/access_token"),
            refresh_token: Pointers::field_or(table, "refresh_token", "/refresh_token"),
            expires_in: Pointers::field_or(table, "expires_in", "/expires_in"),
            expires_at: Pointers::field(table, "expires_at"),
            scope: Pointers::field_or(table, "scope", "/scope"),
        };
        let given = table.get("token").and_then(|node| node.table(read));
        given.unwrap_or_else(|| {
            let standard = |name: &str| Pointers::standard(name);
            Self {
                access_token: standard("/access_token"),
                refresh_token: standard("/refresh_token"),
                expires_in: standard("/expires_in"),
                expires_at: Pointers::default(),
                scope: standard("/scope"),
            }
        })
    }
}

impl Auth {
    /// Reads a mode.
    pub(crate) fn read(mode: Mode, node: &Node<'_>) -> Option<Self> {
        node.table(|table| {
            let fields = match mode {
                Mode::OAuth2 => Vec::new(),
                Mode::App => fields(table, &[]),
                Mode::ApiKey => fields(table, &["api_key"]),
                Mode::Basic => fields(table, &["username", "password"]),
            };
            let header = header(
                table,
                match mode {
                    Mode::ApiKey => "Bearer {auth.api_key}",
                    Mode::Basic => "Basic {auth.basic}",
                    Mode::OAuth2 | Mode::App => "Bearer {auth.access_token}",
                },
            );
            let base_url = address(table, "base_url", AddressTemplate::parse_base);
            let test = table.get("test").map(|node| Probe::read(&node));
            let detail = match mode {
                Mode::ApiKey => Some(Detail::ApiKey),
                Mode::Basic => Some(Detail::Basic {
                    user: text_or(table, "user", "{auth.username}"),
                    password: text_or(table, "password", "{auth.password}"),
                }),
                Mode::OAuth2 => OAuth2::read(table).map(|oauth| Detail::OAuth2(Box::new(oauth))),
                Mode::App => AppDetail::read(table, &fields).map(|app| Detail::App(Box::new(app))),
            };
            if mode != Mode::OAuth2 && fields.is_empty() {
                table.fault("fields", "is required");
            }
            let test = test.map_or(Some(None), |test| test.map(Some));
            Some(Self { mode, fields, header, base_url, test: test?, detail: detail? })
        })?
    }

    /// The names that `{auth.x}` may have.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let given: &[&str] = match self.mode {
            Mode::ApiKey => &[],
            Mode::Basic => &["basic"],
            Mode::OAuth2 | Mode::App => &["access_token"],
        };
        let kept = self.test.iter().flat_map(|test| test.keep.keys().map(String::as_str));
        self.fields.iter().map(|field| field.name.as_str()).chain(given.iter().copied()).chain(kept)
    }
}

impl OAuth2 {
    fn read(table: &Table<'_>) -> Option<Self> {
        let authorize_url = required_address(table, "authorize_url");
        let token_url = required_address(table, "token_url");
        let scope_separator =
            table.get("scope_separator").and_then(|node| node.text(1..=3)).unwrap_or(" ").to_owned();
        let choice = |name: &'static str, first: &'static str, second: &'static str| {
            let is_second = |text: &str| (text == first || text == second).then_some(text == second);
            table.get(name).and_then(|node| node.choice(&[first, second], is_second)).unwrap_or(false)
        };
        let dead = match table.get("dead") {
            Some(_) => Condition::read_list(table, "dead"),
            None => vec![Condition::new(&[400, 401], Pointers::standard("/error"), &["invalid_grant"])],
        };
        let oauth = Self {
            revoke_url: address(table, "revoke_url", AddressTemplate::parse),
            scopes: table.list("scopes", SCOPES_MAX, |node| node.parse(200, scope)),
            scope_separator,
            authorize_params: table
                .get("authorize_params")
                .map(|node| sign_in_params(&node))
                .unwrap_or_default(),
            is_basic: choice("client_auth", "body", "basic"),
            is_json: choice("body", "form", "json"),
            token: TokenPointers::read(table),
            dead,
            authorize_url: authorize_url?,
            token_url: token_url?,
        };
        Some(oauth)
    }
}

impl AppDetail {
    fn read(table: &Table<'_>, fields: &[CredentialField]) -> Option<Self> {
        let token_url = required_address(table, "token_url");
        let private_key = match table.get("private_key") {
            Some(node) => node.text(1..=32).unwrap_or_default().to_owned(),
            None => "private_key".to_owned(),
        };
        if !fields.iter().any(|field| field.name == private_key) {
            table.fault("private_key", "is none of its fields");
        }
        let issuer = text_or(table, "issuer", "{auth.app_id}");
        Some(Self { issuer, private_key, token: TokenPointers::read(table), token_url: token_url? })
    }
}

/// The fields of a credential, by default these.
fn fields(table: &Table<'_>, default: &[&str]) -> Vec<CredentialField> {
    if table.get("fields").is_none() {
        return default.iter().map(|name| CredentialField::new(name)).collect();
    }
    let fields: Vec<CredentialField> = table.list("fields", FIELDS_MAX, CredentialField::read);
    for (index, field) in fields.iter().enumerate() {
        if fields[..index].iter().any(|known| known.name == field.name) {
            table.fault("fields", format!("has {} twice", field.name));
        }
    }
    fields
}

fn header(table: &Table<'_>, default: &str) -> Headers {
    let name: HeaderName =
        table.get("header_name").and_then(|node| node.parse(100, header_name)).unwrap_or(AUTHORIZATION);
    let template = match table.get("header") {
        Some(node) if node.value.as_str() == Some("") => return Headers::default(),
        Some(node) => node.parse(2_000, header_template),
        None => header_template(default).ok(),
    };
    template.map(|template| Headers::one(name, template)).unwrap_or_default()
}

fn text_or(table: &Table<'_>, name: &'static str, default: &str) -> Template {
    let given = table.get(name).and_then(|node| node.parse(500, Template::parse));
    given.unwrap_or_else(|| Template::parse(default).unwrap_or_default())
}

fn required_address(table: &Table<'_>, name: &'static str) -> Option<AddressTemplate> {
    table.required(name)?.parse(2_000, AddressTemplate::parse)
}

/// An address that may be left out, or empty.
pub(crate) fn address(
    table: &Table<'_>,
    name: &'static str,
    parse: fn(&str) -> Result<AddressTemplate, String>,
) -> Option<AddressTemplate> {
    let node = table.get(name).filter(|node| node.value.as_str() != Some(""))?;
    node.parse(2_000, parse)
}

fn scope(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    if fits { Ok(text.to_owned()) } else { Err("must be a scope, without spaces".to_owned()) }
}

fn sign_in_params(node: &Node<'_>) -> Vec<(String, String)> {
    let mut params = Vec::new();
    for (name, value) in node.entries(PAIRS_MAX) {
        if SIGN_IN_PARAMS.contains(&name) {
            value.fault("is set by every sign-in itself");
        }
        if let Some(text) = value.text(0..=500) {
            params.push((name.to_owned(), text.to_owned()));
        }
    }
    params
}

//! A connector, read whole and checked.

use std::collections::{BTreeMap, BTreeSet};

use portico_kernel::check_name;
use serde_json::{Map, Value};
use url::Url;

use crate::action::{Action, Entry};
use crate::address::{AddressTemplate, parse_host};
use crate::app::App;
use crate::auth::{Auth, CredentialField, Detail, Mode};
use crate::check::Check;
use crate::fault::{Fault, Faults};
use crate::field::{ConfigField, DESCRIPTION_MAX, Field, FieldDefinition};
use crate::oauth::OAuth;
use crate::probe::Probe;
use crate::request::Headers;
use crate::rules::Rules;
use crate::source::{Node, Table};
use crate::text::is_connector_id;
use crate::values::{Scope, Values, basic};

/// The longest manifest, as JSON or as TOML.
pub const MANIFEST_BYTES_MAX: usize = 128 * 1024;
/// The most actions of a manifest.
pub const ACTIONS_MAX: usize = 100;
/// The most hosts that a manifest calls.
const HOSTS_MAX: usize = 20;
/// The most fields of a configuration.
const CONFIG_FIELDS_MAX: usize = 20;
/// The longest address in a manifest that nobody calls.
const DOCS_MAX: usize = 500;

/// A connector, read and checked.
#[derive(Debug, Clone)]
pub struct Manifest {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) docs: String,
    pub(crate) hosts: Vec<String>,
    pub(crate) config: Vec<ConfigField>,
    /// The default first.
    pub(crate) auth: Vec<Auth>,
    pub(crate) base_url: AddressTemplate,
    /// What every request has.
    pub(crate) headers: Headers,
    pub(crate) rules: Rules,
    pub(crate) test: Probe,
    pub(crate) actions: Vec<Entry>,
    source: Value,
}

impl Manifest {
    /// Reads a manifest from TOML, or says everything that is wrong with it.
    pub fn from_toml(text: &str) -> Result<Self, Vec<Fault>> {
        check_size(text.len())?;
        let value = toml::from_str::<Value>(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            vec![Fault::new("", format!("does not parse as TOML: line {line}: {}", error.message()))]
        })?;
        Self::from_json(&value)
    }

    /// Reads a manifest from JSON, or says everything that is wrong with it.
    pub fn from_json(value: &Value) -> Result<Self, Vec<Fault>> {
        check_size(value.to_string().len())?;
        let faults = Faults::default();
        let read = Node::new(value, &faults).table(|table| Self::read(table, value)).flatten();
        if let Some(manifest) = &read {
            Check { manifest, faults: &faults }.run();
        }
        faults.into_result(read)
    }

    fn read(table: &Table<'_>, source: &Value) -> Option<Self> {
        let id = table.required("id").and_then(|node| node.parse(32, connector_id));
        let title = table.required("title").and_then(|node| node.parse(80, title));
        let description = table.text("description", DESCRIPTION_MAX);
        let docs = table.get("docs").and_then(|node| node.parse(DOCS_MAX, docs)).unwrap_or_default();
        let hosts = table.list("hosts", HOSTS_MAX, |node| node.parse(254, parse_host));
        if hosts.is_empty() {
            table.fault("hosts", "is required, and must not be empty");
        }
        let config = table.list("config", CONFIG_FIELDS_MAX, ConfigField::read);
        let auth = read_auth(table);
        let request = table.required("request").and_then(|node| {
            node.table(|table| {
                let base_url = table
                    .required("base_url")
                    .and_then(|node| node.parse(2_000, AddressTemplate::parse_base));
                let headers = table.get("headers").map(|node| Headers::read(&node)).unwrap_or_default();
                let rules = Rules::read(table);
                base_url.map(|base_url| (base_url, headers, rules))
            })?
        });
        let test = table.required("test").and_then(|node| Probe::read(&node));
        let actions = table.list("actions", ACTIONS_MAX, Entry::read);
        if table.get("actions").and_then(|node| node.value.as_array()).is_none_or(Vec::is_empty) {
            table.fault("actions", "is required, and must not be empty");
        }
        let (base_url, headers, rules) = request?;
        Some(Self {
            id: id?,
            title: title?,
            description,
            docs,
            hosts,
            config,
            auth: auth?,
            base_url,
            headers,
            rules,
            test: test?,
            actions,
            source: source.clone(),
        })
    }

    /// What it was read from, as JSON.
    pub const fn to_json(&self) -> &Value {
        &self.source
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
        &self.hosts
    }

    /// Its modes, the default first.
    pub fn modes(&self) -> impl Iterator<Item = Mode> {
        self.auth.iter().map(|auth| auth.mode)
    }

    /// The fields of its configuration.
    pub fn config(&self) -> Vec<FieldDefinition> {
        self.config.iter().map(|field| field.field.definition()).collect()
    }

    /// The fields of a credential of that mode; none for a mode that it does not have, and for a sign-in.
    pub fn credential_fields(&self, mode: Mode) -> &[CredentialField] {
        self.mode(mode).map(|auth| auth.fields.as_slice()).unwrap_or_default()
    }

    /// All its actions.
    pub fn actions(&self) -> impl Iterator<Item = Action<'_>> {
        self.actions.iter().map(|entry| Action { manifest: self, entry })
    }

    /// An action by its name.
    pub fn action(&self, name: &str) -> Option<Action<'_>> {
        self.actions().find(|action| action.name == name)
    }

    /// How people sign in, where they can.
    pub fn oauth(&self) -> Option<OAuth<'_>> {
        match &self.mode(Mode::OAuth2)?.detail {
            Detail::OAuth2(oauth) => Some(OAuth { manifest: self, oauth }),
            Detail::ApiKey | Detail::Basic { .. } | Detail::App(_) => None,
        }
    }

    /// How an app gets its tokens, where there is one.
    pub fn app(&self) -> Option<App<'_>> {
        match &self.mode(Mode::App)?.detail {
            Detail::App(app) => Some(App { manifest: self, app }),
            Detail::ApiKey | Detail::Basic { .. } | Detail::OAuth2(_) => None,
        }
    }

    pub(crate) fn mode(&self, mode: Mode) -> Option<&Auth> {
        self.auth.iter().find(|auth| auth.mode == mode)
    }

    /// The base URL of a mode's requests.
    pub(crate) fn base_url(&self, mode: Mode) -> &AddressTemplate {
        self.mode(mode).and_then(|auth| auth.base_url.as_ref()).unwrap_or(&self.base_url)
    }

    /// The test of a mode.
    pub(crate) fn probe(&self, mode: Mode) -> &Probe {
        self.mode(mode).and_then(|auth| auth.test.as_ref()).unwrap_or(&self.test)
    }

    /// Where the values of a request are looked up.
    pub(crate) fn scope<'a>(
        &'a self,
        values: &Values<'a>,
        param_fields: &'a [Field],
        params: &'a Map<String, Value>,
    ) -> Scope<'a> {
        let mut scope = Scope {
            fields: &self.config,
            config: values.config,
            auth: values.auth,
            basic: None,
            param_fields,
            params,
        };
        if let Some(Detail::Basic { user, password }) = self.mode(values.mode).map(|auth| &auth.detail) {
            let room = crate::values::Room::new(64 * 1024);
            let part = |template| scope.text(template, &room).ok().flatten().unwrap_or_default();
            scope.basic = Some(basic(&part(user), &part(password)));
        }
        scope
    }
}

fn check_size(bytes: usize) -> Result<(), Vec<Fault>> {
    if bytes <= MANIFEST_BYTES_MAX {
        return Ok(());
    }
    Err(vec![Fault::new("", format!("has {bytes} bytes; {MANIFEST_BYTES_MAX} is the maximum"))])
}

fn connector_id(text: &str) -> Result<String, String> {
    if is_connector_id(text) {
        Ok(text.to_owned())
    } else {
        Err("must be like [a-z][a-z0-9-]{1,31}".to_owned())
    }
}

fn title(text: &str) -> Result<String, String> {
    check_name(text, 1..=80).map(|()| text.to_owned())
}

/// The address of a page for people, or nothing.
fn docs(text: &str) -> Result<String, String> {
    let is_page = text.is_empty() || (text.starts_with("https://") && Url::parse(text).is_ok());
    if is_page { Ok(text.to_owned()) } else { Err("must be an address that begins with https://".to_owned()) }
}

/// The modes, the default first; `None` when one cannot be read.
fn read_auth(table: &Table<'_>) -> Option<Vec<Auth>> {
    let names: Vec<_> = Mode::ALL.iter().map(|mode| mode.name()).collect();
    let default = table.get("default_mode").and_then(|node| node.choice(&names, Mode::parse));
    let node = table.required("auth")?;
    let modes: Vec<Option<Auth>> = node.table(|table| {
        let given = Mode::ALL.iter().filter_map(|mode| Some((*mode, table.get(mode.name())?)));
        given.map(|(mode, node)| Auth::read(mode, &node)).collect()
    })?;
    let mut modes = modes.into_iter().collect::<Option<Vec<_>>>()?;
    if modes.is_empty() {
        node.fault(format!("must have one of {}", names.join(", ")));
        return None;
    }
    let has: BTreeSet<_> = modes.iter().map(|auth| auth.mode).collect();
    if default.is_some_and(|default| !has.contains(&default)) {
        table.fault("default_mode", "is none of its modes");
    }
    modes.sort_by_key(|auth| (Some(auth.mode) != default, auth.mode));
    Some(modes)
}

/// An empty configuration, for what has none.
pub(crate) static NO_CONFIG: BTreeMap<String, String> = BTreeMap::new();

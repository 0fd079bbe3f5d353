//! What a connection to a connector is checked by: its configuration, its credential, its test.

use std::collections::BTreeMap;

use serde_json::Map;

use crate::address::{AddressTemplate, Destination, HostTemplate, host_of};
use crate::answer::{Answer, Message};
use crate::auth::{Auth, Detail, Mode};
use crate::fault::Fault;
use crate::manifest::Manifest;
use crate::probe::{TestFailure, TestReading};
use crate::request::{Headers, HttpRequest};
use crate::scrub::Scrubber;
use crate::template::{Root, Variable};
use crate::text::shown;
use crate::values::{Credentials, Values, config_value};

/// The names in a credential, beside the secret fields of its mode, whose values are scrubbed from answers.
const SECRET_NAMES: [&str; 3] = ["access_token", "refresh_token", "jwt"];

impl Manifest {
    /// Checks a configuration for a connection of that mode. Every fault names its `config.x`.
    pub fn check_config(&self, mode: Mode, config: &BTreeMap<String, String>) -> Result<(), Vec<Fault>> {
        let mut faults = Vec::new();
        let mut fault =
            |name: &str, message: String| faults.push(Fault::new(format!("config.{}", shown(name)), message));
        for (name, value) in config.iter().filter(|(_, value)| !value.is_empty()) {
            match self.config.iter().find(|field| field.field.name == *name) {
                None => fault(name, "is not a field of this connector's configuration".to_owned()),
                Some(field) => {
                    if let Err(message) = field.check(value) {
                        fault(name, message);
                    }
                }
            }
        }
        let known = |name: &String| self.config.iter().any(|field| field.field.name == *name);
        for name in
            config.iter().filter(|(name, value)| value.is_empty() && !known(name)).map(|(name, _)| name)
        {
            fault(name, "is not a field of this connector's configuration".to_owned());
        }
        let needed = self.needed_config(mode);
        for field in &self.config {
            let name = field.field.name.as_str();
            let is_needed = field.field.required || needed.contains(&name);
            if is_needed && config_value(&self.config, config, name).is_none() {
                fault(name, "is required".to_owned());
            }
        }
        for address in self.addresses(mode) {
            let HostTemplate::Field { name, suffix } = &address.host else { continue };
            let value = config_value(&self.config, config, name);
            if let Some(Err(message)) = value.map(|value| host_of(value, suffix)) {
                fault(name, message);
            }
        }
        if faults.is_empty() {
            return Ok(());
        }
        faults.sort();
        faults.dedup();
        Err(faults)
    }

    /// The fields of the configuration that the paths and hosts of a mode cannot do without.
    fn needed_config(&self, mode: Mode) -> Vec<&str> {
        let mut needed = Vec::new();
        let mut add = |variable: &'_ Variable| {
            if variable.root == Root::Config {
                needed.extend(
                    self.config
                        .iter()
                        .map(|field| field.field.name.as_str())
                        .find(|name| *name == variable.name),
                );
            }
        };
        for address in self.addresses(mode) {
            address.path.variables().for_each(&mut add);
            if let HostTemplate::Field { name, .. } = &address.host {
                add(&Variable { root: Root::Config, name: name.clone() });
            }
        }
        self.probe(mode).request.path.variables().for_each(&mut add);
        self.actions.iter().flat_map(|entry| entry.request.path.variables()).for_each(&mut add);
        needed
    }

    /// Every address that a connection of a mode uses.
    fn addresses(&self, mode: Mode) -> Vec<&AddressTemplate> {
        let mut addresses = vec![self.base_url(mode)];
        addresses.extend(self.probe(mode).base_url.as_ref());
        match self.mode(mode).map(|auth| &auth.detail) {
            Some(Detail::OAuth2(oauth)) => {
                addresses.extend([&oauth.authorize_url, &oauth.token_url]);
                addresses.extend(oauth.revoke_url.as_ref());
            }
            Some(Detail::App(app)) => addresses.push(&app.token_url),
            Some(Detail::ApiKey | Detail::Basic { .. }) | None => {}
        }
        addresses
    }

    /// Checks a credential, and says which mode it is of. Faults name `auth_mode` or a `credentials.x`.
    ///
    /// A mode may be left out when the fields fit one only. `oauth2` takes no fields: it is for a sign-in.
    pub fn check_credentials(
        &self,
        mode: Option<&str>,
        credentials: &BTreeMap<String, String>,
    ) -> Result<Mode, Vec<Fault>> {
        let auth = match mode.filter(|mode| !mode.is_empty()) {
            Some(name) => Mode::parse(name).and_then(|mode| self.mode(mode)).ok_or_else(|| {
                let names: Vec<_> = self.modes().map(Mode::name).collect();
                vec![Fault::new("auth_mode", format!("must be one of {}", names.join(", ")))]
            })?,
            None => self.fitting(credentials)?,
        };
        let mut faults = Vec::new();
        for name in credentials.keys().filter(|name| auth.fields.iter().all(|field| field.name != **name)) {
            let message = format!("is not a field of {}", auth.mode.name());
            faults.push(Fault::new(format!("credentials.{}", shown(name)), message));
        }
        for field in &auth.fields {
            let value = credentials.get(&field.name).ok_or_else(|| "is required".to_owned());
            if let Err(message) = value.and_then(|value| field.check(value)) {
                faults.push(Fault::new(format!("credentials.{}", field.name), message));
            }
        }
        if faults.is_empty() {
            faults.extend(basic_fault(auth, credentials));
        }
        if faults.is_empty() { Ok(auth.mode) } else { Err(faults) }
    }

    /// The mode whose fields these are, or else the one that has most of them, the default first.
    fn fitting(&self, credentials: &BTreeMap<String, String>) -> Result<&Auth, Vec<Fault>> {
        let known =
            |auth: &Auth| auth.fields.iter().filter(|field| credentials.contains_key(&field.name)).count();
        let fits = |auth: &&Auth| known(auth) == auth.fields.len() && known(auth) == credentials.len();
        let fitting: Vec<_> = self.auth.iter().filter(fits).collect();
        match fitting.as_slice() {
            [auth] => Ok(auth),
            [] => {
                // Of equals, the last one would count.
                let nearest =
                    self.auth.iter().rev().max_by_key(|auth| (known(auth), auth.mode != Mode::OAuth2));
                nearest.ok_or_else(|| vec![Fault::new("auth_mode", "is required")])
            }
            several => {
                let names: Vec<_> = several.iter().map(|auth| auth.mode.name()).collect();
                Err(vec![Fault::new(
                    "auth_mode",
                    format!("is required: these fields fit {}", names.join(" and ")),
                )])
            }
        }
    }

    /// Would the credential of a connection of that mode go to another host with the new configuration?
    pub fn moves_host(
        &self,
        mode: Mode,
        old: &BTreeMap<String, String>,
        new: &BTreeMap<String, String>,
    ) -> bool {
        let value = |config, name| config_value(&self.config, config, name).map(str::to_ascii_lowercase);
        self.addresses(mode).into_iter().any(|address| match &address.host {
            HostTemplate::Field { name, .. } => value(old, name) != value(new, name),
            HostTemplate::Fixed(_) => false,
        })
    }

    /// Do the tests of two modes say of an account who it is in the same way?
    pub fn have_same_test(&self, one: Mode, other: Mode) -> bool {
        std::ptr::eq(self.probe(one), self.probe(other))
    }

    /// What the configuration says of the host that actions go to; empty where that is always the same. Two hosts may know two
    /// accounts by one id.
    pub fn chosen_host(&self, mode: Mode, config: &BTreeMap<String, String>) -> String {
        match &self.base_url(mode).host {
            HostTemplate::Field { name, .. } => {
                config_value(&self.config, config, name).unwrap_or_default().to_ascii_lowercase()
            }
            HostTemplate::Fixed(_) => String::new(),
        }
    }

    /// Every host that the requests of a connection of that mode go to, sign-in included, with who chose it.
    pub fn destinations(
        &self,
        mode: Mode,
        config: &BTreeMap<String, String>,
    ) -> Result<Vec<(String, Destination)>, Fault> {
        let (auth, params) = (Credentials::default(), Map::new());
        let values = Values { mode, config, auth: &auth, base_url: None };
        let scope = self.scope(&values, &[], &params);
        let addresses = self.addresses(mode);
        let found = addresses.iter().map(|address| address.destination(&scope, &self.hosts, None));
        let mut found = found.collect::<Result<Vec<_>, _>>()?;
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// What scrubs a credential's values from answers.
    pub fn scrubber(&self, mode: Mode, auth: &Credentials) -> Scrubber {
        let fields =
            self.credential_fields(mode).iter().filter(|field| field.secret).map(|field| field.name.as_str());
        let mut secrets: Vec<&str> = fields.chain(SECRET_NAMES).filter_map(|name| auth.get(name)).collect();
        let params = Map::new();
        let values = Values { mode, config: &crate::manifest::NO_CONFIG, auth, base_url: None };
        let scope = self.scope(&values, &[], &params);
        secrets.extend(scope.basic.as_ref().map(|basic| basic.expose().as_str()));
        Scrubber::new(secrets)
    }

    /// The request of the test. Where [`Manifest::test_needs_jwt`], the credential has a field `jwt`.
    pub fn test_request(&self, values: &Values<'_>) -> Result<HttpRequest, Fault> {
        let (probe, params) = (self.probe(values.mode), Map::new());
        let scope = self.scope(values, &[], &params);
        let rest = probe.request.rest(&scope)?;
        let base = probe.base_url.as_ref().unwrap_or_else(|| self.base_url(values.mode));
        let address = base.render(&scope, &self.hosts, values.base_url, &rest)?;
        let none = Headers::default();
        let auth = self.mode(values.mode).map_or(&none, |auth| &auth.header);
        probe.request.render(address, &[&self.headers, auth], &scope)
    }

    /// Does the test of that mode need what an app signs?
    pub fn test_needs_jwt(&self, mode: Mode) -> bool {
        let is_jwt = |variable: &Variable| variable.root == Root::Auth && variable.name == "jwt";
        let mut found = false;
        self.probe(mode).request.visit(&mut |_, _, variable| found |= is_jwt(variable));
        found
    }

    /// What the answer to the test says.
    pub fn read_test(
        &self,
        values: &Values<'_>,
        answer: &Answer<'_>,
        scrubber: &Scrubber,
    ) -> Result<TestReading, TestFailure> {
        let params = Map::new();
        let scope = self.scope(values, &[], &params);
        self.probe(values.mode).judge(&Message::new(answer, scrubber), &self.rules, &scope, &self.title)
    }
}

/// A colon ends the name in Basic authentication.
fn basic_fault(auth: &Auth, credentials: &BTreeMap<String, String>) -> Option<Fault> {
    let Detail::Basic { user, .. } = &auth.detail else { return None };
    let has_colon =
        |variable: &&Variable| credentials.get(&variable.name).is_some_and(|value| value.contains(':'));
    let variable = user.variables().find(has_colon)?;
    Some(Fault::new(variable.field(), "must have no colon"))
}

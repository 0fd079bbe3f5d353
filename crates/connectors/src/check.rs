//! Do the parts of a manifest fit together?

use std::collections::BTreeSet;

use crate::address::{AddressTemplate, HostTemplate, covers, host_of};
use crate::auth::{Auth, Detail};
use crate::fault::{Faults, item};
use crate::field::{Field, FieldType};
use crate::manifest::Manifest;
use crate::probe::Probe;
use crate::request::{Headers, Place, RequestTemplate};
use crate::template::{Root, Template, Variable};

/// What the variables of a template may name.
struct Names<'a> {
    /// The names of a credential that every mode that sends this has.
    auth: BTreeSet<&'a str>,
    params: &'a [Field],
}

pub(crate) struct Check<'a> {
    pub(crate) manifest: &'a Manifest,
    pub(crate) faults: &'a Faults,
}

impl<'a> Check<'a> {
    pub(crate) fn run(&self) {
        let manifest = self.manifest;
        self.unique("config", manifest.config.iter().map(|field| field.field.name.as_str()));
        self.unique("actions", manifest.actions.iter().map(|entry| entry.spec.name.as_str()));
        let all: Vec<&Auth> = manifest.auth.iter().collect();
        let with_default_base: Vec<_> = all.iter().copied().filter(|auth| auth.base_url.is_none()).collect();
        self.address("request.base_url", &manifest.base_url, &self.names(&with_default_base, &[]));
        self.headers("request.headers", &manifest.headers, &self.names(&all, &[]));
        for auth in &all {
            self.auth(auth);
        }
        let tested: Vec<_> = all.iter().copied().filter(|auth| auth.test.is_none()).collect();
        self.probe("test", &manifest.test, &tested);
        for (index, entry) in manifest.actions.iter().enumerate() {
            let path = item("actions", index);
            self.request(&path, &entry.request, &self.names(&all, &entry.spec.params));
            self.conflicts(&path, &entry.request.headers, &all);
            if !entry.next.is_empty() && !entry.spec.params.iter().any(|param| param.name == "cursor") {
                self.faults.add(format!("{path}.next"), "needs a parameter cursor, which it goes back in");
            }
        }
        self.conflicts("request", &manifest.headers, &all);
    }

    fn unique<'n>(&self, path: &str, names: impl Iterator<Item = &'n str>) {
        let mut seen = BTreeSet::new();
        for name in names.filter(|name| !seen.insert(*name)) {
            self.faults.add(path, format!("has {name} twice"));
        }
    }

    /// What a credential has in each of these modes, what a test says to keep included.
    fn names(&self, modes: &[&'a Auth], params: &'a [Field]) -> Names<'a> {
        let names = |auth: &'a Auth| {
            let kept = auth.test.is_none().then_some(self.manifest.test.keep.keys());
            let kept = kept.into_iter().flatten().map(String::as_str);
            auth.names().chain(kept).collect::<BTreeSet<_>>()
        };
        Self::common(modes.iter().map(|auth| names(auth)), params)
    }

    /// The same without what only a test brings.
    fn own_names(modes: &[&'a Auth]) -> Names<'a> {
        let names = |auth: &'a Auth| {
            let kept = |name: &&str| auth.test.as_ref().is_some_and(|test| test.keep.contains_key(*name));
            auth.names().filter(|name| !kept(name)).collect::<BTreeSet<_>>()
        };
        Self::common(modes.iter().map(|auth| names(auth)), &[])
    }

    fn common(mut all: impl Iterator<Item = BTreeSet<&'a str>>, params: &'a [Field]) -> Names<'a> {
        let first = all.next().unwrap_or_default();
        let auth = all.fold(first, |common, names| common.intersection(&names).copied().collect());
        Names { auth, params }
    }

    fn auth(&self, auth: &'a Auth) {
        let path = format!("auth.{}", auth.mode.name());
        let names = self.names(&[auth], &[]);
        self.headers(&format!("{path}.header"), &auth.header, &names);
        if let Some(base) = &auth.base_url {
            self.address(&format!("{path}.base_url"), base, &names);
        }
        if let Some(probe) = &auth.test {
            self.probe(&format!("{path}.test"), probe, &[auth]);
        }
        let fields =
            || Names { auth: auth.fields.iter().map(|field| field.name.as_str()).collect(), params: &[] };
        match &auth.detail {
            Detail::ApiKey => {}
            Detail::Basic { user, password } => {
                self.template(&format!("{path}.user"), user, &fields());
                self.template(&format!("{path}.password"), password, &fields());
            }
            Detail::OAuth2(oauth) => {
                let none = Names { auth: BTreeSet::new(), params: &[] };
                self.address(&format!("{path}.authorize_url"), &oauth.authorize_url, &none);
                self.address(&format!("{path}.token_url"), &oauth.token_url, &none);
                if let Some(url) = &oauth.revoke_url {
                    self.address(&format!("{path}.revoke_url"), url, &none);
                }
            }
            Detail::App(app) => {
                self.address(&format!("{path}.token_url"), &app.token_url, &fields());
                self.template(&format!("{path}.issuer"), &app.issuer, &fields());
                // They are sent before there is a token.
                self.headers("request.headers", &self.manifest.headers, &fields());
            }
        }
    }

    fn probe(&self, path: &str, probe: &'a Probe, modes: &[&'a Auth]) {
        let mut names = Self::own_names(modes);
        if modes.iter().all(|auth| matches!(auth.detail, Detail::App(_))) {
            names.auth.insert("jwt");
        }
        self.request(path, &probe.request, &names);
        match &probe.base_url {
            Some(base) => self.address(&format!("{path}.base_url"), base, &names),
            None => {
                for auth in modes {
                    let (names, base) = (Self::own_names(&[auth]), self.manifest.base_url(auth.mode));
                    for variable in base.path.variables() {
                        self.variable(&format!("{path}.base_url"), variable, &names);
                    }
                }
            }
        }
        if let Some(choose) = &probe.choose {
            self.template(&format!("{path}.choose.equals"), &choose.equals, &names);
        }
    }

    fn request(&self, path: &str, request: &RequestTemplate, names: &Names<'_>) {
        request.visit(&mut |place, alone, variable| {
            let path = format!("{path}.{}", place.name());
            let Some(param) = self.variable(&path, variable, names) else { return };
            let message = match (place, param.value_type) {
                (Place::Json, _) => return,
                (Place::Path, _) if !param.required && param.default_value.is_empty() => {
                    "is not required, as a path needs it"
                }
                (Place::Path, FieldType::Path) if !alone => "shares its segment, which a path cannot",
                (Place::Query | Place::Form, FieldType::Array) if alone => return,
                (_, FieldType::Object | FieldType::Array) => "is not a single value, and cannot stand there",
                _ => return,
            };
            self.faults.add(path, format!("has {variable}, which {message}"));
        });
    }

    fn headers(&self, path: &str, headers: &Headers, names: &Names<'_>) {
        for (_, template) in headers.iter() {
            self.template(path, template, names);
        }
    }

    fn template(&self, path: &str, template: &Template, names: &Names<'_>) {
        for variable in template.variables() {
            self.variable(path, variable, names);
        }
    }

    /// The parameter that a variable names, if it names one.
    fn variable<'n>(&self, path: &str, variable: &Variable, names: &Names<'n>) -> Option<&'n Field> {
        let name = variable.name.as_str();
        let param = names.params.iter().find(|param| param.name == name);
        let is_known = match variable.root {
            Root::Config => self.manifest.config.iter().any(|field| field.field.name == name),
            Root::Auth => names.auth.contains(name),
            Root::Params => param.is_some(),
        };
        if !is_known {
            let message = match variable.root {
                Root::Config => "the configuration has no such field",
                Root::Auth => "not every credential that is sent there has such a field",
                Root::Params => "there is no such parameter there",
            };
            self.faults.add(path, format!("has {variable}, but {message}"));
        }
        param.filter(|_| variable.root == Root::Params)
    }

    /// A header that proves who we are is set by a mode alone.
    fn conflicts(&self, path: &str, headers: &Headers, modes: &[&Auth]) {
        for (name, _) in
            modes.iter().flat_map(|auth| auth.header.iter()).filter(|(name, _)| headers.has(name))
        {
            self.faults.add(format!("{path}.headers.{name}"), "is set by a mode of auth");
        }
    }

    fn address(&self, path: &str, address: &AddressTemplate, names: &Names<'_>) {
        for variable in address.path.variables() {
            self.variable(path, variable, names);
        }
        let hosts = &self.manifest.hosts;
        match &address.host {
            HostTemplate::Fixed(host) if covers(hosts, host) => {}
            HostTemplate::Fixed(host) => {
                self.faults.add(path, format!("leads to {host}, which is none of hosts"));
            }
            HostTemplate::Field { name, suffix } => {
                let variable = Variable { root: Root::Config, name: name.clone() };
                let position = self.manifest.config.iter().position(|field| field.field.name == *name);
                let Some((index, field)) = position.map(|index| (index, &self.manifest.config[index])) else {
                    self.variable(path, &variable, names);
                    return;
                };
                if !field.host || field.field.value_type != FieldType::String {
                    self.faults.add(
                        path,
                        format!("has {variable} as its host, which is no string with host = true"),
                    );
                }
                if !suffix.is_empty() && !covers(hosts, &format!("x{suffix}")) {
                    self.faults.add(path, format!("leads to names below {suffix}, which is none of hosts"));
                }
                for value in field.fixed_values() {
                    let is_listed = host_of(value, suffix).is_ok_and(|host| covers(hosts, &host));
                    if !is_listed {
                        self.faults.add(
                            item("config", index),
                            format!("has the value {value}, which is none of hosts"),
                        );
                    }
                }
            }
        }
    }
}

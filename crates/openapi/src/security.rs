//! Scopes, and what `security` asks of a token.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::finding::{Findings, shown};
use crate::pointer;

/// A scope that the document declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// `noun:verb`.
    pub name: String,
    /// What it lets a token do, for a person.
    pub description: String,
}

/// What a token must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Security {
    /// Nothing: the operation is open to everybody, without a token.
    Open,
    /// All scopes of one of these lists; an empty list is any token.
    AnyOf(Vec<Vec<String>>),
}

/// The security schemes of a document.
pub(crate) struct Schemes<'a> {
    document: &'a Value,
    scopes: BTreeMap<String, String>,
}

impl<'a> Schemes<'a> {
    pub(crate) fn read(document: &'a Value, findings: &mut Findings) -> Self {
        let mut scopes = BTreeMap::new();
        let place = "/components/securitySchemes";
        let schemes = document.pointer(place).and_then(Value::as_object);
        for (name, scheme) in schemes.into_iter().flatten() {
            let (place, scheme) = pointer::resolve(document, pointer::join(place, name), scheme);
            let text = |member: &str| scheme.get(member).and_then(Value::as_str).unwrap_or_default();
            match text("type") {
                "oauth2" => read_flows(&place, scheme, &mut scopes, findings),
                "openIdConnect" => {}
                "http" if text("scheme").eq_ignore_ascii_case("bearer") => {}
                other => {
                    let other =
                        if other == "http" { format!("http {}", text("scheme")) } else { other.to_owned() };
                    findings.add(place, format!(
                        "The security scheme is `{}`: Portico checks bearer tokens alone, so only `oauth2`, `openIdConnect` and `http` with `scheme: bearer` are read.",
                        shown(&other)
                    ));
                }
            }
        }
        Self { document, scopes }
    }

    pub(crate) fn into_scopes(self) -> Vec<Scope> {
        self.scopes.into_iter().map(|(name, description)| Scope { name, description }).collect()
    }

    /// What the operation asks for, or the document for all of them.
    pub(crate) fn of(&self, operation: &Value, id: &str, place: &str, findings: &mut Findings) -> Security {
        let own = operation.get("security").map(|security| (pointer::join(place, "security"), security));
        let general = || self.document.get("security").map(|security| ("/security".to_owned(), security));
        let Some((place, security)) = own.or_else(general) else {
            findings.add(place, format!("{id} has no security; say `security: []` if it is for everybody."));
            return Security::Open;
        };
        let Some(requirements) = security.as_array() else {
            findings.add(place, "`security` must be a list of requirements.");
            return Security::Open;
        };
        if requirements.is_empty() {
            return Security::Open;
        }
        let mut any_of = Vec::new();
        for (index, requirement) in requirements.iter().enumerate() {
            any_of.push(self.requirement(requirement, &format!("{place}/{index}"), findings));
        }
        any_of.sort();
        any_of.dedup();
        Security::AnyOf(any_of)
    }

    fn requirement(&self, requirement: &Value, place: &str, findings: &mut Findings) -> Vec<String> {
        let mut scopes = Vec::new();
        let Some(named) = requirement.as_object().filter(|named| !named.is_empty()) else {
            findings.add(place, "An empty requirement makes the token optional, which no route can be; say `security: []` if it is for everybody.");
            return scopes;
        };
        for (name, wanted) in named {
            let place = pointer::join(place, name);
            let scheme = pointer::join("/components/securitySchemes", name);
            if self.document.pointer(&scheme).is_none() {
                findings
                    .add(&place, format!("There is no security scheme `{}` in the components.", shown(name)));
            }
            let Some(wanted) = wanted.as_array() else {
                findings.add(&place, "The scopes must be a list.");
                continue;
            };
            for (index, scope) in wanted.iter().enumerate() {
                match scope.as_str() {
                    Some(scope) if self.scopes.contains_key(scope) => scopes.push(scope.to_owned()),
                    Some(scope) => findings.add(format!("{place}/{index}"), format!(
                        "The scope `{}` is declared by no security scheme; add it with its description to the `scopes` of a flow of an oauth2 scheme.",
                        shown(scope)
                    )),
                    None => findings.add(format!("{place}/{index}"), "The name of a scope must be a string."),
                }
            }
        }
        scopes.sort();
        scopes.dedup();
        scopes
    }
}

fn read_flows(place: &str, scheme: &Value, scopes: &mut BTreeMap<String, String>, findings: &mut Findings) {
    let place = pointer::join(place, "flows");
    let Some(flows) = scheme.get("flows").and_then(Value::as_object) else {
        findings.add(place, "An oauth2 scheme has `flows`, which declare its scopes.");
        return;
    };
    for (flow, inner) in flows {
        let place = pointer::join(&pointer::join(&place, flow), "scopes");
        for (name, description) in inner.get("scopes").and_then(Value::as_object).into_iter().flatten() {
            let place = pointer::join(&place, name);
            if !is_scope(name) {
                findings.add(
                    &place,
                    format!(
                        "The scope `{}` must be `noun:verb` in lower case, such as `invoices:read`.",
                        shown(name)
                    ),
                );
            }
            match description.as_str() {
                Some(description) => {
                    let known = scopes.entry(name.clone()).or_default();
                    if known.is_empty() {
                        description.trim().clone_into(known);
                    }
                }
                None => findings.add(place, "The description of a scope must be a string."),
            }
        }
    }
}

fn is_scope(name: &str) -> bool {
    let word = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
    };
    name.split_once(':').is_some_and(|(noun, verb)| word(noun) && word(verb)) && name.len() <= 64
}

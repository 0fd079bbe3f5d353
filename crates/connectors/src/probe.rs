//! The test of a connection: one request, and who its answer says that we are.

use std::collections::BTreeMap;

use http::HeaderName;

use crate::address::AddressTemplate;
use crate::answer::Message;
use crate::auth::{GIVEN_NAMES, address};
use crate::field::name;
use crate::json;
use crate::pointer::Pointers;
use crate::request::RequestTemplate;
use crate::rules::{ErrorClass, Failure, Rules, plain};
use crate::source::{Node, Table};
use crate::template::Template;
use crate::text::{first, header_name};
use crate::values::{Room, Scope};

/// The longest label and the longest id of an account, in characters.
const NAME_MAX: usize = 200;
/// The most values that a test can say to keep.
const KEEP_MAX: usize = 10;
/// The most scopes that are taken from an answer.
pub(crate) const GRANTED_SCOPES_MAX: usize = 200;

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

/// A test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Probe {
    pub(crate) request: RequestTemplate,
    /// In the place of the manifest's own.
    pub(crate) base_url: Option<AddressTemplate>,
    label: Pointers,
    external_id: Pointers,
    scopes_header: Option<HeaderName>,
    /// What is kept with the credential.
    pub(crate) keep: BTreeMap<String, Pointers>,
    pub(crate) choose: Option<Choose>,
}

/// Which item of a list the connection is about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choose {
    /// Where the list is; the whole answer where nothing is said.
    list: Pointers,
    /// What of an item is compared, and with what.
    by: Pointers,
    pub(crate) equals: Template,
}

impl Probe {
    pub(crate) fn read(node: &Node<'_>) -> Option<Self> {
        node.table(Self::read_table)?
    }

    fn read_table(table: &Table<'_>) -> Option<Self> {
        let request = RequestTemplate::read(table);
        let base_url = address(table, "base_url", AddressTemplate::parse_base);
        let (label, external_id) = (Pointers::field(table, "label"), Pointers::field(table, "external_id"));
        let scopes_header = table.get("scopes_header").filter(|node| node.value.as_str() != Some(""));
        let scopes_header = scopes_header.and_then(|node| node.parse(100, header_name));
        let mut keep = BTreeMap::new();
        for (entry, node) in table.get("keep").map(|node| node.entries(KEEP_MAX)).unwrap_or_default() {
            match name(entry) {
                Ok(entry) if !GIVEN_NAMES.contains(&entry.as_str()) => {
                    keep.insert(entry, Pointers::read(&node));
                }
                Ok(_) => node.fault("is a name with a meaning of its own"),
                Err(message) => node.fault(message),
            }
        }
        let choose = table.get("choose").map(|node| {
            node.table(|table| {
                let equals = table.required("equals").and_then(|node| node.parse(500, Template::parse));
                let (list, by) = (Pointers::field(table, "list"), Pointers::field(table, "by"));
                if by.is_empty() {
                    table.fault("by", "is required");
                }
                Some(Choose { list, by, equals: equals? })
            })?
        });
        let choose = choose.map_or(Some(None), |choose| choose.map(Some));
        let (request, choose) = (request?, choose?);
        Some(Self { request, base_url, label, external_id, scopes_header, keep, choose })
    }

    /// What the answer says; `title` labels an account without a name.
    pub(crate) fn judge(
        &self,
        message: &Message<'_>,
        rules: &Rules,
        scope: &Scope<'_>,
        title: &str,
    ) -> Result<TestReading, TestFailure> {
        rules.judge(message).map_err(TestFailure::Refused)?;
        let chosen = match &self.choose {
            Some(choose) => Some(self.chosen(choose, message, scope)?),
            None => None,
        };
        let message = chosen.as_ref().unwrap_or(message);
        let named = |pointers: &Pointers| {
            let text: String =
                pointers.text(message).unwrap_or_default().chars().take(4 * NAME_MAX).map(plain).collect();
            first(text.trim(), NAME_MAX).to_owned()
        };
        let external_id = named(&self.external_id);
        // Whatever answers 200 without saying whose account it is need not be the provider.
        if external_id.is_empty() && self.external_id.is_in_body() {
            return Err(TestFailure::Refused(unclear(ErrorClass::Provider4xx, message)));
        }
        let label = Some(named(&self.label)).filter(|label| !label.is_empty());
        let scopes = self.scopes_header.as_ref().and_then(|name| message.header(name));
        let keep =
            self.keep.iter().filter_map(|(name, at)| Some((name.clone(), at.text(message)?))).collect();
        Ok(TestReading {
            label: label.unwrap_or_else(|| title.to_owned()),
            external_id,
            scopes: scopes.map(|scopes| split_scopes(&scopes)),
            keep,
        })
    }

    /// The item of the answer's list that the connection is about: the one that the configuration names, else the one
    /// that was kept before, else the only one.
    fn chosen<'a>(
        &self,
        choose: &Choose,
        message: &Message<'a>,
        scope: &Scope<'_>,
    ) -> Result<Message<'a>, TestFailure> {
        let wanted = scope.text(&choose.equals, &Room::new(usize::MAX)).ok().flatten();
        let whole = || message.json().map(str::to_owned);
        let list = if choose.list.is_empty() { whole() } else { choose.list.json(message) };
        let items: Vec<_> = list.as_deref().map(json::items).into_iter().flatten().collect();
        let is_known = self.keep.keys().any(|name| scope.auth.get(name).is_some());
        if wanted.is_none() && !is_known && items.len() > 1 {
            return Err(TestFailure::ChooseSite);
        }
        let is_it = |item: &Message<'_>| match &wanted {
            Some(wanted) => choose.by.text(item).as_ref() == Some(wanted),
            None if is_known => {
                self.keep.iter().all(|(name, at)| scope.auth.get(name) == at.text(item).as_deref())
            }
            None => true,
        };
        let found = items.into_iter().map(|item| message.part(item)).find(is_it);
        found.ok_or_else(|| TestFailure::Refused(unclear(ErrorClass::NotFound, message)))
    }
}

/// The failure of an answer that is a success, but does not say what it must.
fn unclear(class: ErrorClass, message: &Message<'_>) -> Failure {
    Failure {
        class,
        status_code: message.status,
        provider_message: String::new(),
        retry_after: None,
        expired: false,
    }
}

/// The scopes in a text; providers separate them by spaces or commas.
pub(crate) fn split_scopes(text: &str) -> Vec<String> {
    let scopes = text.split([' ', ',']).map(str::trim).filter(|scope| !scope.is_empty());
    scopes.take(GRANTED_SCOPES_MAX).map(|scope| first(scope, NAME_MAX).to_owned()).collect()
}

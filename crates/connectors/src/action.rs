//! Actions: one request, and what its answer says.

use std::ops::Deref;

use serde_json::{Map, Value};

use crate::answer::{Answer, Message};
use crate::fault::Fault;
use crate::manifest::Manifest;
use crate::pointer::Pointers;
use crate::request::{Headers, HttpRequest, RequestTemplate};
use crate::rules::Failure;
use crate::scrub::Scrubber;
use crate::source::Node;
use crate::spec::ActionSpec;
use crate::values::Values;

/// The longest position of a next page.
const CURSOR_BYTES_MAX: usize = 8_192;

/// What an action's answer holds.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The result, as a text of JSON that is to be sent as it is: JSON as the provider wrote it, text as a string, other
    /// bytes as `{content_type, base64}`.
    pub result: String,
    /// Where the next page begins, for the parameter `cursor`; empty at the end.
    pub next_cursor: String,
    /// Tokens of a model, read.
    pub input_tokens: u32,
    /// Tokens of a model, written.
    pub output_tokens: u32,
}

/// An action of a manifest.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) spec: ActionSpec,
    pub(crate) request: RequestTemplate,
    /// What of the answer is the result; all of it where nothing is said.
    result: Pointers,
    pub(crate) next: Pointers,
    /// Where it stands that there is a next page; where nothing is said, `next` alone says so.
    more: Pointers,
    input_tokens: Pointers,
    output_tokens: Pointers,
}

impl Entry {
    pub(crate) fn read(node: &Node<'_>) -> Option<Self> {
        node.table(|table| {
            let spec = ActionSpec::read(table);
            let request = RequestTemplate::read(table);
            let result = table.required("result").map(|node| Pointers::read(&node));
            let (next, more) = (Pointers::field(table, "next"), Pointers::field(table, "more"));
            let tokens = table.get("tokens").and_then(|node| {
                node.table(|table| (Pointers::field(table, "input"), Pointers::field(table, "output")))
            });
            let (input_tokens, output_tokens) = tokens.unwrap_or_default();
            Some(Self {
                spec: spec?,
                request: request?,
                result: result?,
                next,
                more,
                input_tokens,
                output_tokens,
            })
        })?
    }
}

/// An action of a connector: an [`ActionSpec`] with a request.
#[derive(Debug, Clone, Copy)]
pub struct Action<'a> {
    pub(crate) manifest: &'a Manifest,
    pub(crate) entry: &'a Entry,
}

impl Deref for Action<'_> {
    type Target = ActionSpec;

    fn deref(&self) -> &ActionSpec {
        &self.entry.spec
    }
}

impl<'m> Action<'m> {
    /// What is known of it, for as long as its manifest lives.
    pub fn spec(&self) -> &'m ActionSpec {
        &self.entry.spec
    }

    /// The connector that it is of.
    pub fn manifest(&self) -> &'m Manifest {
        self.manifest
    }

    /// Its request. The parameters are those that [`ActionSpec::check_params`] gave.
    pub fn request(&self, values: &Values<'_>, params: &Map<String, Value>) -> Result<HttpRequest, Fault> {
        let (manifest, request) = (self.manifest, &self.entry.request);
        let scope = manifest.scope(values, &self.entry.spec.params, params);
        let rest = request.rest(&scope)?;
        let address =
            manifest.base_url(values.mode).render(&scope, &manifest.hosts, values.base_url, &rest)?;
        let none = Headers::default();
        let auth = manifest.mode(values.mode).map_or(&none, |auth| &auth.header);
        request.render(address, &[&manifest.headers, auth], &scope)
    }

    /// What its answer says.
    pub fn read(&self, answer: &Answer<'_>, scrubber: &Scrubber) -> Result<Reading, Failure> {
        let (message, entry) = (Message::new(answer, scrubber), self.entry);
        self.manifest.rules.judge(&message)?;
        let result = if entry.result.is_empty() {
            message.result()
        } else {
            entry.result.json(&message).unwrap_or_else(|| "null".to_owned())
        };
        let has_more = entry.more.is_empty() || entry.more.text(&message).as_deref() == Some("true");
        let next = entry.next.text(&message).filter(|next| has_more && next.len() <= CURSOR_BYTES_MAX);
        let tokens = |at: &Pointers| {
            let count = at.text(&message).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        Ok(Reading {
            result,
            next_cursor: next.unwrap_or_default(),
            input_tokens: tokens(&entry.input_tokens),
            output_tokens: tokens(&entry.output_tokens),
        })
    }
}

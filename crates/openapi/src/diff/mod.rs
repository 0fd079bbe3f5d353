//! What changed from one document of a service to the next.

mod schemas;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::model::{self, Kind};
use crate::operation::Operation;
use crate::parameter::{In, Parameter};
use crate::pointer;
use crate::{Document, Security};
use schemas::{Direction, Schemas};

/// One thing that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Does it break callers, or readers of events?
    pub breaking: bool,
    /// What changed, in one line.
    pub text: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.breaking { "breaking: " } else { "" };
        write!(f, "{sign}{}", self.text)
    }
}

/// Collects changes, each once.
#[derive(Default)]
pub(super) struct Changes(BTreeSet<(bool, String)>);

impl Changes {
    /// Notes a change; those that break come first.
    pub(super) fn add(&mut self, breaking: bool, text: String) {
        self.0.insert((!breaking, text));
    }
}

/// What changed from `old` to `new`, a line each; what breaks callers comes first.
pub fn diff(old: &Document, new: &Document) -> Vec<Change> {
    let mut changes = Changes::default();
    operations(old, new, &mut changes);
    scopes(old, new, &mut changes);
    events(old, new, &mut changes);
    changes.0.into_iter().map(|(harmless, text)| Change { breaking: !harmless, text }).collect()
}

/// Do two schemas say the same, whatever they tell a reader beside it?
pub fn is_same_schema(old: &Value, new: &Value) -> bool {
    let plain = |schema: &Value| {
        let mut schema = schema.clone();
        model::change(&mut schema, Kind::Schema, &mut |_, object| {
            object.retain(|name, _| {
                !name.starts_with("x-")
                    && !matches!(
                        name.as_str(),
                        "title"
                            | "description"
                            | "examples"
                            | "example"
                            | "default"
                            | "deprecated"
                            | "$comment"
                    )
            });
        });
        schema
    };
    plain(old) == plain(new)
}

/// Method and path, without the names of variables, which no caller sees.
fn route(operation: &Operation) -> (String, &'static str) {
    let segments =
        operation.path.split('/').map(|segment| if segment.starts_with('{') { "{}" } else { segment });
    (segments.collect::<Vec<_>>().join("/"), operation.method.name())
}

fn label(operation: &Operation) -> String {
    format!("{} {}", operation.method.name(), operation.path)
}

fn operations(old: &Document, new: &Document, changes: &mut Changes) {
    let by_route = |document: &'_ Document| -> BTreeMap<_, usize> {
        document.operations.iter().enumerate().map(|(index, one)| (route(one), index)).collect()
    };
    let (before, after) = (by_route(old), by_route(new));
    for (route, index) in &before {
        let was = &old.operations[*index];
        match after.get(route) {
            None => changes.add(true, format!("{} is gone", label(was))),
            Some(index) => operation((old, was), (new, &new.operations[*index]), changes),
        }
    }
    for (route, index) in after.iter().filter(|(route, _)| !before.contains_key(*route)) {
        let _ = route;
        changes.add(false, format!("{} is new", label(&new.operations[*index])));
    }
}

fn operation(old: (&Document, &Operation), new: (&Document, &Operation), changes: &mut Changes) {
    let (was, is) = (old.1, new.1);
    let label = label(is);
    if was.id != is.id {
        changes.add(true, format!("{label}: its name was `{}` and is `{}`", was.id, is.id));
    }
    if was.security != is.security {
        let text =
            format!("{label}: it asked for {} and asks for {}", asks(&was.security), asks(&is.security));
        changes.add(!still_enough(&was.security, &is.security), text);
    }
    if was.price() != is.price() {
        changes.add(false, format!("{label}: it cost {} units and costs {}", was.price(), is.price()));
    }
    if was.plans != is.plans {
        let all = "all plans".to_owned();
        let said = |plans: &Option<Vec<String>>| plans.as_ref().map_or(all.clone(), |plans| plans.join(", "));
        let narrower = is.plans.as_ref().is_some_and(|plans| {
            was.plans.as_ref().is_none_or(|before| before.iter().any(|plan| !plans.contains(plan)))
        });
        changes.add(
            narrower,
            format!("{label}: it was for {} and is for {}", said(&was.plans), said(&is.plans)),
        );
    }
    let tool = |one: &Operation| one.tool.as_ref().map(|tool| tool.name.clone());
    match (tool(was), tool(is)) {
        (Some(before), after) if after.as_ref() != Some(&before) => {
            changes.add(true, format!("{label}: the tool `{before}` is gone"));
        }
        (None, Some(after)) => changes.add(false, format!("{label}: the tool `{after}` is new")),
        _ => {}
    }
    if is.deprecated && !was.deprecated {
        changes.add(false, format!("{label}: it is deprecated"));
    }
    if was.websocket != is.websocket {
        changes.add(
            was.websocket,
            format!("{label}: it {} a WebSocket", if is.websocket { "is" } else { "is no longer" }),
        );
    }
    let mut schemas = Schemas::new(&old.0.source, &new.0.source, &label, changes);
    parameters(was, is, &mut schemas);
    bodies(old, new, &mut schemas);
    answers(old, new, &mut schemas);
    schemas.finish();
}

fn asks(security: &Security) -> String {
    match security {
        Security::Open => "no token".to_owned(),
        Security::AnyOf(lists) => {
            let one = |scopes: &Vec<String>| match scopes.as_slice() {
                [] => "any token".to_owned(),
                scopes => scopes.join(" and "),
            };
            lists.iter().map(one).collect::<Vec<_>>().join(", or ")
        }
    }
}

/// Does whatever was enough still open it?
fn still_enough(was: &Security, is: &Security) -> bool {
    match (was, is) {
        (_, Security::Open) => true,
        (Security::Open, Security::AnyOf(_)) => false,
        (Security::AnyOf(was), Security::AnyOf(is)) => {
            was.iter().all(|held| is.iter().any(|wanted| wanted.iter().all(|scope| held.contains(scope))))
        }
    }
}

fn parameters(was: &Operation, is: &Operation, schemas: &mut Schemas<'_>) {
    let find = |list: &[Parameter], one: &Parameter| {
        list.iter().find(|other| other.place == one.place && other.name == one.name).cloned()
    };
    for before in was.parameters.iter().filter(|one| one.place != In::Path) {
        let Some(after) = find(&is.parameters, before) else {
            // An unknown header passes; an unknown name in a query does not.
            schemas.note(before.place == In::Query, &format!("{} is gone", called(before)));
            continue;
        };
        if after.required != before.required {
            let word = if after.required { "is now required" } else { "is no longer required" };
            schemas.note(after.required, &format!("{} {word}", called(&after)));
        }
    }
    for after in &is.parameters {
        match find(&was.parameters, after) {
            None if after.place != In::Path => {
                let word = if after.required { "is new and required" } else { "is new" };
                schemas.note(after.required, &format!("{} {word}", called(after)));
            }
            None => {}
            Some(before) => {
                if before.style != after.style {
                    schemas.note(true, &format!("{} is written in another way", called(after)));
                }
                let place = |one: &Parameter, document: &Value| {
                    let schema = pointer::join(&one.pointer, "schema");
                    let content = format!("{}/content/application~1json/schema", one.pointer);
                    [schema, content].into_iter().find(|place| document.pointer(place).is_some())
                };
                if let (Some(before), Some(place)) = (place(&before, schemas.old), place(after, schemas.new))
                {
                    schemas.compare(called(after), before, place, Direction::Request);
                }
            }
        }
    }
}

fn called(parameter: &Parameter) -> String {
    let place = match parameter.place {
        In::Path => "path variable",
        In::Query => "query parameter",
        In::Header => "header",
    };
    format!("the {place} `{}`", parameter.name)
}

/// The media types of a body or an answer, with the places of their schemas.
fn media(document: &Value, place: &str) -> BTreeMap<String, Option<String>> {
    let Some(value) = document.pointer(place) else { return BTreeMap::new() };
    let (place, value) = pointer::resolve(document, place.to_owned(), value);
    let content = value.get("content").and_then(Value::as_object).into_iter().flatten();
    content
        .map(|(name, media)| {
            let place = pointer::join(&pointer::join(&place, "content"), name);
            (name.to_lowercase(), media.get("schema").map(|_| pointer::join(&place, "schema")))
        })
        .collect()
}

fn bodies(old: (&Document, &Operation), new: (&Document, &Operation), schemas: &mut Schemas<'_>) {
    let required = |operation: &Operation| operation.body.as_ref().is_some_and(|body| body.required);
    if required(new.1) != required(old.1) {
        let word = if required(new.1) { "is now required" } else { "is no longer required" };
        schemas.note(required(new.1), &format!("the body {word}"));
    }
    let media = |(document, operation): (&Document, &Operation)| {
        media(&document.source, &pointer::join(&operation.pointer, "requestBody"))
    };
    let (before, after) = (media(old), media(new));
    for (kind, place) in &before {
        match (place, after.get(kind)) {
            (_, None) => schemas.note(true, &format!("the body can no longer be `{kind}`")),
            (Some(before), Some(Some(after))) => {
                schemas.compare("the body".to_owned(), before.clone(), after.clone(), Direction::Request);
            }
            _ => {}
        }
    }
    for kind in after.keys().filter(|kind| !before.contains_key(*kind)) {
        schemas.note(false, &format!("the body can now be `{kind}`"));
    }
}

fn answers(old: (&Document, &Operation), new: (&Document, &Operation), schemas: &mut Schemas<'_>) {
    let statuses = |(document, operation): (&Document, &Operation)| -> BTreeSet<String> {
        let place = pointer::join(&operation.pointer, "responses");
        let answers = document.source.pointer(&place).and_then(Value::as_object).into_iter().flatten();
        // Errors come in the platform's envelope.
        answers
            .map(|(status, _)| status.clone())
            .filter(|status| status.starts_with(['1', '2', '3']))
            .collect()
    };
    let (before, after) = (statuses(old), statuses(new));
    for status in &before {
        if !after.contains(status) {
            schemas.note(true, &format!("the answer {status} is gone"));
            continue;
        }
        let media = |(document, operation): (&Document, &Operation)| {
            let place = pointer::join(&pointer::join(&operation.pointer, "responses"), status);
            media(&document.source, &place)
        };
        let (was, is) = (media(old), media(new));
        for (kind, place) in &was {
            match (place, is.get(kind)) {
                (_, None) => schemas.note(true, &format!("the answer {status} is no longer `{kind}`")),
                (Some(before), Some(Some(after))) => {
                    let name = format!("the answer {status}");
                    schemas.compare(name, before.clone(), after.clone(), Direction::Answer);
                }
                (Some(_), Some(None)) => {
                    schemas.note(true, &format!("the answer {status} no longer says what it is"));
                }
                _ => {}
            }
        }
    }
    for status in after.difference(&before) {
        schemas.note(false, &format!("the answer {status} is new"));
    }
}

fn scopes(old: &Document, new: &Document, changes: &mut Changes) {
    let names = |document: &Document| -> BTreeSet<String> {
        document.scopes.iter().map(|scope| scope.name.clone()).collect()
    };
    let (before, after) = (names(old), names(new));
    for name in before.difference(&after) {
        changes.add(true, format!("the scope `{name}` is gone"));
    }
    for name in after.difference(&before) {
        changes.add(false, format!("the scope `{name}` is new"));
    }
}

fn events(old: &Document, new: &Document, changes: &mut Changes) {
    for was in &old.events {
        match new.events.iter().find(|is| is.name == was.name) {
            None => changes.add(true, format!("the event type `{}` is gone", was.name)),
            Some(is) if !is_same_schema(&was.schema, &is.schema) => {
                changes.add(true, format!("the schema of the event type `{}` changed", was.name));
            }
            Some(_) => {}
        }
    }
    for is in &new.events {
        if !old.events.iter().any(|was| was.name == is.name) {
            changes.add(false, format!("the event type `{}` is new", is.name));
        }
    }
}

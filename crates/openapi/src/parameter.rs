//! Parameters: how they are written in path, query and headers, and what they must be.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::finding::{Findings, shown};
use crate::pointer;
use crate::schema::{Builder, Check, Id, Place, Texts, value_of};
use crate::shape::Shape;

/// Where a parameter stands in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum In {
    Path,
    Query,
    Header,
}

/// How a value is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Style {
    /// As it is.
    Plain,
    /// A list whose items repeat the name.
    Repeated,
    /// A list with this between its items.
    Joined(char),
    /// Fields as names of their own.
    Spread(Vec<String>),
    /// Fields in brackets behind the name.
    Brackets,
    /// One text of JSON.
    Json,
}

/// One parameter.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) place: In,
    pub(crate) required: bool,
    pub(crate) style: Style,
    pub(crate) schema: Option<Id>,
    /// May it have a name and nothing else?
    pub(crate) allow_empty: bool,
    /// Where it stands in the document.
    pub(crate) pointer: String,
}

/// How many names a query may give.
const PAIRS_MAX: usize = 1_000;
/// How deep brackets may nest.
const BRACKETS_MAX: usize = 8;

/// Headers that OpenAPI says elsewhere than by parameters.
const IGNORED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];

/// Reads the parameters of a path and of one of its operations, of which the latter win.
pub(crate) fn read(
    document: &Value,
    lists: [(&str, &Value); 2],
    builder: &mut Builder<'_>,
    findings: &mut Findings,
) -> Vec<Parameter> {
    let mut found: BTreeMap<(String, String), (usize, Parameter)> = BTreeMap::new();
    for (own, (place, holder)) in lists.into_iter().enumerate() {
        let list = holder.get("parameters").and_then(Value::as_array).into_iter().flatten();
        for (index, parameter) in list.enumerate() {
            let place = format!("{place}/parameters/{index}");
            let (place, parameter) = pointer::resolve(document, place, parameter);
            let text = |member: &str| parameter.get(member).and_then(Value::as_str).unwrap_or_default();
            let key = (text("in").to_owned(), text("name").to_owned());
            if found.get(&key).is_some_and(|(before, _)| *before == own) {
                findings.add(&place, format!("The parameter `{}` is described twice.", shown(&key.1)));
            }
            if let Some(read) = one(document, parameter, &place, builder, findings) {
                found.insert(key, (own, read));
            }
        }
    }
    found.into_values().map(|(_, parameter)| parameter).collect()
}

fn one(
    document: &Value,
    parameter: &Value,
    pointer: &str,
    builder: &mut Builder<'_>,
    findings: &mut Findings,
) -> Option<Parameter> {
    let text = |member: &str| parameter.get(member).and_then(Value::as_str).unwrap_or_default();
    let flag = |member: &str| parameter.get(member).and_then(Value::as_bool);
    let name = text("name").to_owned();
    if parameter.get("$ref").is_some() {
        // It leads nowhere, which is said elsewhere.
        return None;
    }
    if name.is_empty() {
        findings.add(pointer, "A parameter has a `name`.");
        return None;
    }
    let place = match text("in") {
        "path" => In::Path,
        "query" => In::Query,
        "header" if IGNORED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) => return None,
        "header" => In::Header,
        "cookie" => {
            let message = format!(
                "The cookie `{}` would never arrive: cookies are removed from a request.",
                shown(&name)
            );
            findings.add(pointer, message);
            return None;
        }
        _ => {
            findings.add(pointer::join(pointer, "in"), "A parameter is in `path`, `query` or `header`.");
            return None;
        }
    };
    let lower = name.to_ascii_lowercase();
    if place == In::Header && (lower.starts_with("portico-") || lower.starts_with("portico_")) {
        let message =
            format!("The header `{}` would never arrive: callers cannot say `portico-...`.", shown(&name));
        findings.add(pointer, message);
    }
    let required = flag("required").unwrap_or_default();
    if place == In::Path && !required {
        findings.add(pointer, format!("The path variable `{}` must say `required: true`.", shown(&name)));
    }
    let (style, schema) = if parameter.get("content").is_some() {
        (Style::Json, content(parameter, pointer, findings))
    } else {
        let schema = parameter.get("schema").map(|schema| (pointer::join(pointer, "schema"), schema));
        if schema.is_none() {
            findings.add(pointer, format!("The parameter `{}` has no `schema`.", shown(&name)));
        }
        let shape = schema.as_ref().map(|(_, schema)| Shape::of(document, schema)).unwrap_or_default();
        let style = style(text("style"), flag("explode"), place, &shape);
        let style = style.unwrap_or_else(|fault| {
            findings.add(pointer, format!("The parameter `{}` {fault}.", shown(&name)));
            Style::Plain
        });
        (style, schema.map(|(place, _)| place))
    };
    let schema = schema.map(|place| builder.id(&place));
    let allow_empty = flag("allowEmptyValue").unwrap_or_default();
    Some(Parameter { name, place, required, style, schema, allow_empty, pointer: pointer.to_owned() })
}

/// The schema of a parameter that is one text of JSON.
fn content(parameter: &Value, pointer: &str, findings: &mut Findings) -> Option<String> {
    let place = pointer::join(pointer, "content");
    let media = parameter.pointer("/content/application~1json");
    if media.is_none() {
        findings.add(&place, "The `content` of a parameter must be `application/json`.");
    }
    media?.get("schema").map(|_| format!("{place}/application~1json/schema"))
}

fn style(style: &str, explode: Option<bool>, place: In, shape: &Shape) -> Result<Style, String> {
    let (list, object) = (shape.is_list(), shape.is_object() && !shape.is_list());
    let default = if place == In::Query { "form" } else { "simple" };
    let style = if style.is_empty() { default } else { style };
    match (place, style) {
        (In::Path | In::Header, "simple") if object => {
            Err("is an object, which cannot be written in a path or a header here; give it a `content` of `application/json`".to_owned())
        }
        (In::Path | In::Header, "simple") => Ok(if list { Style::Joined(',') } else { Style::Plain }),
        (In::Query, "form") if object && explode != Some(false) => {
            Ok(Style::Spread(shape.fields.iter().cloned().collect()))
        }
        (In::Query, "form") if object => Err("is an object; write it as `style: deepObject`".to_owned()),
        (In::Query, "form") if list && explode == Some(false) => Ok(Style::Joined(',')),
        (In::Query, "form") if list => Ok(Style::Repeated),
        (In::Query, "form") => Ok(Style::Plain),
        (In::Query, "deepObject") => Ok(Style::Brackets),
        (In::Query, "spaceDelimited" | "pipeDelimited") if list && explode == Some(true) => Ok(Style::Repeated),
        (In::Query, "spaceDelimited") if list => Ok(Style::Joined(' ')),
        (In::Query, "pipeDelimited") if list => Ok(Style::Joined('|')),
        _ => Err(format!("has the style `{}`, which is not read here", shown(style))),
    }
}

impl Parameter {
    /// Notes what is wrong with its value.
    pub(crate) fn check(&self, check: &mut Check<'_>, texts: &Texts) {
        let place = Place::parameter(&self.name, self.style == Style::Brackets);
        let Some(schema) = self.schema else { return };
        if let (Style::Json, Texts::One(text)) = (&self.style, texts) {
            match crate::json::read(text.as_bytes(), crate::json::BODY) {
                Ok(value) => check.value(schema, &value, &place),
                Err(_) => check.report(&place, "does not parse as JSON"),
            }
            return;
        }
        let value = value_of(check, &[schema], texts);
        // Fields that are names of their own stand without a name in front.
        let place = if matches!(self.style, Style::Spread(_)) { Place::body() } else { place };
        check.value(schema, &value, &place);
    }

    /// The texts of a value that came as one.
    pub(crate) fn texts_of(&self, text: &str) -> Texts {
        match self.style {
            Style::Joined(separator) => Texts::Many(
                text.split(separator).map(|item| Texts::One(item.trim_matches(' ').to_owned())).collect(),
            ),
            _ => Texts::One(text.to_owned()),
        }
    }
}

/// A query, taken apart by the parameters that an operation knows.
pub(crate) fn check_query(parameters: &[&Parameter], query: &[(String, String)], check: &mut Check<'_>) {
    if query.len() > PAIRS_MAX {
        return check.report(&Place::parameter("query", false), format!("has more than {PAIRS_MAX} names"));
    }
    let mut left: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in query {
        left.entry(name).or_default().push(value);
    }
    for parameter in parameters {
        let place = Place::parameter(&parameter.name, parameter.style == Style::Brackets);
        match take(parameter, &mut left) {
            Err((name, fault)) => check.report(&Place::parameter(&name, false), fault),
            Ok(None) if parameter.required => check.report(&place, "is required"),
            Ok(None) => {}
            Ok(Some(Texts::One(text))) if text.is_empty() && parameter.allow_empty => {}
            Ok(Some(texts)) => parameter.check(check, &texts),
        }
    }
    let known = known(parameters);
    for name in left.keys() {
        check.report(&Place::parameter(name, false), known.clone());
    }
}

/// That a name is unknown, with those that are known.
fn known(parameters: &[&Parameter]) -> String {
    let names = parameters.iter().flat_map(|parameter| match &parameter.style {
        Style::Spread(fields) => fields.clone(),
        _ => vec![parameter.name.clone()],
    });
    let names: Vec<String> = names.collect();
    crate::schema::unknown(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

type Fault = (String, &'static str);

/// Takes what is one parameter's out of the query.
fn take(parameter: &Parameter, left: &mut BTreeMap<&str, Vec<&str>>) -> Result<Option<Texts>, Fault> {
    let name = parameter.name.as_str();
    match &parameter.style {
        Style::Repeated => Ok(left.remove(name).map(|values| {
            Texts::Many(values.into_iter().map(|value| Texts::One(value.to_owned())).collect())
        })),
        Style::Plain | Style::Joined(_) | Style::Json => match left.remove(name).as_deref() {
            None => Ok(None),
            Some([one]) => Ok(Some(parameter.texts_of(one))),
            Some(_) => Err((name.to_owned(), "is given more than once")),
        },
        Style::Spread(fields) => {
            let mut named = BTreeMap::new();
            for field in fields {
                match left.remove(field.as_str()).as_deref() {
                    None => {}
                    Some([one]) => {
                        named.insert(field.clone(), Texts::One((*one).to_owned()));
                    }
                    Some(several) => {
                        let several = several.iter().map(|one| Texts::One((*one).to_owned())).collect();
                        named.insert(field.clone(), Texts::Many(several));
                    }
                }
            }
            Ok((!named.is_empty()).then_some(Texts::Named(named)))
        }
        Style::Brackets => take_brackets(name, left),
    }
}

fn take_brackets(name: &str, left: &mut BTreeMap<&str, Vec<&str>>) -> Result<Option<Texts>, Fault> {
    let mine: Vec<&str> = left
        .keys()
        .copied()
        .filter(|key| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('[')))
        .collect();
    let mut tree = Texts::Named(BTreeMap::new());
    for key in &mine {
        let values = left.remove(key).unwrap_or_default();
        let fault = |message| ((*key).to_owned(), message);
        let inner = key[name.len()..].strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let steps: Vec<&str> =
            inner.ok_or_else(|| fault("has brackets that do not match"))?.split("][").collect();
        if steps.iter().any(|step| step.contains(['[', ']'])) {
            return Err(fault("has brackets that do not match"));
        }
        if steps.len() > BRACKETS_MAX {
            return Err(fault("nests deeper than 8 levels"));
        }
        for value in values {
            insert(&mut tree, &steps, value).map_err(fault)?;
        }
    }
    Ok((!mine.is_empty()).then_some(tree))
}

/// Puts a value where the steps lead. An empty step is the next item of a list.
fn insert(tree: &mut Texts, steps: &[&str], value: &str) -> Result<(), &'static str> {
    const MIXED: &str = "is given both as a value and as a field with parts";
    let Some((first, rest)) = steps.split_first() else { return Err(MIXED) };
    if first.is_empty() {
        if !rest.is_empty() {
            return Err("has empty brackets before others");
        }
        if matches!(tree, Texts::Named(fields) if fields.is_empty()) {
            *tree = Texts::Many(Vec::new());
        }
        let Texts::Many(items) = tree else { return Err(MIXED) };
        items.push(Texts::One(value.to_owned()));
        return Ok(());
    }
    let Texts::Named(fields) = tree else { return Err(MIXED) };
    if rest.is_empty() {
        let before = fields.insert((*first).to_owned(), Texts::One(value.to_owned()));
        return if before.is_none() { Ok(()) } else { Err("is given more than once") };
    }
    let inner = fields.entry((*first).to_owned()).or_insert_with(|| Texts::Named(BTreeMap::new()));
    insert(inner, rest, value)
}

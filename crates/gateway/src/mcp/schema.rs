//! Schemas of tools, as every model's provider takes them: whole, an object at the root, one type for each argument.

use portico_engine::{ACCOUNT_VARIABLE, Entry, PageSize};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::openapi::{inlined, inputs, object, one_line, present};

/// The argument that makes a write safe to repeat.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency_key";
/// How many items a page has when the assistant does not say: each takes room in what a model can read.
pub(super) const PAGE_ITEMS: u16 = 20;

/// Does it name an account? A tool acts in the token's, which no assistant needs to name.
pub(super) fn names_account(name: &str) -> bool {
    name == ACCOUNT_VARIABLE || name == "account_id"
}

/// The operation's description, and the schema of what its tool takes.
pub(super) fn input(entry: &Entry) -> (String, Map<String, Value>) {
    let spec = entry.spec;
    let mut input = object(entry.input_schema(&mut inputs()));
    let description = input.remove("description").and_then(|text| text.as_str().map(one_line));
    let mut properties = match input.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    let mut required = match input.remove("required") {
        Some(Value::Array(required)) => required,
        _ => Vec::new(),
    };
    properties.retain(|name, _| !names_account(name));
    required.retain(|name| !name.as_str().is_some_and(names_account));
    properties.values_mut().for_each(portable);
    if spec.list.is_some() {
        properties.insert(
            "page_size".to_owned(),
            json!({
                "type": "integer", "minimum": 0, "maximum": PageSize::MAX,
                "description": format!("How many items at most; {PAGE_ITEMS} when left out."),
            }),
        );
        properties.insert(
            "page_token".to_owned(),
            json!({
                "type": "string",
                "description": "The `next_page_token` of the answer before, to go on.",
            }),
        );
    }
    if !spec.only_reads() {
        properties.insert(
            IDEMPOTENCY_KEY.to_owned(),
            json!({
                "type": "string", "pattern": "^[!-~]{1,255}$",
                "description": "Any word of your own, without spaces: what is sent again with the same is done once.",
            }),
        );
    }
    let mut schema = Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), properties.into()),
        ("additionalProperties".to_owned(), json!(false)),
    ]);
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    (description.unwrap_or_default(), schema)
}

/// The schema of what the tool answers.
pub(super) fn output(entry: &Entry) -> Map<String, Value> {
    let mut generator = inlined(SchemaSettings::draft2020_12().for_serialize());
    let mut schema = object(entry.answer_schema(&mut generator));
    for name in ["title", "description"] {
        schema.remove(name);
    }
    if let (Some(_), Some(Value::Object(of_page))) = (entry.spec.list, schema.get_mut("properties")) {
        // The instructions tell once what a page is.
        for property in of_page.values_mut().filter_map(Value::as_object_mut) {
            property.remove("description");
        }
    }
    let mut schema = Value::Object(schema);
    plain(&mut schema);
    brief(&mut schema);
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

/// What may be null may be left out instead, what may be of two types is a string, and what is told over several lines is
/// told in one.
fn portable(schema: &mut Value) {
    *schema = present(schema.take());
    if schema["type"].is_array() {
        // Large numbers may be either; as a string none is lost on the way.
        schema["type"] = json!("string");
        for bound in ["minimum", "maximum"] {
            schema.as_object_mut().map(|schema| schema.remove(bound));
        }
    }
    plain(schema);
    each(schema, portable);
}

/// Words to choose from, as a list of words instead of a choice of schemas.
fn choice(object: &mut Map<String, Value>) {
    let Some(variants) = object.get("oneOf").and_then(Value::as_array) else { return };
    let values: Option<Vec<_>> =
        variants.iter().map(|variant| variant["const"].as_str().map(str::to_owned)).collect();
    let Some(values) = values else { return };
    let told = variants.iter().filter_map(|variant| {
        Some(format!(" `{}`: {}", variant["const"].as_str()?, one_line(variant["description"].as_str()?)))
    });
    let description = object.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let description = description + &told.collect::<String>();
    object.remove("oneOf");
    object.insert("type".to_owned(), json!("string"));
    object.insert("enum".to_owned(), json!(values));
    object.insert("description".to_owned(), json!(description.trim()));
}

/// One line for each description, words as a list, and no formats that only some know.
fn plain(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut() {
        choice(object);
        if let Some(Value::String(text)) = object.get_mut("description") {
            *text = one_line(text);
        }
        let numeric = |format: &Value| format.as_str().is_some_and(|format| format.contains("int"));
        if object.get("format").is_some_and(numeric) {
            object.remove("format");
        }
    }
    each(schema, plain);
}

/// A model reads what an answer means, and checks no ids: what it reads costs its room.
fn brief(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut() {
        object.remove("pattern");
    }
    each(schema, brief);
}

/// Every schema that stands in this one.
fn each(schema: &mut Value, act: fn(&mut Value)) {
    let Some(object) = schema.as_object_mut() else { return };
    for name in ["items", "additionalProperties"] {
        object.get_mut(name).filter(|inner| inner.is_object()).into_iter().for_each(act);
    }
    for name in ["anyOf", "oneOf", "allOf"] {
        object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().for_each(act);
    }
    object
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
        .for_each(|(_, inner)| act(inner));
}

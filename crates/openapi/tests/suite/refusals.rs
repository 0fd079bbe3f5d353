//! One bad document for each rule, and the place that is named.

use serde_json::{Value, json};

use crate::{document, lines, posting, refused, refused_text};

/// The operations of the good document.
const GET: &str = "/paths/~1v1~1invoices~1{id}/get";
const POST: &str = "/paths/~1v1~1invoices/post";
const SCHEMA: &str = "/components/schemas/New";
const SCHEMES: &str = "/components/securitySchemes";

/// Puts a value, or nothing, where a pointer leads, into whatever object or list is there.
fn put(document: &mut Value, pointer: &str, value: Option<Value>) {
    let (outer, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/");
    match (document.pointer_mut(outer).unwrap(), value) {
        (Value::Object(object), Some(value)) => drop(object.insert(name, value)),
        (Value::Object(object), None) => drop(object.remove(&name)),
        (Value::Array(list), Some(value)) if name == "-" => list.push(value),
        (other, value) => other[name.parse::<usize>().unwrap()] = value.unwrap(),
    }
}

/// The good document with one thing that is bad; its only finding must be at this place and hold these words.
#[track_caller]
fn bad(pointer: &str, value: Value, place: &str, words: &str) {
    let mut text = good();
    put(&mut text, pointer, Some(value));
    only(&text, place, words);
}

/// The same, without something that must be there.
#[track_caller]
fn missing(pointer: &str, place: &str, words: &str) {
    let mut text = good();
    put(&mut text, pointer, None);
    only(&text, place, words);
}

#[track_caller]
fn only(text: &Value, place: &str, words: &str) {
    let found = refused(text);
    let is_it = found.len() == 1 && found[0].0 == place && found[0].1.contains(words);
    assert!(is_it, "{place}: {words}\nfound {found:#?}");
}

fn good() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Invoices", "version": "1" },
        "paths": {
            "/v1/invoices/{id}": { "get": {
                "operationId": "getInvoice", "security": [{ "oauth": ["invoices:read"] }],
                "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }],
                "responses": { "200": { "description": "It." } },
                "x-portico-tool": { "name": "get_invoice", "title": "Read an invoice" },
            } },
            "/v1/invoices": { "post": {
                "operationId": "createInvoice", "security": [{ "oauth": ["invoices:write"] }],
                "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/New" } } } },
                "responses": { "200": { "description": "It." } },
            } },
        },
        "webhooks": { "invoice.paid": { "post": { "requestBody": { "content": { "application/json": {
            "schema": { "type": "object" },
        } } } } } },
        "components": {
            "schemas": { "New": { "type": "object", "properties": { "total": { "type": "integer" } } } },
            "securitySchemes": { "oauth": { "type": "oauth2", "flows": { "clientCredentials": {
                "tokenUrl": "/t", "scopes": { "invoices:read": "Read", "invoices:write": "Write" },
            } } } },
        },
    })
}

#[test]
fn the_good_document_is_good() {
    assert_eq!(crate::read(&good()).operations.len(), 2);
}

#[test]
fn every_rule_of_an_operation_names_its_place() {
    let post = |member: &str| format!("{POST}/{member}");
    let everybody = "createInvoice has no security; say `security: []` if it is for everybody";
    missing(&post("security"), POST, everybody);
    missing(&post("operationId"), POST, "no `operationId`");
    let id = post("operationId");
    bad(&id, json!("has a space"), &id, "a letter first");
    bad(&id, json!("getInvoice"), &format!("{GET}/operationId"), "is the name of two operations");
    let body = post("requestBody");
    bad(&body, json!({ "content": {} }), &body, "at least one type");
    bad(&body, json!({ "content": { "json": {} } }), &format!("{body}/content/json"), "not a media type");
    let own = format!("{GET}/requestBody");
    let needed = json!({ "required": true, "content": { "application/json": {} } });
    bad(&own, needed, &own, "A GET takes no body");
    for method in ["head", "options", "trace"] {
        let place = format!("{}/{method}", GET.strip_suffix("/get").unwrap());
        bad(&place, good().pointer(GET).unwrap().clone(), &place, "is not served");
    }
}

#[test]
fn every_rule_of_a_parameter_names_its_place() {
    let get = format!("{GET}/parameters");
    bad(&get, json!([]), GET, "`id` is not described");
    bad(&format!("{get}/0/required"), json!(false), &format!("{get}/0"), "`required: true`");
    missing(&format!("{get}/0/schema"), &format!("{get}/0"), "no `schema`");
    let again = json!({ "name": "id", "in": "path", "required": true, "schema": {} });
    bad(&format!("{get}/-"), again.clone(), &format!("{get}/1"), "described twice");
    let post = format!("{POST}/parameters");
    let object = json!({ "type": "object" });
    for (parameter, words) in [
        (again, "no variable of the path"),
        (json!({ "name": "sid", "in": "cookie", "schema": {} }), "cookies are removed"),
        (json!({ "name": "Portico-Account", "in": "header", "schema": {} }), "would never arrive"),
        (json!({ "name": "q", "in": "query", "style": "matrix", "schema": {} }), "style `matrix`"),
        (json!({ "name": "q", "in": "query", "explode": false, "schema": object }), "`style: deepObject`"),
        (json!({ "name": "Q", "in": "header", "schema": object }), "`content` of `application/json`"),
        (json!({ "in": "query", "schema": {} }), "has a `name`"),
    ] {
        bad(&post, json!([parameter]), &format!("{post}/0"), words);
    }
    bad(
        &post,
        json!([{ "name": "q", "in": "body" }]),
        &format!("{post}/0/in"),
        "`path`, `query` or `header`",
    );
    let text = json!([{ "name": "q", "in": "query", "content": { "text/plain": {} } }]);
    bad(&post, text, &format!("{post}/0/content"), "must be `application/json`");
}

#[test]
fn every_rule_of_a_path_names_it() {
    for (path, words) in [
        ("/invoices", "must begin with a version"),
        ("/version/invoices", "must begin with a version"),
        ("/v1", "must begin with a version"),
        ("/v1x/invoices", "must begin with a version"),
        ("/v1/", "two slashes, or one at the end"),
        ("/v1/a//b", "two slashes, or one at the end"),
        ("/v1/../b", "dots alone"),
        ("/v1/a?b=c", "characters that stand in no path"),
        ("/v1/{id}.json", "a variable must be a whole segment"),
        ("/v1/{}", "a variable has a name"),
    ] {
        let mut text = document("post", &json!({}), &json!({}));
        let item = text["paths"]["/v1/things"].take();
        text["paths"] = json!({ path: item });
        let found = refused(&text);
        assert!(
            found.iter().any(|(place, said)| place.starts_with("/paths/") && said.contains(words)),
            "{path}: {found:?}"
        );
    }
    let mut text = good();
    let mut item = text["paths"]["/v1/invoices/{id}"].clone();
    item["get"]["operationId"] = json!("again");
    item["get"]["parameters"][0]["name"] = json!("key");
    item["get"]["x-portico-tool"]["name"] = json!("again");
    text["paths"]["/v1/invoices/{key}"] = item;
    assert!(refused(&text)[0].1.contains("`/v1/invoices/{id}` and `/v1/invoices/{key}` are the same route"));
}

#[test]
fn every_rule_of_security_names_its_place() {
    let key = json!({ "type": "apiKey", "in": "header", "name": "x" });
    bad(&format!("{SCHEMES}/key"), key, &format!("{SCHEMES}/key"), "`apiKey`");
    let basic = json!({ "type": "http", "scheme": "basic" });
    bad(&format!("{SCHEMES}/basic"), basic, &format!("{SCHEMES}/basic"), "`http basic`");
    let empty = json!({ "type": "oauth2" });
    bad(&format!("{SCHEMES}/more"), empty, &format!("{SCHEMES}/more/flows"), "`flows`");
    let security = format!("{POST}/security");
    let at = |rest: &str| format!("{security}{rest}");
    let undeclared = "`invoices:delete` is declared by no security scheme";
    bad(&security, json!([{ "oauth": ["invoices:delete"] }]), &at("/0/oauth/0"), undeclared);
    bad(&security, json!([{ "other": [] }]), &at("/0/other"), "no security scheme `other`");
    bad(&security, json!([{ "oauth": "invoices:read" }]), &at("/0/oauth"), "must be a list");
    bad(&security, json!([{}]), &at("/0"), "makes the token optional");
    bad(&security, json!("none"), &security, "must be a list");
    let scopes = format!("{SCHEMES}/oauth/flows/clientCredentials/scopes");
    for name in ["invoices", "Invoices:read", "invoices:", "a:b:c", "invoices read"] {
        let place = format!("{scopes}/{name}");
        bad(&place, json!("x"), &place, "`noun:verb`");
    }
    bad(&format!("{scopes}/a:b"), json!(1), &format!("{scopes}/a:b"), "must be a string");
}

#[test]
fn every_rule_of_an_extension_names_its_place() {
    let said = |name: &str, value: Value, words: &str| {
        let place = format!("{POST}/x-portico-{name}");
        bad(&place, value, &place, words);
    };
    for units in [json!(-1), json!(1_000_001), json!("5"), json!(1.5)] {
        said("units", units, "from 0 to 1000000");
    }
    said("category", json!("cheap"), "read, list");
    for plans in [json!([]), json!("team"), json!([1])] {
        said("plans", plans, "at least one name");
    }
    for tool in [json!("x"), json!({ "name": "x" }), json!({ "name": "x", "title": "X", "more": 1 })] {
        said("tool", tool, "`{name, title}`");
    }
    for name in ["Get", "get invoice", "1st", &"x".repeat(41)] {
        said("tool", json!({ "name": name, "title": "X" }), "at most 40");
    }
    said("tool", json!({ "name": "x", "title": "" }), "1 to 100 characters");
    said("websocket", json!("yes"), "true or false");
    said("websocket", json!(true), "Only a GET");
    said("colour", json!(1), "means nothing to Portico");
    bad("/x-portico-units", json!(1), "/x-portico-units", "on an operation");
    let twice = json!({ "name": "get_invoice", "title": "Twice" });
    bad(
        &format!("{POST}/x-portico-tool"),
        twice,
        &format!("{GET}/x-portico-tool"),
        "is the name of two tools",
    );
}

#[test]
fn extensions_that_contradict_each_other() {
    let mut text = good();
    put(&mut text, &format!("{POST}/x-portico-units"), Some(json!(1)));
    put(&mut text, &format!("{POST}/x-portico-category"), Some(json!("read")));
    only(&text, &format!("{POST}/x-portico-category"), "said twice");
    let mut text = good();
    put(&mut text, &format!("{POST}/x-portico-tool"), Some(json!({ "name": "make", "title": "Make" })));
    put(&mut text, &format!("{POST}/requestBody"), Some(json!({ "content": { "text/plain": {} } })));
    only(&text, &format!("{POST}/x-portico-tool"), "cannot be a tool: its body is no JSON");
}

#[test]
fn every_rule_of_references_names_its_place() {
    let said = |reference: Value, words: &str| {
        bad(SCHEMA, json!({ "$ref": reference }), &format!("{SCHEMA}/$ref"), words);
    };
    for remote in ["other.yaml#/New", "https://example.com/x.json", "New"] {
        said(json!(remote), "leads out of the document");
    }
    said(json!("#/components/schemas/Gone"), "leads to nothing");
    said(json!("#New"), "no JSON pointer");
    said(json!("#/info/title"), "not described by an object");
    said(json!("#/components/securitySchemes/oauth"), "where a Schema must stand");
    said(json!(1), "is not of type \"string\"");
    bad(SCHEMA, json!({ "$ref": "#/components/schemas/New" }), SCHEMA, "nothing in between");
    let body = format!("{POST}/requestBody");
    bad(
        &body,
        json!({ "$ref": "#/components/requestBodies/Gone" }),
        &format!("{body}/$ref"),
        "leads to nothing",
    );
    let mut ring = good();
    put(&mut ring, SCHEMA, Some(json!({ "allOf": [{ "$ref": "#/components/schemas/Other" }] })));
    let back = json!({ "anyOf": [{ "$ref": "#/components/schemas/New" }] });
    put(&mut ring, "/components/schemas/Other", Some(back));
    only(&ring, SCHEMA, "#/components/schemas/New, #/components/schemas/Other");
}

#[test]
fn references_go_eight_levels_deep() {
    let chain = |levels: usize| {
        let mut schemas = json!({});
        for level in 1..=levels {
            let inner = if level == levels {
                json!({ "type": "string" })
            } else {
                json!({ "$ref": format!("#/components/schemas/S{}", level + 1) })
            };
            schemas[format!("S{level}")] = json!({ "type": "object", "properties": { "x": inner } });
        }
        posting(&json!({ "$ref": "#/components/schemas/S1" }), &schemas)
    };
    assert_eq!(crate::read(&chain(8)).operations.len(), 1);
    let found = refused(&chain(9));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].0 == "/components/schemas/S1" && found[0].1.contains("more than 8 levels"), "{found:?}");
    // A ring of schemas counts once, however many they are.
    let mut ring = chain(20);
    ring["components"]["schemas"]["S20"]["properties"]["x"] = json!({ "$ref": "#/components/schemas/S1" });
    assert_eq!(crate::read(&ring).operations.len(), 1);
}

#[test]
fn every_rule_of_schemas_names_its_place() {
    let place = format!("{SCHEMA}/properties/total");
    let said =
        |schema: Value, inner: &str, words: &str| bad(&place, schema, &format!("{place}/{inner}"), words);
    said(json!({ "type": "int" }), "type", "no JSON Schema");
    said(json!({ "minLength": -1 }), "minLength", "no JSON Schema");
    said(json!({ "pattern": "(a" }), "pattern", "no regular expression");
    said(json!({ "pattern": "^(?=.*[0-9]).+$" }), "pattern", "linear time");
    said(json!({ "pattern": "(a)\\1" }), "pattern", "linear time");
    said(json!({ "$id": "https://example.com/x" }), "$id", "is not supported");
    said(json!({ "$dynamicRef": "#x" }), "$dynamicRef", "is not supported");
    said(json!({ "$schema": "http://json-schema.org/draft-07/schema#" }), "$schema", "no other dialect");
    bad("/jsonSchemaDialect", json!("https://example.com/own"), "/jsonSchemaDialect", "no other dialect");
    let chooser = json!({ "propertyName": "k", "mapping": { "a": "#/components/schemas/Gone" } });
    let choice = json!({ "oneOf": [{ "type": "object" }], "discriminator": chooser });
    said(choice, "discriminator/mapping/a", "points to no schema");
}

#[test]
fn every_rule_of_an_event_type_names_its_place() {
    let event = "/webhooks/invoice.paid";
    bad(
        "/webhooks/InvoicePaid",
        good().pointer(event).unwrap().clone(),
        "/webhooks/InvoicePaid",
        "lower-case words",
    );
    bad(event, json!({}), event, "has no `post`");
    bad(&format!("{event}/post"), json!({}), &format!("{event}/post"), "no schema for a body");
}

#[test]
fn versions_and_forms_of_a_document() {
    bad("/openapi", json!("4.0.0"), "/openapi", "3.0 and 3.1 are read");
    bad("/openapi", json!("3.2.0"), "/openapi", "3.0 and 3.1 are read");
    missing("/info/title", "/info/title", "no title");
    only(&json!({ "swagger": "2.0" }), "/swagger", "Swagger 2");
    only(&json!({ "info": {} }), "", "no OpenAPI document");
    let mut many = document("get", &json!({}), &json!({}));
    for number in 0..1_000 {
        let operation = json!({ "operationId": format!("op{number}"), "security": [], "responses": {} });
        many["paths"][format!("/v1/x{number}")] = json!({ "get": operation });
    }
    only(&many, "/paths", "1001 operations; 1000 are the most");
    assert!(refused_text(&" ".repeat((5 << 20) + 1))[0].1.contains("5 MiB are the most"));
}

#[test]
fn a_text_that_does_not_parse_names_its_line() {
    assert_eq!(refused_text("{\n  \"openapi\": \"3.1.0\",\n  oops\n}")[0].0, "line 3");
    assert_eq!(
        refused_text("{\n \"a\": 1,\n \"a\": 2}")[0],
        ("line 3".to_owned(), "a is given more than once.".to_owned())
    );
    let found = refused_text("openapi: 3.1.0\ninfo:\n  title: [\n");
    assert!(found[0].0.starts_with("line ") && found[0].1.contains("YAML"), "{found:?}");
    let found = refused_text("openapi: 3.1.0\ninfo: {}\ninfo: {}\n");
    assert_eq!(found[0].0, "line 3", "{found:?}");
    assert!(refused_text("")[0].1.contains("OpenAPI"), "{:?}", refused_text(""));
}

#[test]
fn everything_is_said_at_once_in_the_order_of_its_places() {
    let mut text = good();
    put(&mut text, &format!("{POST}/security"), None);
    put(&mut text, &format!("{GET}/parameters"), Some(json!([])));
    put(&mut text, &format!("{SCHEMA}/properties/total"), Some(json!({ "$ref": "#/gone" })));
    let findings = portico_openapi::Document::read(text.to_string().as_bytes(), "a.yaml").unwrap_err();
    assert_eq!(
        lines(&findings),
        "a.yaml: /components/schemas/New/properties/total/$ref: `#/gone` leads to nothing.\n\
         a.yaml: /paths/~1v1~1invoices/post: createInvoice has no security; say `security: []` if it is for everybody.\n\
         a.yaml: /paths/~1v1~1invoices~1{id}/get: The path variable `id` is not described; add a parameter with `in: path`."
    );
}

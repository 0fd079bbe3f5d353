//! One bad document for each rule, and the place that is named.

use serde_json::{Value, json};

use crate::{document, lines, posting, refused, refused_text};

/// A good document that `spoil` makes a bad one; its only finding must be at this place and hold these words.
#[track_caller]
fn spoilt(spoil: impl FnOnce(&mut Value), place: &str, words: &str) {
    let mut text = good();
    spoil(&mut text);
    let found = refused(&text);
    assert!(
        found.len() == 1 && found[0].0 == place && found[0].1.contains(words),
        "{place}: {words}\nfound {found:#?}"
    );
}

const GET: &str = "/paths/~1v1~1invoices~1{id}/get";
const POST: &str = "/paths/~1v1~1invoices/post";

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
    spoilt(
        |d| {
            d.pointer_mut(POST).unwrap().as_object_mut().unwrap().remove("security");
        },
        POST,
        "createInvoice has no security; say `security: []` if it is for everybody",
    );
    spoilt(
        |d| {
            d.pointer_mut(POST).unwrap().as_object_mut().unwrap().remove("operationId");
        },
        POST,
        "no `operationId`",
    );
    spoilt(
        |d| d.pointer_mut(POST).unwrap()["operationId"] = json!("has a space"),
        "/paths/~1v1~1invoices/post/operationId",
        "a letter first",
    );
    spoilt(
        |d| d.pointer_mut(POST).unwrap()["operationId"] = json!("getInvoice"),
        "/paths/~1v1~1invoices~1{id}/get/operationId",
        "is the name of two operations",
    );
    spoilt(|d| d.pointer_mut(GET).unwrap()["parameters"] = json!([]), GET, "`id` is not described");
    spoilt(
        |d| d.pointer_mut(GET).unwrap()["parameters"][0]["required"] = json!(false),
        "/paths/~1v1~1invoices~1{id}/get/parameters/0",
        "`required: true`",
    );
    spoilt(
        |d| {
            d.pointer_mut(GET).unwrap()["parameters"][0]
                .as_object_mut()
                .unwrap()
                .remove("schema")
                .map(|_| ())
                .unwrap()
        },
        "/paths/~1v1~1invoices~1{id}/get/parameters/0",
        "no `schema`",
    );
    spoilt(
        |d| {
            d.pointer_mut(GET).unwrap()["parameters"]
                .as_array_mut()
                .unwrap()
                .push(json!({ "name": "id", "in": "path", "required": true, "schema": {} }))
        },
        "/paths/~1v1~1invoices~1{id}/get/parameters/1",
        "described twice",
    );
    spoilt(
        |d| {
            d.pointer_mut(POST).unwrap()["parameters"] =
                json!([{ "name": "x", "in": "path", "required": true, "schema": {} }])
        },
        "/paths/~1v1~1invoices/post/parameters/0",
        "no variable of the path",
    );
    spoilt(
        |d| {
            d.pointer_mut(POST).unwrap()["parameters"] =
                json!([{ "name": "sid", "in": "cookie", "schema": {} }])
        },
        "/paths/~1v1~1invoices/post/parameters/0",
        "cookies are removed",
    );
    spoilt(
        |d| {
            d.pointer_mut(POST).unwrap()["parameters"] =
                json!([{ "name": "Portico-Account", "in": "header", "schema": {} }])
        },
        "/paths/~1v1~1invoices/post/parameters/0",
        "would never arrive",
    );
    spoilt(
        |d| {
            d.pointer_mut(POST).unwrap()["parameters"] =
                json!([{ "name": "q", "in": "query", "style": "matrix", "schema": {} }])
        },
        "/paths/~1v1~1invoices/post/parameters/0",
        "style `matrix`",
    );
    spoilt(
        |d| {
            let get = d.pointer_mut(GET).unwrap();
            get["requestBody"] = json!({ "required": true, "content": { "application/json": {} } });
        },
        "/paths/~1v1~1invoices~1{id}/get/requestBody",
        "A GET takes no body",
    );
    spoilt(
        |d| d.pointer_mut(POST).unwrap()["requestBody"] = json!({ "content": {} }),
        "/paths/~1v1~1invoices/post/requestBody",
        "at least one type",
    );
    spoilt(
        |d| {
            d.pointer_mut(POST).unwrap().as_object_mut().unwrap().remove("responses");
        },
        POST,
        "no `responses`",
    );
    for method in ["head", "options", "trace"] {
        spoilt(
            |d| {
                let it = d.pointer(GET).unwrap().clone();
                d["paths"]["/v1/invoices/{id}"][method] = it;
            },
            &format!("/paths/~1v1~1invoices~1{{id}}/{method}"),
            "is not served",
        );
    }
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
    let scheme = "/components/securitySchemes/oauth";
    spoilt(
        |d| {
            d["components"]["securitySchemes"]["key"] =
                json!({ "type": "apiKey", "in": "header", "name": "x" })
        },
        "/components/securitySchemes/key",
        "`apiKey`",
    );
    spoilt(
        |d| d["components"]["securitySchemes"]["basic"] = json!({ "type": "http", "scheme": "basic" }),
        "/components/securitySchemes/basic",
        "`http basic`",
    );
    spoilt(
        |d| d.pointer_mut(POST).unwrap()["security"] = json!([{ "oauth": ["invoices:delete"] }]),
        "/paths/~1v1~1invoices/post/security/0/oauth/0",
        "`invoices:delete` is declared by no security scheme",
    );
    spoilt(
        |d| d.pointer_mut(POST).unwrap()["security"] = json!([{ "other": [] }]),
        "/paths/~1v1~1invoices/post/security/0/other",
        "no security scheme `other`",
    );
    spoilt(
        |d| d.pointer_mut(POST).unwrap()["security"] = json!([{}]),
        "/paths/~1v1~1invoices/post/security/0",
        "makes the token optional",
    );
    spoilt(
        |d| d.pointer_mut(POST).unwrap()["security"] = json!("none"),
        "/paths/~1v1~1invoices/post/security",
        "must be a list",
    );
    for name in ["invoices", "Invoices:read", "invoices:", "a:b:c", "invoices read"] {
        spoilt(
            |d| d.pointer_mut(scheme).unwrap()["flows"]["clientCredentials"]["scopes"][name] = json!("x"),
            &format!("{scheme}/flows/clientCredentials/scopes/{name}"),
            "`noun:verb`",
        );
    }
    spoilt(
        |d| d.pointer_mut(scheme).unwrap()["flows"]["clientCredentials"]["scopes"]["a:b"] = json!(1),
        &format!("{scheme}/flows/clientCredentials/scopes/a:b"),
        "must be a string",
    );
    spoilt(
        |d| {
            d["components"]["securitySchemes"]["more"] = json!({ "type": "oauth2" });
        },
        "/components/securitySchemes/more/flows",
        "`flows`",
    );
}

#[test]
fn every_rule_of_an_extension_names_its_place() {
    let at = |name: &str| format!("{POST}/x-portico-{name}");
    let set = |name: &'static str, value: Value| {
        move |d: &mut Value| d.pointer_mut(POST).unwrap()[&format!("x-portico-{name}")] = value
    };
    for units in [json!(-1), json!(1_000_001), json!("5"), json!(1.5)] {
        spoilt(set("units", units), &at("units"), "from 0 to 1000000");
    }
    spoilt(set("category", json!("cheap")), &at("category"), "read, list");
    for plans in [json!([]), json!("team"), json!([1])] {
        spoilt(set("plans", plans), &at("plans"), "at least one name");
    }
    for tool in [json!("x"), json!({ "name": "x" }), json!({ "name": "x", "title": "X", "more": 1 })] {
        spoilt(set("tool", tool), &at("tool"), "`{name, title}`");
    }
    for name in ["Get", "get invoice", "1st", &"x".repeat(41)] {
        spoilt(set("tool", json!({ "name": name, "title": "X" })), &at("tool"), "at most 40");
    }
    spoilt(set("tool", json!({ "name": "x", "title": "" })), &at("tool"), "1 to 100 characters");
    spoilt(
        set("tool", json!({ "name": "get_invoice", "title": "Twice" })),
        "/paths/~1v1~1invoices~1{id}/get/x-portico-tool",
        "is the name of two tools",
    );
    spoilt(set("websocket", json!("yes")), &at("websocket"), "true or false");
    spoilt(set("websocket", json!(true)), &at("websocket"), "Only a GET");
    spoilt(set("colour", json!(1)), &at("colour"), "means nothing to Portico");
    spoilt(|d| d["x-portico-units"] = json!(1), "/x-portico-units", "on an operation");
    spoilt(
        |d| {
            set("units", json!(1))(d);
            set("category", json!("read"))(d);
        },
        &at("category"),
        "said twice",
    );
    spoilt(
        |d| {
            set("tool", json!({ "name": "make", "title": "Make" }))(d);
            d.pointer_mut(POST).unwrap()["requestBody"] = json!({ "content": { "text/plain": {} } });
        },
        &at("tool"),
        "cannot be a tool: its body is no JSON",
    );
}

#[test]
fn every_rule_of_references_names_its_place() {
    let at = "/components/schemas/New/$ref";
    let set = |reference: Value| {
        move |d: &mut Value| d["components"]["schemas"]["New"] = json!({ "$ref": reference })
    };
    for remote in ["other.yaml#/New", "https://example.com/x.json", "New"] {
        spoilt(set(json!(remote)), at, "leads out of the document");
    }
    spoilt(set(json!("#/components/schemas/Gone")), at, "leads to nothing");
    spoilt(set(json!("#New")), at, "no JSON pointer");
    spoilt(set(json!("#/info/title")), at, "not described by an object");
    spoilt(set(json!("#/components/securitySchemes/oauth")), at, "where a Schema must stand");
    spoilt(set(json!(1)), at, "is not of type \"string\"");
    spoilt(set(json!("#/components/schemas/New")), "/components/schemas/New", "nothing in between");
    spoilt(
        |d| {
            d["components"]["schemas"]["New"] =
                json!({ "allOf": [{ "$ref": "#/components/schemas/Other" }] });
            d["components"]["schemas"]["Other"] =
                json!({ "anyOf": [{ "$ref": "#/components/schemas/New" }] });
        },
        "/components/schemas/New",
        "#/components/schemas/New, #/components/schemas/Other",
    );
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
    let set = |schema: Value| {
        move |d: &mut Value| d["components"]["schemas"]["New"]["properties"]["total"] = schema
    };
    let at = "/components/schemas/New/properties/total";
    spoilt(set(json!({ "type": "int" })), &format!("{at}/type"), "no JSON Schema");
    spoilt(set(json!({ "minLength": -1 })), &format!("{at}/minLength"), "no JSON Schema");
    spoilt(set(json!({ "pattern": "(a" })), &format!("{at}/pattern"), "no regular expression");
    spoilt(set(json!({ "pattern": "^(?=.*[0-9]).+$" })), &format!("{at}/pattern"), "linear time");
    spoilt(set(json!({ "pattern": "(a)\\1" })), &format!("{at}/pattern"), "linear time");
    spoilt(set(json!({ "$id": "https://example.com/x" })), &format!("{at}/$id"), "is not supported");
    spoilt(set(json!({ "$dynamicRef": "#x" })), &format!("{at}/$dynamicRef"), "is not supported");
    spoilt(
        set(json!({ "$schema": "http://json-schema.org/draft-07/schema#" })),
        &format!("{at}/$schema"),
        "no other dialect",
    );
    spoilt(
        |d| d["jsonSchemaDialect"] = json!("https://example.com/own"),
        "/jsonSchemaDialect",
        "no other dialect",
    );
    spoilt(
        set(
            json!({ "oneOf": [{ "type": "object" }], "discriminator": { "propertyName": "k", "mapping": { "a": "#/components/schemas/Gone" } } }),
        ),
        &format!("{at}/discriminator/mapping/a"),
        "points to no schema",
    );
}

#[test]
fn every_rule_of_an_event_type_names_its_place() {
    spoilt(
        |d| {
            let it = d["webhooks"]["invoice.paid"].clone();
            d["webhooks"]["InvoicePaid"] = it;
        },
        "/webhooks/InvoicePaid",
        "lower-case words",
    );
    spoilt(|d| d["webhooks"]["invoice.paid"] = json!({}), "/webhooks/invoice.paid", "has no `post`");
    spoilt(
        |d| d["webhooks"]["invoice.paid"]["post"] = json!({}),
        "/webhooks/invoice.paid/post",
        "no schema for a body",
    );
}

#[test]
fn versions_and_forms_of_a_document() {
    spoilt(|d| d["openapi"] = json!("4.0.0"), "/openapi", "3.0 and 3.1 are read");
    spoilt(|d| d["openapi"] = json!("3.2.0"), "/openapi", "3.0 and 3.1 are read");
    spoilt(|d| d["info"] = json!({ "version": "1" }), "/info/title", "no title");
    assert!(refused(&json!({ "swagger": "2.0" }))[0].1.contains("Swagger 2"));
    assert!(refused(&json!({ "info": {} }))[0].1.contains("no OpenAPI document"));
    let mut many = document("get", &json!({}), &json!({}));
    for number in 0..1_000 {
        let operation = json!({ "operationId": format!("op{number}"), "security": [], "responses": {} });
        many["paths"][format!("/v1/x{number}")] = json!({ "get": operation });
    }
    assert!(refused(&many)[0].1.contains("1001 operations; 1000 are the most"));
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
    text.pointer_mut(POST).unwrap().as_object_mut().unwrap().remove("security");
    text.pointer_mut(GET).unwrap()["parameters"] = json!([]);
    text["components"]["schemas"]["New"]["properties"]["total"] = json!({ "$ref": "#/gone" });
    let findings = portico_openapi::Document::read(text.to_string().as_bytes(), "invoices.yaml").unwrap_err();
    assert_eq!(
        lines(&findings),
        "invoices.yaml: /components/schemas/New/properties/total/$ref: `#/gone` leads to nothing.\n\
         invoices.yaml: /paths/~1v1~1invoices/post: createInvoice has no security; say `security: []` if it is for everybody.\n\
         invoices.yaml: /paths/~1v1~1invoices~1{id}/get: The path variable `id` is not described; add a parameter with `in: path`."
    );
}

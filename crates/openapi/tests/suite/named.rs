//! Calls by name: the schema of their one object, and the request that comes of them.

use serde_json::{Map, Value, json};

use crate::{document, posting, read, said};

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => panic!("not an object"),
    }
}

/// A document whose one operation has a path variable, a query and a body.
fn full() -> Value {
    let operation = json!({
        "operationId": "changeLine", "security": [], "responses": {},
        "parameters": [
            { "name": "id", "in": "path", "required": true, "description": "Which.", "schema": { "type": "string" } },
            { "name": "dry", "in": "query", "schema": { "type": "boolean" } },
            { "name": "tag", "in": "query", "schema": { "type": "array", "items": { "type": "string" } } },
            { "name": "price", "in": "query", "style": "deepObject", "schema": { "type": "object", "properties": { "min": { "type": "number" } } } },
            { "name": "X-Trace", "in": "header", "schema": { "type": "string" } },
        ],
        "requestBody": { "required": true, "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Line" } } } },
    });
    let mut text = document(
        "post",
        &json!({}),
        &json!({
            "Line": { "type": "object", "required": ["qty"], "properties": { "qty": { "type": "integer", "minimum": 1 }, "unit": { "$ref": "#/components/schemas/Unit" } } },
            "Unit": { "enum": ["piece", "hour"] },
        }),
    );
    text["paths"] = json!({ "/v1/lines/{id}": { "post": operation } });
    text
}

#[test]
fn a_call_by_name_is_one_flat_object() {
    let schema = read(&full()).operations[0].input_schema().unwrap();
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], json!(["id", "qty"]));
    let names: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["dry", "id", "price", "qty", "tag", "unit"]);
    assert_eq!(schema["properties"]["id"]["description"], "Which.");
    assert_eq!(schema["properties"]["unit"], json!({ "$ref": "#/$defs/Unit" }));
    assert_eq!(schema["$defs"]["Unit"], json!({ "enum": ["piece", "hour"] }));
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
}

#[test]
fn a_call_by_name_becomes_a_request() {
    let things = read(&full());
    let request = |value| things.operations[0].request(fields(value));
    let made = request(json!({ "id": "a&b ü", "dry": true, "tag": ["x", "y&z"], "price": { "min": 1.5 }, "qty": 2, "unit": "hour" })).unwrap();
    assert_eq!(made.path_and_query, "/v1/lines/a%26b%20%C3%BC?dry=true&price%5Bmin%5D=1.5&tag=x&tag=y%26z");
    assert_eq!(
        serde_json::from_slice::<Value>(&made.body.unwrap()).unwrap(),
        json!({ "qty": 2, "unit": "hour" })
    );
    let mut wrong = said(request(json!({ "qty": 0, "dry": "x", "more": 1 })).map(|_| ()));
    wrong.sort();
    assert_eq!(
        wrong,
        [
            "dry must be true or false, not \"x\"",
            "id is required",
            "more is not known here; known are `qty`, `unit`",
            "qty must be at least 1",
        ]
    );
    assert_eq!(
        said(request(json!({ "id": "..", "qty": 1 })).map(|_| ())),
        ["id must be neither empty nor dots alone"]
    );
    assert_eq!(
        said(request(json!({ "id": "a/../b", "qty": 1 })).map(|_| ())),
        ["id must hold no slash: a service may take it for another path"]
    );
    assert_eq!(request(json!({ "id": "x", "qty": 1, "dry": null })).unwrap().path_and_query, "/v1/lines/x");
}

#[test]
fn a_body_that_need_not_be_is_left_out_with_its_fields() {
    let mut text = full();
    text["paths"]["/v1/lines/{id}"]["post"]["requestBody"]["required"] = json!(false);
    let things = read(&text);
    let operation = &things.operations[0];
    assert_eq!(operation.input_schema().unwrap()["required"], json!(["id"]));
    assert_eq!(operation.request(fields(json!({ "id": "x" }))).unwrap().body, None);
    assert!(operation.request(fields(json!({ "id": "x", "unit": "hour" }))).is_err());
}

#[test]
fn fields_of_parts_and_choices_are_fields_of_the_call() {
    let schemas = json!({
        "Base": { "type": "object", "required": ["a"], "properties": { "a": { "type": "string" } } },
        "Card": { "type": "object", "properties": { "number": { "type": "string" } } },
        "Bank": { "type": "object", "properties": { "iban": { "type": "string" } } },
    });
    let schema = json!({ "allOf": [{ "$ref": "#/components/schemas/Base" }, { "properties": { "b": {} } }],
        "oneOf": [{ "$ref": "#/components/schemas/Card" }, { "$ref": "#/components/schemas/Bank" }] });
    let things = read(&posting(&schema, &schemas));
    let schema = things.operations[0].input_schema().unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (value, good) in [
        (json!({ "a": "x", "b": 1, "iban": "x" }), true),
        (json!({ "a": "x", "more": 1, "iban": "x", "number": "y" }), false),
        (json!({ "b": 1, "iban": "x" }), false),
    ] {
        // The schema is for readers: it may say less than the check, and never more.
        let request = things.operations[0].request(fields(value.clone()));
        assert_eq!(request.is_ok(), good, "{value}: {request:?}");
        assert!(!validator.is_valid(&value) || good || value.get("more").is_some(), "{value}");
    }
}

#[test]
fn what_cannot_be_flat_is_not_called_by_name() {
    let why = |text: &Value| read(text).operations[0].not_callable_because().unwrap_or("callable").to_owned();
    assert_eq!(
        why(&posting(&json!({ "type": "array", "items": {} }), &json!({}))),
        "its body is no JSON object"
    );
    assert_eq!(
        why(&posting(&json!({ "type": ["object", "null"] }), &json!({}))),
        "its body is no JSON object"
    );
    assert_eq!(why(&posting(&json!({}), &json!({}))), "its body is no JSON object");
    let form = json!({ "requestBody": { "content": { "application/x-www-form-urlencoded": {} } } });
    assert_eq!(why(&document("post", &form, &json!({}))), "its body is no JSON with a schema");
    let mut clash = full();
    clash["components"]["schemas"]["Line"]["properties"]["id"] = json!({});
    assert_eq!(why(&clash), "`id` stands both in the body and beside it");
    let mut twice = full();
    twice["paths"]["/v1/lines/{id}"]["post"]["parameters"][1]["name"] = json!("id");
    assert_eq!(why(&twice), "`id` stands both in the path and in the query");
    let mut header = full();
    header["paths"]["/v1/lines/{id}"]["post"]["parameters"][4]["required"] = json!(true);
    assert_eq!(why(&header), "it needs the header `X-Trace`, which is no field");
    let mut socket = document("get", &json!({ "x-portico-websocket": true }), &json!({}));
    assert_eq!(why(&socket), "it becomes a WebSocket");
    socket["paths"]["/v1/things"]["get"]["x-portico-websocket"] = json!(false);
    assert_eq!(why(&socket), "callable");
}

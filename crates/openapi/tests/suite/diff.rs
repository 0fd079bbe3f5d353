//! What changed from one document to the next, and what of it breaks callers.

use portico_openapi::diff;
use serde_json::{Value, json};

use crate::read;

fn before() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Things", "version": "1" },
        "paths": {
            "/v1/things/{id}": { "get": {
                "operationId": "get", "security": [{ "oauth": ["things:read"] }],
                "parameters": [
                    { "name": "id", "in": "path", "required": true, "schema": { "type": "string" } },
                    { "name": "view", "in": "query", "schema": { "type": "string", "enum": ["full", "short"] } },
                ],
                "responses": { "200": { "description": "It.", "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Thing" } } } } },
            } },
            "/v1/things": { "post": {
                "operationId": "make", "security": [{ "oauth": ["things:write"] }],
                "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/New" } } } },
                "responses": { "200": { "description": "It." } },
            } },
        },
        "webhooks": { "thing.made": { "post": { "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Thing" } } } } } } },
        "components": {
            "schemas": {
                "Thing": { "type": "object", "required": ["id"], "properties": {
                    "id": { "type": "string" }, "state": { "enum": ["new", "done"] },
                    "parts": { "type": "array", "items": { "$ref": "#/components/schemas/Thing" } },
                } },
                "New": { "type": "object", "properties": { "name": { "type": "string", "maxLength": 20 }, "size": { "type": "integer", "minimum": 1 } } },
            },
            "securitySchemes": { "oauth": { "type": "oauth2", "flows": { "clientCredentials": { "tokenUrl": "/t", "scopes": {
                "things:read": "Read", "things:write": "Write", "things:all": "All",
            } } } } },
        },
    })
}

/// The lines of the difference that `change` makes.
fn lines(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let old = before();
    let mut new = old.clone();
    change(&mut new);
    diff(&read(&old), &read(&new)).iter().map(ToString::to_string).collect()
}

fn schema<'a>(document: &'a mut Value, name: &str) -> &'a mut Value {
    &mut document["components"]["schemas"][name]
}

#[test]
fn nothing_changed_is_nothing_to_say() {
    assert_eq!(lines(|_| {}), [""; 0]);
    assert_eq!(lines(|d| d["paths"]["/v1/things"]["post"]["summary"] = json!("Make a thing")), [""; 0]);
    assert_eq!(
        lines(|d| {
            // Another name of a variable is no other route.
            let mut item = d["paths"]["/v1/things/{id}"].take();
            item["get"]["parameters"][0]["name"] = json!("key");
            d["paths"] = json!({ "/v1/things/{key}": item, "/v1/things": d["paths"]["/v1/things"].clone() });
        }),
        [""; 0]
    );
}

#[test]
fn routes_names_scopes_and_prices() {
    assert_eq!(
        lines(|d| {
            d["paths"].as_object_mut().unwrap().remove("/v1/things");
        }),
        ["breaking: POST /v1/things is gone"]
    );
    assert_eq!(
        lines(|d| d["paths"]["/v1/things"]["post"]["operationId"] = json!("create")),
        ["breaking: POST /v1/things: its name was `make` and is `create`"]
    );
    assert_eq!(
        lines(|d| d["paths"]["/v1/things"]["post"]["security"] = json!([{ "oauth": ["things:all"] }])),
        ["breaking: POST /v1/things: it asked for things:write and asks for things:all"]
    );
    assert_eq!(
        lines(|d| d["paths"]["/v1/things"]["post"]["security"] =
            json!([{ "oauth": ["things:all"] }, { "oauth": ["things:write"] }])),
        ["POST /v1/things: it asked for things:write and asks for things:all, or things:write"]
    );
    assert_eq!(
        lines(|d| d["paths"]["/v1/things"]["post"]["security"] = json!([])),
        [
            "POST /v1/things: it asked for things:write and asks for no token",
            "POST /v1/things: it cost 5 units and costs 0",
        ]
    );
    assert_eq!(
        lines(|d| d["paths"]["/v1/things"]["post"]["x-portico-units"] = json!(7)),
        ["POST /v1/things: it cost 5 units and costs 7"]
    );
    assert_eq!(
        lines(|d| d["paths"]["/v1/things"]["post"]["x-portico-plans"] = json!(["team"])),
        ["breaking: POST /v1/things: it was for all plans and is for team"]
    );
    assert_eq!(
        lines(|d| {
            d["components"]["securitySchemes"]["oauth"]["flows"]["clientCredentials"]["scopes"]
                .as_object_mut()
                .unwrap()
                .remove("things:all");
        }),
        ["breaking: the scope `things:all` is gone"]
    );
}

#[test]
fn fields_of_requests() {
    let post = "POST /v1/things: ";
    let say = |line: &str| vec![line.replace("{}", post)];
    assert_eq!(
        lines(|d| {
            schema(d, "New")["properties"].as_object_mut().unwrap().remove("name");
        }),
        say("breaking: {}`name` of the body is gone")
    );
    assert_eq!(
        lines(|d| schema(d, "New")["required"] = json!(["name"])),
        say("breaking: {}`name` of the body is now required")
    );
    assert_eq!(
        lines(|d| schema(d, "New")["properties"]["note"] = json!({})),
        say("{}`note` of the body is new")
    );
    assert_eq!(
        lines(|d| {
            schema(d, "New")["properties"]["note"] = json!({});
            schema(d, "New")["required"] = json!(["note"]);
        }),
        say("breaking: {}`note` of the body is new and required")
    );
    assert_eq!(
        lines(|d| schema(d, "New")["properties"]["name"]["maxLength"] = json!(10)),
        say("breaking: {}`name` of the body had `maxLength` 20 and has 10")
    );
    assert_eq!(
        lines(|d| schema(d, "New")["properties"]["name"]["maxLength"] = json!(30)),
        say("{}`name` of the body had `maxLength` 20 and has 30")
    );
    assert_eq!(
        lines(|d| schema(d, "New")["properties"]["size"]["minimum"] = json!(2)),
        say("breaking: {}`size` of the body had `minimum` 1 and has 2")
    );
    assert_eq!(
        lines(|d| schema(d, "New")["properties"]["size"]["type"] = json!("number")),
        say("{}`size` of the body was integer and is number")
    );
    assert_eq!(
        lines(|d| schema(d, "New")["properties"]["size"]["type"] = json!("string")),
        say("breaking: {}`size` of the body was integer and is string")
    );
    assert_eq!(
        lines(|d| schema(d, "New")["properties"]["name"]["pattern"] = json!("^a")),
        say("breaking: {}`name` of the body had `pattern` nothing and has \"^a\"")
    );
    assert_eq!(
        lines(|d| d["paths"]["/v1/things"]["post"]["requestBody"]["required"] = json!(true)),
        say("breaking: {}the body is now required")
    );
}

#[test]
fn parameters() {
    let get = "/v1/things/{id}";
    let view =
        |d: &mut Value, change: &dyn Fn(&mut Value)| change(&mut d["paths"][get]["get"]["parameters"][1]);
    assert_eq!(
        lines(|d| {
            d["paths"][get]["get"]["parameters"].as_array_mut().unwrap().pop();
        }),
        ["breaking: GET /v1/things/{id}: the query parameter `view` is gone"]
    );
    assert_eq!(
        lines(|d| view(d, &|view| view["required"] = json!(true))),
        ["breaking: GET /v1/things/{id}: the query parameter `view` is now required"]
    );
    assert_eq!(
        lines(|d| view(d, &|view| view["schema"]["enum"] = json!(["full", "long"]))),
        [
            "breaking: GET /v1/things/{id}: the query parameter `view` can no longer be \"short\"",
            "GET /v1/things/{id}: the query parameter `view` can now be \"long\"",
        ]
    );
    assert_eq!(
        lines(|d| {
            d["paths"][get]["get"]["parameters"]
                .as_array_mut()
                .unwrap()
                .push(json!({ "name": "x", "in": "query", "schema": {} }));
        }),
        ["GET /v1/things/{id}: the query parameter `x` is new"]
    );
}

#[test]
fn answers_and_events_share_a_schema_and_both_are_told() {
    let event = "breaking: the schema of the event type `thing.made` changed";
    assert_eq!(
        lines(|d| {
            schema(d, "Thing")["properties"].as_object_mut().unwrap().remove("state");
        }),
        ["breaking: GET /v1/things/{id}: `state` of the answer 200 is gone", event]
    );
    assert_eq!(
        lines(|d| schema(d, "Thing")["properties"]["state"]["enum"] = json!(["new"])),
        ["breaking: GET /v1/things/{id}: `state` of the answer 200 can no longer be \"done\"", event]
    );
    assert_eq!(
        lines(|d| {
            schema(d, "Thing").as_object_mut().unwrap().remove("required");
        }),
        ["breaking: GET /v1/things/{id}: `id` of the answer 200 may now be missing", event]
    );
    assert_eq!(lines(|d| schema(d, "Thing")["description"] = json!("A thing.")), [""; 0]);
    assert_eq!(
        lines(|d| {
            d.as_object_mut().unwrap().remove("webhooks");
        }),
        ["breaking: the event type `thing.made` is gone"]
    );
    assert_eq!(
        lines(|d| d["paths"]["/v1/things/{id}"]["get"]["responses"] =
            json!({ "204": { "description": "Nothing." } })),
        [
            "breaking: GET /v1/things/{id}: the answer 200 is gone",
            "GET /v1/things/{id}: the answer 204 is new",
        ]
    );
}

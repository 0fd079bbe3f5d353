//! A service in the platform's document.

use std::collections::BTreeSet;

use portico_openapi::{Document, Errors, Mount};
use serde_json::{Value, json};

use crate::read;

fn platform() -> Value {
    json!({
        "openapi": "3.1.0",
        "tags": [{ "name": "events", "description": "Events." }],
        "paths": { "/v1/me": { "get": { "operationId": "identity.me.get" } } },
        "components": { "schemas": { "Account": { "type": "object" } }, "responses": { "Problem": {} } },
    })
}

fn service() -> Value {
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Invoices", "version": "1", "description": "Bills and what is paid." },
        "servers": [{ "url": "https://internal.example" }],
        "tags": [{ "name": "events", "description": "What happens." }],
        "paths": {
            "/v1/invoices/{id}": {
                "parameters": [{ "$ref": "#/components/parameters/Id" }],
                "get": {
                    "operationId": "get", "summary": "Read one", "security": [{ "oauth": ["invoices:read"] }, { "oauth": ["invoices:all"] }],
                    "tags": ["events"], "x-portico-units": 40, "x-portico-tool": { "name": "get_invoice", "title": "Read" },
                    "servers": [{ "url": "https://other.example" }],
                    "responses": {
                        "200": { "description": "It.", "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Invoice" } } } },
                        "404": { "description": "No such invoice.", "content": { "application/json": { "schema": { "$ref": "#/components/schemas/OwnError" } } } },
                    },
                },
                "put": { "operationId": "put", "security": [], "responses": { "204": { "description": "Done." } },
                    "requestBody": { "$ref": "#/components/requestBodies/Line" } },
            },
        },
        "components": {
            "parameters": { "Id": { "name": "id", "in": "path", "required": true, "schema": { "type": "string", "example": "in_1" } } },
            "requestBodies": { "Line": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Invoice/properties/line" } } } } },
            "schemas": {
                "Invoice": { "type": "object", "properties": { "account": { "$ref": "#/components/schemas/Account" }, "line": { "type": "object", "properties": { "note": { "type": "string", "nullable": true } } } } },
                "Account": { "oneOf": [{ "$ref": "#/components/schemas/Person" }], "discriminator": { "propertyName": "kind", "mapping": { "p": "Person" } } },
                "Person": { "type": "object", "properties": { "kind": { "type": "string" } } },
                "OwnError": { "type": "object" },
                "Unused": { "type": "object" },
            },
            "securitySchemes": { "oauth": { "type": "oauth2", "flows": { "clientCredentials": { "tokenUrl": "/t", "scopes": { "invoices:read": "Read", "invoices:all": "All" } } } } },
        },
    })
}

fn merged(errors: Errors, keeps: &dyn Fn(&portico_openapi::Operation) -> bool) -> Value {
    let document: Document = read(&service());
    let mut platform = platform();
    let taken: BTreeSet<String> = Mount::names_in(&platform);
    let mount = Mount { service: "invoices", errors, checks_requests: true, taken: &taken, keeps };
    document.merge_into(&mut platform, &mount);
    platform
}

#[test]
fn an_operation_is_told_in_the_words_of_the_platform() {
    let all = merged(Errors::Envelope, &|_| true);
    let get = &all["paths"]["/v1/invoices/{id}"]["get"];
    assert_eq!(get["operationId"], "invoices.get");
    assert_eq!(get["x-platform-rpc"], "invoices.get");
    assert_eq!(get["x-platform-public"], true);
    assert_eq!(get["x-platform-units"], json!({ "category": "read", "units": "40" }));
    assert_eq!(get["x-platform-tool"], json!({ "name": "get_invoice", "scopes": ["mcp:read"] }));
    assert_eq!(get["security"], json!([{ "bearer": ["invoices:all"] }, { "bearer": ["invoices:read"] }]));
    assert_eq!(get["tags"], json!(["invoices.events"]));
    assert_eq!(get["parameters"][0]["schema"], json!({ "type": "string", "examples": ["in_1"] }));
    for gone in ["servers", "x-portico-units", "x-portico-tool"] {
        assert!(get.get(gone).is_none(), "{gone}");
    }
    let put = &all["paths"]["/v1/invoices/{id}"]["put"];
    assert_eq!(
        (&put["security"], &put["tags"], &put["summary"]),
        (&json!([]), &json!(["invoices"]), &json!("put"))
    );
    assert!(put.get("x-platform-units").is_none(), "nobody pays for what is open");
    let tags = all["tags"].as_array().unwrap();
    assert!(tags.contains(&json!({ "name": "invoices.events", "description": "What happens." })));
    assert!(
        tags.contains(&json!({ "name": "invoices", "description": "Invoices. Bills and what is paid." }))
    );
    assert_eq!(all["paths"]["/v1/me"]["get"]["operationId"], "identity.me.get");
}

#[test]
fn answers_get_the_headers_and_the_refusals_of_the_platform() {
    let all = merged(Errors::Envelope, &|_| true);
    let get = &all["paths"]["/v1/invoices/{id}"]["get"]["responses"];
    assert_eq!(
        get["404"],
        json!({ "$ref": "#/components/responses/Problem", "description": "No such invoice." })
    );
    for status in ["400", "401", "403", "429", "503", "504", "default"] {
        assert_eq!(get[status], json!({ "$ref": "#/components/responses/Problem" }), "{status}");
    }
    assert_eq!(
        get["200"]["headers"]["X-RateLimit-Limit"],
        json!({ "$ref": "#/components/headers/RateLimit" })
    );
    let put = &all["paths"]["/v1/invoices/{id}"]["put"]["responses"];
    assert!(put.get("401").is_none() && put["415"].is_object());
    assert!(put["204"]["headers"].get("X-RateLimit-Limit").is_none());
    let pass = merged(Errors::Pass, &|_| true);
    assert_eq!(
        pass["paths"]["/v1/invoices/{id}"]["get"]["responses"]["404"]["content"]["application/json"]["schema"],
        json!({ "$ref": "#/components/schemas/OwnError" })
    );
}

#[test]
fn schemas_come_along_under_names_of_their_own() {
    let all = merged(Errors::Envelope, &|_| true);
    let schemas = all["components"]["schemas"].as_object().unwrap();
    let names: Vec<_> = schemas.keys().collect();
    assert_eq!(names, ["Account", "Invoice", "Person", "invoices.Account"]);
    assert_eq!(schemas["Account"], json!({ "type": "object" }));
    assert_eq!(
        schemas["Invoice"]["properties"]["account"],
        json!({ "$ref": "#/components/schemas/invoices.Account" })
    );
    assert_eq!(
        schemas["Invoice"]["properties"]["line"]["properties"]["note"]["type"],
        json!(["string", "null"])
    );
    assert_eq!(schemas["invoices.Account"]["discriminator"]["mapping"]["p"], "#/components/schemas/Person");
    let body =
        &all["paths"]["/v1/invoices/{id}"]["put"]["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(
        *body,
        json!({ "$ref": "#/components/schemas/Invoice/properties/line", "unevaluatedProperties": false })
    );
}

#[test]
fn a_cut_holds_what_its_operations_need_and_nothing_else() {
    let none = merged(Errors::Envelope, &|_| false);
    assert_eq!(none, platform());
    let open = merged(Errors::Pass, &|operation| operation.id == "put");
    assert!(open["paths"]["/v1/invoices/{id}"].get("get").is_none());
    // Names are the same in every cut.
    assert!(open["components"]["schemas"].get("invoices.Account").is_some());
    assert!(open["components"]["schemas"].get("OwnError").is_none());
}

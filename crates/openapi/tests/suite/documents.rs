//! What a document is read into.

use portico_kernel::Category;
use portico_openapi::{Document, Method, Scope, Security, Tool};
use serde_json::json;

use crate::{document, read};

const YAML: &str = r"
openapi: 3.0.3
info:
  title: Invoices
  version: 1.10
  description: |
    Bills and what is paid.
security:
  - oauth: [invoices:read]
paths:
  /v1/accounts/{org_id}/invoices/{id}:
    parameters:
      - &id { name: id, in: path, required: true, schema: { type: string } }
      - { <<: *id, name: org_id }
    get:
      operationId: getInvoice
      summary: Read an invoice
      tags: [invoices]
      x-portico-tool: { name: invoices_get, title: Read an invoice }
      responses:
        200: { description: It. }
    delete:
      operationId: deleteInvoice
      deprecated: true
      security: []
      x-portico-plans: [team, scale]
      x-portico-category: search
      responses:
        204: { description: no }
    put:
      operationId: putInvoice
      security:
        - oauth: [invoices:write, invoices:read]
        - token: []
      x-portico-units: 40
      responses: { 200: { description: yes } }
components:
  securitySchemes:
    oauth:
      type: oauth2
      flows:
        clientCredentials:
          tokenUrl: /t
          scopes: { invoices:write: Make invoices, invoices:read: Read invoices }
    token: { type: http, scheme: bearer }
    sso: { type: openIdConnect, openIdConnectUrl: /x }
";

#[test]
fn yaml_and_all_that_an_operation_says() {
    let document = match Document::read(YAML.as_bytes(), "invoices.yaml") {
        Ok(document) => document,
        Err(findings) => panic!("{findings:?}"),
    };
    assert_eq!(
        (document.title.as_str(), document.description.as_str()),
        ("Invoices", "Bills and what is paid.")
    );
    let scope =
        |name: &str, description: &str| Scope { name: name.to_owned(), description: description.to_owned() };
    assert_eq!(
        document.scopes,
        [scope("invoices:read", "Read invoices"), scope("invoices:write", "Make invoices")]
    );
    assert_eq!(document.operations.len(), 3);
    let get = document.operation("getInvoice").unwrap();
    assert_eq!((get.method, get.path.as_str()), (Method::Get, "/v1/accounts/{org_id}/invoices/{id}"));
    assert_eq!(get.variables, ["org_id", "id"]);
    assert_eq!(get.security, Security::AnyOf(vec![vec!["invoices:read".to_owned()]]));
    assert_eq!((get.category, get.units, get.price()), (Category::Read, None, 1));
    assert_eq!(get.tool, Some(Tool { name: "invoices_get".to_owned(), title: "Read an invoice".to_owned() }));
    assert_eq!(
        (get.summary.as_str(), get.tags.as_slice()),
        ("Read an invoice", &["invoices".to_owned()][..])
    );
    let delete = document.operation("deleteInvoice").unwrap();
    assert_eq!(
        (delete.category, delete.deprecated, &delete.security),
        (Category::Search, true, &Security::Open)
    );
    assert_eq!(delete.plans, Some(vec!["team".to_owned(), "scale".to_owned()]));
    let put = document.operation("putInvoice").unwrap();
    assert_eq!((put.price(), put.category), (40, Category::Write));
    let both = vec!["invoices:read".to_owned(), "invoices:write".to_owned()];
    assert_eq!(put.security, Security::AnyOf(vec![vec![], both]));
}

#[test]
fn a_document_can_be_shared_among_threads() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    shared(&read(&document("get", &json!({}), &json!({}))));
}

#[test]
fn a_parameter_of_the_operation_wins_over_that_of_its_path() {
    let mut text = document(
        "get",
        &json!({ "parameters": [{ "name": "size", "in": "query", "schema": { "type": "integer" } }] }),
        &json!({}),
    );
    text["paths"]["/v1/things"]["parameters"] = json!([
        { "name": "size", "in": "query", "schema": { "type": "boolean" } },
        { "name": "more", "in": "query", "schema": { "type": "boolean" } },
    ]);
    let things = read(&text);
    assert_eq!(crate::check_query(&things, &[("size", "1"), ("more", "true")]), crate::fine());
    assert_eq!(
        crate::check_query(&things, &[("size", "true")]),
        ["size must be a whole number, not \"true\""]
    );
}

#[test]
fn names_that_look_like_words_of_openapi_are_names() {
    let schema = json!({ "type": "object", "properties": {
        "$ref": { "type": "string" }, "properties": { "type": "integer" }, "enum": { "type": "boolean" }, "x-portico-units": { "type": "integer" },
    }, "examples": [{ "$ref": "nowhere.yaml" }], "default": { "$ref": 1 }, "required": ["$ref"] });
    let things = read(&crate::posting(&schema, &json!({})));
    assert_eq!(
        crate::check(&things, &json!({ "$ref": "x", "properties": 1, "enum": true, "x-portico-units": 1 })),
        crate::fine()
    );
    assert_eq!(
        crate::check(&things, &json!({ "properties": "x" })),
        ["$ref is required", "properties must be a whole number, not \"x\""]
    );
}

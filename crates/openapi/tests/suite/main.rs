//! What documents are read into, which are refused, and what requests they let through.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test")]

mod closed;
mod diff;
mod documents;
mod hostile;
mod merge;
mod named;
mod properties;
mod refusals;
mod requests;
mod schemas;

use portico_openapi::{Document, FieldError, Finding};
use serde_json::{Value, json};

/// A document of one operation at `/v1/things`, with these schemas.
fn document(method: &str, operation: &Value, schemas: &Value) -> Value {
    let mut operation = operation.clone();
    for (member, value) in [
        ("operationId", json!("doThings")),
        ("security", json!([])),
        ("responses", json!({ "200": { "description": "Done." } })),
    ] {
        if operation.get(member).is_none() {
            operation[member] = value;
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Things", "version": "1" },
        "paths": { "/v1/things": { method: operation } },
        "components": { "schemas": schemas },
    })
}

/// The same, whose one operation takes this schema as its body.
fn posting(schema: &Value, schemas: &Value) -> Value {
    let body = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    document("post", &json!({ "requestBody": body }), schemas)
}

fn read(document: &Value) -> Document {
    match Document::read(document.to_string().as_bytes(), "things.json") {
        Ok(document) => document,
        Err(findings) => panic!("{}", lines(&findings)),
    }
}

fn lines(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// What is wrong with a document: place and message.
fn refused(document: &Value) -> Vec<(String, String)> {
    refused_text(&document.to_string())
}

fn refused_text(text: &str) -> Vec<(String, String)> {
    let findings = Document::read(text.as_bytes(), "things").expect_err("must be refused");
    findings.into_iter().map(|finding| (finding.place, finding.message)).collect()
}

/// Checks a body of JSON by the document's one operation; what is wrong with it as `field description`.
fn check(document: &Document, body: &Value) -> Vec<String> {
    check_text(document, &body.to_string())
}

fn check_text(document: &Document, body: &str) -> Vec<String> {
    let rules = document.operations[0].body.as_ref().expect("takes a body");
    said(rules.check(Some("application/json"), body.as_bytes()))
}

/// Checks a query, already decoded, by the document's one operation.
fn check_query(document: &Document, query: &[(&str, &str)]) -> Vec<String> {
    let query: Vec<_> = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    said(document.operations[0].check_head(&[], &query, &|_| None))
}

fn said(result: Result<(), Vec<FieldError>>) -> Vec<String> {
    let errors = result.err().unwrap_or_default();
    errors.into_iter().map(|error| format!("{} {}", error.field, error.description)).collect()
}

/// Nothing is wrong.
fn fine() -> Vec<String> {
    Vec::new()
}

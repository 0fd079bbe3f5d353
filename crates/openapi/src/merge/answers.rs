//! The answers of an operation in the platform's document.

use serde_json::{Value, json};

use super::{Errors, member};
use crate::{BodyRule, Operation, Security};

/// The answers: the service's own with the platform's headers, and the refusals of the platform.
pub(super) fn responses(described: &mut Value, operation: &Operation, errors: Errors) {
    let problem = || json!({ "$ref": "#/components/responses/Problem" });
    let is_open = operation.security == Security::Open;
    let answers = member(described, "responses");
    let Value::Object(answers) = answers else { return };
    answers.retain(|name, _| !name.starts_with("x-"));
    for (status, answer) in answers.iter_mut() {
        let is_error = status.starts_with(['4', '5']) || status == "default";
        if is_error && errors == Errors::Envelope {
            let said = answer.get("description").cloned();
            *answer = problem();
            if let Some(said) = said {
                answer["description"] = said;
            }
        } else {
            add_headers(answer, is_open);
        }
    }
    let mut refusals = vec!["400", "default"];
    if !is_open {
        refusals.extend(["401", "403", "429"]);
    }
    if let Some(body) = &operation.body {
        refusals.push("413");
        if body.rule(Some("x/x")) == BodyRule::Unsupported {
            refusals.push("415");
        }
    }
    refusals.extend(["503", "504"]);
    for status in refusals {
        answers.entry(status).or_insert_with(problem);
    }
}

fn add_headers(answer: &mut Value, is_open: bool) {
    let Value::Object(headers) = member(answer, "headers") else { return };
    let limited = [
        ("X-RateLimit-Limit", "RateLimit"),
        ("X-RateLimit-Remaining", "RateRemaining"),
        ("X-RateLimit-Reset", "RateReset"),
    ];
    let own = [("x-request-id", "RequestId")];
    for (name, component) in own.into_iter().chain(limited.into_iter().filter(|_| !is_open)) {
        headers.retain(|other: &String, _| !other.eq_ignore_ascii_case(name));
        headers.insert(name.to_owned(), json!({ "$ref": format!("#/components/headers/{component}") }));
    }
}

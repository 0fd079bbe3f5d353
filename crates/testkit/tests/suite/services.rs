//! What services may do themselves: their credentials and tokens, events and usage.

mod accounts;
mod crash;
mod credentials;
mod events;
mod usage;
mod verify;

use portico_kernel::AccountId;
use portico_testkit::{Answer, TestApp, TestRequest};
use serde_json::{Value, json};

const EVENTS: &str = "/v1/services/events";
const USAGE: &str = "/v1/services/usage";
const ACCOUNTS: &str = "/v1/services/accounts";
const VERIFY: &str = "/v1/services/verify";

async fn post(app: &TestApp, token: &str, path: &str, body: &Value) -> Answer {
    app.send(TestRequest::new("POST", path).bearer(token).json(body)).await
}

async fn get(app: &TestApp, token: &str, path: &str) -> Answer {
    app.send(TestRequest::new("GET", path).bearer(token)).await
}

/// An event that can be published.
fn paid(id: &str, account: AccountId) -> Value {
    json!({ "id": id, "account_id": account, "type": "invoice.paid", "data": { "invoice_id": id } })
}

/// What came of a batch: accepted, repeated, and the indices of what was refused.
fn result(answer: &Answer) -> (u64, u64, Vec<u64>) {
    let answer = answer.ok();
    let number = |name: &str| answer[name].as_u64().unwrap();
    let refused = answer["refused"].as_array().unwrap().iter();
    (number("accepted"), number("repeated"), refused.map(|each| each["index"].as_u64().unwrap()).collect())
}

/// What is wrong with the only field that a refused element names.
fn fault(answer: &Answer, at: usize) -> (String, String) {
    let problem = answer.ok()["refused"][at]["problem"].clone();
    assert_eq!(problem["request_id"], answer.header("x-request-id"), "{problem}");
    let detail = &problem["details"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&detail["field"]), text(&detail["description"]))
}

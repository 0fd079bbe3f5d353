//! How many statements each write costs, and how often it waits for the database, so that neither creeps up.

use std::collections::BTreeMap;

use portico_engine::Method;
use portico_kernel::{PersonId, Role};
use portico_testkit::{Database, Receiver, TestApp, TestRequest, capture_log, captured_log};
use serde_json::{Value, json};

use crate::connections;
use crate::domains::Net;
use crate::webhooks::{ENDPOINTS, text};
use crate::with_dns;

/// Statements of each operation that writes, and how many of them are waited for. The commit, with all that nobody waited
/// for until then, is not counted.
const COSTS: [(&str, u32, u32); 41] = [
    ("accounts.invitations.accept", 14, 10),
    ("accounts.invitations.create", 13, 8),
    ("accounts.invitations.delete", 7, 3),
    ("accounts.members.delete", 16, 9),
    ("accounts.members.update", 10, 5),
    ("accounts.orgs.create", 14, 8),
    ("accounts.orgs.delete", 11, 5),
    ("accounts.orgs.update", 10, 5),
    ("connections.actions.call", 0, 0),
    ("connections.clients.delete", 6, 2),
    ("connections.clients.replace", 7, 2),
    ("connections.connections.create", 17, 10),
    ("connections.connections.delete", 12, 4),
    ("connections.connections.test", 5, 4),
    ("connections.connections.update", 13, 6),
    ("connections.grants.create", 14, 9),
    ("connections.grants.delete", 6, 2),
    ("connections.sign_ins.complete", 24, 15),
    ("connections.sign_ins.create", 8, 3),
    ("connections.tools.call", 0, 0),
    ("domains.domains.check", 2, 1),
    ("domains.domains.confirm", 11, 4),
    ("domains.domains.create", 11, 5),
    ("domains.domains.delete", 8, 1),
    ("identity.keys.create", 8, 3),
    ("identity.keys.delete", 10, 5),
    ("identity.tokens.create", 8, 3),
    ("identity.tokens.delete", 10, 5),
    ("services.events.publish", 5, 2),
    ("services.tokens.verify", 0, 0),
    ("services.usage.report", 8, 5),
    ("webhooks.deliveries.retry", 6, 5),
    ("webhooks.endpoints.create", 8, 2),
    ("webhooks.endpoints.delete", 8, 2),
    ("webhooks.endpoints.recover", 4, 4),
    ("webhooks.endpoints.rotate", 9, 4),
    ("webhooks.endpoints.test", 6, 2),
    ("webhooks.endpoints.update", 11, 4),
    ("webhooks.inboxes.create", 9, 4),
    ("webhooks.inboxes.delete", 8, 2),
    ("webhooks.inboxes.receive", 4, 1),
];

with_dns! {
    writes_cost_what_they_must,
}

struct Client<'a> {
    app: &'a TestApp,
    token: &'a str,
}

impl Client<'_> {
    async fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let sent = TestRequest::new(method, path).bearer(self.token);
        self.app.send(if method == "DELETE" { sent } else { sent.json(body) }).await.ok()
    }
}

async fn writes_cost_what_they_must(app: TestApp, net: Net) {
    capture_log();
    let receiver = Receiver::start().await;
    let (owner, other) =
        (app.new_person("ada@example.com", None).await.id, app.new_person("bea@example.com", None).await.id);
    app.join(app.account, owner, Role::Owner).await;
    write_as_a_person(&app, &app.person_token(owner).await, other).await;
    write_webhooks(&app, &receiver).await;
    write_domains(&app, &net).await;
    write_as_a_service(&app).await;
    let is_postgres = app.database.url.starts_with("postgres");
    connections::write_in_every_way(if is_postgres { Database::Postgres } else { Database::Sqlite }).await;
    let mut answered = answered();
    let catalog = app.app.engine.registry.catalog();
    let entries = catalog.entries().iter().filter(|entry| entry.spec.method != Method::Get);
    let names = entries.map(|entry| entry.spec.name);
    // But those of the tests' own area, and what has no statements of its own.
    let costs = names
        .filter(|name| !name.starts_with("lab.") && !name.starts_with("platform."))
        .map(|name| (name, answered.remove(name).unwrap_or_else(|| panic!("{name} is not called here"))));
    let expected = COSTS.iter().map(|&(name, statements, round_trips)| (name, (statements, round_trips)));
    assert_eq!(costs.collect::<BTreeMap<_, _>>(), expected.collect());
}

/// The most that each operation has cost.
fn answered() -> BTreeMap<String, (u32, u32)> {
    let mut costs = BTreeMap::<_, (u32, u32)>::new();
    for line in captured_log().lines().filter(|line| line.contains("Answered")) {
        let field = |name: &str| {
            let (_, rest) = line.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("{line}"));
            rest.split(' ').next().unwrap_or_default().trim_matches('"').to_owned()
        };
        let number = |name: &str| field(name).parse::<u32>().unwrap();
        let cost = costs.entry(field("operation")).or_default();
        *cost = (number("queries").max(cost.0), number("round_trips").max(cost.1));
    }
    costs
}

async fn write_as_a_person(app: &TestApp, owner: &str, other: PersonId) {
    let token = app.person_token(other).await;
    let (ada, bea) = (Client { app, token: owner }, Client { app, token: &token });
    let org = format!("/v1/accounts/orgs/{}", app.account);
    for kind in ["keys", "tokens"] {
        let mut body = json!({ "scopes": ["identity:read"] });
        if kind == "tokens" {
            body["days"] = json!(30);
        }
        let id = text(&ada.call("POST", &format!("{org}/{kind}"), &body).await["key"]["id"]);
        ada.call("DELETE", &format!("{org}/{kind}/{id}"), &json!(null)).await;
    }
    for email in ["bea@example.com", "cat@example.com"] {
        let body = json!({ "email": email, "role": "member" });
        let made = ada.call("POST", &format!("{org}/invitations"), &body).await;
        if email.starts_with("bea") {
            let (_, token) = made["link"].as_str().unwrap().split_once("invitation=").unwrap();
            bea.call("POST", "/v1/accounts/invitations/accept", &json!({ "token": token })).await;
        } else {
            let id = text(&made["invitation"]["id"]);
            ada.call("DELETE", &format!("{org}/invitations/{id}"), &json!(null)).await;
        }
    }
    let member = format!("{org}/members/{other}");
    ada.call("PATCH", &member, &json!({ "role": "admin" })).await;
    ada.call("DELETE", &member, &json!(null)).await;
    let team = text(&ada.call("POST", "/v1/accounts/orgs", &json!({ "name": "A team" })).await["id"]);
    ada.call("PATCH", &format!("/v1/accounts/orgs/{team}"), &json!({ "name": "Its name" })).await;
    ada.call("DELETE", &format!("/v1/accounts/orgs/{team}"), &json!(null)).await;
}

async fn write_as_a_service(app: &TestApp) {
    let token = app.service_token("invoices").await;
    let service = Client { app, token: &token };
    let event = |id: usize| {
        let data = json!({ "invoice_id": "in_1" });
        json!({ "id": id.to_string(), "account_id": app.account, "type": "invoice.paid", "data": data })
    };
    let events: Vec<_> = (0..64).map(event).collect();
    service.call("POST", "/v1/services/events", &json!({ "events": events })).await;
    let record = json!({ "id": "1", "account_id": app.account, "units": 1, "name": "pages" });
    service.call("POST", "/v1/services/usage", &json!({ "records": [record] })).await;
    service.call("POST", "/v1/services/verify", &json!({ "token": app.token })).await;
}

async fn write_domains(app: &TestApp, net: &Net) {
    let client = Client { app, token: &app.token };
    let domains = format!("/v1/accounts/orgs/{}/domains", app.account);
    let added = client.call("POST", &domains, &json!({ "domain": "acme.test" })).await;
    net.publish(&added["domain"]);
    for what in ["check", "confirm"] {
        client.call("POST", &format!("{domains}/acme.test/{what}"), &json!({})).await;
    }
    client.call("DELETE", &format!("{domains}/acme.test"), &json!(null)).await;
}

async fn write_webhooks(app: &TestApp, receiver: &Receiver) {
    let client = Client { app, token: &app.token };
    let body = json!({ "url": receiver.url("/hook"), "event_types": ["key.created"] });
    let id = text(&client.call("POST", ENDPOINTS, &body).await["id"]);
    let endpoint = format!("{ENDPOINTS}/{id}");
    client
        .call("PATCH", &endpoint, &json!({ "description": "Another", "event_types": ["key.revoked"] }))
        .await;
    client.call("POST", &format!("{endpoint}/rotate"), &json!({})).await;
    let tested = client.call("POST", &format!("{endpoint}/test"), &json!({})).await;
    app.sent().await;
    let delivery = text(&tested["delivery_id"]);
    client.call("POST", &format!("/v1/webhooks/deliveries/{delivery}/retry"), &json!({})).await;
    client.call("POST", &format!("{endpoint}/recover"), &json!({ "since": app.clock_text() })).await;
    client.call("DELETE", &endpoint, &json!(null)).await;
    let inbox = client.call("POST", "/v1/webhooks/inboxes", &json!({})).await;
    let inbox = format!("/v1/webhooks/inboxes/{}", text(&inbox["inbox"]["id"]));
    client.call("POST", &format!("{inbox}/receive"), &json!({})).await;
    client.call("DELETE", &inbox, &json!(null)).await;
}

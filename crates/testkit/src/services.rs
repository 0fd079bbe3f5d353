//! Services behind the gateway, for tests of what they may do themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portico::admin::{Admin, ServiceCommand};
use portico_services::table::{ServiceDefinition, ServiceEvent, ServiceTable};
use serde_json::Value;

use crate::{Answer, TestApp, TestRequest};

/// A type of events whose data is an object with these fields, all of them texts, and no others.
fn event(fields: &'static [&'static str]) -> ServiceEvent {
    let check = move |data: &Value| {
        let object =
            data.as_object().ok_or_else(|| vec![("data".to_owned(), "must be an object".to_owned())])?;
        let missing = fields.iter().filter(|field| !object.get(**field).is_some_and(Value::is_string));
        let unknown = object.keys().filter(|name| !fields.contains(&name.as_str()));
        let faults: Vec<_> = missing
            .map(|field| (format!("data.{field}"), "must be a string".to_owned()))
            .chain(unknown.map(|name| (format!("data.{name}"), "is not known here".to_owned())))
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    };
    ServiceEvent { check: Box::new(check) }
}

fn service(
    name: &str,
    scopes: &[&str],
    events: &[(&str, &'static [&'static str])],
) -> (String, Arc<ServiceDefinition>) {
    let events = events.iter().map(|(name, fields)| ((*name).to_owned(), event(fields)));
    let definition = ServiceDefinition {
        name: name.to_owned(),
        title: name.to_uppercase(),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        calls_per_minute: None,
        events: events.collect::<BTreeMap<_, _>>(),
    };
    (name.to_owned(), Arc::new(definition))
}

/// Two services: `invoices`, whose second type of events is one to which endpoints of tests can subscribe, and `bills`.
pub fn service_table() -> ServiceTable {
    let invoices = service(
        "invoices",
        &["heavy:read"],
        &[("invoice.paid", &["invoice_id"]), ("lab.thing.created", &["thing_id", "actor"])],
    );
    let bills = service("bills", &["bills:read"], &[("bill.sent", &["bill_id"])]);
    ServiceTable { services: [invoices, bills].into() }
}

impl TestApp {
    /// Makes a credential of that service.
    pub async fn service_credential(&self, service: &str) -> Value {
        self.admin(Admin::Service(ServiceCommand::Credential { name: service.to_owned() })).await
    }

    /// Exchanges a credential of a service for a token; without scopes for one with all of them.
    pub async fn exchange_service(&self, credential: &Value, scopes: &str) -> Answer {
        let text = |name: &str| credential[name].as_str().unwrap().to_owned();
        let basic = BASE64_STANDARD.encode(format!("{}:{}", text("client_id"), text("client_secret")));
        let form = format!("grant_type=client_credentials&audience=platform-api&scope={scopes}");
        let sent = TestRequest::new("POST", "/oauth2/token");
        self.send_auth(sent.header("authorization", &format!("Basic {basic}")).form(&form)).await
    }

    /// Puts [`service_table`] in force; returns a token of that service with every scope.
    pub async fn service_token(&self, service: &str) -> String {
        self.app.services.replace(service_table());
        let credential = self.service_credential(service).await;
        let answer = self.exchange_service(&credential, "").await;
        answer.ok()["access_token"].as_str().unwrap().to_owned()
    }
}

//! Connections: a provider of the test's own on this machine, by key and by sign-in.

mod actions;
mod crash;
mod endpoints;
mod grants;
mod hosts;
mod keyring;
mod records;
mod refresh;
mod sealed;
mod sign_in;
mod tools;

use std::ops::Deref;
use std::pin::pin;
use std::time::Duration;

use portico::{Environment, ProviderSettings};
use portico_kernel::{Code, PersonId, Role};
use portico_testkit::{Answer, Database, Provider, TestApp, TestAppOptions, TestRequest, turn};
use serde_json::{Value, json};

/// A key that the code host takes, and one that it may take later.
const GOOD: &str = "ghp_canary_a1a1a1a1a1a1a1a1a1a1a1a1";
const NEXT: &str = "ghp_canary_b2b2b2b2b2b2b2b2b2b2b2b2";
/// The secret of an account's own service.
const SECRET: &str = "endpoint-canary-c3c3c3c3c3c3c3c3";
/// The secret of an OAuth client.
const CLIENT_SECRET: &str = "client-canary-e5e5";

/// A platform, a provider, and somebody who may do everything.
pub(crate) struct Place {
    app: TestApp,
    provider: Provider,
    /// A person of the account, its owner.
    owner: PersonId,
    /// The consumer that the account's token is.
    consumer: String,
}

impl Deref for Place {
    type Target = TestApp;

    fn deref(&self) -> &TestApp {
        &self.app
    }
}

/// What the operator says of that provider.
pub(crate) fn options(provider: &Provider) -> TestAppOptions {
    let clients = format!("gitlab=app-1:{CLIENT_SECRET}");
    let hosts = "acme.test".to_owned();
    let providers = ProviderSettings::read(Some(provider.overrides()), Some(&clients), Some(hosts)).unwrap();
    let environment = Environment {
        egress_allow: "127.0.0.0/8".parse().unwrap(),
        egress_name_servers: provider.name_servers(),
        providers,
        ..Environment::default()
    };
    TestAppOptions { environment, ..TestAppOptions::default() }
}

impl Place {
    pub(crate) async fn new(database: Database) -> Self {
        let provider = Provider::start().await;
        provider.set_keys(&[GOOD, NEXT]);
        let app = TestApp::with(database, options(&provider)).await;
        let owner = app.new_person("ada@example.com", None).await;
        app.join(app.account, owner.id, Role::Owner).await;
        let owner = owner.id;
        let me = app.get("/v1/me").await.ok();
        let consumer = format!("key:{}", text(&me["subject"]));
        Self { app, provider, owner, consumer }
    }

    /// The address of the account's connections, with that behind it.
    fn path(&self, rest: &str) -> String {
        format!("/v1/accounts/orgs/{}/connections{rest}", self.account)
    }

    async fn call(&self, method: &str, token: &str, path: &str, body: &Value) -> Answer {
        // No two calls come at one time, so that what they leave has an order.
        self.clock.advance(Duration::from_millis(1));
        let sent = TestRequest::new(method, path).bearer(token);
        let takes_body = ["POST", "PUT", "PATCH"].contains(&method);
        self.send(if takes_body { sent.json(body) } else { sent }).await
    }

    /// Posts below the account's connections, with the account's token.
    async fn to(&self, rest: &str, body: Value) -> Answer {
        self.call("POST", &self.token, &self.path(rest), &body).await
    }

    /// The same as the owner.
    async fn as_owner(&self, method: &str, rest: &str, body: Value) -> Answer {
        // A person's token lasts a quarter of an hour.
        let owner = self.person_token(self.owner).await;
        self.call(method, &owner, &self.path(rest), &body).await
    }

    async fn patch(&self, id: &str, body: Value) -> Answer {
        self.call("PATCH", &self.token, &self.path(&format!("/{id}")), &body).await
    }

    async fn delete(&self, rest: &str) -> Answer {
        self.call("DELETE", &self.token, &self.path(rest), &Value::Null).await
    }

    /// A connection to the code host by key.
    async fn by_key(&self) -> Value {
        let body = json!({ "kind": "github", "name": "Code", "credentials": { "api_key": GOOD } });
        self.to("", body).await.ok()["connection"].clone()
    }

    /// The connection as it is now.
    async fn read(&self, id: &str) -> Value {
        self.app.get(&self.path(&format!("/{id}"))).await.ok()["connection"].clone()
    }

    /// Grants the account's token what `more` says.
    async fn grant(&self, id: &str, more: Value) -> Value {
        let mut body = more;
        body["consumer"] = json!(self.consumer);
        self.as_owner("POST", &format!("/{id}/grants"), body).await.ok()
    }

    /// Calls an action with the account's token.
    async fn act(&self, id: &str, action: &str, params: Value) -> Answer {
        self.to(&format!("/{id}/actions/{action}"), json!({ "params": params })).await
    }

    /// The uses that pass the filter, newest first.
    async fn uses(&self, filter: &str) -> Vec<Value> {
        let path = self.path(&format!("/history?page_size=200&{filter}"));
        self.app.get(&path).await.ok()["uses"].as_array().unwrap().clone()
    }

    /// The types of the account's events.
    async fn event_types(&self) -> Vec<String> {
        let path = format!("/v1/accounts/orgs/{}/events?page_size=200", self.account);
        let events = self.app.get(&path).await.ok();
        events["events"].as_array().unwrap().iter().map(|event| text(&event["type"])).collect()
    }

    /// The actions of the account's audit log.
    async fn audited(&self) -> Vec<String> {
        let path = format!("/v1/accounts/orgs/{}/audit?page_size=200", self.account);
        let entries = self.app.get(&path).await.ok();
        entries["entries"].as_array().unwrap().iter().map(|entry| text(&entry["action"])).collect()
    }

    /// Signs in at the code host, and completes it; the connection.
    async fn by_sign_in(&self) -> Value {
        let begun = self.as_owner("POST", "/connect", json!({ "connector": "gitlab" })).await.ok();
        let (state, code) = self.provider.allow(begun["authorize_url"].as_str().unwrap());
        let body = json!({ "state": state, "code": code });
        self.as_owner("POST", "/connect/complete", body).await.ok()["connection"].clone()
    }
}

/// Sends a call to one of two servers, while both do what they do by themselves, and time goes by where one waits for the
/// other: they share out the caller's minute.
async fn beside_each_other(first: &TestApp, second: &TestApp, send: impl AsyncFn() -> Answer) -> Answer {
    loop {
        let mut coming = pin!(send());
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut coming => break answer,
                () = tokio::task::yield_now() => {}
            }
            go_on(first, second).await;
        };
        if answer.status != 429 {
            return answer;
        }
        // It may have been refused without any wait, and then no time has gone by.
        go_on(first, second).await;
    }
}

/// Lets a moment go by, in which both servers learn what the other did and share out minutes.
async fn go_on(first: &TestApp, second: &TestApp) {
    for app in [first, second] {
        app.clock.advance(Duration::from_millis(50));
        app.app.identity.revocations.refresh(&app.app.engine).await.unwrap();
        turn(app, "metering.keep_leases").await;
    }
}

/// Writes in each way that there is, on a platform of its own.
pub(crate) async fn write_in_every_way(database: Database) {
    let place = Place::new(database).await;
    let (code, signed) = (id(&place.by_key().await), id(&place.by_sign_in().await));
    place.patch(&code, json!({ "name": "Another", "description": "What it is" })).await.ok();
    place.patch(&code, json!({ "credentials": { "api_key": NEXT } })).await.ok();
    place.to(&format!("/{code}/test"), json!({})).await.ok();
    place.to(&format!("/{signed}/test"), json!({})).await.ok();
    let grant = id(&place.grant(&code, json!({ "max_class": "write_reversible" })).await["grant"]);
    place.grant(&signed, json!({})).await;
    place.act(&code, "get_issue", issue()).await.ok();
    let tool = "/v1/connections/tools/code_get_issue";
    place.call("POST", &place.token, tool, &json!({ "params": issue() })).await.ok();
    let client = json!({ "client_id": "own", "client_secret": "s" });
    let path = "/connectors/gitlab/client";
    place.call("PUT", &place.token, &place.path(path), &client).await.ok();
    place.delete(path).await.ok();
    place.by_sign_in().await;
    place.delete(&format!("/{code}/grants/{grant}")).await.ok();
    for con in [code, signed] {
        place.delete(&format!("/{con}")).await.ok();
    }
}

/// Which database it is on.
fn kind_of(place: &Place) -> Database {
    if place.database.url.starts_with("postgres") { Database::Postgres } else { Database::Sqlite }
}

/// Asserts a refusal of that reason, and returns its metadata.
#[track_caller]
fn reason(answer: &Answer, code: Code, reason: &str) -> Value {
    let problem = answer.refused(code);
    let details = problem["details"].as_array().unwrap();
    let detail = details.iter().find(|detail| detail["type"] == "info" && detail["reason"] == reason);
    detail.unwrap_or_else(|| panic!("no {reason} in {problem}"))["metadata"].clone()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// The id of a record.
fn id(value: &Value) -> String {
    text(&value["id"])
}

/// What reads the first issue.
fn issue() -> Value {
    json!({ "owner": "acme", "repo": "app", "number": 1 })
}

/// Makes a test on SQLite and one on PostgreSQL of each story: an `async fn` that takes a [`Place`].
#[macro_export]
macro_rules! with_a_provider {
    ($($story:ident),+ $(,)?) => {$(
        mod $story {
            use portico_testkit::Database;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$story($crate::connections::Place::new(Database::Sqlite).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$story($crate::connections::Place::new(Database::Postgres).await).await;
            }
        }
    )+};
}

//! Domains: proof by a DNS record, with servers of the test's own on real sockets.

mod crash;
mod looks;
mod net;
mod records;
mod roles;
mod states;
mod transfer;

use portico_kernel::AccountId;
use portico_testkit::{Answer, Database, TestApp, TestRequest};
use serde_json::{Value, json};

pub(crate) use net::{Net, View};

/// The domain of most stories. Its own name servers are not reached.
const NAME: &str = "acme.test";

/// A platform that asks the resolvers of `net`.
pub(crate) async fn place(database: Database) -> (TestApp, Net) {
    let net = Net::start(4).await;
    net.zone(NAME, &["ada.ns.cloudflare.com", "bob.ns.cloudflare.com"], false);
    let app = TestApp::with(database, net.options()).await;
    (app, net)
}

/// Makes a test on SQLite and one on PostgreSQL of each story: an `async fn` that takes a [`TestApp`] and a [`Net`].
#[macro_export]
macro_rules! with_dns {
    ($($story:ident),+ $(,)?) => {$(
        mod $story {
            use portico_testkit::Database;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                let (app, net) = $crate::domains::place(Database::Sqlite).await;
                super::$story(app, net).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                let (app, net) = $crate::domains::place(Database::Postgres).await;
                super::$story(app, net).await;
            }
        }
    )+};
}

/// An account that proves domains, by a token of its own.
struct Prover<'a> {
    app: &'a TestApp,
    account: AccountId,
    token: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

impl<'a> Prover<'a> {
    /// The account of the app.
    async fn own(app: &'a TestApp) -> Self {
        Self::of(app, app.account).await
    }

    /// Another account.
    async fn another(app: &'a TestApp, name: &str) -> Self {
        Self::of(app, app.new_account(name).await).await
    }

    async fn of(app: &'a TestApp, account: AccountId) -> Self {
        let token = app.token_with(account, app.all_scopes()).await;
        Self { app, account, token }
    }

    /// A token that lives from now on: the longest lives for seven days.
    async fn renew(&mut self) {
        self.app.catch_up().await;
        self.token = self.app.token_with(self.account, self.app.all_scopes()).await;
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/accounts/orgs/{}/domains{rest}", self.account)
    }

    async fn call(&self, method: &str, rest: &str, body: Option<Value>) -> Answer {
        let sent = TestRequest::new(method, &self.path(rest)).bearer(&self.token);
        self.app.send(body.iter().fold(sent, TestRequest::json)).await
    }

    async fn keyed(&self, key: &str, rest: &str, body: &Value) -> Answer {
        let sent = TestRequest::new("POST", &self.path(rest)).bearer(&self.token);
        self.app.send(sent.header("idempotency-key", key).json(body)).await
    }

    async fn try_add(&self, name: &str) -> Answer {
        self.call("POST", "", Some(json!({ "domain": name }))).await
    }

    async fn add(&self, name: &str) -> Value {
        self.try_add(name).await.ok()["domain"].clone()
    }

    async fn get(&self, name: &str) -> Value {
        self.call("GET", &format!("/{name}"), None).await.ok()["domain"].clone()
    }

    async fn check(&self, name: &str) -> Answer {
        self.call("POST", &format!("/{name}/check"), Some(json!({}))).await
    }

    async fn confirm(&self, name: &str) -> Answer {
        self.call("POST", &format!("/{name}/confirm"), Some(json!({}))).await
    }

    /// Adds the domain, publishes its record, and confirms it.
    async fn verify(&self, net: &Net, name: &str) -> Value {
        let added = self.add(name).await;
        net.publish(&added);
        let verified = self.confirm(name).await.ok()["domain"].clone();
        assert_eq!(verified["status"], "verified");
        verified
    }

    /// The status of the domain, and the reason beside it.
    async fn stands(&self, name: &str) -> (String, String) {
        let domain = self.get(name).await;
        (text(&domain["status"]), text(&domain["unverified_reason"]))
    }

    /// The events about domains, oldest first: type and actor.
    async fn events(&self) -> Vec<(String, String)> {
        let path = format!("/v1/accounts/orgs/{}/events?page_size=200", self.account);
        let sent = TestRequest::new("GET", &path).bearer(&self.token);
        let answer = self.app.send(sent).await.ok();
        let events = answer["events"].as_array().unwrap().iter().rev();
        let ours = events.filter(|event| event["type"].as_str().unwrap().starts_with("domain."));
        ours.map(|event| (text(&event["type"]), text(&event["data"]["actor"]))).collect()
    }

    /// What the audit log says of domains: action, actor, and whether a call is named.
    async fn audit(&self) -> Vec<(String, String, bool)> {
        let path = format!("/v1/accounts/orgs/{}/audit?page_size=200", self.account);
        let sent = TestRequest::new("GET", &path).bearer(&self.token);
        let answer = self.app.send(sent).await.ok();
        let entries = answer["entries"].as_array().unwrap().iter();
        let ours = entries.filter(|entry| entry["action"].as_str().unwrap().starts_with("domain."));
        let told = |entry: &Value| (text(&entry["action"]), text(&entry["actor"]), entry["request_id"] != "");
        ours.map(told).collect()
    }

    /// The id of the token that calls.
    async fn actor(&self) -> String {
        let sent = TestRequest::new("GET", "/v1/me").bearer(&self.token);
        text(&self.app.send(sent).await.ok()["subject"])
    }
}

/// The reason in the `info` detail of a refusal, and its metadata.
fn reason(answer: &Answer) -> (String, Value) {
    let problem = answer.refused(portico_kernel::Code::FailedPrecondition);
    let details = problem["details"].as_array().unwrap();
    let info = details.iter().find(|detail| detail["type"] == "info").unwrap();
    assert_eq!(info["domain"], "domains");
    (text(&info["reason"]), info["metadata"].clone())
}

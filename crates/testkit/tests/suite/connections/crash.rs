//! `kill -9` while a token is refreshed and while a sign-in is completed: a connection is usable afterwards, or says that it
//! needs a person, and never anything in between.

mod stop;

use std::process::Command;
use std::time::Duration;

use portico_engine::clock::SystemClock;
use portico_kernel::Clock;
use portico_store::{Db, Select, args};
use portico_testkit::{Answer, Database, Provider, TestDatabase, kills, until};
use serde_json::{Value, json};

use super::{CLIENT_SECRET, id, text};
use crate::program::{Server, admin, call, command};

const TOKEN: &str = "/gl/oauth/token";
/// Calls of one round, so that some are under way whenever the server is killed.
const CALLS: usize = 8;

/// The platform that is killed, and the provider that is not.
struct Scene {
    database: TestDatabase,
    provider: Provider,
    account: String,
    token: String,
    person: String,
    consumer: String,
    db: Db,
}

impl Scene {
    async fn create(kind: Database) -> Self {
        let (database, provider) = (TestDatabase::create(kind).await, Provider::start().await);
        let ada = admin(&database, &["person", "create", "--email", "ada@example.com", "--name", "Ada"]);
        let ada = text(&ada["user_id"]);
        let account = admin(&database, &["account", "create", "--name", "Acme", "--owner", &ada]);
        let account = text(&account["account_id"]);
        let scopes = "connections:read connections:write connections:use";
        let token = admin(&database, &["token", "create", "--account", &account, "--scopes", scopes]);
        let person = admin(&database, &["person", "token", "--person", &ada]);
        let db = Db::open(&database.url).await.unwrap();
        let consumer = format!("key:{}", text(&token["token_id"]));
        let (token, person) = (text(&token["token"]), text(&person["token"]));
        Self { database, provider, account, token, person, consumer, db }
    }

    fn start(&self) -> Server {
        let mut command: Command = command(&self.database);
        command
            .env("PORTICO_EGRESS_ALLOW", "127.0.0.0/8")
            .env("PORTICO_CONNECTIONS_BASE_URLS", self.provider.overrides())
            .env("PORTICO_CONNECTIONS_OAUTH_CLIENTS", format!("gitlab=app-1:{CLIENT_SECRET}"));
        Server::start_as(command)
    }

    /// The answer to a call, when one came.
    async fn send(&self, api: &str, method: &str, bearer: &str, rest: &str, body: &Value) -> Option<Answer> {
        let head = format!(
            "{method} /v1/accounts/orgs/{}/connections{rest} HTTP/1.1\r\nauthorization: Bearer {bearer}\r\n\
             content-type: application/json",
            self.account
        );
        let body = if method == "GET" { String::new() } else { body.to_string() };
        call(api, &head, &body).await
    }

    /// Signs in; the connection.
    async fn sign_in(&self, server: &Server) -> String {
        let gitlab = json!({ "connector": "gitlab" });
        let begun = self.send(&server.api, "POST", &self.person, "/connect", &gitlab).await.unwrap().ok();
        let (state, code) = self.provider.allow(begun["authorize_url"].as_str().unwrap());
        let brought = json!({ "state": state, "code": code });
        let made = self.send(&server.api, "POST", &self.person, "/connect/complete", &brought).await;
        id(&made.unwrap().ok()["connection"])
    }

    /// Signs in, and grants the token what is read; the connection.
    async fn connect(&self, server: &Server) -> String {
        let con = self.sign_in(server).await;
        let (grants, grant) = (format!("/{con}/grants"), json!({ "consumer": self.consumer }));
        self.send(&server.api, "POST", &self.person, &grants, &grant).await.unwrap().ok();
        con
    }

    async fn act(&self, api: &str, con: &str) -> Option<Answer> {
        let params = json!({ "params": { "project": "7" } });
        self.send(api, "POST", &self.token, &format!("/{con}/actions/list_issues"), &params).await
    }

    async fn run(&self, statement: &'static str) {
        let mut tx = self.db.write().await.unwrap();
        tx.run(statement, args![]).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Lets the leases of a dead server end as if half a minute had gone by.
    async fn end_leases(&self) {
        self.run("update connection_credentials set claimed_until = 0 where claimed_until is not null").await;
    }

    async fn count(&self, statement: &'static str) -> i64 {
        self.db.query().value(statement, args![]).await.unwrap()
    }

    /// The connection as a new server finds it: it answers, or it needs a person, who heals it. Returns whether it answered.
    async fn is_usable(&self, server: &Server, con: &str) -> bool {
        self.end_leases().await;
        let answer = self.act(&server.api, con).await.unwrap();
        if answer.status == 200 {
            return true;
        }
        let problem = answer.json();
        let reason = text(&problem["details"][0]["reason"]);
        assert!(["NEEDS_RECONNECT", "CREDENTIAL_REFUSED"].contains(&reason.as_str()), "{problem}");
        assert_eq!(self.sign_in(server).await, con, "it is the same connection");
        self.act(&server.api, con).await.unwrap().ok();
        false
    }
}

impl Scene {
    /// Asserts that there is one connection with one credential, which opens, and that the account reads as ever.
    async fn is_whole(&self, server: &Server, con: &str) {
        self.act(&server.api, con).await.unwrap().ok();
        let list = self.send(&server.api, "GET", &self.person, "", &json!(null)).await.unwrap().ok();
        let listed: Vec<_> = list["connections"].as_array().unwrap().iter().map(id).collect();
        assert_eq!(listed, [con]);
        assert_eq!(list["connections"][0]["status"], "active");
        for rows in [
            "select count(*) as value from connections",
            "select count(*) as value from connection_credentials",
            "select count(*) as value from connection_handles",
        ] {
            assert_eq!(self.count(rows).await, 1, "{rows}");
        }
    }
}

async fn killed_during_refreshes(kind: Database) {
    let scene = Scene::create(kind).await;
    let mut server = scene.start();
    let con = scene.connect(&server).await;
    let mut lost = 0;
    for round in 0..kills() {
        scene.provider.end_access();
        let asked = scene.provider.calls(TOKEN).len();
        // In every other round the provider has not answered yet when the server is killed.
        if round % 2 == 0 {
            scene.provider.hold(TOKEN);
        }
        let (scene, api) = (&scene, server.api.clone());
        let calls = futures_util::future::join_all((0..CALLS).map(|_| scene.act(&api, &con)));
        let kill = async {
            until("a fresh token is asked for", async || scene.provider.calls(TOKEN).len() > asked).await;
            server.kill();
        };
        let (answers, ()) = tokio::join!(calls, kill);
        for answer in answers.into_iter().flatten() {
            answer.ok();
        }
        scene.provider.hold("");
        server = scene.start();
        lost += usize::from(!scene.is_usable(&server, &con).await);
    }
    println!("{lost} of {} kills while a token was refreshed cost a sign-in", kills());
    scene.is_whole(&server, &con).await;
    assert_eq!(server.stop().code(), Some(0));
}

/// What `kill -9` meets while a sign-in is completed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// The provider has not answered the code yet.
    Exchange,
    /// It has, and not said yet whose account it is.
    Test,
    /// It has said all: nobody knows how far the server is.
    After,
}

async fn killed_during_completions(kind: Database) {
    let scene = Scene::create(kind).await;
    let mut server = scene.start();
    let con = scene.connect(&server).await;
    let (mut done, gitlab) = (0, json!({ "connector": "gitlab" }));
    for round in 0..kills() {
        let moment = [Moment::Exchange, Moment::Test, Moment::After][round % 3];
        let begun = scene.send(&server.api, "POST", &scene.person, "/connect", &gitlab).await.unwrap().ok();
        let (state, code) = scene.provider.allow(begun["authorize_url"].as_str().unwrap());
        let brought = json!({ "state": state, "code": code });
        let path = if matches!(moment, Moment::Exchange) { TOKEN } else { "/gl/api/v4/user" };
        let asked = scene.provider.calls(path).len();
        if !matches!(moment, Moment::After) {
            scene.provider.hold(path);
        }
        let api = server.api.clone();
        let completing = scene.send(&api, "POST", &scene.person, "/connect/complete", &brought);
        let kill = async {
            until("the provider is asked", async || scene.provider.calls(path).len() > asked).await;
            server.kill();
        };
        let (answer, ()) = tokio::join!(completing, kill);
        assert!(answer.is_none() || matches!(moment, Moment::After), "nobody was answered");
        scene.provider.hold("");
        server = scene.start();
        // The provider knows the old credential as well as the new one: whichever is written is of use.
        assert!(scene.is_usable(&server, &con).await, "{moment:?}");
        let again = scene.send(&server.api, "POST", &scene.person, "/connect/complete", &brought).await;
        assert_eq!(again.unwrap().json()["details"][0]["reason"], "STATE_INVALID");
        let path = format!("/connect/{}", id(&begun["sign_in"]));
        let sign_in = scene.send(&server.api, "GET", &scene.person, &path, &json!(null)).await.unwrap().ok();
        let status = text(&sign_in["sign_in"]["status"]);
        assert!(["pending", "completed"].contains(&status.as_str()), "{moment:?}: {sign_in}");
        if let Some(answer) = answer {
            assert_eq!(
                (answer.status, status.as_str()),
                (200, "completed"),
                "who was answered was told the truth"
            );
        }
        done += usize::from(status == "completed");
        // So many may wait for a person at once.
        scene.run("update connection_sign_ins set expires_at = 0 where status = 'pending'").await;
    }
    println!("{done} of {} kills came after the commit of a sign-in", kills());
    scene.is_whole(&server, &con).await;
    assert_eq!(server.stop().code(), Some(0));
}

/// A thousand calls come to three servers at once, and the token of their connection is over.
async fn a_thousand_calls_on_three_servers() {
    let scene = Scene::create(Database::Postgres).await;
    let servers = [scene.start(), scene.start(), scene.start()];
    let con = scene.connect(&servers[0]).await;
    scene.run("update connection_credentials set expires_at = 1, issued_at = 0").await;
    scene.provider.end_access();
    let asked = scene.provider.calls(TOKEN).len();
    scene.provider.hold(TOKEN);
    let call = async |at: usize| {
        loop {
            let answer = scene.act(&servers[at % servers.len()].api, &con).await.unwrap();
            if answer.status != 429 {
                break answer;
            }
            // So many may call one connection at once, and so many wait: whoever is told to come again does.
            assert_eq!(answer.json()["details"][0]["reason"], "CONNECTION_BUSY");
            let wait: u64 = answer.header("retry-after").parse().unwrap();
            SystemClock.sleep(Duration::from_secs(wait)).await;
        }
    };
    let calls = futures_util::future::join_all((0..1_000).map(call));
    let release = async {
        until("a fresh token is asked for", async || scene.provider.calls(TOKEN).len() > asked).await;
        scene.provider.hold("");
    };
    let (answers, ()) = tokio::join!(calls, release);
    for answer in answers {
        answer.ok();
    }
    assert_eq!(scene.provider.calls(TOKEN).len(), asked + 1, "one request for a token");
    let failed = "select count(*) as value from connection_uses where status = 'failed'";
    assert_eq!(scene.count(failed).await, 0);
    let done = "select count(*) as value from connection_uses where status = 'ok' and action = 'list_issues'";
    assert_eq!(scene.count(done).await, 1_000);
    scene.is_whole(&servers[0], &con).await;
    for server in servers {
        assert_eq!(server.stop().code(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_ask_for_one_token() {
    a_thousand_calls_on_three_servers().await;
}

mod killed_while_it_refreshes {
    use super::Database;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sqlite() {
        super::killed_during_refreshes(Database::Sqlite).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres() {
        super::killed_during_refreshes(Database::Postgres).await;
    }
}

mod killed_while_it_signs_in {
    use super::Database;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sqlite() {
        super::killed_during_completions(Database::Sqlite).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres() {
        super::killed_during_completions(Database::Postgres).await;
    }
}

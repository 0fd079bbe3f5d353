//! `kill -9` while a token is refreshed and while a sign-in is completed: a connection is usable afterwards, or says that it
//! needs a person, and never anything in between.

use std::process::Command;

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

    async fn act(&self, api: &str, con: &str) -> Option<Answer> {
        let params = json!({ "params": { "project": "7" } });
        self.send(api, "POST", &self.token, &format!("/{con}/actions/list_issues"), &params).await
    }

    /// Lets the leases of a dead server end as if half a minute had gone by.
    async fn end_leases(&self) {
        let mut tx = self.db.write().await.unwrap();
        let ended = "update connection_credentials set claimed_until = 0 where claimed_until is not null";
        tx.run(ended, args![]).await.unwrap();
        tx.commit().await.unwrap();
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

async fn killed_during_refreshes(kind: Database) {
    let scene = Scene::create(kind).await;
    let mut server = scene.start();
    let con = scene.sign_in(&server).await;
    let grant = json!({ "consumer": scene.consumer });
    let grants = format!("/{con}/grants");
    scene.send(&server.api, "POST", &scene.person, &grants, &grant).await.unwrap().ok();
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
    println!("{lost} of {} kills cost a sign-in", kills());
    // One while a sign-in is completed: it ends by itself, and the connection is as it was.
    let gitlab = json!({ "connector": "gitlab" });
    let begun = scene.send(&server.api, "POST", &scene.person, "/connect", &gitlab).await.unwrap().ok();
    let (state, code) = scene.provider.allow(begun["authorize_url"].as_str().unwrap());
    let brought = json!({ "state": state, "code": code });
    let asked = scene.provider.calls(TOKEN).len();
    scene.provider.hold(TOKEN);
    let api = server.api.clone();
    let completing = scene.send(&api, "POST", &scene.person, "/connect/complete", &brought);
    let kill = async {
        until("the code is exchanged", async || scene.provider.calls(TOKEN).len() > asked).await;
        server.kill();
    };
    let (answer, ()) = tokio::join!(completing, kill);
    assert!(answer.is_none(), "nobody was answered");
    scene.provider.hold("");
    let server = scene.start();
    assert!(scene.is_usable(&server, &con).await);
    let again = scene.send(&server.api, "POST", &scene.person, "/connect/complete", &brought).await;
    assert_eq!(again.unwrap().json()["details"][0]["reason"], "STATE_INVALID");
    assert_eq!(scene.count("select count(*) as value from connections").await, 1);
    assert_eq!(scene.count("select count(*) as value from connection_credentials").await, 1);
    scene.db.close().await;
    assert_eq!(server.stop().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite() {
    killed_during_refreshes(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    killed_during_refreshes(Database::Postgres).await;
}

//! `kill -9` while the platform looks at domains: none moves that should not, and none is forgotten.

use std::process::Command;

use portico_engine::clock::SystemClock;
use portico_kernel::{Clock, Timestamp};
use portico_store::{Db, Select, args};
use portico_testkit::{Database, TestDatabase, kills, until};
use serde_json::{Value, json};

use super::{Net, text};
use crate::program::{Server, admin, call, command};

/// Of each of four kinds.
const DOMAINS: usize = 6;

/// The platform that is killed, and whom it asks.
struct Scene {
    database: TestDatabase,
    net: Net,
    account: String,
    token: String,
    db: Db,
}

impl Scene {
    async fn create(kind: Database) -> Self {
        let (database, net) = (TestDatabase::create(kind).await, Net::start(3).await);
        let account = admin(&database, &["account", "create", "--name", "Acme"]);
        let account = text(&account["account_id"]);
        let scopes = "domains:read domains:write events:read";
        let token = admin(&database, &["token", "create", "--account", &account, "--scopes", scopes]);
        let db = Db::open(&database.url).await.unwrap();
        Self { database, net, account, token: text(&token["token"]), db }
    }

    fn command(&self) -> Command {
        let mut command = command(&self.database);
        command
            .env("PORTICO_EGRESS_ALLOW", "127.0.0.0/8")
            .env("PORTICO_DNS_RESOLVERS", self.net.resolvers())
            .env("PORTICO_DNS_AUTHORITATIVE_PORT", self.net.authoritative_port().to_string());
        command
    }

    async fn call(&self, server: &Server, method: &str, rest: &str, body: &Value) -> Value {
        let head = format!(
            "{method} /v1/accounts/orgs/{}/domains{rest} HTTP/1.1\r\nauthorization: Bearer {}\r\n\
             content-type: application/json",
            self.account, self.token
        );
        let body = if method == "GET" { String::new() } else { body.to_string() };
        call(&server.api, &head, &body).await.unwrap().ok()
    }

    /// Domains that wait for their record, that have it, that are verified, and that are and have lost it.
    async fn fill(&self, server: &Server) {
        for kind in ["waiting", "published", "verified", "lost"] {
            for number in 0..DOMAINS {
                let name = format!("{kind}{number}.test");
                self.net.zone(&name, &["ada.ns.cloudflare.com"], false);
                let added = self.call(server, "POST", "", &json!({ "domain": name })).await["domain"].clone();
                if kind != "waiting" {
                    self.net.publish(&added);
                }
                if kind == "verified" || kind == "lost" {
                    self.call(server, "POST", &format!("/{name}/confirm"), &json!({})).await;
                }
                if kind == "lost" {
                    self.net.lose(&text(&added["record_name"]));
                }
            }
        }
    }

    async fn run(&self, statements: &[&'static str]) {
        let mut tx = self.db.write().await.unwrap();
        for statement in statements {
            tx.run(statement, args![]).await.unwrap();
        }
        tx.commit().await.unwrap();
    }

    /// Lets every look be due, as if it had been put off to this moment.
    async fn make_due(&self) -> Timestamp {
        let now = SystemClock.now();
        let rows = "update domains set next_look_at = 1 where next_look_at is not null";
        let items = "update queue_items set due_at = 1, claim = null, claimed_until = null where queue = 'domains.look'";
        self.run(&[rows, items]).await;
        now
    }

    /// Lets the claims of a dead server end as if half a minute had gone by.
    async fn end_claims(&self) {
        self.run(&["update queue_items set claimed_until = 0 where claimed_until is not null"]).await;
    }

    /// How many domains were looked at since then.
    async fn looked_at(&self, since: Timestamp) -> usize {
        let count = "select count(*) as value from domains where last_checked_at >= $1";
        let count: i64 = self.db.query().value(count, args![since]).await.unwrap();
        usize::try_from(count).unwrap()
    }
}

async fn killed_during_looks(kind: Database) {
    let scene = Scene::create(kind).await;
    let mut server = Server::start_as(scene.command());
    scene.fill(&server).await;
    for round in 0..kills() {
        let since = scene.make_due().await;
        // The signal to kill is progress, not time; at most eight looks begin in a second.
        let enough = 1 + (round * 5) % (3 * DOMAINS);
        until("some domains are looked at", async || scene.looked_at(since).await >= enough).await;
        server.kill();
        scene.end_claims().await;
        server = Server::start_as(scene.command());
    }
    let since = scene.make_due().await;
    until("every domain is looked at", async || scene.looked_at(since).await == 4 * DOMAINS).await;
    for (domains, status, reason) in [
        ("waiting", "pending", ""),
        ("published", "seen", ""),
        ("verified", "verified", ""),
        ("lost", "verified", "record_missing"),
    ] {
        for number in 0..DOMAINS {
            let path = format!("/{domains}{number}.test");
            let domain = scene.call(&server, "GET", &path, &json!({})).await["domain"].clone();
            assert_eq!(
                (&domain["status"], &domain["unverified_reason"]),
                (&json!(status), &json!(reason)),
                "{domain}"
            );
        }
    }
    let told = async |statement| scene.db.query().value::<i64>(statement, args![]).await.unwrap();
    let lost = i64::try_from(DOMAINS).unwrap();
    let missing = told("select count(*) as value from audit_entries where action = 'domain.missing'").await;
    assert_eq!(missing, lost, "each was told of once");
    let events = told("select count(*) as value from events where type = 'domain.verified'").await;
    assert_eq!(events, 2 * lost);
    assert_eq!(told("select count(*) as value from events where type = 'domain.unverified'").await, 0);
    let items = told("select count(*) as value from queue_items where queue = 'domains.look'").await;
    assert_eq!(items, 4 * lost, "each is looked at again");
    scene.db.close().await;
    assert_eq!(server.stop().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite() {
    killed_during_looks(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    killed_during_looks(Database::Postgres).await;
}

//! A server of its own on a database of its own, with accounts and endpoints.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use portico::App;
use portico::admin::{self, AccountCommand, Admin, TokenCommand};
use portico::config::Config;
use portico::settings::Settings;
use portico_kernel::{AccountId, Plans, Timestamp};
use portico_store::{Db, Select, args};
use portico_testkit::{Database, TestDatabase};
use serde_json::{Value, json};

use super::receiver::{MOODY, Receiver};
use crate::http::load::Connection;
use crate::http::process::{Cluster, Process};

/// Nothing is refused, and this machine may be called.
const CONFIG: &str = r#"
listen_api = "127.0.0.1:0"
max_connections_per_address = 20_000
listen_auth = "127.0.0.1:0"
listen_mqtt = "127.0.0.1:0"
listen_console = ""
listen_metrics = "127.0.0.1:0"
base_url = "http://api.bench"
auth_url = "http://auth.bench"
egress_allow = "127.0.0.0/8"
[plans.free]
monthly_units = 1000000000000
calls_per_minute = 100000000
deliveries_per_minute = 100000000
"#;

/// An account that makes events.
#[derive(Clone)]
pub(crate) struct Maker {
    pub(crate) account: AccountId,
    /// Its endpoints.
    pub(crate) endpoints: Vec<String>,
    pub(crate) token: String,
}

impl Maker {
    fn request(&self, path: &str, body: &Value) -> Vec<u8> {
        let (token, body) = (&self.token, body.to_string());
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// The call that sends a test event to its first endpoint.
    pub(crate) fn test(&self) -> Vec<u8> {
        let path = format!("/v1/webhooks/endpoints/{}/test", self.endpoints[0]);
        self.request(&path, &json!({}))
    }

    /// The call that makes events, numbered from `first`.
    pub(crate) fn events(&self, first: u32, count: u32) -> Vec<u8> {
        let path = format!("/v1/bench/orgs/{}/events", self.account);
        self.request(&path, &json!({ "first": first, "count": count }))
    }
}

/// The server as a deployment runs it: what it logs goes to a file.
pub(crate) fn serve(database: &TestDatabase) -> Process {
    serve_with(database, &[], "portico.log")
}

/// The same, with further words on its command line, and a log of its own.
pub(crate) fn serve_with(database: &TestDatabase, words: &[&str], log: &str) -> Process {
    let program = std::env::current_exe().unwrap().with_file_name("portico-bench-server");
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(config_file(database)).args(words);
    Process::start(command, &database.folder.path().join(log))
}

fn config_file(database: &TestDatabase) -> PathBuf {
    database.folder.path().join("portico.toml")
}

/// A server, its database, and the accounts in it.
pub(crate) struct DeliverySetup {
    // Ends before its database.
    pub(crate) server: Process,
    pub(crate) database: TestDatabase,
    /// The processes of PostgreSQL.
    pub(crate) cluster: Option<Cluster>,
    /// With one endpoint.
    pub(crate) one: Maker,
    /// With as many endpoints as an account may have, both of them.
    pub(crate) many: [Maker; 2],
    /// With ten, of which one is moody.
    pub(crate) ten: Maker,
}

/// The cluster that the database is in, unless it is SQLite.
pub(crate) async fn cluster(db: &Db) -> Option<Cluster> {
    if db.file().is_some() {
        return None;
    }
    let backend = "select cast(pg_backend_pid() as bigint) as value";
    let backend: i64 = db.query().value(backend, args![]).await.unwrap();
    Some(Cluster::of_backend(backend))
}

/// Writes the configuration of a server on that database, and opens the database as the server will.
pub(crate) async fn open(database: &TestDatabase) -> Arc<App> {
    let (data, url) = (database.folder.path().display().to_string(), &database.url);
    let file = config_file(database);
    std::fs::write(&file, format!("data_dir = {data:?}\ndatabase_url = {url:?}\n{CONFIG}")).unwrap();
    let settings = Settings { config: Some(file), ..Settings::default() };
    Arc::new(App::open(&Config::load(settings).unwrap(), Vec::new()).await.unwrap())
}

/// An API token that may do everything.
pub(crate) async fn new_token(app: &Arc<App>, account: AccountId) -> String {
    let (scopes, name) = (app.engine.registry.catalog().scopes().all(), "a bench".to_owned());
    let command = Admin::Token(TokenCommand::Create { account, scopes, days: 7, name });
    let made = admin::run(app, command).await.unwrap();
    made["token"].as_str().unwrap().to_owned()
}

/// A new account with a token.
pub(crate) async fn new_maker(app: &Arc<App>) -> Maker {
    let (name, plan) = ("Acme".to_owned(), Plans::FIRST.to_owned());
    let command = Admin::Account(AccountCommand::Create { name, owner: None, plan });
    let made = admin::run(app, command).await.unwrap();
    let account = made["account_id"].as_str().unwrap().parse().unwrap();
    Maker { account, endpoints: Vec::new(), token: new_token(app, account).await }
}

async fn add_endpoints(server: &Process, receiver: &Receiver, maker: &mut Maker, paths: &[String]) {
    let mut connection = Connection::open(server.address).await;
    for path in paths {
        let body = json!({ "url": receiver.url(path), "event_types": ["bench.happened"] });
        let answer = connection.ask(&maker.request("/v1/webhooks/endpoints", &body)).await;
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let made: Value = serde_json::from_slice(&answer[head..]).unwrap();
        maker.endpoints.push(made["id"].as_str().unwrap().to_owned());
    }
}

/// When the events with numbers below `count` were committed, each the last of its number. Of those that were committed
/// together the first one alone knows it.
pub(crate) fn commits(database: &TestDatabase, count: usize) -> Vec<Timestamp> {
    let bytes = std::fs::read(database.folder.path().join("commits")).unwrap();
    let times = bytes.chunks_exact(8).map(|some| i64::from_ne_bytes(some.try_into().unwrap()));
    times.take(count).map(Timestamp::from_micros).collect()
}

impl DeliverySetup {
    /// A new one.
    pub(crate) async fn create(database: Database, receiver: &Receiver) -> Self {
        let database = TestDatabase::create(database).await;
        let app = open(&database).await;
        let mut one = new_maker(&app).await;
        let mut many = [new_maker(&app).await, new_maker(&app).await];
        let mut ten = new_maker(&app).await;
        let cluster = cluster(&app.engine.db).await;
        app.engine.db.close().await;
        let server = serve(&database);
        let paths = |count: usize| (0..count).map(|number| format!("/{number}")).collect::<Vec<_>>();
        add_endpoints(&server, receiver, &mut one, &paths(1)).await;
        for maker in &mut many {
            add_endpoints(&server, receiver, maker, &paths(50)).await;
        }
        add_endpoints(&server, receiver, &mut ten, &[paths(9), vec![MOODY.to_owned()]].concat()).await;
        Self { server, database, cluster, one, many, ten }
    }
}

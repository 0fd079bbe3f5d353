//! The program as its users meet it: commands, the `ready` line, signals.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use portico_testkit::{Answer, Database, Receiver, TestDatabase};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::domains::Net;

/// Where nobody answers. Tests ask nobody outside of this machine.
const NO_RESOLVER: &str = "127.0.0.1:9";

/// A server that is a process of its own, on free ports.
pub(crate) struct Server {
    child: Child,
    pub(crate) api: String,
    pub(crate) auth: String,
    pub(crate) mqtt: String,
    pub(crate) mqtts: Option<String>,
}

pub(crate) fn command(database: &TestDatabase) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portico-lab"));
    command
        .env("PORTICO_DATA_DIR", database.folder.path())
        .env("PORTICO_DATABASE_URL", &database.url)
        .env("PORTICO_AUTH_URL", "http://auth.test")
        .env("PORTICO_LISTEN_API", "127.0.0.1:0")
        .env("PORTICO_LISTEN_AUTH", "127.0.0.1:0")
        .env("PORTICO_LISTEN_CONSOLE", "127.0.0.1:0")
        .env("PORTICO_LISTEN_METRICS", "127.0.0.1:0")
        .env("PORTICO_LISTEN_MQTT", "127.0.0.1:0")
        .env("PORTICO_DNS_RESOLVERS", NO_RESOLVER)
        .env("PORTICO_LOG", "warn")
        .env("PORTICO_CONFIG", configuration(database));
    command
}

/// A file with limits that only tests of limits meet; they write another.
fn configuration(database: &TestDatabase) -> PathBuf {
    let file = database.folder.path().join("portico.toml");
    if !file.exists() {
        limit(database, 1_000_000_000, 100_000_000);
    }
    file
}

/// What accounts of the first plan may spend, for servers that start from now on.
pub(crate) fn limit(database: &TestDatabase, monthly_units: i64, calls_per_minute: u32) {
    let text = format!(
        "[plans.free]\nmonthly_units = {monthly_units}\ncalls_per_minute = {calls_per_minute}\n\
         deliveries_per_minute = 100_000_000\n"
    );
    std::fs::write(database.folder.path().join("portico.toml"), text).unwrap();
}

impl Server {
    pub(crate) fn start(database: &TestDatabase) -> Self {
        Self::start_as(command(database))
    }

    /// A server with more in its environment.
    pub(crate) fn start_as(mut command: Command) -> Self {
        let mut child = command.arg("serve").stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let words = line.strip_prefix("ready ").unwrap_or_else(|| panic!("{line:?}"));
        let found = |name: &str| {
            let word = words.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            word.map(str::to_owned)
        };
        let address = |name: &str| found(name).unwrap_or_else(|| panic!("{name} in {line:?}"));
        let (api, auth, mqtt, mqtts) = (address("api"), address("auth"), address("mqtt"), found("mqtts"));
        assert!(address("metrics").starts_with("127.0.0.1:") && address("console").starts_with("127.0.0.1:"));
        Self { child, api, auth, mqtt, mqtts }
    }

    /// The id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// SIGTERM, and wait.
    pub(crate) fn stop(mut self) -> ExitStatus {
        self.signal("-TERM");
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request on a connection of its own; `None` when the server went away.
pub(crate) async fn call(address: &str, head: &str, body: &str) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let length = body.len();
    let request = format!("{head}\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.ok()?;
    Answer::from_wire(&bytes)
}

fn run(database: &TestDatabase, words: &[&str]) -> Output {
    command(database).args(words).output().unwrap()
}

pub(crate) fn admin(database: &TestDatabase, words: &[&str]) -> Value {
    let output = run(database, &[&["admin"], words, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// How many files the process may open: as it is, and as far as it may raise it.
fn files_max(server: &Server) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut words = line.split_whitespace().map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

#[tokio::test]
async fn the_limit_of_open_files_is_raised_at_the_start() {
    let database = TestDatabase::create(Database::Sqlite).await;
    let of_server = command(&database);
    let mut limited = Command::new("sh");
    limited.args(["-c", r#"ulimit -Sn 64; exec "$0" "$@""#]).arg(of_server.get_program());
    limited.envs(of_server.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let server = Server::start_as(limited);
    let (now, most) = files_max(&server);
    assert_eq!(now, most);
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(&server.api).await.unwrap());
    }
    call(&server.api, "GET /healthz HTTP/1.1", "").await.unwrap().ok();
}

async fn a_newcomers_way(kind: Database) {
    let database = TestDatabase::create(kind).await;
    let server = Server::start(&database);
    let account = admin(&database, &["account", "create", "--name", "Acme", "--plan", "team"]);
    let account = account["account_id"].as_str().unwrap();
    let made =
        admin(&database, &["token", "create", "--account", account, "--scopes", "identity:read usage:read"]);
    let get = format!("GET /v1/me HTTP/1.1\r\nauthorization: Bearer {}", made["token"].as_str().unwrap());
    let me = call(&server.api, &get, "").await.unwrap().ok();
    assert_eq!((&me["org"], &me["subject"]), (&json!(account), &made["token_id"]));
    let jwks = call(&server.auth, "GET /.well-known/jwks.json HTTP/1.1", "").await.unwrap().ok();
    assert_eq!(jwks["keys"].as_array().unwrap().len(), 1);
    // Revoked by another process, and refused without a word from anyone.
    admin(&database, &["revoke", made["token_id"].as_str().unwrap()]);
    while call(&server.api, &get, "").await.unwrap().status != 401 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.stop().code(), Some(0));
}

#[tokio::test]
async fn a_newcomers_way_on_sqlite() {
    a_newcomers_way(Database::Sqlite).await;
}

#[tokio::test]
async fn a_newcomers_way_on_postgres() {
    a_newcomers_way(Database::Postgres).await;
}

#[tokio::test]
async fn one_folder_has_one_server() {
    let database = TestDatabase::create(Database::Sqlite).await;
    let server = Server::start(&database);
    let second = run(&database, &["serve"]);
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("another portico serves from"));
    assert_eq!(server.stop().code(), Some(0));
    Server::start(&database).stop();
}

#[tokio::test]
async fn mistakes_at_the_command_line_are_told() {
    let database = TestDatabase::create(Database::Sqlite).await;
    let account = admin(&database, &["account", "create", "--name", "Acme"]);
    let account = account["account_id"].as_str().unwrap();
    for (words, told) in [
        (vec!["admin", "account", "create", "--name", ""], "name"),
        (vec!["admin", "account", "create", "--name", "A\u{7}"], "`name` must not hold control characters"),
        (vec!["admin", "account", "create", "--name", "A", "--plan", "gold"], "free"),
        (vec!["admin", "token", "create", "--account", "zzz", "--scopes", "identity:read"], "acc_"),
        (
            vec![
                "admin",
                "token",
                "create",
                "--account",
                "acc_01ARZ3NDEKTSV4RRFFQ69G5FAV",
                "--scopes",
                "identity:read",
            ],
            "no account",
        ),
        (vec!["admin", "token", "create", "--account", account, "--scopes", "identity:all"], "identity:all"),
        (vec!["admin", "token", "create", "--account", account, "--scopes", ""], "scope"),
        (
            vec![
                "admin",
                "token",
                "create",
                "--account",
                account,
                "--scopes",
                "identity:read",
                "--days",
                "8",
            ],
            "days",
        ),
        (vec!["admin", "revoke", "tok_01ARZ3NDEKTSV4RRFFQ69G5FAV"], "no key or API token"),
        (vec!["admin", "person", "create", "--email", "nobody"], "e-mail"),
        (vec!["serve", "--listen-api", "nowhere"], "listen_api"),
        (vec!["serve", "--dns-resolvers", "9.9.9.9"], "dns_resolvers must be host:port"),
        (vec!["serve", "--dns-resolvers", "9.9.9.9:53,9.9.9.9:53"], "twice"),
        (vec!["serve", "--dns-resolvers", ""], "dns_resolvers must name a resolver"),
        (vec!["serve", "--config", "/does/not/exist.toml"], "exist.toml"),
    ] {
        let output = run(&database, &words);
        assert!(!output.status.success(), "{words:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(told), "{words:?}: {error}");
        assert!(!error.contains("request"), "nobody sent one: {error}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

/// Resolvers that do not answer are told of, and keep nothing else from running.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_asks_the_resolvers() {
    let database = TestDatabase::create(Database::Sqlite).await;
    let net = Net::start(4).await;
    net.zone(".", &["a.root.test"], false);
    let doctor = |resolvers: &str| {
        let output =
            command(&database).env("PORTICO_DNS_RESOLVERS", resolvers).arg("doctor").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let resolvers = net.resolvers();
    let four = doctor(&resolvers);
    assert!(four.lines().count() >= 11 && four.lines().all(|line| line.starts_with("ok ")), "{four}");
    for resolver in resolvers.split(',') {
        assert!(four.contains(&format!("ok    resolver {resolver} (")), "{four}");
    }
    let two: Vec<_> = resolvers.split(',').take(2).collect();
    let with_one_dead = doctor(&format!("{},{NO_RESOLVER}", two.join(",")));
    assert!(with_one_dead.contains(&format!("warn  resolver {NO_RESOLVER}: ")), "{with_one_dead}");
    assert!(with_one_dead.contains("warn  resolvers for domains: 2 of them answer"), "{with_one_dead}");
}

#[tokio::test]
async fn the_other_commands_answer() {
    let database = TestDatabase::create(Database::Sqlite).await;
    let text = |output: Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let newest = std::fs::read_dir(crate::root().join("migrations")).unwrap().count();
    assert!(text(run(&database, &["migrate"])).contains(&format!("the database is at {newest}")));
    assert!(text(run(&database, &["config", "check"])).contains("listen_api = \"127.0.0.1:0\""));
    let doctor = text(run(&database, &["doctor"]));
    let of_resolvers = |line: &&str| line.starts_with("warn  resolver");
    assert_eq!(doctor.lines().filter(of_resolvers).count(), 2, "{doctor}");
    let others: Vec<_> = doctor.lines().filter(|line| !of_resolvers(line)).collect();
    assert!(others.len() >= 7 && others.iter().all(|line| line.starts_with("ok ")), "{doctor}");
    let roots = database.folder.path().join("roots.pem");
    let with_roots =
        |words: &[&str]| command(&database).env("PORTICO_EGRESS_CA_FILE", &roots).args(words).output();
    std::fs::write(&roots, Receiver::root()).unwrap();
    assert!(text(with_roots(&["config", "check"]).unwrap()).contains("roots.pem"));
    assert!(text(with_roots(&["doctor"]).unwrap()).contains("roots.pem (1)"));
    std::fs::write(&roots, "nonsense").unwrap();
    let refused = with_roots(&["doctor"]).unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && error.contains("egress_ca_file: "), "{error}");
    let document: Value = serde_json::from_str(&text(run(&database, &["openapi"]))).unwrap();
    assert_eq!(document["info"]["x-platform-cut"]["plan"], "public");
    std::fs::write(database.folder.path().join("keyring"), "nonsense").unwrap();
    let ill = run(&database, &["doctor"]);
    assert!(!ill.status.success());
    assert!(String::from_utf8_lossy(&ill.stdout).contains("FAULT keyring"));
    let mut refused = command(&database).arg("serve").stderr(Stdio::piped()).spawn().unwrap();
    assert!(!refused.wait().unwrap().success());
    let mut error = String::new();
    refused.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert!(error.contains("line 1 is not a key"), "{error}");
}

//! `portico trigger`, against a server that is a process of its own.

use std::process::Output;

use portico_testkit::{Database, Receiver, TestDatabase};
use serde_json::{Value, json};

use crate::program::{Server, admin, call, command};

const ENDPOINTS: &str = "/v1/webhooks/endpoints";
const INBOXES: &str = "/v1/webhooks/inboxes";

/// A server with an account, and a token of it.
struct Scene {
    database: TestDatabase,
    server: Server,
    account: String,
    token: String,
}

impl Scene {
    async fn start() -> Self {
        let database = TestDatabase::create(Database::Sqlite).await;
        let mut command = command(&database);
        command.env("PORTICO_EGRESS_ALLOW", "127.0.0.0/8");
        let server = Server::start_as(command);
        let account = admin(&database, &["account", "create", "--name", "Acme"]);
        let account = account["account_id"].as_str().unwrap().to_owned();
        let token = token(&database, &account, "webhooks:read webhooks:write");
        Self { database, server, account, token }
    }

    fn run(&self, token: &str, words: &[&str]) -> Output {
        let url = format!("http://{}/", self.server.api);
        command(&self.database)
            .args(["trigger", "--url", &url, "--token", token])
            .args(words)
            .output()
            .unwrap()
    }

    /// What it prints.
    fn trigger(&self, words: &[&str]) -> String {
        let output = self.run(&self.token, words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.trigger(&[words, &["--json"]].concat())).unwrap()
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let token = &self.token;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nauthorization: Bearer {token}\r\ncontent-type: application/json"
        );
        let body = if body.is_null() { String::new() } else { body.to_string() };
        call(&self.server.api, &head, &body).await.unwrap().ok()
    }

    async fn endpoints(&self) -> Vec<Value> {
        self.call("GET", ENDPOINTS, &Value::Null).await["endpoints"].as_array().unwrap().clone()
    }
}

fn token(database: &TestDatabase, account: &str, scopes: &str) -> String {
    let made = admin(database, &["token", "create", "--account", account, "--scopes", scopes]);
    made["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_first_test_event_needs_nothing_but_a_token() {
    let scene = Scene::start().await;
    let lines = scene.trigger(&[]);
    let lines: Vec<&str> = lines.lines().collect();
    let [pointed, sent] = lines[..] else { panic!("{lines:?}") };
    let made = scene.endpoints().await;
    let (id, address) = (made[0]["id"].as_str().unwrap(), made[0]["url"].as_str().unwrap());
    assert!(pointed.contains(id) && pointed.contains(address), "{pointed}");
    assert!(sent.contains("evt_") && sent.contains("whd_") && sent.contains(id), "{sent}");

    let again = scene.json(&[]);
    assert_eq!(again["endpoint_id"], id);
    assert_eq!(again.as_object().unwrap().len(), 3, "nothing was made: {again}");
    let inbox = scene.call("GET", INBOXES, &Value::Null).await["inboxes"][0]["id"].clone();
    let inbox = format!("{INBOXES}/{}", inbox.as_str().unwrap());
    let requests = loop {
        let kept = scene.call("GET", &format!("{inbox}/requests"), &Value::Null).await["requests"].clone();
        if kept.as_array().unwrap().len() == 2 {
            break kept;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(requests[0]["headers"]["webhook-id"], again["event_id"]);
    assert_eq!((&requests[0]["verdict"], &requests[1]["verdict"]), (&json!("valid"), &json!("valid")));

    // The inbox goes, as it does after a day; the endpoint follows the next one.
    scene.call("DELETE", &inbox, &Value::Null).await;
    let moved = scene.json(&[]);
    let now = scene.endpoints().await;
    assert_eq!((now.len(), &now[0]["id"]), (1, &json!(id)));
    assert_eq!(moved["endpoint_id"], id);
    assert_eq!(moved["inbox_address"], now[0]["url"]);
    assert_ne!(now[0]["url"], address);
    assert_eq!(scene.server.stop().code(), Some(0));
}

#[tokio::test]
async fn an_enabled_endpoint_comes_first_and_any_can_be_named() {
    let (scene, receiver) = (Scene::start().await, Receiver::start().await);
    let mut made = Vec::new();
    for path in ["/old", "/new"] {
        let new = json!({ "url": receiver.url(path), "event_types": ["key.created"] });
        let endpoint = scene.call("POST", ENDPOINTS, &new).await;
        made.push(endpoint["id"].as_str().unwrap().to_owned());
    }
    scene.call("PATCH", &format!("{ENDPOINTS}/{}", made[1]), &json!({ "enabled": false })).await;
    let sent = scene.json(&[]);
    assert_eq!(sent["endpoint_id"], made[0]);
    while receiver.received("/old").is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(receiver.received("/old")[0].json()["id"], sent["event_id"]);
    assert_eq!(scene.endpoints().await.len(), 2);
    assert!(scene.trigger(&["--endpoint", &made[0]]).starts_with("Sent evt_"));

    let reading = token(&scene.database, &scene.account, "webhooks:read");
    for (token, words, told) in [
        (
            &scene.token,
            vec!["--endpoint", &made[1]],
            vec!["disabled", "\n  ENDPOINT_DISABLED endpoint_id=whe_"],
        ),
        (&scene.token, vec!["--endpoint", "whe_01ARZ3NDEKTSV4RRFFQ69G5FAV"], vec!["no webhook endpoint"]),
        (&reading, vec![], vec!["\n  SCOPE_REQUIRED scope=webhooks:write"]),
        (&"nonsense".to_owned(), vec!["--json"], vec!["portico: The token is missing, invalid"]),
    ] {
        let output = scene.run(token, &words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(told.iter().all(|told| error.contains(told)), "{words:?}: {error}");
        assert!(output.stdout.is_empty());
    }
    let (database, url) = (&scene.database, format!("http://{}", scene.server.api));
    scene.server.kill();
    for (url, told) in [
        (url.as_str(), format!("portico: {url}: the address cannot be reached\n")),
        ("ftp://x", "portico: --url must be an http or https address, not \"ftp://x\"\n".to_owned()),
    ] {
        let output = command(database).args(["trigger", "--token", "x", "--url", url]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&output.stderr), told);
    }
}

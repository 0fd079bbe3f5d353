//! Credentials: found nowhere in clear, and of no use anywhere but in their own place.

use std::fmt::Write as _;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portico_kernel::{Code, hex};
use portico_store::{Select, args};
use portico_testkit::ProviderAnswer;
use serde_json::{Value, json};

use super::{CLIENT_SECRET, GOOD, NEXT, Place, SECRET, id, issue, reason};
use crate::with_a_provider;

with_a_provider! {
    a_value_in_another_place_never_opens,
    credentials_are_in_no_answer_log_event_audit_entry_metric_or_database,
}

/// The token of a user and token.
const BASIC: &str = "jira-canary-f6f6f6f6";

/// Says of each row where it stands, and what it holds.
async fn move_value(place: &Place, statement: &'static str, to: &str, from: &str) {
    let mut tx = place.app.app.engine.db.write().await.unwrap();
    let moved = tx.execute(statement, args![to.to_owned(), from.to_owned()]).await.unwrap();
    assert_eq!(moved, 1);
    tx.commit().await.unwrap();
}

async fn a_value_in_another_place_never_opens(mut place: Place) {
    place.app.expect_errors();
    let (one, other) = (id(&place.by_key().await), id(&place.by_sign_in().await));
    place.grant(&one, json!({})).await;
    place.grant(&other, json!({})).await;
    // The value of one connection stands in the row of another.
    move_value(
        &place,
        "update connection_credentials set sealed = (select sealed from connection_credentials where connection_id = $2) \
         where connection_id = $1",
        &one,
        &other,
    )
    .await;
    let sent = place.provider.calls("/").len();
    reason(&place.act(&one, "get_issue", issue()).await, Code::FailedPrecondition, "NEEDS_RECONNECT");
    assert_eq!(place.provider.calls("/").len(), sent);
    assert_eq!(place.read(&one).await["status"], "needs_reconnect");
    // A list does not break on it, and the others go on.
    let list = place.app.get(&place.path("")).await.ok();
    assert_eq!(list["connections"].as_array().unwrap().len(), 2);
    place.act(&other, "list_issues", json!({ "project": "7" })).await.ok();
    let tested = place.to(&format!("/{one}/test"), json!({})).await.ok();
    assert_eq!(tested["connection"]["last_test_error"], "needs_reconnect");
    // Another credential heals it.
    place.patch(&one, json!({ "credentials": { "api_key": GOOD } })).await.ok();
    place.act(&one, "get_issue", issue()).await.ok();
    // The row itself, moved to another connection of the account, does not open either.
    move_value(&place, "update connections set credential_id = (select credential_id from connections where id = $2) where id = $1", &one, &other).await;
    reason(&place.act(&one, "get_issue", issue()).await, Code::FailedPrecondition, "NEEDS_RECONNECT");
}

/// A private key as PEM, and a part of it that is like no other text.
pub(super) fn private_key() -> (String, String) {
    let key: Pkcs8V1Der<'_> = KeyPair::generate(KeySize::Rsa2048).unwrap().as_der().unwrap();
    let body = BASE64_STANDARD.encode(key.as_ref());
    let lines: Vec<&str> =
        body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"));
    (pem, lines[lines.len() / 2].to_owned())
}

/// All that the database holds: its files, or its rows as a backup would have them.
async fn contents(place: &Place) -> String {
    let mut found = String::new();
    if place.app.database.url.starts_with("postgres") {
        let db = &place.app.app.engine.db;
        let tables =
            "select table_name as value from information_schema.tables where table_schema = 'public'";
        let tables: Vec<String> = db.query().values(tables, args![]).await.unwrap();
        for table in tables {
            let rows = format!("select coalesce(string_agg(r::text, ' '), '') as value from {table} r");
            let rows: String = db.query().value(Box::leak(rows.into_boxed_str()), args![]).await.unwrap();
            found += &rows;
        }
    }
    let folder = place.app.database.folder.path();
    for folder in [folder.to_owned(), folder.join("journal")] {
        for entry in std::fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_file()) {
            found += &String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// A connection of each mode, and what was answered to whoever made them.
async fn connect_each(place: &Place, private_key: &str) -> (Vec<String>, String) {
    let own = place.provider.own();
    let mut seen = String::new();
    let mut made = Vec::new();
    for body in [
        json!({ "kind": "github", "credentials": { "api_key": GOOD } }),
        json!({ "kind": "jira", "credentials": { "email": "a@b.example", "token": BASIC }, "config": { "site": "acme" } }),
        json!({ "kind": "github", "credentials": {
            "app_id": "1", "installation_id": "2", "private_key": private_key,
        } }),
        json!({ "kind": "endpoint", "secret": SECRET, "config": { "base_url": own } }),
    ] {
        let answer = place.to("", body).await;
        seen += &answer.text();
        made.push(id(&answer.ok()["connection"]));
    }
    made.push(id(&place.by_sign_in().await));
    for con in &made {
        place.grant(con, json!({ "max_class": "write_irreversible" })).await;
    }
    (made, seen)
}

/// What is refused, with a secret in it.
async fn be_refused(place: &Place) -> String {
    let wrong = json!({ "kind": "github", "credentials": { "api_key": "wrong-canary-b8b8" } });
    let app = json!({ "kind": "github", "credentials": {
        "app_id": "1", "installation_id": "2", "private_key": "app-canary-a7a7",
    } });
    let unknown = json!({ "kind": "github", "credentials": { "nope": "field-canary-c9c9" } });
    let mut seen = String::new();
    for body in [wrong, app, unknown] {
        let refused = place.to("", body).await;
        assert_ne!(refused.status, 200);
        seen += &refused.text();
    }
    let (state, code) = ("state-canary-d0d0", "code-canary-e1e1");
    let completed =
        place.as_owner("POST", "/connect/complete", json!({ "state": state, "code": code })).await;
    seen + &completed.text()
}

/// Everything that can be read afterwards.
async fn read_all(place: &Place, made: &[String]) -> String {
    let mut seen = String::new();
    let of_each = made.iter().flat_map(|con| [format!("/{con}"), format!("/{con}/grants")]);
    let lists = ["", "/history?page_size=200", "/connectors"].map(str::to_owned);
    for path in lists.into_iter().chain(of_each) {
        seen += &place.app.get(&place.path(&path)).await.text();
    }
    for path in ["events?page_size=200", "audit?page_size=200", "requests?page_size=200"] {
        seen += &place.app.get(&format!("/v1/accounts/orgs/{}/{path}", place.account)).await.text();
    }
    seen += &place.app.get("/v1/connections/tools").await.text();
    for metric in place.app.app.engine.registry.metrics() {
        let _ = write!(seen, "{metric:?}");
    }
    seen += &portico_testkit::captured_log();
    seen + &contents(place).await
}

async fn credentials_are_in_no_answer_log_event_audit_entry_metric_or_database(mut place: Place) {
    portico_testkit::capture_log();
    place.app.expect_errors();
    let (pem, part_of_key) = private_key();
    let (made, mut seen) = connect_each(&place, &pem).await;
    let [code, issues, app, service, signed] = &made[..] else { panic!("{made:?}") };
    seen += &be_refused(&place).await;
    seen += &place.patch(code, json!({ "credentials": { "api_key": NEXT } })).await.text();
    place.provider.end_access();
    let echo = json!({ "message": format!("{NEXT} {GOOD}"), "keys": { NEXT: [NEXT] } });
    for (path, status) in [("/gh/repos/acme/app/issues/1", 200), ("/gh/repos/acme/app/issues", 422)] {
        place.provider.script(path, Some(ProviderAnswer::Json(status, echo.clone())));
    }
    let new = json!({ "owner": "acme", "repo": "app", "title": "PARAM-CANARY" });
    for (con, action, params) in [
        (code, "get_issue", issue()),
        (code, "create_issue", new.clone()),
        (issues, "get_issue", json!({ "key": "APP-1" })),
        (app, "get_repository", json!({ "owner": "acme", "repo": "app" })),
        (app, "create_issue", new),
        (signed, "list_issues", json!({ "project": "7" })),
        (service, "get", json!({ "path": "/x" })),
        (service, "send", json!({ "method": "POST", "path": "/x", "body": "PARAM-CANARY" })),
    ] {
        // A provider may repeat what it was sent, but for the credential; the old one is not ours any more.
        let answer = place.act(con, action, params).await.text();
        let answer = answer.replace(GOOD, "the old key").replace("PARAM-CANARY", "a parameter");
        // That of one connection is nothing to another, whose provider is the same.
        seen += &if con == app { answer.replace(NEXT, "another's key") } else { answer };
    }
    for con in &made {
        seen += &place.to(&format!("/{con}/test"), json!({})).await.text();
    }
    let client = json!({ "client_id": "own", "client_secret": "own-client-canary" });
    seen += &place.call("PUT", &place.token, &place.path("/connectors/gitlab/client"), &client).await.text();
    seen += &read_all(&place, &made).await;
    let used: Vec<Value> = place.uses("").await;
    assert!(used.len() > 12, "there was something to find: {used:?}");
    assert!(seen.contains("Used a connection"), "the log was kept");
    let sent = place.provider.calls("/gh/app/installations/2/access_tokens");
    assert!(!sent.is_empty(), "the app got a token");
    let sealed = "select count(*) as value from connection_credentials";
    let sealed: i64 = place.app.app.engine.db.query().value(sealed, args![]).await.unwrap();
    assert_eq!(sealed, 5, "one of each mode");
    look_for(
        &seen,
        &[
            GOOD,
            NEXT,
            SECRET,
            CLIENT_SECRET,
            BASIC,
            &part_of_key,
            "app-canary-a7a7",
            "wrong-canary-b8b8",
            "field-canary-c9c9",
            "state-canary-d0d0",
            "code-canary-e1e1",
            "own-client-canary",
            "gl-access-canary",
            "gl-refresh-canary",
            "gh-installation-canary",
            "PARAM-CANARY",
        ],
    );
}

/// Panics where a secret is among what was seen, as it is, in base64, or in hexadecimal.
fn look_for(seen: &str, secrets: &[&str]) {
    for secret in secrets {
        // What stands before it shifts base64 by up to two bytes.
        let shifted = (0..3).map(|shift| {
            let text = BASE64_STANDARD.encode([vec![b'x'; shift].as_slice(), secret.as_bytes()].concat());
            text[4..text.len() - 4].to_owned()
        });
        for form in [(*secret).to_owned(), hex(secret.as_bytes())].into_iter().chain(shifted) {
            if let Some(at) = seen.find(&form) {
                let around: String =
                    seen[..at].chars().rev().take(200).collect::<Vec<_>>().iter().rev().collect();
                panic!("{secret} is in what was seen, after {}", around.escape_debug());
            }
        }
    }
}

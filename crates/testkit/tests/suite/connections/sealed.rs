//! Credentials: found nowhere in clear, and of no use anywhere but in their own place.

use std::fmt::Write as _;

use portico_kernel::Code;
use portico_store::{Select, args};
use portico_testkit::{Database, ProviderAnswer};
use serde_json::{Value, json};

use super::{CLIENT_SECRET, GOOD, NEXT, Place, SECRET, id, issue, reason};
use crate::with_a_provider;

with_a_provider! {
    a_value_in_another_place_never_opens,
}

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_are_in_no_answer_log_event_audit_entry_metric_or_file() {
    portico_testkit::capture_log();
    let mut place = Place::new(Database::Sqlite).await;
    place.app.expect_errors();
    let mut seen = String::new();
    let by_key = place.to("", json!({ "kind": "github", "credentials": { "api_key": GOOD } })).await;
    seen += &by_key.text();
    let code = id(&by_key.ok()["connection"]);
    let by_basic = json!({ "kind": "jira", "credentials": { "email": "a@b.example", "token": "jira-canary-f6f6" }, "config": { "site": "nowhere" } });
    seen += &place.to("", by_basic).await.text();
    let by_app = json!({ "kind": "github", "credentials": { "app_id": "1", "installation_id": "2", "private_key": "app-canary-a7a7" } });
    seen += &place.to("", by_app).await.text();
    let wrong = json!({ "kind": "github", "credentials": { "api_key": "wrong-canary-b8b8" } });
    seen += &place.to("", wrong).await.text();
    let signed = id(&place.by_sign_in().await);
    let own = place.provider.own();
    let service = json!({ "kind": "endpoint", "secret": SECRET, "config": { "base_url": own } });
    let service = id(&place.to("", service).await.ok()["connection"]);
    for con in [&code, &signed, &service] {
        place.grant(con, json!({ "max_class": "write_irreversible" })).await;
    }
    let client = json!({ "client_id": "own", "client_secret": "own-client-canary" });
    seen += &place.call("PUT", &place.token, &place.path("/connectors/gitlab/client"), &client).await.text();
    seen += &place.patch(&code, json!({ "credentials": { "api_key": NEXT } })).await.text();
    place.provider.end_access();
    let echo = json!({ "message": format!("{NEXT} {GOOD}"), "keys": { NEXT: [NEXT] } });
    for (path, status) in [("/gh/repos/acme/app/issues/1", 200), ("/gh/repos/acme/app/issues", 422)] {
        place.provider.script(path, Some(ProviderAnswer::Json(status, echo.clone())));
    }
    for (con, action, params) in [
        (&code, "get_issue", issue()),
        (&code, "create_issue", json!({ "owner": "acme", "repo": "app", "title": "PARAM-CANARY" })),
        (&signed, "list_issues", json!({ "project": "7" })),
        (&service, "get", json!({ "path": "/x" })),
        (&service, "send", json!({ "method": "POST", "path": "/x", "body": "PARAM-CANARY" })),
    ] {
        // A provider may repeat what it was sent, but for the credential; the old one is not ours any more.
        let answer = place.act(con, action, params).await.text();
        seen += &answer.replace(GOOD, "the old key").replace("PARAM-CANARY", "a parameter");
    }
    for path in ["", "/history?page_size=200", "/connectors", &format!("/{code}/grants")] {
        seen += &place.app.get(&place.path(path)).await.text();
    }
    for path in ["events?page_size=200", "audit?page_size=200", "requests?page_size=200"] {
        seen += &place.app.get(&format!("/v1/accounts/orgs/{}/{path}", place.account)).await.text();
    }
    seen += &place.app.get("/v1/connections/tools").await.text();
    for metric in place.app.app.engine.registry.metrics() {
        let _ = write!(seen, "{metric:?}");
    }
    seen += &portico_testkit::captured_log();
    let folder = place.app.database.folder.path();
    for entry in std::fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        seen += &String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap());
    }
    let secrets = [
        GOOD,
        NEXT,
        SECRET,
        CLIENT_SECRET,
        "jira-canary-f6f6",
        "app-canary-a7a7",
        "wrong-canary-b8b8",
        "own-client-canary",
        "gl-access-canary",
        "gl-refresh-canary",
        "PARAM-CANARY",
    ];
    for secret in secrets {
        if let Some(at) = seen.find(secret) {
            panic!(
                "{secret} is in {}",
                &seen[at.saturating_sub(200)..(at + 100).min(seen.len())].escape_debug()
            );
        }
    }
    let used: Vec<Value> = place.uses("").await;
    assert!(used.len() > 8, "there was something to find: {used:?}");
    let sealed: Vec<Vec<u8>> = place
        .app
        .app
        .engine
        .db
        .query()
        .values("select sealed as value from connection_credentials", args![])
        .await
        .unwrap();
    assert_eq!(sealed.len(), 3);
}

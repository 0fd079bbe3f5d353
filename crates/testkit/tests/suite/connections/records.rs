//! Kinds, and connections as they are made, read, changed, tested and deleted.

use portico_kernel::Code;
use portico_testkit::{ProviderAnswer, TestRequest};
use serde_json::{Value, json};

use super::{GOOD, NEXT, Place, id, issue, reason, text};
use crate::with_a_provider;

with_a_provider! {
    kinds_say_what_can_be_connected,
    a_key_connects_and_is_never_answered,
    a_refused_key_stores_nothing,
    what_does_not_fit_is_named,
    a_connection_is_renamed_paused_and_resumed,
    a_reconnect_is_tested_first,
    a_mode_is_switched,
    a_test_says_whether_it_passed,
    a_deleted_connection_leaves_its_history,
    connections_are_paged_newest_first,
    a_repeat_with_the_same_key_makes_no_second_one,
    connections_are_limited_in_number,
    an_erased_account_leaves_nothing,
}

async fn kinds_say_what_can_be_connected(place: Place) {
    let kinds = place.app.get("/v1/connections/kinds?page_size=200").await.ok();
    let kinds = kinds["kinds"].as_array().unwrap();
    let names: Vec<_> = kinds.iter().map(|kind| text(&kind["name"])).collect();
    assert!(names.is_sorted(), "{names:?}");
    for name in [
        "endpoint",
        "github",
        "gitlab",
        "slack",
        "linear",
        "notion",
        "jira",
        "sentry",
        "anthropic",
        "openai",
        "stripe",
    ] {
        assert!(names.contains(&name.to_owned()), "{name}");
    }
    for kind in kinds {
        for action in kind["actions"].as_array().unwrap() {
            let schema: Value = serde_json::from_str(action["schema"].as_str().unwrap()).unwrap();
            jsonschema::validator_for(&schema).unwrap();
            assert_eq!(schema["type"], "object", "{action}");
            for label in ["reads_private", "reads_untrusted", "sends_out"] {
                assert!(action[label].is_boolean(), "{action}");
            }
        }
    }
    let first = place.app.get("/v1/connections/kinds?page_size=1").await.ok();
    let next = format!("/v1/connections/kinds?page_size=1&page_token={}", text(&first["next_page_token"]));
    assert_eq!(place.app.get(&next).await.ok()["kinds"][0]["name"], names[1]);
}

async fn a_key_connects_and_is_never_answered(place: Place) {
    let body = json!({ "kind": "github", "credentials": { "api_key": GOOD }, "config": { "repositories": "acme/app" } });
    let answer = place.to("", body).await;
    let made = answer.ok()["connection"].clone();
    for (field, value) in [
        ("label", json!("acme-bot")),
        ("name", json!("acme-bot")),
        ("external_id", json!("4711")),
        ("status", json!("active")),
        ("kind", json!("github")),
        ("connector", json!("github")),
        ("auth_mode", json!("api_key")),
        ("scopes", json!(["repo", "read:user"])),
        ("last_test_ok", json!(true)),
        ("last_test_error", json!("")),
        ("grants", json!(0)),
        ("used_by", json!([])),
        ("config", json!({ "repositories": "acme/app" })),
        ("executor", json!({ "kind": "cloud", "agent_id": "" })),
        ("token_expires_at", json!("")),
        ("receive_url", json!("")),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    assert_eq!(made["credential"]["kind"], "api_key");
    assert!(text(&made["credential"]["reference"]).starts_with("crd_"));
    assert!(id(&made).starts_with("con_"));
    assert_eq!(place.provider.calls("/gh/user")[0].authorization, format!("Bearer {GOOD}"));
    assert_eq!(place.read(&id(&made)).await, made);
    let list = place.app.get(&place.path("")).await;
    assert_eq!(list.ok()["connections"], json!([made]));
    let history = place.app.get(&place.path("/history")).await;
    for seen in [&answer, &list, &history] {
        assert!(!String::from_utf8_lossy(&seen.body).contains(GOOD));
    }
    let tests = place.uses("action=test").await;
    assert_eq!((tests.len(), &tests[0]["status"], &tests[0]["connection_id"]), (1, &json!("ok"), &json!("")));
    assert!(place.event_types().await.contains(&"connection.created".to_owned()));
    assert!(place.audited().await.contains(&"connection.created".to_owned()));
    // The same account at the provider is connected once.
    let again = place.to("", json!({ "kind": "github", "credentials": { "api_key": GOOD } })).await;
    let metadata = reason(&again, Code::AlreadyExists, "WORKSPACE_CONNECTED");
    assert_eq!(metadata["connection_id"], made["id"]);
}

async fn a_refused_key_stores_nothing(place: Place) {
    let bad = place.to("", json!({ "kind": "github", "credentials": { "api_key": "ghp_wrong" } })).await;
    let metadata = reason(&bad, Code::FailedPrecondition, "CREDENTIAL_REFUSED");
    assert_eq!(metadata, json!({ "error_class": "auth", "status_code": "401" }));
    place.provider.script("/gh/user", Some(ProviderAnswer::Json(503, json!({}))));
    let down = place.to("", json!({ "kind": "github", "credentials": { "api_key": GOOD } })).await;
    reason(&down, Code::Unavailable, "PROVIDER_FAILED");
    // Nor does what answers without saying whose account it is, as a portal on the way would.
    for body in [json!({}), json!(null), json!({ "login": "x" }), json!({ "login": {}, "id": {} })] {
        place.provider.script("/gh/user", Some(ProviderAnswer::Json(200, body)));
        let portal = place.to("", json!({ "kind": "github", "credentials": { "api_key": GOOD } })).await;
        reason(&portal, Code::FailedPrecondition, "CREDENTIAL_REFUSED");
    }
    assert_eq!(place.count("connections").await, 0);
    assert_eq!(place.count("connection_credentials").await, 0);
    let uses = place.uses("action=test").await;
    let classes: Vec<_> = uses.iter().map(|used| text(&used["error_class"])).collect();
    assert_eq!(classes[..4], ["provider_4xx"; 4]);
    assert_eq!(classes[4..], ["provider_5xx", "auth"]);
}

async fn what_does_not_fit_is_named(place: Place) {
    let github = |more: Value| {
        let mut body = json!({ "kind": "github", "credentials": { "api_key": GOOD } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (body, field) in [
        (json!({ "kind": "nowhere" }), "kind"),
        (json!({}), "kind"),
        (json!({ "kind": "webhook-in" }), "kind"),
        (github(json!({ "name": "" })), "name"),
        (github(json!({ "name": "n".repeat(81) })), "name"),
        (github(json!({ "description": "d".repeat(501) })), "description"),
        (github(json!({ "config": { "nope": "x" } })), "config.nope"),
        (github(json!({ "config": { "repositories": "x".repeat(2_049) } })), "config.repositories"),
        (github(json!({ "credentials": { "nope": "x" } })), "credentials.nope"),
        (github(json!({ "credentials": { "api_key": "" } })), "credentials.api_key"),
        (github(json!({ "credentials": { "api_key": "k".repeat(8_193) } })), "credentials.api_key"),
        (github(json!({ "credentials": { "api_key": "a\nb" } })), "credentials.api_key"),
        (github(json!({ "credentials": { "api_key": 5 } })), "credentials.api_key"),
        (github(json!({ "auth_mode": "nope" })), "auth_mode"),
        (github(json!({ "secret": "x" })), "secret"),
        (github(json!({ "secret_ref": "env:X" })), "secret_ref"),
        (github(json!({ "executor": { "kind": "agent", "agent_id": "x" } })), "executor.kind"),
        (github(json!({ "executor": { "kind": "nowhere" } })), "executor.kind"),
    ] {
        place.to("", body).await.refused_field(field);
    }
    reason(
        &place.to("", json!({ "kind": "gitlab", "auth_mode": "oauth2" })).await,
        Code::FailedPrecondition,
        "SIGN_IN_REQUIRED",
    );
    assert!(place.provider.calls("/").is_empty(), "nobody was asked");
    assert_eq!(place.count("connection_uses").await, 0);
}

async fn a_connection_is_renamed_paused_and_resumed(place: Place) {
    let made = place.by_key().await;
    let con = id(&made);
    place.grant(&con, json!({})).await;
    let description = "What it is\n\tin two lines";
    let named = place.patch(&con, json!({ "name": "Other", "description": description })).await.ok();
    assert_eq!(
        (&named["connection"]["name"], &named["connection"]["description"]),
        (&json!("Other"), &json!(description))
    );
    assert_eq!(named["connection"]["credential"], made["credential"]);
    assert_eq!(place.patch(&con, json!({ "paused": true })).await.ok()["connection"]["status"], "paused");
    let sent = place.provider.calls("/gh/repos").len();
    reason(&place.act(&con, "get_issue", issue()).await, Code::FailedPrecondition, "PAUSED");
    assert_eq!(place.provider.calls("/gh/repos").len(), sent);
    assert_eq!(place.uses("status=refused").await[0]["error_class"], "paused");
    // It is tested all the same, and stays paused.
    assert_eq!(place.to(&format!("/{con}/test"), json!({})).await.ok()["connection"]["status"], "paused");
    assert_eq!(place.patch(&con, json!({ "paused": false })).await.ok()["connection"]["status"], "active");
    place.act(&con, "get_issue", issue()).await.ok();
    let audited = place.audited().await;
    for action in ["connection.updated", "connection.paused", "connection.resumed"] {
        assert!(audited.contains(&action.to_owned()), "{action}");
    }
    place.patch(&con, json!({ "name": "" })).await.refused_field("name");
    place.patch(&con, json!({ "rotate_secret": true })).await.refused_field("rotate_secret");
    place.patch("con_00000000000000000000000000", json!({})).await.refused(Code::NotFound);
}

async fn a_reconnect_is_tested_first(mut place: Place) {
    let before = place.by_key().await;
    let con = id(&before);
    place.grant(&con, json!({})).await;
    let before = place.read(&con).await;
    let bad = place.patch(&con, json!({ "name": "New", "credentials": { "api_key": "ghp_bad" } })).await;
    reason(&bad, Code::FailedPrecondition, "CREDENTIAL_REFUSED");
    assert_eq!(place.read(&con).await, before);
    place.provider.set_login("acme-two");
    let after =
        place.patch(&con, json!({ "credentials": { "api_key": NEXT } })).await.ok()["connection"].clone();
    assert_eq!(
        (&after["label"], &after["name"], &after["grants"]),
        (&json!("acme-two"), &json!("Code"), &json!(1))
    );
    assert_ne!(after["credential"]["reference"], before["credential"]["reference"]);
    place.act(&con, "get_issue", issue()).await.ok();
    assert_eq!(place.provider.calls("/gh/repos").last().unwrap().authorization, format!("Bearer {NEXT}"));
    assert_eq!(place.count("connection_credentials").await, 1, "the old one is gone");
    // The provider takes it no more: the first call finds that out, and from then on nothing is sent.
    place.provider.set_keys(&[GOOD]);
    reason(&place.act(&con, "get_issue", issue()).await, Code::FailedPrecondition, "CREDENTIAL_REFUSED");
    assert_eq!(place.read(&con).await["status"], "needs_reconnect");
    let sent = place.provider.calls("/").len();
    reason(&place.act(&con, "get_issue", issue()).await, Code::FailedPrecondition, "NEEDS_RECONNECT");
    assert_eq!(place.provider.calls("/").len(), sent);
    assert!(place.event_types().await.contains(&"connection.needs_reconnect".to_owned()));
    let healed = place.patch(&con, json!({ "credentials": { "api_key": GOOD } })).await.ok();
    assert_eq!(healed["connection"]["status"], "active");
    place.act(&con, "get_issue", issue()).await.ok();
    place.app.expect_errors();
}

async fn a_mode_is_switched(place: Place) {
    let con = id(&place.by_key().await);
    place.grant(&con, json!({})).await;
    let (pem, _) = super::sealed::private_key();
    let app = json!({ "app_id": "1", "installation_id": "2", "private_key": pem });
    let switched =
        place.patch(&con, json!({ "auth_mode": "app", "credentials": app })).await.ok()["connection"].clone();
    for (field, value) in [
        ("auth_mode", json!("app")),
        ("external_id", json!("2")),
        ("scopes", json!([])),
        ("grants", json!(1)),
        ("token_expires_at", json!("")),
    ] {
        assert_eq!(switched[field], value, "{field}");
    }
    place.act(&con, "get_issue", issue()).await.ok();
    // The installation is gone: its token ends, and there is no other.
    let gone = |status| Some(ProviderAnswer::Json(status, json!({})));
    place.provider.script("/gh/repos/acme/app/issues/1", gone(401));
    place.provider.script("/gh/app/installations/2/access_tokens", gone(404));
    reason(&place.act(&con, "get_issue", issue()).await, Code::FailedPrecondition, "CREDENTIAL_REFUSED");
    assert_eq!(place.read(&con).await["status"], "needs_reconnect");
    place.provider.script("/gh/repos/acme/app/issues/1", None);
    let back = place.patch(&con, json!({ "credentials": { "api_key": GOOD } })).await.ok();
    assert_eq!(
        (&back["connection"]["auth_mode"], &back["connection"]["status"]),
        (&json!("api_key"), &json!("active"))
    );
    place.act(&con, "get_issue", issue()).await.ok();
}

async fn a_test_says_whether_it_passed(place: Place) {
    let con = id(&place.by_key().await);
    let test = async || place.to(&format!("/{con}/test"), json!({})).await.ok()["connection"].clone();
    place.provider.set_keys(&[]);
    let failed = test().await;
    assert_eq!(
        (&failed["last_test_ok"], &failed["last_test_error"], &failed["status"]),
        (&json!(false), &json!("auth"), &json!("needs_reconnect"))
    );
    place.provider.set_keys(&[GOOD]);
    let passed = test().await;
    assert_eq!(
        (&passed["last_test_ok"], &passed["last_test_error"], &passed["status"]),
        (&json!(true), &json!(""), &json!("active"))
    );
    place.provider.script("/gh/user", Some(ProviderAnswer::Json(500, json!({}))));
    let failed = test().await;
    assert_eq!((&failed["last_test_error"], &failed["status"]), (&json!("provider_5xx"), &json!("active")));
    let statuses: Vec<_> = place.uses("action=test").await.iter().map(|used| text(&used["status"])).collect();
    assert_eq!(statuses, ["failed", "ok", "failed", "ok"]);
}

async fn a_deleted_connection_leaves_its_history(place: Place) {
    let con = id(&place.by_key().await);
    place.grant(&con, json!({})).await;
    place.act(&con, "get_issue", issue()).await.ok();
    assert_eq!(place.delete(&format!("/{con}")).await.ok(), json!({ "upstream": "none" }));
    place.app.get(&place.path(&format!("/{con}"))).await.refused(Code::NotFound);
    place.act(&con, "get_issue", issue()).await.refused(Code::NotFound);
    place.delete(&format!("/{con}")).await.refused(Code::NotFound);
    assert_eq!(place.uses(&format!("connection_id={con}")).await.len(), 1);
    for table in ["connections", "connection_credentials", "connection_grants", "connection_consumers"] {
        assert_eq!(place.count(table).await, 0, "{table}");
    }
    let types = place.event_types().await;
    for event in ["connection.deleted", "grant.revoked"] {
        assert!(types.contains(&event.to_owned()), "{event}");
    }
    // Its name is free again, and its handle is not.
    let again = place.by_key().await;
    place.grant(&id(&again), json!({})).await;
    let tools = place.app.get("/v1/connections/tools").await.ok();
    assert!(text(&tools["tools"][0]["name"]).starts_with("code_2_"), "{tools}");
}

async fn connections_are_paged_newest_first(place: Place) {
    let mut made = Vec::new();
    for name in ["a", "b", "c"] {
        let body = json!({
            "kind": "endpoint", "name": name, "secret": "s",
            "config": { "base_url": place.provider.own() },
        });
        made.push(id(&place.to("", body).await.ok()["connection"]));
    }
    made.reverse();
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = place.app.get(&place.path(&format!("?page_size=2&page_token={token}"))).await.ok();
        seen.extend(page["connections"].as_array().unwrap().iter().map(id));
        token = text(&page["next_page_token"]);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, made);
}

async fn a_repeat_with_the_same_key_makes_no_second_one(place: Place) {
    let body = json!({ "kind": "github", "credentials": { "api_key": GOOD } });
    let send = async || {
        let sent = TestRequest::new("POST", &place.path("")).bearer(&place.token);
        place.send(sent.header("idempotency-key", "k").json(&body)).await
    };
    let first = send().await;
    let again = send().await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(first.body, again.body);
    assert_eq!(place.provider.calls("/gh/user").len(), 1);
}

async fn connections_are_limited_in_number(place: Place) {
    let filler = "insert into connections (id, account_id, kind, name, description, handle, auth_mode, label, \
        external_id, host, status, paused, config, scopes, executor, agent_id, owner, credential_id, credential_kind, \
        last_test_ok, last_test_error, created_at, updated_at, version) select 'con_' || n, $1, 'endpoint', 'n', '', \
        'h' || n, 'secret', '', '', '', 'active', $2, '{}', '[]', 'cloud', '', '', '', 'none', $2, '', 0, 0, 1 \
        from (with recursive numbers (n) as (select 1000 union all select n + 1 from numbers where n < 1499) \
        select cast(n as text) as n from numbers) filler";
    let mut tx = place.app.app.engine.db.write().await.unwrap();
    tx.execute(filler, portico_store::args![place.account, false]).await.unwrap();
    tx.commit().await.unwrap();
    let full = place.to("", json!({ "kind": "github", "credentials": { "api_key": GOOD } })).await;
    assert_eq!(reason(&full, Code::FailedPrecondition, "LIMIT_REACHED")["limit"], "500");
    assert!(place.provider.calls("/").is_empty(), "nobody is asked about what cannot be stored");
}

async fn an_erased_account_leaves_nothing(place: Place) {
    let con = id(&place.by_key().await);
    place.grant(&con, json!({})).await;
    place.act(&con, "get_issue", issue()).await.ok();
    place.by_sign_in().await;
    let client = json!({ "client_id": "own", "client_secret": "s" });
    place.call("PUT", &place.token, &place.path("/connectors/gitlab/client"), &client).await.ok();
    let tables = [
        "connections",
        "connection_handles",
        "connection_credentials",
        "connection_grants",
        "connection_uses",
        "connection_consumers",
        "connection_sign_ins",
        "connection_clients",
        "connection_changes",
    ];
    for table in tables {
        assert!(place.count(table).await > 0, "{table}");
    }
    let engine = &place.app.app.engine;
    loop {
        let mut tx = engine.db.write().await.unwrap();
        let erased = engine.registry.erase_some(&mut tx, place.account, 2).await.unwrap();
        tx.commit().await.unwrap();
        if erased == 0 {
            break;
        }
    }
    for table in tables {
        assert_eq!(place.count(table).await, 0, "{table}");
    }
}

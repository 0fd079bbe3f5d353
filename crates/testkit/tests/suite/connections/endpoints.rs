//! Services of an account's own.

use portico_kernel::Code;
use portico_testkit::{Provider, ProviderAnswer};
use serde_json::{Value, json};

use super::{Place, SECRET, id, reason, text};
use crate::with_a_provider;

with_a_provider! {
    a_service_is_called_with_its_secret,
    a_secret_goes_to_another_host_only_by_hand,
    what_does_not_fit_is_named,
    a_service_that_says_401_stays_active,
}

impl Place {
    async fn service(&self, config: Value) -> Value {
        let mut config = config;
        config["base_url"] = json!(self.provider.own());
        let body = json!({ "kind": "endpoint", "name": "Own", "secret": SECRET, "config": config });
        self.to("", body).await.ok()["connection"].clone()
    }
}

async fn a_service_is_called_with_its_secret(place: Place) {
    let made = place.service(json!({})).await;
    assert_eq!(
        (&made["label"], &made["connector"], &made["auth_mode"]),
        (&json!("api.acme.test"), &json!(""), &json!("secret"))
    );
    assert_eq!((&made["credential"]["kind"], &made["last_test_at"]), (&json!("secret"), &json!("")));
    assert!(place.provider.calls("/").is_empty(), "it is stored untested");
    let con = id(&made);
    place.grant(&con, json!({ "max_class": "write_irreversible" })).await;
    let answer = place.act(&con, "get", json!({ "path": "/x", "query": { "q": "1" } })).await.ok();
    let body = &answer["result"]["body"];
    assert_eq!((&body["path"], &body["auth"]), (&json!("/own/x?q=1"), &json!("Bearer ***")));
    let sent = json!({ "method": "PUT", "path": "/y", "body": { "a": 1 } });
    assert_eq!(place.act(&con, "send", sent).await.ok()["result"]["body"]["method"], "PUT");
    assert_eq!(place.provider.calls("/own/y")[0].authorization, format!("Bearer {SECRET}"));
    let tested = place.to(&format!("/{con}/test"), json!({})).await.ok();
    assert_eq!(tested["connection"]["last_test_ok"], true);
    for path in ["x", "/../x", "//x", "/a/%2e%2e/x", "/\\x", "/a/../../x"] {
        place.act(&con, "get", json!({ "path": path })).await.refused_field("params.path");
    }
}

async fn a_secret_goes_to_another_host_only_by_hand(place: Place) {
    let con = id(&place.service(json!({})).await);
    let same = format!("{}/other", place.provider.own());
    place.patch(&con, json!({ "config": { "base_url": same } })).await.ok();
    let elsewhere = place.provider.own().replace(Provider::HOST, Provider::OTHER_HOST);
    let moved = json!({ "config": { "base_url": elsewhere } });
    place.patch(&con, moved).await.refused_field("secret");
    // Another port, or another scheme, is another place too.
    let other_port = json!({ "config": { "base_url": format!("http://{}:1/own", Provider::HOST) } });
    place.patch(&con, other_port).await.refused_field("secret");
    let refused = place
        .patch(&con, json!({ "config": { "base_url": "https://elsewhere.example/" }, "secret": "s" }))
        .await;
    assert_eq!(
        reason(&refused, Code::FailedPrecondition, "DOMAIN_NOT_VERIFIED")["host"],
        "elsewhere.example"
    );
    // The secret that is kept is no user and password.
    let basic = json!({ "config": { "base_url": place.provider.own(), "auth": "basic" } });
    place.patch(&con, basic).await.refused_field("config.auth");
    let before = place.read(&con).await;
    let after = place.patch(&con, json!({ "secret": "another" })).await.ok()["connection"].clone();
    assert_ne!(after["credential"]["reference"], before["credential"]["reference"]);
    let none = json!({ "config": { "base_url": place.provider.own(), "auth": "none" } });
    assert_eq!(place.patch(&con, none).await.ok()["connection"]["credential"]["kind"], "none");
}

async fn what_does_not_fit_is_named(place: Place) {
    let own = place.provider.own();
    let with = |more: Value| {
        let mut body = json!({ "kind": "endpoint", "secret": "s", "config": { "base_url": own } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let url = |url: &str| with(json!({ "config": { "base_url": url } }));
    for (body, field) in [
        (json!({ "kind": "endpoint", "config": { "base_url": own } }), "secret"),
        (json!({ "kind": "endpoint", "secret": "s" }), "config.base_url"),
        (with(json!({ "secret": "" })), "secret"),
        (with(json!({ "secret": "s".repeat(8_193) })), "secret"),
        (with(json!({ "secret": "a\r\nx: y" })), "secret"),
        (with(json!({ "secret_ref": "env:X" })), "secret_ref"),
        (with(json!({ "credentials": { "api_key": "x" } })), "credentials.api_key"),
        (with(json!({ "auth_mode": "basic" })), "auth_mode"),
        (with(json!({ "config": { "base_url": own, "nope": "x" } })), "config.nope"),
        (with(json!({ "config": { "base_url": own, "auth": "magic" } })), "config.auth"),
        (with(json!({ "config": { "base_url": own, "auth": "none" } })), "secret"),
        (with(json!({ "config": { "base_url": own, "auth": "basic" } })), "secret"),
        (with(json!({ "secret": "s\u{e9}cret" })), "secret"),
        (url("nowhere"), "config.base_url"),
        (url("ftp://api.acme.test/"), "config.base_url"),
        (url("https://user@api.acme.test/"), "config.base_url"),
        (url("https://api.acme.test/#part"), "config.base_url"),
        (url("https://127.0.0.1/"), "config.base_url"),
    ] {
        place.to("", body).await.refused_field(field);
    }
    let agent = |reference: &str| {
        json!({
            "kind": "endpoint", "secret_ref": reference, "config": { "base_url": "https://10.0.0.1/" },
            "executor": { "kind": "agent", "agent_id": "agt_1" },
        })
    };
    place.to("", agent("http://x")).await.refused_field("secret_ref");
    place.to("", agent("env:")).await.refused_field("secret_ref");
    for reference in ["vault:a/b#c", "k8s:a/b#c", "env:A", "file:/a"] {
        place.to("", agent(reference)).await.refused(Code::NotFound);
    }
    assert_eq!(place.count("connections").await, 0);
}

async fn a_service_that_says_401_stays_active(place: Place) {
    let con = id(&place.service(json!({ "test_path": "/health" })).await);
    place.grant(&con, json!({})).await;
    place.provider.script("/own/health", Some(ProviderAnswer::Json(401, json!({}))));
    let tested = place.to(&format!("/{con}/test"), json!({})).await.ok()["connection"].clone();
    assert_eq!((&tested["status"], text(&tested["last_test_error"])), (&json!("active"), "auth".to_owned()));
    place.provider.script("/own/x", Some(ProviderAnswer::Json(401, json!({}))));
    let refused = place.act(&con, "get", json!({ "path": "/x" })).await;
    reason(&refused, Code::FailedPrecondition, "CREDENTIAL_REFUSED");
    assert_eq!(place.read(&con).await["status"], "active");
}

//! Where connections may lead: the disguises and detours that others met.

use portico_kernel::Code;
use portico_testkit::{Database, TestApp, TestAppOptions};
use serde_json::json;

use super::{Place, beside_each_other, id, reason};
use crate::with_a_provider;

with_a_provider! {
    no_address_in_disguise_is_connected,
    a_host_that_is_lost_is_not_called,
}

/// Addresses that lead inside, in every spelling that others fell for.
const INSIDE: [&str; 34] = [
    "https://127.0.0.1/",
    "https://127.1/",
    "https://0x7f.1/",
    "https://2130706433/",
    "https://017700000001/",
    "https://0.0.0.0/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://100.64.0.1/",
    "https://198.18.0.1/",
    "https://192.0.0.1/",
    "https://224.0.0.1/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    "https://168.63.129.16/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fec0::1]/",
    "https://[fc00::1]/",
    "https://[fd00:ec2::254]/",
    "https://[ff02::1]/",
    "https://metadata.google.internal/",
    "https://localhost./",
    "https://printer.local/",
    "https://intranet/",
];

/// An account of a platform that may call nothing of this machine, and whose operator lets accounts choose any host.
async fn any_host(database: Database) -> TestApp {
    let mut options = TestAppOptions::default();
    let providers = portico::ProviderSettings::read(None, None, Some("*".to_owned()));
    options.environment.providers = providers.unwrap();
    TestApp::with(database, options).await
}

async fn no_address_in_disguise_is_connected(place: Place) {
    let app = any_host(Database::Sqlite).await;
    for inside in INSIDE {
        let body = json!({ "kind": "endpoint", "secret": "s", "config": { "base_url": inside } });
        let answer = app.post(&format!("/v1/accounts/orgs/{}/connections", app.account), &body).await;
        if answer.status == 200 {
            // A name: nobody knows where it leads before it is called.
            let con = id(&answer.json()["connection"]);
            let tested = app
                .post(&format!("/v1/accounts/orgs/{}/connections/{con}/test", app.account), &json!({}))
                .await;
            assert_eq!(tested.ok()["connection"]["last_test_error"], "blocked_address", "{inside}");
        } else {
            answer.refused_field("config.base_url");
        }
        let unproven = place.to("", body).await;
        if unproven.status == 400 && unproven.json()["code"] == "failed_precondition" {
            reason(&unproven, Code::FailedPrecondition, "DOMAIN_NOT_VERIFIED");
        } else if unproven.status != 200 {
            unproven.refused_field("config.base_url");
        }
    }
    // A host of a configuration is no address either.
    for host in
        ["127.0.0.1", "localhost:1", "a/b", "user@gitlab.com", "gitlab.com#", "[::1]", "gitlab.com\\@evil"]
    {
        let body = json!({ "kind": "gitlab", "credentials": { "api_key": "k" }, "config": { "host": host } });
        let answer = app.post(&format!("/v1/accounts/orgs/{}/connections", app.account), &body).await;
        answer.refused_field("config.host");
    }
    let body = json!({ "kind": "gitlab", "credentials": { "api_key": "k" }, "config": { "host": "git.elsewhere.example" } });
    let strict = TestApp::new(Database::Sqlite).await;
    let answer = strict.post(&format!("/v1/accounts/orgs/{}/connections", strict.account), &body).await;
    reason(&answer, Code::FailedPrecondition, "DOMAIN_NOT_VERIFIED");
}

async fn a_host_that_is_lost_is_not_called(place: Place) {
    let own = place.provider.own();
    let body = json!({ "kind": "endpoint", "secret": "s", "config": { "base_url": own } });
    let con = id(&place.to("", body).await.ok()["connection"]);
    place.grant(&con, json!({})).await;
    place.act(&con, "get", json!({ "path": "/x" })).await.ok();
    // Another server of the same database, whose operator names no hosts.
    let mut options = TestAppOptions::default();
    options.environment.egress_allow = "127.0.0.0/8".parse().unwrap();
    let beside = place.app.beside_with(options).await;
    let sent = portico_testkit::TestRequest::new("POST", &place.path(&format!("/{con}/actions/get")));
    let sent = sent.bearer(&place.token).json(&json!({ "params": { "path": "/x" } }));
    let refused = beside_each_other(&place.app, &beside, beside.send(sent)).await;
    assert_eq!(reason(&refused, Code::FailedPrecondition, "DOMAIN_NOT_VERIFIED")["host"], "api.acme.test");
    let uses = beside_each_other(&place.app, &beside, place.uses("status=refused")).await;
    assert_eq!(uses[0]["error_class"], "domain_unverified");
    assert_eq!(place.provider.calls("/own/x").len(), 1);
}

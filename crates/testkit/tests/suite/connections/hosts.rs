//! Where connections may lead: the disguises and detours that others met.

use std::net::IpAddr;

use portico_kernel::{Code, Role};
use portico_testkit::{Answer, Provider, ProviderAnswer, TestApp, TestAppOptions, TestRequest, until};
use serde_json::{Value, json};

use super::{GOOD, Place, beside_each_other, id, issue, kind_of, reason, text};
use crate::with_a_provider;

with_a_provider! {
    no_address_in_disguise_is_connected,
    no_name_that_leads_inside_is_called,
    no_host_of_a_configuration_leads_inside,
    no_answer_leads_elsewhere,
    a_name_that_moves_inside_is_not_followed,
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

/// What names may lead to beside a public address, or in its place.
const LEADING_INSIDE: [&[&str]; 14] = [
    &["127.0.0.1"],
    &["0.0.0.0"],
    &["10.0.0.1"],
    &["169.254.169.254"],
    &["168.63.129.16"],
    &["100.64.0.1"],
    &["198.18.0.1"],
    &["::1"],
    &["::ffff:127.0.0.1"],
    &["64:ff9b::7f00:1"],
    &["2002:7f00:1::"],
    &["fec0::1"],
    &["192.0.43.7", "10.0.0.1"],
    &["192.0.43.7", "::1"],
];

/// A platform that may call nothing of this machine, and whose operator lets accounts choose any host.
struct Strict<'a> {
    app: TestApp,
    place: &'a Place,
    owner: String,
}

impl<'a> Strict<'a> {
    async fn beside(place: &'a Place) -> Self {
        let mut options = TestAppOptions::default();
        let clients = format!("gitlab=app-1:{}", super::CLIENT_SECRET);
        let providers = portico::ProviderSettings::read(None, Some(&clients), Some("*".to_owned()));
        options.environment.providers = providers.unwrap();
        options.environment.egress_name_servers = place.provider.name_servers();
        let app = TestApp::with(kind_of(place), options).await;
        let owner = app.new_person("ada@example.com", None).await;
        app.join(app.account, owner.id, Role::Owner).await;
        let owner = app.person_token(owner.id).await;
        Self { app, place, owner }
    }

    async fn to(&self, rest: &str, body: Value) -> Answer {
        let path = format!("/v1/accounts/orgs/{}/connections{rest}", self.app.account);
        self.app.send(TestRequest::new("POST", &path).bearer(&self.owner).json(&body)).await
    }

    async fn service(&self, base_url: &str) -> Answer {
        self.to("", json!({ "kind": "endpoint", "secret": "s", "config": { "base_url": base_url } })).await
    }

    /// Asserts that a service of the account's own is not called, neither to test it nor for an action.
    async fn is_blocked(&self, con: &str, what: &str) {
        let tested = self.to(&format!("/{con}/test"), json!({})).await.ok();
        assert_eq!(tested["connection"]["last_test_error"], "blocked_address", "{what}");
        for (action, params) in [
            ("get", json!({ "path": "/latest/meta-data/" })),
            ("send", json!({ "method": "POST", "path": "/" })),
        ] {
            let called = self.to(&format!("/{con}/actions/{action}"), json!({ "params": params })).await;
            let told = reason(&called, Code::FailedPrecondition, "PROVIDER_REFUSED");
            assert_eq!(told["error_class"], "blocked_address", "{what}");
        }
        assert!(self.place.provider.calls("/").is_empty(), "{what}");
    }
}

async fn no_address_in_disguise_is_connected(place: Place) {
    let strict = Strict::beside(&place).await;
    let own = json!({ "kind": "endpoint", "secret": "s", "config": { "base_url": place.provider.own() } });
    let own = id(&place.to("", own).await.ok()["connection"]);
    for inside in INSIDE {
        let made = strict.service(inside).await;
        if made.status == 200 {
            // A name: nobody knows where it leads before it is called.
            strict.is_blocked(&id(&made.json()["connection"]), inside).await;
        } else {
            made.refused_field("config.base_url");
        }
        // Neither is one that there is moved there, nor is it connected by an account that has not proven it.
        let config = json!({ "base_url": inside });
        let unproven = json!({ "kind": "endpoint", "secret": "s", "config": config });
        for refused in [
            place.to("", unproven).await,
            place.patch(&own, json!({ "config": config, "secret": "s" })).await,
        ] {
            if refused.json()["code"] == "failed_precondition" {
                reason(&refused, Code::FailedPrecondition, "DOMAIN_NOT_VERIFIED");
            } else {
                refused.refused_field("config.base_url");
            }
        }
    }
    assert_eq!(place.read(&own).await["config"]["base_url"], place.provider.own());
    // Nor is it reached by what stands behind an address.
    place.grant(&own, json!({ "max_class": "write_irreversible" })).await;
    for path in [
        "//169.254.169.254/",
        "/\\169.254.169.254/",
        "/../../x",
        "http://169.254.169.254/",
        "@169.254.169.254",
    ] {
        place.act(&own, "get", json!({ "path": path })).await.refused_field("params.path");
    }
    assert!(place.provider.calls("/").is_empty());
}

async fn no_name_that_leads_inside_is_called(place: Place) {
    let strict = Strict::beside(&place).await;
    for (number, addresses) in LEADING_INSIDE.iter().enumerate() {
        let name = format!("n{number}.acme.test");
        let parsed: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        place.provider.set_addresses(&name, &parsed);
        let con = id(&strict.service(&format!("https://{name}/")).await.ok()["connection"]);
        strict.is_blocked(&con, &format!("{addresses:?}")).await;
    }
}

async fn no_host_of_a_configuration_leads_inside(place: Place) {
    let strict = Strict::beside(&place).await;
    let gitlab = |host: &str| json!({ "kind": "gitlab", "credentials": { "api_key": "k" }, "config": { "host": host } });
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "[::1]",
        "localhost",
        "localhost:1",
        "a/b",
        "user@gitlab.com",
        "gitlab.com#",
        "gitlab.com\\@evil",
        "gitlab.com%2f@evil.example",
    ] {
        strict.to("", gitlab(host)).await.refused_field("config.host");
        let signing_in = json!({ "connector": "gitlab", "config": { "host": host } });
        strict.to("/connect", signing_in).await.refused_field("config.host");
    }
    for site in ["127.0.0.1/", "a.b@evil", "evil.example/", "169.254.169.254#", "a%2eb", "a:1"] {
        let jira = json!({
            "kind": "jira", "credentials": { "email": "a@b.example", "token": "k" }, "config": { "site": site },
        });
        strict.to("", jira).await.refused_field("config.site");
    }
    for region in ["127.0.0.1", "evil.example", "sentry.io.evil.example"] {
        let sentry =
            json!({ "kind": "sentry", "credentials": { "api_key": "k" }, "config": { "region": region } });
        strict.to("", sentry).await.refused_field("config.region");
    }
    // A name that leads inside is called neither with a key, nor with a code.
    place.provider.set_addresses("inside.acme.test", &["10.0.0.1".parse().unwrap()]);
    let told = reason(
        &strict.to("", gitlab("inside.acme.test")).await,
        Code::FailedPrecondition,
        "PROVIDER_REFUSED",
    );
    assert_eq!(told["error_class"], "blocked_address");
    let signing_in = json!({ "connector": "gitlab", "config": { "host": "inside.acme.test" } });
    // The operator's client is not for a host that an account chose.
    let chosen = strict.to("/connect", signing_in.clone()).await;
    reason(&chosen, Code::FailedPrecondition, "NO_CLIENT");
    let path = format!("/v1/accounts/orgs/{}/connections/connectors/gitlab/client", strict.app.account);
    let client = json!({ "client_id": "own", "client_secret": "s" });
    strict.app.send(TestRequest::new("PUT", &path).bearer(&strict.owner).json(&client)).await.ok();
    let begun = strict.to("/connect", signing_in).await.ok();
    let (state, code) = place.provider.allow(&text(&begun["authorize_url"]));
    let failed = strict.to("/connect/complete", json!({ "state": state, "code": code })).await;
    assert_eq!(reason(&failed, Code::FailedPrecondition, "SIGN_IN_FAILED")["reason"], "provider_failed");
    assert!(place.provider.calls("/").is_empty());
    // Nor does an account choose one that is not its own.
    let plain = TestApp::new(kind_of(&place)).await;
    let path = format!("/v1/accounts/orgs/{}/connections", plain.account);
    let refused = plain.post(&path, &gitlab("git.elsewhere.example")).await;
    reason(&refused, Code::FailedPrecondition, "DOMAIN_NOT_VERIFIED");
}

async fn no_answer_leads_elsewhere(place: Place) {
    let con = id(&place.by_key().await);
    place.grant(&con, json!({})).await;
    let own = json!({ "kind": "endpoint", "secret": "s", "config": { "base_url": place.provider.own() } });
    let own = id(&place.to("", own).await.ok()["connection"]);
    place.grant(&own, json!({})).await;
    let elsewhere = format!("{}/own/elsewhere", place.provider.origin());
    for location in [elsewhere.as_str(), "//169.254.169.254/", "http://127.0.0.1:1/", "/elsewhere"] {
        for status in [301, 302, 303, 307, 308] {
            let moved = || {
                let headers = vec![("location", location.to_owned())];
                Some(ProviderAnswer::Whole(status, headers, bytes::Bytes::new()))
            };
            place.provider.script("/gh/repos/acme/app/issues/1", moved());
            place.provider.script("/own/x", moved());
            for answer in [
                place.act(&con, "get_issue", issue()).await,
                place.act(&own, "get", json!({ "path": "/x" })).await,
            ] {
                let told = reason(&answer, Code::FailedPrecondition, "PROVIDER_REFUSED");
                assert_eq!(told["error_class"], "redirect");
            }
        }
    }
    assert!(
        place.provider.calls("/own/elsewhere").is_empty() && place.provider.calls("/elsewhere").is_empty()
    );
    // Neither a test nor a request for a token goes there.
    let headers = vec![("location", elsewhere)];
    let moved = || Some(ProviderAnswer::Whole(302, headers.clone(), bytes::Bytes::new()));
    place.provider.script("/gh/user", moved());
    let refused = place.patch(&con, json!({ "credentials": { "api_key": GOOD } })).await;
    reason(&refused, Code::FailedPrecondition, "CREDENTIAL_REFUSED");
    place.provider.script("/gl/oauth/token", moved());
    let begun = place.as_owner("POST", "/connect", json!({ "connector": "gitlab" })).await.ok();
    let (state, code) = place.provider.allow(&text(&begun["authorize_url"]));
    let failed = place.as_owner("POST", "/connect/complete", json!({ "state": state, "code": code })).await;
    reason(&failed, Code::FailedPrecondition, "SIGN_IN_FAILED");
    assert!(place.provider.calls("/own/elsewhere").is_empty());
}

async fn a_name_that_moves_inside_is_not_followed(place: Place) {
    let own = json!({ "kind": "endpoint", "secret": "s", "config": { "base_url": place.provider.own() } });
    let con = id(&place.to("", own).await.ok()["connection"]);
    place.grant(&con, json!({})).await;
    let call = async || place.act(&con, "get", json!({ "path": "/x" })).await;
    call().await.ok();
    // An answer of the name servers is believed for a moment.
    place.provider.set_addresses(Provider::HOST, &["10.0.0.1".parse().unwrap()]);
    until("the name leads inside", async || Box::pin(call()).await.status != 200).await;
    let told = reason(&call().await, Code::FailedPrecondition, "PROVIDER_REFUSED");
    assert_eq!(told["error_class"], "blocked_address");
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
    let path = place.path(&format!("/{con}/actions/get"));
    let body = json!({ "params": { "path": "/x" } });
    let sent = || TestRequest::new("POST", &path).bearer(&place.token).json(&body);
    let refused = beside_each_other(&place.app, &beside, async || beside.send(sent()).await).await;
    assert_eq!(reason(&refused, Code::FailedPrecondition, "DOMAIN_NOT_VERIFIED")["host"], "api.acme.test");
    let path = place.path("/history?status=refused");
    let uses = beside_each_other(&place.app, &beside, async || place.app.get(&path).await).await.ok();
    assert_eq!(uses["uses"][0]["error_class"], "domain_unverified");
    assert_eq!(place.provider.calls("/own/x").len(), 1);
}

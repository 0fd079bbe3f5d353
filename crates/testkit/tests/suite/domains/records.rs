//! Adding, reading and removing domains.

use std::time::Duration;

use portico_kernel::Code;
use portico_testkit::{DnsFault, TestApp, TestRequest};
use serde_json::{Value, json};

use super::{NAME, Net, Prover, reason, text};
use crate::with_dns;

with_dns! {
    a_domain_is_added_once,
    names_are_read_in_any_form_and_refused_by_their_rule,
    the_scope_must_fit,
    domains_are_listed_newest_first,
    a_domain_is_removed,
    an_account_has_a_hundred_domains,
    adding_is_idempotent_by_key_and_by_name,
    a_domain_whose_token_ended_is_added_anew,
    who_serves_a_domain_is_looked_up_when_it_is_added,
    thirty_two_callers_add_one_domain,
}

const FIELDS: [&str; 11] = [
    "created_at",
    "dns_provider",
    "domain",
    "expires_at",
    "last_checked_at",
    "record_name",
    "record_value",
    "scope",
    "status",
    "unverified_reason",
    "verified_at",
];

async fn a_domain_is_added_once(app: TestApp, _net: Net) {
    let ada = Prover::own(&app).await;
    let other = app.new_account("Other").await;
    // What the body says of the account counts for nothing.
    let body = json!({ "domain": "ACME.test.", "scope": "domain", "org_id": other });
    let added = ada.call("POST", "", Some(body)).await.ok();
    assert_eq!(added.as_object().unwrap().keys().collect::<Vec<_>>(), ["domain"]);
    let domain = &added["domain"];
    let mut fields: Vec<_> = domain.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, FIELDS);
    assert!(domain.as_object().unwrap().values().all(Value::is_string));
    assert_eq!((&domain["domain"], &domain["scope"]), (&json!(NAME), &json!("domain")));
    assert_eq!((&domain["status"], &domain["created_at"]), (&json!("pending"), &json!(app.clock_text())));
    assert_eq!(domain["record_name"], "_portico-challenge.acme.test");
    let value = text(&domain["record_value"]);
    let token = value.strip_prefix("portico-verification=").unwrap();
    assert_eq!(token.len(), 32);
    assert!(token.bytes().all(|byte| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte)), "{token}");
    for empty in ["verified_at", "last_checked_at", "unverified_reason"] {
        assert_eq!(domain[empty], "", "{empty}");
    }
    assert_eq!(domain["dns_provider"], "Cloudflare");
    app.advance(Duration::from_hours(1)).await;
    assert_eq!(ada.add(NAME).await, *domain, "again, it is as it was");
    assert_eq!(ada.get(NAME).await, *domain);
    let below = ada.add("api.acme.test").await;
    assert_eq!(
        (&below["scope"], &below["record_name"]),
        (&json!("subdomain"), &json!("_portico-host-challenge.api.acme.test"))
    );
    assert_ne!(below["record_value"], domain["record_value"]);
    let theirs = Prover::of(&app, other).await.add(NAME).await;
    assert_ne!(theirs["record_value"], domain["record_value"], "each account has a value of its own");
    let added = ("domain.added".to_owned(), ada.actor().await, true);
    assert_eq!(ada.audit().await, [added.clone(), added]);
    assert_eq!(ada.events().await, []);
}

async fn names_are_read_in_any_form_and_refused_by_their_rule(app: TestApp, _net: Net) {
    let ada = Prover::own(&app).await;
    let added = ada.add("BÜCHER.test").await;
    assert_eq!(added["domain"], "xn--bcher-kva.test");
    for form in ["b%C3%BCcher.test", "xn--bcher-kva.test.", "XN--BCHER-KVA.TEST", "B%C3%9CCHER.Test"] {
        assert_eq!(ada.get(form).await, added, "{form}");
    }
    let (long, label) =
        ([["a".repeat(60).as_str(); 4].join("."), "test".to_owned()].join("."), "x".repeat(64));
    for (name, rule) in [
        ("", "is empty"),
        ("com", "one label"),
        ("co.uk", "public suffix"),
        ("localhost", "`localhost`"),
        ("printer.local", "`local`"),
        ("1.2.3.4", "IP address"),
        ("*.acme.test", "'*'"),
        ("_x.acme.test", "'_'"),
        ("https://acme.test", "':'"),
        ("me@acme.test", "'@'"),
        ("a..test", "empty label"),
        ("-a.test", "hyphen"),
        ("xn--a.test", "international"),
        (&format!("{label}.test"), "63 characters"),
        (&long, "229 characters"),
    ] {
        let said = ada.try_add(name).await.refused_field("domain");
        assert!(said.contains(rule), "{name:?}: {said}");
    }
    for wrong in
        [json!({}), json!({ "domain": null }), json!({ "domain": 5 }), json!({ "domain": ["a.test"] })]
    {
        ada.call("POST", "", Some(wrong)).await.refused_field("domain");
    }
    for (method, rest) in [("GET", ""), ("DELETE", ""), ("POST", "/check"), ("POST", "/confirm")] {
        let body = (method == "POST").then(|| json!({}));
        let said = ada.call(method, &format!("/co.uk{rest}"), body).await.refused_field("domain");
        assert!(said.contains("public suffix"), "{said}");
    }
}

async fn the_scope_must_fit(app: TestApp, _net: Net) {
    let ada = Prover::own(&app).await;
    let add = async |domain: &str, scope: Value| {
        ada.call("POST", "", Some(json!({ "domain": domain, "scope": scope }))).await
    };
    let said = add("deep.acme.test", json!("domain")).await.refused_field("scope");
    assert!(said.contains("acme.test"), "{said}");
    let said = add("example.co.uk", json!("subdomain")).await.refused_field("scope");
    assert!(said.contains("example.co.uk"), "{said}");
    for wrong in [json!("all"), json!(""), json!("Domain"), json!(1), json!(["domain"])] {
        add(NAME, wrong).await.refused_field("scope");
    }
    assert_eq!(app.count("domains").await, 0);
    add("deep.acme.test", json!("subdomain")).await.ok();
    add(NAME, json!("domain")).await.ok();
    add("other.test", Value::Null).await.ok();
}

async fn domains_are_listed_newest_first(app: TestApp, _net: Net) {
    let ada = Prover::own(&app).await;
    let empty = json!({ "domains": [], "next_page_token": "", "total_size": 0 });
    assert_eq!(ada.call("GET", "", None).await.ok(), empty);
    for name in ["a.test", "b.test", "c.test"] {
        ada.add(name).await;
        app.clock.advance(Duration::from_secs(1));
    }
    Prover::another(&app, "Other").await.add("d.test").await;
    let (mut listed, mut rest) = (Vec::new(), "?page_size=1".to_owned());
    loop {
        let answer = ada.call("GET", &rest, None).await;
        let page = answer.ok();
        assert_eq!((page["total_size"].as_i64(), page["domains"].as_array().unwrap().len()), (Some(3), 1));
        listed.push(text(&page["domains"][0]["domain"]));
        assert_eq!(page["domains"][0], ada.get(listed.last().unwrap()).await);
        let token = text(&page["next_page_token"]);
        assert_eq!(answer.header("link").contains("rel=\"next\""), !token.is_empty());
        if token.is_empty() {
            break;
        }
        rest = format!("?page_size=1&page_token={token}");
    }
    assert_eq!(listed, ["c.test", "b.test", "a.test"]);
    assert_eq!(ada.call("GET", "", None).await.ok()["domains"].as_array().unwrap().len(), 3);
}

async fn a_domain_is_removed(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let first = ada.add(NAME).await;
    assert_eq!(ada.call("DELETE", "/Acme.TEST.", None).await.ok(), json!({}));
    for (method, rest) in [("GET", ""), ("DELETE", ""), ("POST", "/check"), ("POST", "/confirm")] {
        let body = (method == "POST").then(|| json!({}));
        ada.call(method, &format!("/{NAME}{rest}"), body).await.refused(Code::NotFound);
    }
    assert_eq!(ada.events().await, [], "it was not verified");
    let second = ada.verify(&net, NAME).await;
    assert_ne!(second["record_value"], first["record_value"]);
    ada.call("DELETE", &format!("/{NAME}"), None).await.ok();
    let actor = ada.actor().await;
    let event = |name: &str| (name.to_owned(), actor.clone());
    assert_eq!(ada.events().await, [event("domain.verified"), event("domain.unverified")]);
    let actions: Vec<_> = ada.audit().await.into_iter().map(|(action, ..)| action).collect();
    let expected = ["domain.added", "domain.removed", "domain.added", "domain.verified", "domain.removed"];
    assert_eq!(actions, expected);
}

async fn an_account_has_a_hundred_domains(app: TestApp, _net: Net) {
    let ada = Prover::own(&app).await;
    for number in 0..100 {
        ada.add(&format!("n{number}.test")).await;
    }
    let refused = ada.try_add("n100.test").await;
    assert_eq!(reason(&refused), ("LIMIT_REACHED".to_owned(), json!({ "limit": "100" })));
    ada.add("n5.test").await;
    app.advance(Duration::from_hours(7 * 24)).await;
    let mut ada = ada;
    ada.renew().await;
    ada.add("n5.test").await;
    ada.try_add("n100.test").await.refused(Code::FailedPrecondition);
    ada.call("DELETE", "/n7.test", None).await.ok();
    ada.add("n100.test").await;
    Prover::another(&app, "Other").await.add("n100.test").await;
}

async fn adding_is_idempotent_by_key_and_by_name(app: TestApp, _net: Net) {
    let ada = Prover::own(&app).await;
    let body = json!({ "domain": NAME });
    let first = ada.keyed("k", "", &body).await;
    first.ok();
    let again = ada.keyed("k", "", &body).await;
    assert_eq!((again.header("idempotency-replayed"), &again.body), ("true", &first.body));
    ada.call("DELETE", &format!("/{NAME}"), None).await.ok();
    let kept = ada.keyed("k", "", &body).await;
    assert_eq!((kept.header("idempotency-replayed"), &kept.body), ("true", &first.body));
    ada.call("GET", &format!("/{NAME}"), None).await.refused(Code::NotFound);
    ada.keyed("k", "", &json!({ "domain": "other.test" })).await.refused(Code::Unprocessable);
    // A refusal is kept like any other answer.
    let refused = json!({ "domain": "co.uk" });
    ada.keyed("r", "", &refused).await.refused_field("domain");
    assert_eq!(ada.keyed("r", "", &refused).await.header("idempotency-replayed"), "true");
    for key in ["", "a b", &"k".repeat(256)] {
        ada.keyed(key, "", &body).await.refused_field("Idempotency-Key");
    }
}

async fn a_domain_whose_token_ended_is_added_anew(app: TestApp, net: Net) {
    let mut ada = Prover::own(&app).await;
    let first = ada.add(NAME).await;
    app.advance(Duration::from_hours(7 * 24) - Duration::from_millis(1)).await;
    ada.renew().await;
    assert_eq!(ada.add(NAME).await, first);
    app.clock.advance(Duration::from_millis(1));
    let second = ada.add(NAME).await;
    assert_ne!(second["record_value"], first["record_value"]);
    assert_eq!((&second["status"], &second["created_at"]), (&json!("pending"), &json!(app.clock_text())));
    assert_eq!(ada.call("GET", "", None).await.ok()["total_size"], 1);
    // One that was verified, however long ago, stays as it is; one that lost its record begins anew.
    net.publish(&second);
    let verified = ada.confirm(NAME).await.ok()["domain"].clone();
    app.advance(Duration::from_hours(7 * 24)).await;
    ada.renew().await;
    assert_eq!(ada.add(NAME).await, verified);
    net.lose(&text(&second["record_name"]));
    assert_eq!(ada.check(NAME).await.ok()["status"], "unverified");
    let third = ada.add(NAME).await;
    assert_ne!(third["record_value"], second["record_value"]);
    for empty in ["verified_at", "last_checked_at", "unverified_reason"] {
        assert_eq!(third[empty], "", "{empty}");
    }
}

async fn who_serves_a_domain_is_looked_up_when_it_is_added(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    net.zone("odd.test", &["a.dns.somewhere.net"], false);
    assert_eq!(ada.add("odd.test").await["dns_provider"], "somewhere.net");
    assert_eq!(ada.add("deep.under.acme.test").await["dns_provider"], "Cloudflare");
    // Resolvers that say nothing do not hold up who adds.
    net.fail(DnsFault::Silence);
    assert_eq!(ada.add("quiet.test").await["dns_provider"], "");
    net.clear();
    net.zone("quiet.test", &["ns1.domaincontrol.com"], false);
    assert_eq!(ada.check("quiet.test").await.ok()["domain"]["dns_provider"], "GoDaddy");
}

async fn thirty_two_callers_add_one_domain(app: TestApp, _net: Net) {
    let ada = Prover::own(&app).await;
    let adding = (0..32).map(|_| ada.add(NAME));
    let added = futures_util::future::join_all(adding).await;
    assert!(added.iter().all(|domain| *domain == added[0]), "all are told of one record");
    assert_eq!(app.count("domains").await, 1);
    let sent = TestRequest::new("GET", &ada.path("")).bearer(&ada.token);
    assert_eq!(app.send(sent).await.ok()["total_size"], 1);
    assert_eq!(ada.audit().await.len(), 1);
}

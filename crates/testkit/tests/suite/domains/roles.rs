//! Who may do what with an account's domains, what goes with it, and what other areas ask.

use portico_engine::ports::Domains;
use portico_kernel::{Code, Role};
use portico_testkit::{TestApp, TestRequest};
use serde_json::{Value, json};

use super::{NAME, Net, Prover, text};
use crate::with_dns;

with_dns! {
    strangers_see_and_move_nothing,
    members_read_and_admins_change,
    a_verified_domain_covers_itself_and_what_is_under_it,
    an_accounts_domains_go_with_it,
    what_is_asked_and_moved_is_counted,
}

async fn strangers_see_and_move_nothing(app: TestApp, net: Net) {
    let (ada, eve) = (Prover::own(&app).await, Prover::another(&app, "Eve").await);
    ada.verify(&net, NAME).await;
    let calls = [
        ("GET", String::new()),
        ("DELETE", String::new()),
        ("POST", "/check".into()),
        ("POST", "/confirm".into()),
    ];
    for (method, rest) in &calls {
        let body = (*method == "POST").then(|| json!({}));
        // In their own account there is no such domain, and in hers they may do nothing.
        eve.call(method, &format!("/{NAME}{rest}"), body.clone()).await.refused(Code::NotFound);
        let path = ada.path(&format!("/{NAME}{rest}"));
        let sent = TestRequest::new(method, &path).bearer(&eve.token);
        app.send(body.iter().fold(sent, TestRequest::json)).await.refused(Code::Forbidden);
    }
    app.send(TestRequest::new("GET", &ada.path("")).bearer(&eve.token)).await.refused(Code::Forbidden);
    let sent =
        TestRequest::new("POST", &ada.path("")).bearer(&eve.token).json(&json!({ "domain": "b.test" }));
    app.send(sent).await.refused(Code::Forbidden);
    assert_eq!(eve.call("GET", "", None).await.ok()["total_size"], 0);
    // Each scope opens its own operations.
    let read = app.token_with(app.account, "domains:read".into()).await;
    let write = app.token_with(app.account, "domains:write".into()).await;
    app.send(TestRequest::new("GET", &ada.path("")).bearer(&read)).await.ok();
    app.send(TestRequest::new("GET", &ada.path("")).bearer(&write)).await.refused(Code::Forbidden);
    let check = ada.path(&format!("/{NAME}/check"));
    app.send(TestRequest::new("POST", &check).bearer(&read).json(&json!({}))).await.refused(Code::Forbidden);
    app.send(TestRequest::new("POST", &check).bearer(&write).json(&json!({}))).await.ok();
    assert_eq!(ada.stands(NAME).await.0, "verified");
}

async fn members_read_and_admins_change(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    net.publish(&ada.add(NAME).await);
    let mut tokens = Vec::new();
    for (name, role) in [("plain", Role::Member), ("admin", Role::Admin), ("owner", Role::Owner)] {
        let person = app.new_person(&format!("{name}@example.com"), None).await.id;
        app.join(app.account, person, role).await;
        tokens.push(app.person_token(person).await);
    }
    let call = async |token: &str, method: &str, rest: &str, body: Option<Value>| {
        let sent = TestRequest::new(method, &ada.path(rest)).bearer(token);
        app.send(body.iter().fold(sent, TestRequest::json)).await
    };
    let one = format!("/{NAME}");
    for token in &tokens {
        call(token, "GET", "", None).await.ok();
        call(token, "GET", &one, None).await.ok();
    }
    let changes = [
        ("POST", String::new(), Some(json!({ "domain": "b.test" }))),
        ("POST", format!("{one}/check"), Some(json!({}))),
        ("POST", format!("{one}/confirm"), Some(json!({}))),
        ("DELETE", "/b.test".to_owned(), None),
    ];
    for (method, rest, body) in &changes {
        let refused = call(&tokens[0], method, rest, body.clone()).await.refused(Code::Forbidden);
        assert_eq!(refused["details"][0]["reason"], "ROLE_REQUIRED", "{method} {rest}");
        assert_eq!(refused["details"][0]["metadata"]["role"], "admin");
    }
    for token in &tokens[1..] {
        for (method, rest, body) in &changes {
            call(token, method, rest, body.clone()).await.ok();
        }
    }
}

async fn a_verified_domain_covers_itself_and_what_is_under_it(app: TestApp, net: Net) {
    let (ada, eve) = (Prover::own(&app).await, Prover::another(&app, "Eve").await);
    let domains = app.app.domains.clone();
    let covers = async |prover: &Prover<'_>, host: &str| {
        domains.covers(&app.app.engine, prover.account, host).await.unwrap()
    };
    net.publish(&ada.add(NAME).await);
    ada.check(NAME).await.ok();
    assert!(!covers(&ada, NAME).await, "what is seen covers nothing");
    ada.confirm(NAME).await.ok();
    for (host, covered) in [
        (NAME, true),
        ("ACME.test.", true),
        ("a.acme.test", true),
        ("a.b.acme.test", true),
        ("badacme.test", false),
        ("test", false),
        ("acme.test.evil.test", false),
        ("127.0.0.1", false),
        ("[::1]", false),
        ("", false),
    ] {
        assert_eq!(covers(&ada, host).await, covered, "{host}");
        assert!(!covers(&eve, host).await, "{host}");
    }
    // Of two accounts each keeps what it proved, and from the commit of a transfer on the loser has nothing.
    eve.verify(&net, "shop.acme.test").await;
    assert!(covers(&eve, "a.shop.acme.test").await && !covers(&eve, NAME).await);
    assert!(covers(&ada, "a.shop.acme.test").await);
    eve.verify(&net, NAME).await;
    assert!(covers(&eve, "a.acme.test").await && !covers(&ada, "a.acme.test").await);
    eve.call("DELETE", &format!("/{NAME}"), None).await.ok();
    assert!(!covers(&eve, "a.acme.test").await);
}

async fn an_accounts_domains_go_with_it(app: TestApp, net: Net) {
    let (ada, eve) = (Prover::own(&app).await, Prover::another(&app, "Eve").await);
    ada.verify(&net, NAME).await;
    ada.add("b.test").await;
    eve.add("b.test").await;
    let engine = &app.app.engine;
    let mut tx = engine.db.write().await.unwrap();
    while engine.registry.erase_some(&mut tx, app.account, 1).await.unwrap() > 0 {}
    tx.commit().await.unwrap();
    assert_eq!((app.count("domains").await, app.count("queue_items").await), (1, 1));
    assert_eq!(eve.stands("b.test").await.0, "pending");
    eve.verify(&net, NAME).await;
}

async fn what_is_asked_and_moved_is_counted(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let verified = ada.verify(&net, NAME).await;
    net.lose(&text(&verified["record_name"]));
    ada.check(NAME).await.ok();
    let metrics = app.app.engine.registry.metrics();
    let of = |name: &str, label: (&str, &str)| {
        let found = metrics.iter().find(|metric| {
            metric.name == name
                && metric.labels.iter().flatten().any(|(name, value)| (*name, *value) == label)
        });
        found.unwrap_or_else(|| panic!("{name} {label:?}")).value.clone()
    };
    let counter = |count| portico_engine::MetricValue::Counter(count);
    for (to, count) in [("pending", 1), ("seen", 0), ("verified", 1), ("unverified", 1)] {
        assert_eq!(of("domains_moved", ("to", to)), counter(count), "{to}");
    }
    let first = net.resolvers().split(',').next().unwrap().to_owned();
    let asked = |outcome: &str| {
        let found = metrics.iter().find(|metric| {
            let labels: Vec<_> = metric.labels.iter().flatten().copied().collect();
            metric.name == "dns_questions" && labels == [("resolver", first.as_str()), ("outcome", outcome)]
        });
        found.map(|metric| metric.value.clone())
    };
    assert!(asked("found").is_some() && asked("nxdomain").is_some(), "{metrics:?}");
    assert!(matches!(of("dns_seconds", ("resolver", &first)), portico_engine::MetricValue::Histogram(_)));
}

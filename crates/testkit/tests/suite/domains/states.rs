//! What a check and a confirmation move, and what they refuse.

use std::time::Duration;

use portico_kernel::Code;
use portico_store::{Select, args};
use portico_testkit::{DnsFault, TestApp};
use serde_json::{Value, json};

use super::{NAME, Net, Prover, View, reason, text};
use crate::with_dns;

with_dns! {
    a_check_tells_how_the_world_sees_the_record,
    the_way_of_a_domain,
    a_confirmation_is_refused_with_its_reason_and_changes_nothing,
    what_the_zone_itself_lacks_is_not_confirmed,
    an_expired_record_is_not_accepted,
    a_lost_domain_is_proven_again_with_the_same_record,
    a_check_ends_what_is_gone,
    what_is_unclear_moves_nothing,
    a_domain_is_checked_ten_times_a_minute,
    without_any_resolver_nothing_moves,
    a_check_is_repeated_by_its_key,
    a_domain_that_changes_during_a_look_is_left_alone,
}

const ELEMENT: [&str; 10] = [
    "authenticated",
    "checked_at",
    "hint",
    "kind",
    "latency_ms",
    "message",
    "outcome",
    "resolver",
    "ttl",
    "values",
];

fn outcomes(checked: &Value) -> Vec<String> {
    let public = |view: &&Value| view["kind"] == "public";
    checked["resolvers"]
        .as_array()
        .unwrap()
        .iter()
        .filter(public)
        .map(|view| text(&view["outcome"]))
        .collect()
}

async fn a_check_tells_how_the_world_sees_the_record(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let added = ada.add(NAME).await;
    let body = json!({ "domain": "other.test", "org_id": app.account });
    let checked = ada.call("POST", &format!("/{NAME}/check"), Some(body)).await.ok();
    let names: Vec<_> = checked.as_object().unwrap().keys().collect();
    assert_eq!(names, ["domain", "resolvers", "status"]);
    assert_eq!((&checked["status"], &checked["domain"]["status"]), (&json!("pending"), &json!("pending")));
    assert_eq!(checked["domain"]["last_checked_at"], app.clock_text());
    let views = checked["resolvers"].as_array().unwrap();
    for view in views {
        let mut fields: Vec<_> = view.as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(fields, ELEMENT);
        assert!(view["message"].as_str().is_some_and(|words| !words.is_empty()), "{view}");
    }
    let resolvers: Vec<_> = views.iter().take(4).map(|view| text(&view["resolver"])).collect();
    assert_eq!(resolvers.join(","), net.resolvers(), "in the configured order");
    assert_eq!(outcomes(&checked), ["nxdomain"; 4]);
    net.publish(&added);
    let checked = ada.check(NAME).await.ok();
    assert_eq!(outcomes(&checked), ["found"; 4]);
    let first = &checked["resolvers"][0];
    assert_eq!(first["values"], json!([added["record_value"]]));
    assert_eq!(first["hint"], "");
    // The value without its beginning proves as well, whatever stands beside it.
    let token = text(&added["record_value"]).replace("portico-verification=", "");
    net.txt(&text(&added["record_name"]), &["v=spf1 -all", &token.to_uppercase()]);
    assert_eq!(ada.check(NAME).await.ok()["status"], "seen");
    net.lose(&text(&added["record_name"]));
    net.txt(&format!("{}.{NAME}", text(&added["record_name"])), &[&text(&added["record_value"])]);
    let checked = ada.check(NAME).await.ok();
    let hints = checked["resolvers"].as_array().unwrap().iter().map(|view| text(&view["hint"]));
    assert!(hints.into_iter().all(|hint| hint == "doubled_name"), "{checked}");
    assert_eq!(checked["status"], "pending");
}

async fn the_way_of_a_domain(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let added = ada.add(NAME).await;
    let name = text(&added["record_name"]);
    // Two of four are too few, three are enough, and one that lies decides nothing.
    net.publish(&added);
    net.see(0, &name, View::Without);
    net.see(1, &name, View::ServFail);
    let checked = ada.check(NAME).await.ok();
    assert_eq!(outcomes(&checked), ["nxdomain", "servfail", "found", "found"]);
    assert_eq!(checked["status"], "pending");
    net.clear();
    net.see(3, &name, View::Without);
    assert_eq!(ada.check(NAME).await.ok()["status"], "seen");
    // It is not kept by anybody, and the record of a domain that was seen may go again.
    net.lose(&name);
    assert_eq!(ada.check(NAME).await.ok()["status"], "pending");
    net.publish(&added);
    assert_eq!(ada.check(NAME).await.ok()["status"], "seen");
    assert_eq!(ada.events().await, [], "what is seen unlocks nothing");
    app.advance(Duration::from_hours(1)).await;
    let confirmed = ada.confirm(NAME).await.ok();
    assert_eq!(confirmed.as_object().unwrap().keys().collect::<Vec<_>>(), ["domain"]);
    let domain = &confirmed["domain"];
    assert_eq!((&domain["status"], &domain["unverified_reason"]), (&json!("verified"), &json!("")));
    assert_eq!(
        (&domain["verified_at"], &domain["last_checked_at"]),
        (&json!(app.clock_text()), &json!(app.clock_text()))
    );
    assert_eq!(domain["record_value"], added["record_value"]);
    app.advance(Duration::from_hours(1)).await;
    let again = ada.confirm(NAME).await.ok()["domain"].clone();
    assert_eq!(again["verified_at"], domain["verified_at"], "it was verified before");
    assert_eq!(again["last_checked_at"], app.clock_text());
    assert_eq!(ada.add(NAME).await, again);
    assert_eq!(ada.events().await, [("domain.verified".to_owned(), ada.actor().await)]);
    let actions: Vec<_> = ada.audit().await.into_iter().map(|(action, ..)| action).collect();
    assert_eq!(actions, ["domain.added", "domain.verified"]);
}

async fn a_confirmation_is_refused_with_its_reason_and_changes_nothing(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let added = ada.add(NAME).await;
    let name = text(&added["record_name"]);
    let refused = reason(&ada.confirm(NAME).await);
    let metadata = json!({ "found": "0", "needed": "3", "asked": "4", "hint": "" });
    assert_eq!(refused, ("RECORD_NOT_SEEN".to_owned(), metadata));
    assert_eq!(ada.get(NAME).await, added, "nothing was changed");
    net.txt(&name, &["portico-verification=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]);
    let (_, metadata) = reason(&ada.confirm(NAME).await);
    assert_eq!(metadata["hint"], "stale_value");
    net.publish(&added);
    net.see(0, &name, View::Without);
    net.see(1, &name, View::ServFail);
    let (_, metadata) = reason(&ada.confirm(NAME).await);
    assert_eq!(
        (&metadata["found"], &metadata["needed"], &metadata["asked"]),
        (&json!("2"), &json!("3"), &json!("4"))
    );
    net.clear();
    // A domain that is verified is confirmed, or stays as it is.
    let verified = ada.confirm(NAME).await.ok()["domain"].clone();
    net.lose(&name);
    reason(&ada.confirm(NAME).await);
    assert_eq!(ada.get(NAME).await, verified);
    assert_eq!(ada.events().await.len(), 1);
}

async fn what_the_zone_itself_lacks_is_not_confirmed(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    net.zone("own.test", &["ns1.own.test", "ns2.own.test"], true);
    let added = ada.add("own.test").await;
    let name = text(&added["record_name"]);
    let asked = net.asked_resolvers(&name);
    let checked = ada.check("own.test").await.ok();
    assert_eq!(outcomes(&checked), ["not_asked"; 4], "asking would plant its absence");
    let kinds: Vec<_> =
        checked["resolvers"].as_array().unwrap().iter().skip(4).map(|view| text(&view["kind"])).collect();
    assert!(!kinds.is_empty() && kinds.iter().all(|kind| kind == "authoritative"), "{checked}");
    let (refused, metadata) = reason(&ada.confirm("own.test").await);
    assert_eq!((refused.as_str(), metadata.as_object().unwrap().len()), ("NOT_AUTHORITATIVE", 1));
    assert_eq!(net.asked_resolvers(&name), asked);
    net.publish(&added);
    assert_eq!(ada.confirm("own.test").await.ok()["domain"]["status"], "verified");
}

async fn an_expired_record_is_not_accepted(app: TestApp, net: Net) {
    let mut ada = Prover::own(&app).await;
    let added = ada.add(NAME).await;
    ada.add("api.acme.test").await;
    net.publish(&added);
    app.advance(Duration::from_hours(7 * 24)).await;
    ada.renew().await;
    assert_eq!(ada.stands(NAME).await.0, "pending", "nobody has looked yet");
    assert_eq!(reason(&ada.confirm(NAME).await), ("TOKEN_EXPIRED".to_owned(), json!({})));
    assert_eq!(ada.stands(NAME).await.0, "pending", "a refusal changes nothing");
    assert_eq!(ada.check(NAME).await.ok()["status"], "unverified");
    assert_eq!(ada.stands(NAME).await, ("unverified".to_owned(), "token_expired".to_owned()));
    assert_eq!(reason(&ada.confirm(NAME).await).0, "TOKEN_EXPIRED");
    assert_eq!(ada.check(NAME).await.ok()["status"], "unverified", "and stays so");
    assert_eq!(ada.events().await, [], "it was never verified");
}

async fn a_lost_domain_is_proven_again_with_the_same_record(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let verified = ada.verify(&net, NAME).await;
    net.lose(&text(&verified["record_name"]));
    ada.check(NAME).await.ok();
    net.publish(&verified);
    let seen = ada.check(NAME).await.ok()["domain"].clone();
    assert_eq!((&seen["status"], &seen["unverified_reason"]), (&json!("seen"), &json!("")));
    assert_eq!(seen["record_value"], verified["record_value"]);
    ada.confirm(NAME).await.ok();
    net.lose(&text(&verified["record_name"]));
    ada.check(NAME).await.ok();
    net.publish(&verified);
    assert_eq!(ada.confirm(NAME).await.ok()["domain"]["status"], "verified", "without a check, too");
    let events: Vec<_> = ada.events().await.into_iter().map(|(name, _)| name).collect();
    let (verified, lost) = ("domain.verified", "domain.unverified");
    assert_eq!(events, [verified, lost, verified, lost, verified]);
}

async fn a_check_ends_what_is_gone(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let name = text(&ada.verify(&net, NAME).await["record_name"]);
    net.txt(&name, &["something else"]);
    let checked = ada.check(NAME).await.ok();
    assert_eq!(checked["status"], "unverified");
    assert_eq!(checked["domain"]["unverified_reason"], "record_changed");
    assert_ne!(checked["domain"]["verified_at"], "", "it was verified once");
    let actor = ada.actor().await;
    assert_eq!(ada.events().await[1], ("domain.unverified".to_owned(), actor.clone()));
    assert_eq!(ada.audit().await[2], ("domain.unverified".to_owned(), actor, true));
    let below = ada.verify(&net, "api.acme.test").await;
    net.lose(&text(&below["record_name"]));
    assert_eq!(ada.check("api.acme.test").await.ok()["domain"]["unverified_reason"], "record_missing");
}

async fn what_is_unclear_moves_nothing(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let verified = ada.verify(&net, NAME).await;
    let name = text(&verified["record_name"]);
    // Two see it and two do not: neither is it seen, nor is it gone.
    net.see(0, &name, View::Without);
    net.see(1, &name, View::Without);
    let checked = ada.check(NAME).await.ok()["domain"].clone();
    let mut expected = verified.clone();
    expected["last_checked_at"] = checked["last_checked_at"].clone();
    assert_eq!(checked, expected);
    net.clear();
    let below = ada.add("api.acme.test").await;
    net.publish(&below);
    assert_eq!(ada.check("api.acme.test").await.ok()["status"], "seen");
    let below = text(&below["record_name"]);
    net.see(0, &below, View::ServFail);
    net.see(1, &below, View::ServFail);
    assert_eq!(ada.check("api.acme.test").await.ok()["status"], "pending");
}

async fn a_domain_is_checked_ten_times_a_minute(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    net.publish(&ada.add(NAME).await);
    ada.add("api.acme.test").await;
    for number in 0..10 {
        let rest = if number % 2 == 0 { "check" } else { "confirm" };
        ada.call("POST", &format!("/{NAME}/{rest}"), Some(json!({}))).await.ok();
        app.advance(Duration::from_secs(1)).await;
    }
    for rest in ["check", "confirm"] {
        let refused = ada.call("POST", &format!("/{NAME}/{rest}"), Some(json!({}))).await;
        let problem = refused.refused(Code::RateLimited);
        assert_eq!(refused.header("retry-after"), "50", "{problem}");
        assert!(problem["details"].as_array().unwrap().iter().any(|detail| detail["type"] == "retry"));
    }
    ada.check("api.acme.test").await.ok();
    let other = Prover::another(&app, "Other").await;
    other.add(NAME).await;
    other.check(NAME).await.ok();
    app.advance(Duration::from_secs(50)).await;
    ada.check(NAME).await.ok();
    ada.check(NAME).await.refused(Code::RateLimited);
}

async fn without_any_resolver_nothing_moves(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let verified = ada.verify(&net, NAME).await;
    net.fail(DnsFault::Silence);
    for rest in ["check", "confirm"] {
        let refused = ada.call("POST", &format!("/{NAME}/{rest}"), Some(json!({}))).await;
        let problem = refused.refused(Code::Unavailable);
        let details = problem["details"].as_array().unwrap();
        assert!(details.iter().any(|detail| detail["reason"] == "RESOLVERS_UNREACHABLE"), "{problem}");
    }
    assert_eq!(ada.get(NAME).await, verified);
    // SERVFAIL is an answer.
    net.clear();
    net.fail(DnsFault::ServFail);
    assert_eq!(ada.check(NAME).await.ok()["status"], "verified");
}

async fn a_check_is_repeated_by_its_key(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let added = ada.add(NAME).await;
    let first = ada.keyed("k", &format!("/{NAME}/check"), &json!({})).await;
    assert_eq!(first.ok()["status"], "pending");
    net.publish(&added);
    let again = ada.keyed("k", &format!("/{NAME}/check"), &json!({})).await;
    assert_eq!((again.header("idempotency-replayed"), &again.body), ("true", &first.body));
    assert_eq!(ada.get(NAME).await["status"], "pending", "nobody looked");
    let other = ada.keyed("other", &format!("/{NAME}/check"), &json!({})).await;
    assert_eq!(other.ok()["status"], "seen");
    // What nobody could answer is not kept: a repeat looks.
    net.fail(DnsFault::Silence);
    ada.keyed("u", &format!("/{NAME}/check"), &json!({})).await.refused(Code::Unavailable);
    net.clear();
    let repeated = ada.keyed("u", &format!("/{NAME}/check"), &json!({})).await;
    assert_eq!(
        (repeated.ok()["status"].clone(), repeated.header("idempotency-replayed")),
        (json!("seen"), "")
    );
    let counted: String =
        app.app.engine.db.query().value("select checks as value from domains", args![]).await.unwrap();
    assert_eq!(counted.split(' ').count(), 3, "a repeat is no further check");
}

/// While resolvers are asked the domain is removed, or added anew.
async fn a_domain_that_changes_during_a_look_is_left_alone(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    for rest in ["check", "confirm"] {
        let added = ada.add(NAME).await;
        let name = text(&added["record_name"]);
        net.publish(&added);
        let remove = async {
            net.held(&name).await;
            ada.call("DELETE", &format!("/{NAME}"), None).await.ok();
        };
        net.hold();
        let path = format!("/{NAME}/{rest}");
        let (answer, ()) = tokio::join!(ada.call("POST", &path, Some(json!({}))), remove);
        answer.refused(Code::NotFound);
        assert_eq!(app.count("domains").await, 0);
    }
    for rest in ["check", "confirm"] {
        let added = ada.add(NAME).await;
        let name = text(&added["record_name"]);
        net.publish(&added);
        let renew = async {
            net.held(&name).await;
            ada.call("DELETE", &format!("/{NAME}"), None).await.ok();
            ada.add(NAME).await;
        };
        net.hold();
        let path = format!("/{NAME}/{rest}");
        let (answer, ()) = tokio::join!(ada.call("POST", &path, Some(json!({}))), renew);
        if rest == "check" {
            assert_eq!(answer.ok()["status"], "pending", "the record of the earlier token proves nothing");
        } else {
            answer.refused(Code::Conflict);
        }
        let domain = ada.get(NAME).await;
        assert_eq!((&domain["status"], &domain["last_checked_at"]), (&json!("pending"), &json!("")));
        ada.call("DELETE", &format!("/{NAME}"), None).await.ok();
    }
    assert_eq!(ada.events().await, []);
}

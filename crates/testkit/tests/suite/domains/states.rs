//! What a check and a confirmation move, and what they refuse.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use portico_kernel::{Code, DomainId};
use portico_store::{Select, args};
use portico_testkit::{Database, DnsFault, TestApp, turn, until};
use serde_json::{Value, json};

use super::{NAME, Net, Prover, View, place, reason, text};
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
    nobody_checks_more_often_by_removing_and_adding_or_by_a_key,
    an_account_has_a_share_of_looks,
    without_any_resolver_nothing_moves,
    a_check_is_repeated_by_its_key,
    a_domain_that_changes_during_a_look_is_left_alone,
    a_look_that_began_earlier_undoes_no_later_one,
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

async fn nobody_checks_more_often_by_removing_and_adding_or_by_a_key(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    ada.add(NAME).await;
    for _ in 0..9 {
        ada.check(NAME).await.ok();
        ada.call("DELETE", &format!("/{NAME}"), None).await.ok();
        ada.add(NAME).await;
    }
    // What nobody could answer was a check, and so is its repeat.
    net.fail(DnsFault::Silence);
    let keyed = async || ada.keyed("k", &format!("/{NAME}/check"), &json!({})).await;
    keyed().await.refused(Code::Unavailable);
    net.clear();
    keyed().await.refused(Code::RateLimited);
    ada.call("DELETE", &format!("/{NAME}"), None).await.ok();
    ada.add(NAME).await;
    ada.check(NAME).await.refused(Code::RateLimited);
    let other = Prover::another(&app, "Other").await;
    other.add(NAME).await;
    other.check(NAME).await.ok();
    // They are kept for as long as they count.
    ada.call("DELETE", &format!("/{NAME}"), None).await.ok();
    assert_eq!(app.count("domain_checks").await, 1);
    app.advance(Duration::from_secs(59)).await;
    turn(&app, "domains.forget_checks").await;
    assert_eq!(app.count("domain_checks").await, 1);
    app.advance(Duration::from_secs(1)).await;
    turn(&app, "domains.forget_checks").await;
    assert_eq!(app.count("domain_checks").await, 0);
    ada.add(NAME).await;
    keyed().await.ok();
}

async fn an_account_has_a_share_of_looks(app: TestApp, net: Net) {
    let (ada, eve) = (Prover::own(&app).await, Prover::another(&app, "Eve").await);
    let names: Vec<_> = (0..12).map(|number| format!("share{number}.test")).collect();
    for name in &names {
        ada.add(name).await;
    }
    eve.add(NAME).await;
    net.forget();
    net.slow(true);
    let mut checks: FuturesUnordered<_> = names.iter().map(|name| ada.check(name)).collect();
    // When the first four have ended, four more at most can have begun.
    checks.next().await.unwrap().ok();
    let asked = net.asked_of(&names);
    assert!((4..=8).contains(&asked), "{asked}");
    // Somebody else does not wait for them.
    eve.check(NAME).await.ok();
    net.slow(false);
    while let Some(checked) = checks.next().await {
        assert_eq!(checked.ok()["status"], "pending", "the others waited for their turn");
    }
    assert_eq!(net.asked_of(&names), names.len());
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
    assert_eq!(counted.split(' ').count(), 4, "a repeat that looks is a further check");
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

/// While resolvers are asked somebody else asks, and is answered earlier.
async fn a_look_that_began_earlier_undoes_no_later_one(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let verified = ada.verify(&net, NAME).await;
    let name = text(&verified["record_name"]);
    let confirmed = async {
        net.held(&name).await;
        app.advance(Duration::from_secs(1)).await;
        let confirmed = ada.confirm(NAME).await.ok()["domain"].clone();
        // What the earlier look is answered in the end.
        net.lose(&name);
        confirmed
    };
    net.hold();
    let (checked, confirmed) = tokio::join!(ada.check(NAME), confirmed);
    assert_eq!((&checked.ok()["status"], outcomes(&checked.ok()).len()), (&json!("verified"), 4));
    assert_eq!(ada.get(NAME).await, confirmed, "the check changed nothing");
    assert_eq!(ada.events().await.len(), 1);
    // Nor does an earlier confirmation undo what a later check found.
    net.publish(&verified);
    let checked = async {
        net.held(&name).await;
        app.advance(Duration::from_secs(1)).await;
        net.lose(&name);
        let checked = ada.check(NAME).await.ok();
        net.txt(&name, &[&text(&verified["record_value"])]);
        checked
    };
    net.hold();
    let (confirmed, checked) = tokio::join!(ada.confirm(NAME), checked);
    confirmed.refused(Code::Conflict);
    assert_eq!(checked["status"], "unverified");
    assert_eq!(ada.get(NAME).await, checked["domain"]);
    assert_eq!(ada.confirm(NAME).await.ok()["domain"]["status"], "verified");
}

/// A check waits for the row of a domain that is added anew in the transaction which it waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_waits_for_a_row_finds_the_one_in_its_place() {
    const RENEW: &str = "with earlier as (delete from domains where name = $1 returning *) insert into domains select \
         $2, account_id, name, scope, status, token, dns_provider, created_at, verified_at, last_checked_at, expires_at, \
         unverified_reason, verified_servers, misses, missed_since, gone_since, ends_at, unreachable_since, checks, \
         next_look_at from earlier";
    let (app, net) = place(Database::Postgres).await;
    let ada = Prover::own(&app).await;
    let name = text(&ada.add(NAME).await["record_name"]);
    let engine = &app.app.engine;
    let renewed = async {
        net.held(&name).await;
        let id: DomainId = engine.entropy.id(engine.clock.now());
        let mut tx = engine.db.write().await.unwrap();
        assert_eq!(tx.execute(RENEW, args![NAME.to_owned(), id]).await.unwrap(), 1);
        until("the check waits for the row", async || {
            let waiting = "select count(*) as value from pg_stat_activity where wait_event_type = 'Lock' \
                           and datname = current_database()";
            engine.db.query().value::<i64>(waiting, args![]).await.unwrap() > 0
        })
        .await;
        tx.commit().await.unwrap();
    };
    net.hold();
    let (checked, ()) = tokio::join!(ada.check(NAME), renewed);
    let checked = checked.ok();
    assert_eq!((&checked["status"], &checked["domain"]["last_checked_at"]), (&json!("pending"), &json!("")));
}

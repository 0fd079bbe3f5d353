//! A domain that another account proves.

use std::time::Duration;

use portico_kernel::{Code, Role};
use portico_store::{Select, args};
use portico_testkit::{Database, TestApp, TestRequest};
use serde_json::json;

use super::{NAME, Net, Prover, place, text};
use crate::with_dns;

with_dns! {
    whoever_proves_it_last_holds_it,
    equal_names_alone_are_transferred,
    an_account_that_is_about_to_be_erased_loses_a_domain_like_any_other,
    of_two_that_confirm_at_once_one_holds_it,
}

/// How often two accounts confirm at once.
const ROUNDS: usize = 200;

async fn whoever_proves_it_last_holds_it(app: TestApp, net: Net) {
    let (ada, eve) = (Prover::own(&app).await, Prover::another(&app, "Eve").await);
    ada.verify(&net, NAME).await;
    let added = eve.add(NAME).await;
    assert_eq!((&added["status"], &added["unverified_reason"]), (&json!("pending"), &json!("")));
    net.publish(&added);
    assert_eq!(eve.check(NAME).await.ok()["status"], "seen");
    assert_eq!(ada.stands(NAME).await.0, "verified", "what is seen takes nothing");
    app.advance(Duration::from_hours(1)).await;
    eve.confirm(NAME).await.ok();
    assert_eq!(ada.stands(NAME).await, ("unverified".to_owned(), "transferred".to_owned()));
    let platform = || "platform".to_owned();
    let told = |name: &str, actor: String| (name.to_owned(), actor);
    let expected = [
        told("domain.verified", ada.actor().await),
        told("domain.unverified", platform()),
        told("domain.transferred", platform()),
    ];
    assert_eq!(ada.events().await, expected);
    assert_eq!(eve.events().await, [told("domain.verified", eve.actor().await)]);
    // Neither the log nor anything else tells who has it now, or by which call.
    assert_eq!(ada.audit().await.last(), Some(&("domain.unverified".to_owned(), platform(), false)));
    let audit = format!("/v1/accounts/orgs/{}/audit", app.account);
    let audit = app.send(TestRequest::new("GET", &audit).bearer(&ada.token)).await;
    for secret in [eve.actor().await, eve.account.to_string()] {
        assert!(!audit.text().contains(&secret));
    }
    // The look of the platform leaves it alone, and the same record takes it back.
    assert_eq!(ada.check(NAME).await.ok()["status"], "seen");
    assert_eq!(ada.confirm(NAME).await.ok()["domain"]["status"], "verified");
    assert_eq!(eve.stands(NAME).await, ("unverified".to_owned(), "transferred".to_owned()));
}

async fn equal_names_alone_are_transferred(app: TestApp, net: Net) {
    let (ada, eve) = (Prover::own(&app).await, Prover::another(&app, "Eve").await);
    ada.verify(&net, NAME).await;
    eve.verify(&net, "shop.acme.test").await;
    assert_eq!(ada.stands(NAME).await.0, "verified");
    assert_eq!(eve.stands("shop.acme.test").await.0, "verified");
    // What an account has not proven, it cannot take, and it does not learn that there is something to take.
    let refused = eve.try_add(NAME).await.ok();
    assert_eq!(refused["domain"]["status"], "pending");
    eve.confirm(NAME).await.refused(Code::FailedPrecondition);
    assert_eq!(ada.stands(NAME).await.0, "verified");
    eve.call("GET", "/other.test", None).await.refused(Code::NotFound);
}

async fn an_account_that_is_about_to_be_erased_loses_a_domain_like_any_other(app: TestApp, net: Net) {
    let (ada, eve) = (Prover::own(&app).await, Prover::another(&app, "Eve").await);
    let owner = app.new_person("owner@example.com", None).await.id;
    app.join(app.account, owner, Role::Owner).await;
    let owner = app.person_token(owner).await;
    ada.verify(&net, NAME).await;
    let path = format!("/v1/accounts/orgs/{}", app.account);
    app.send(TestRequest::new("DELETE", &path).bearer(&owner)).await.ok();
    let as_owner = |method: &str, rest: &str| TestRequest::new(method, &ada.path(rest)).bearer(&owner);
    let refused = app.send(as_owner("POST", "").json(&json!({ "domain": "new.test" }))).await;
    assert_eq!(refused.refused(Code::FailedPrecondition)["details"][0]["reason"], "ACCOUNT_CLOSED");
    let refused = app.send(as_owner("POST", &format!("/{NAME}/confirm")).json(&json!({}))).await;
    assert_eq!(refused.refused(Code::FailedPrecondition)["details"][0]["reason"], "ACCOUNT_CLOSED");
    eve.verify(&net, NAME).await;
    let lost = app.send(as_owner("GET", &format!("/{NAME}"))).await.ok();
    assert_eq!(lost["domain"]["unverified_reason"], "transferred");
}

/// How often the name has been verified by an account, and lost to another one.
async fn transfers(prover: &Prover<'_>) -> (i64, i64, i64) {
    let mut query = prover.app.app.engine.db.query();
    let mut counts = Vec::new();
    for name in ["domain.verified", "domain.unverified", "domain.transferred"] {
        let count = "select count(*) as value from events where account_id = $1 and type = $2";
        counts.push(query.value(count, args![prover.account, name.to_owned()]).await.unwrap());
    }
    (counts[0], counts[1], counts[2])
}

/// Both confirm, `rounds` times. After each round exactly one holds the domain, and events say how that came.
async fn contend(ada: &Prover<'_>, eve: &Prover<'_>, net: &Net, rounds: usize) {
    for prover in [ada, eve] {
        net.publish(&prover.add(NAME).await);
    }
    for round in 0..rounds {
        let (first, second) = tokio::join!(ada.confirm(NAME), eve.confirm(NAME));
        // Each held it for a moment, unless the other one came first and took nothing.
        for answer in [first, second] {
            assert_eq!(text(&answer.ok()["domain"]["status"]), "verified");
        }
        let (ours, theirs) = (ada.stands(NAME).await, eve.stands(NAME).await);
        let lost = ("unverified".to_owned(), "transferred".to_owned());
        let held = ("verified".to_owned(), String::new());
        let one_holds_it = (ours == held && theirs == lost) || (ours == lost && theirs == held);
        assert!(one_holds_it, "round {round}: {ours:?} and {theirs:?}");
        let (of_ada, of_eve) = (transfers(ada).await, transfers(eve).await);
        for (verified, unverified, transferred) in [of_ada, of_eve] {
            assert_eq!(unverified, transferred);
            assert!((0..=1).contains(&(verified - unverified)), "{verified} {unverified}");
        }
        assert_eq!(of_ada.0 + of_eve.0, of_ada.2 + of_eve.2 + 1, "each but one was lost to the other");
        ada.app.advance(Duration::from_secs(7)).await;
    }
    let (of_ada, of_eve) = (transfers(ada).await, transfers(eve).await);
    assert!(of_ada.2 + of_eve.2 >= i64::try_from(rounds).unwrap(), "every round moved it");
    let holders = "select count(*) as value from domains where status = 'verified'";
    let holders: i64 = ada.app.app.engine.db.query().value(holders, args![]).await.unwrap();
    assert_eq!((holders, ada.app.count("domain_locks").await), (1, 0));
}

async fn of_two_that_confirm_at_once_one_holds_it(app: TestApp, net: Net) {
    let (ada, eve) = (Prover::own(&app).await, Prover::another(&app, "Eve").await);
    contend(&ada, &eve, &net, ROUNDS).await;
}

/// The same with a server for each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_confirm_at_two_servers_one_holds_it() {
    let (app, net) = place(Database::Postgres).await;
    let beside = app.beside_with(net.options()).await;
    let ada = Prover::own(&app).await;
    let eve = Prover::of(&beside, app.new_account("Eve").await).await;
    for prover in [&ada, &eve] {
        net.publish(&prover.add(NAME).await);
    }
    for _ in 0..50 {
        let (first, second) = tokio::join!(ada.confirm(NAME), eve.confirm(NAME));
        first.ok();
        second.ok();
        let held = [ada.stands(NAME).await.0, eve.stands(NAME).await.0];
        assert_eq!(held.iter().filter(|status| *status == "verified").count(), 1, "{held:?}");
        app.advance(Duration::from_secs(7)).await;
        beside.catch_up().await;
    }
}

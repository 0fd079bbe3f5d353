//! The looks of the platform itself: when it looks, and what ends when.

use std::time::Duration;

use portico_engine::{JobOutcome, MetricValue};
use portico_kernel::{Clock, Timestamp};
use portico_store::{Select, args};
use portico_testkit::{Database, DnsFault, TestApp, turn};
use serde_json::json;

use super::{NAME, Net, Prover, View, place, text};
use crate::with_dns;

with_dns! {
    a_new_domain_is_looked_at_on_its_schedule_until_its_record_ends,
    a_look_sees_the_record_and_confirms_nothing,
    a_verified_domain_is_looked_at_every_day,
    a_record_that_is_gone_ends_after_72_hours,
    a_record_that_is_gone_from_other_servers_ends_after_24_hours,
    what_nobody_can_tell_ends_after_seven_days,
    a_record_that_comes_back_in_time_ends_nothing,
    while_no_resolver_answers_nothing_moves,
    time_that_passed_while_no_server_ran_is_one_look,
    a_check_begins_what_had_ended,
    looks_go_at_a_pace,
    a_domain_that_is_removed_meanwhile_is_left_alone,
}

const LOOK: &str = "domains.look";

/// When the domain was last looked at.
async fn looked_at(app: &TestApp) -> Option<Timestamp> {
    let last = "select last_checked_at as value from domains order by id desc limit 1";
    app.app.engine.db.query().value(last, args![]).await.unwrap()
}

/// When it is due next.
async fn due_at(app: &TestApp) -> Option<Timestamp> {
    let next = "select next_look_at as value from domains order by id desc limit 1";
    app.app.engine.db.query().value(next, args![]).await.unwrap()
}

/// Lets time go by until the next look is due, looks, and returns how much that was.
async fn next_look(app: &TestApp) -> Option<Duration> {
    let due = due_at(app).await?;
    let wait = due.since(app.clock.now());
    if !wait.is_zero() {
        app.clock.advance(wait.saturating_sub(Duration::from_micros(1)));
        let before = looked_at(app).await;
        turn(app, LOOK).await;
        assert_eq!(looked_at(app).await, before, "it was not due yet");
        app.clock.advance(Duration::from_micros(1));
    }
    turn(app, LOOK).await;
    // So that calls are answered, however long that was.
    app.catch_up().await;
    Some(wait)
}

async fn a_new_domain_is_looked_at_on_its_schedule_until_its_record_ends(app: TestApp, _net: Net) {
    let mut ada = Prover::own(&app).await;
    ada.add(NAME).await;
    let added = app.clock.now();
    let mut looks = Vec::new();
    while next_look(&app).await.is_some() {
        looks.push(app.clock.now().since(added).as_secs() / 60);
        if due_at(&app).await.is_some() {
            assert_eq!(looked_at(&app).await, Some(app.clock.now()));
        }
    }
    assert_eq!(looks[..7], [1, 2, 5, 10, 30, 60, 120]);
    assert_eq!(looks[28..30], [24 * 60, 30 * 60]);
    assert_eq!((looks.len(), looks.last()), (53, Some(&(7 * 24 * 60))));
    ada.renew().await;
    assert_eq!(ada.stands(NAME).await, ("unverified".to_owned(), "token_expired".to_owned()));
    assert_eq!(ada.events().await, [], "it was never verified");
    assert_eq!(app.count("queue_items").await, 0, "and is looked at never again");
}

async fn a_look_sees_the_record_and_confirms_nothing(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let added = ada.add(NAME).await;
    next_look(&app).await;
    let domain = ada.get(NAME).await;
    assert_eq!(
        (&domain["status"], &domain["last_checked_at"]),
        (&json!("pending"), &json!(app.clock_text()))
    );
    net.publish(&added);
    next_look(&app).await;
    assert_eq!(ada.stands(NAME).await.0, "seen");
    net.lose(&text(&added["record_name"]));
    next_look(&app).await;
    assert_eq!(ada.stands(NAME).await.0, "pending");
    net.publish(&added);
    next_look(&app).await;
    assert_eq!((ada.stands(NAME).await.0.as_str(), ada.events().await.len()), ("seen", 0));
}

async fn a_verified_domain_is_looked_at_every_day(app: TestApp, net: Net) {
    let mut ada = Prover::own(&app).await;
    ada.verify(&net, NAME).await;
    let mut gaps = Vec::new();
    for _ in 0..30 {
        gaps.push(next_look(&app).await.unwrap());
        assert_eq!(looked_at(&app).await, Some(app.clock.now()));
    }
    assert!(gaps.iter().all(|gap| (20..=24).contains(&(gap.as_secs() / 3600))), "{gaps:?}");
    gaps.dedup();
    assert!(gaps.len() > 20, "by chance, so that domains are not all looked at together");
    ada.renew().await;
    assert_eq!(ada.stands(NAME).await.0, "verified");
    // A look that somebody asked for counts as well.
    let before = app.clock.now();
    app.advance(Duration::from_hours(10)).await;
    ada.check(NAME).await.ok();
    assert!(due_at(&app).await.unwrap().since(before) >= Duration::from_hours(30));
    assert_eq!((ada.events().await.len(), app.count("queue_items").await), (1, 1));
}

/// Looks until the domain is verified no more; returns how long after the first look that missed it, and what was told.
async fn until_it_ends(app: &TestApp, ada: &mut Prover<'_>) -> Duration {
    next_look(app).await;
    let first = app.clock.now();
    loop {
        ada.renew().await;
        if ada.stands(NAME).await.0 != "verified" {
            return app.clock.now().since(first);
        }
        assert_ne!(ada.stands(NAME).await.1, "", "it says why it will end");
        assert!(next_look(app).await.is_some());
    }
}

/// The platform ended it, once, and said before that it would.
async fn ended_by_the_platform(ada: &Prover<'_>) {
    let platform = "platform".to_owned();
    assert_eq!(ada.events().await.last(), Some(&("domain.unverified".to_owned(), platform.clone())));
    let audit: Vec<_> = ada
        .audit()
        .await
        .into_iter()
        .filter(|(_, actor, _)| *actor == platform)
        .map(|(action, ..)| action)
        .collect();
    assert_eq!(audit, ["domain.missing", "domain.unverified"]);
}

async fn a_record_that_is_gone_ends_after_72_hours(app: TestApp, net: Net) {
    let mut ada = Prover::own(&app).await;
    let name = text(&ada.verify(&net, NAME).await["record_name"]);
    net.lose(&name);
    assert_eq!(until_it_ends(&app, &mut ada).await, Duration::from_hours(72));
    assert_eq!(ada.stands(NAME).await.1, "record_missing");
    ended_by_the_platform(&ada).await;
    assert_eq!(due_at(&app).await, None);
}

async fn a_record_that_is_gone_from_other_servers_ends_after_24_hours(app: TestApp, net: Net) {
    let mut ada = Prover::own(&app).await;
    let name = text(&ada.verify(&net, NAME).await["record_name"]);
    net.zone(NAME, &["ns1.domaincontrol.com", "ns2.domaincontrol.com"], false);
    net.txt(&name, &["somebody else's"]);
    assert_eq!(until_it_ends(&app, &mut ada).await, Duration::from_hours(24));
    let domain = ada.get(NAME).await;
    assert_eq!(
        (&domain["unverified_reason"], &domain["dns_provider"]),
        (&json!("record_changed"), &json!("GoDaddy"))
    );
    ended_by_the_platform(&ada).await;
}

async fn what_nobody_can_tell_ends_after_seven_days(app: TestApp, net: Net) {
    let mut ada = Prover::own(&app).await;
    ada.verify(&net, NAME).await;
    net.fail(DnsFault::ServFail);
    assert_eq!(until_it_ends(&app, &mut ada).await, Duration::from_hours(7 * 24));
    assert_eq!(ada.stands(NAME).await.1, "unresolvable");
    ended_by_the_platform(&ada).await;
}

async fn a_record_that_comes_back_in_time_ends_nothing(app: TestApp, net: Net) {
    let mut ada = Prover::own(&app).await;
    let verified = ada.verify(&net, NAME).await;
    let name = text(&verified["record_name"]);
    net.lose(&name);
    let mut gaps = Vec::new();
    next_look(&app).await;
    for _ in 0..4 {
        gaps.push(next_look(&app).await.unwrap().as_secs() / 60);
    }
    assert_eq!(gaps, [15, 60, 360, 720]);
    ada.renew().await;
    assert_eq!(ada.stands(NAME).await, ("verified".to_owned(), "record_missing".to_owned()));
    // One resolver that still does not see it decides nothing.
    net.publish(&verified);
    net.see(2, &name, View::Without);
    next_look(&app).await;
    ada.renew().await;
    assert_eq!(ada.stands(NAME).await, ("verified".to_owned(), String::new()));
    assert!(next_look(&app).await.unwrap() >= Duration::from_hours(20));
    ada.renew().await;
    let actions: Vec<_> = ada.audit().await.into_iter().map(|(action, ..)| action).collect();
    assert_eq!(actions, ["domain.added", "domain.verified", "domain.missing"]);
    assert_eq!(ada.events().await.len(), 1);
}

async fn while_no_resolver_answers_nothing_moves(app: TestApp, net: Net) {
    let mut ada = Prover::own(&app).await;
    let verified = ada.verify(&net, NAME).await;
    net.fail(DnsFault::ServFail);
    next_look(&app).await;
    let first = app.clock.now();
    net.fail(DnsFault::Silence);
    let due = due_at(&app).await.unwrap();
    app.clock.advance(due.since(app.clock.now()));
    turn(&app, LOOK).await;
    assert_eq!(
        (looked_at(&app).await, due_at(&app).await),
        (Some(first), Some(due)),
        "it is due all the same"
    );
    app.clock.advance(Duration::from_mins(5) - Duration::from_micros(1));
    assert_eq!(net.asked_while(turn(&app, LOOK)).await, 0);
    app.clock.advance(Duration::from_micros(1));
    assert_ne!(net.asked_while(turn(&app, LOOK)).await, 0, "five minutes later it is tried again");
    // A hundred hours like this do not count.
    app.clock.advance(Duration::from_hours(100) - Duration::from_mins(5));
    net.clear();
    net.fail(DnsFault::ServFail);
    turn(&app, LOOK).await;
    let resumed = app.clock.now();
    ada.renew().await;
    assert_eq!(ada.stands(NAME).await, ("verified".to_owned(), "unresolvable".to_owned()));
    while ada.stands(NAME).await.0 == "verified" {
        assert!(next_look(&app).await.is_some());
        ada.renew().await;
    }
    let counted = app.clock.now().since(resumed) + due.since(first);
    assert_eq!(counted, Duration::from_hours(7 * 24));
    assert_ne!(verified["verified_at"], "");
}

async fn time_that_passed_while_no_server_ran_is_one_look(app: TestApp, net: Net) {
    let mut ada = Prover::own(&app).await;
    let added = ada.add(NAME).await;
    // Over midnight, the end of a month, and eleven looks that were missed.
    app.clock.advance(Duration::from_hours(15));
    net.publish(&added);
    assert_ne!(net.asked_while(turn(&app, LOOK)).await, 0);
    assert_eq!(net.asked_while(turn(&app, LOOK)).await, 0, "what was missed is not made up for");
    assert_eq!(due_at(&app).await, Some(app.clock.now() + Duration::from_hours(1)));
    ada.renew().await;
    assert_eq!(ada.confirm(NAME).await.ok()["domain"]["status"], "verified");
    // So long nobody missed the record, so its grace begins with the first look that does.
    net.lose(&text(&added["record_name"]));
    app.clock.advance(Duration::from_hours(24 * 60));
    turn(&app, LOOK).await;
    ada.renew().await;
    assert_eq!(ada.stands(NAME).await, ("verified".to_owned(), "record_missing".to_owned()));
}

async fn a_check_begins_what_had_ended(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let verified = ada.verify(&net, NAME).await;
    net.lose(&text(&verified["record_name"]));
    ada.check(NAME).await.ok();
    assert_eq!(due_at(&app).await, None);
    app.advance(Duration::from_hours(24)).await;
    turn(&app, LOOK).await;
    assert_eq!(app.count("queue_items").await, 0);
    net.publish(&verified);
    assert_eq!(ada.check(NAME).await.ok()["status"], "seen");
    assert_eq!(due_at(&app).await, Some(app.clock.now() + Duration::from_hours(6)));
    net.lose(&text(&verified["record_name"]));
    next_look(&app).await;
    assert_eq!(ada.stands(NAME).await.0, "pending");
}

async fn looks_go_at_a_pace(app: TestApp, _net: Net) {
    let ada = Prover::own(&app).await;
    for number in 0..30 {
        ada.add(&format!("n{number}.test")).await;
    }
    app.clock.advance(Duration::from_mins(1));
    let seen = "select count(*) as value from domains where last_checked_at is not null";
    let mut looked = Vec::new();
    for _ in 0..5 {
        turn(&app, "domains.count_due").await;
        let MetricValue::Gauge(due) = metric(&app, "domains_due") else { panic!("a gauge") };
        for _ in 0..3 {
            turn(&app, LOOK).await;
        }
        looked.push((due, app.app.engine.db.query().value::<i64>(seen, args![]).await.unwrap()));
        app.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(looked, [(30, 8), (22, 16), (14, 24), (6, 30), (0, 30)], "eight in a second");
}

fn metric(app: &TestApp, name: &str) -> MetricValue {
    let metrics = app.app.engine.registry.metrics();
    metrics.into_iter().find(|metric| metric.name == name).unwrap().value
}

/// Servers share the work, and one that begins anew finds what is due in the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_looks_at_nothing_twice() {
    let (app, net) = place(Database::Postgres).await;
    let ada = Prover::own(&app).await;
    let verified = ada.verify(&net, NAME).await;
    for number in 0..6 {
        ada.add(&format!("n{number}.test")).await;
    }
    let beside = app.beside_with(net.options()).await;
    net.lose(&text(&verified["record_name"]));
    for _ in 0..5 {
        app.clock.advance(Duration::from_hours(24));
        let (one, two) = tokio::join!(turn(&app, LOOK), turn(&beside, LOOK));
        assert_eq!((one, two), (JobOutcome::Idle, JobOutcome::Idle));
    }
    let mut ada = ada;
    ada.renew().await;
    assert_eq!(ada.stands(NAME).await.0, "unverified");
    ended_by_the_platform(&ada).await;
}

async fn a_domain_that_is_removed_meanwhile_is_left_alone(app: TestApp, net: Net) {
    let ada = Prover::own(&app).await;
    let added = ada.add(NAME).await;
    net.publish(&added);
    app.advance(Duration::from_mins(1)).await;
    net.hold();
    let name = text(&added["record_name"]);
    let renewed = async {
        net.held(&name).await;
        ada.call("DELETE", &format!("/{NAME}"), None).await.ok();
        ada.add(NAME).await
    };
    let (_, renewed) = tokio::join!(turn(&app, LOOK), renewed);
    assert_eq!(ada.get(NAME).await, renewed);
    // A confirmation while the platform looks stands, and so does its next look.
    net.publish(&renewed);
    app.advance(Duration::from_mins(1)).await;
    net.hold();
    let confirmed = async {
        net.held(&name).await;
        ada.confirm(NAME).await.ok();
        due_at(&app).await
    };
    let (_, due) = tokio::join!(turn(&app, LOOK), confirmed);
    assert_eq!((ada.stands(NAME).await.0.as_str(), due_at(&app).await), ("verified", due));
    let item: Timestamp = app
        .app
        .engine
        .db
        .query()
        .value("select max(due_at) as value from queue_items", args![])
        .await
        .unwrap();
    assert_eq!(Some(item), due);
}

//! How much an account may have delivered: what is pending, and how often a receiver is called.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use portico::Environment;
use portico_kernel::{Clock as _, Code};
use portico_store::{Select, args};
use portico_testkit::{Database, Receiver, TestApp, TestAppOptions, until};
use serde_json::{Value, json};
use tokio::net::UdpSocket;

use crate::metering::set_plan;
use crate::webhooks::{ENDPOINTS, HOUR, deliveries, endpoint, patch, text};
use crate::with_a_receiver;

const THING: &str = "lab.thing.created";

with_a_receiver! {
    beyond_the_maximum_deliveries_are_held_back_until_there_is_room,
    a_disabled_endpoint_has_nothing_held_back,
    what_is_over_the_rate_of_the_plan_waits,
}

/// Makes two tests of each function, one on each database: in an app that knows no host by its name.
macro_rules! with_unknown_hosts {
    ($($test:ident,)+) => {$(
        mod $test {
            use portico_testkit::Database;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$test(super::without_hosts(Database::Sqlite).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$test(super::without_hosts(Database::Postgres).await).await;
            }
        }
    )+};
}

with_unknown_hosts! {
    hosts_that_took_nothing_yet_are_called_seldom,
    the_first_event_reaches_every_new_host_at_once,
    a_host_that_takes_nothing_any_more_must_prove_itself_again,
    a_pause_gives_no_more_attempts,
}

async fn thing(app: &TestApp) {
    app.post(&app.things(), &json!({ "name": "a" })).await.ok();
}

/// Gives the endpoint so many deliveries that are pending for ten more hours.
async fn fill(app: &TestApp, endpoint: &str, count: i64) {
    let insert = "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < $4) \
        insert into webhook_deliveries (id, account_id, endpoint_id, sequence, event_id, event_type, created_at, \
        status, attempts, tries, lane, next_at) select 'whd_' || substr('01KN2MGCG00000000000000000', 1, \
        26 - length(cast(n as text))) || cast(n as text), $1, $2, 1000000 + n, 'evt_01KN2MGCG0B9D5MPJTB9D5MPJT', \
        'key.created', $3, 'pending', 1, 1, 1, $5 from numbers";
    let now = app.clock.now();
    let mut tx = app.app.engine.db.write().await.unwrap();
    let account = app.account;
    tx.execute(insert, args![account, endpoint.to_owned(), now, count, now + 10 * HOUR]).await.unwrap();
    tx.commit().await.unwrap();
}

/// Ends all but those of the endpoint's deliveries that have an event.
async fn drain(app: &TestApp, endpoint: &str) {
    let update = "update webhook_deliveries set next_at = null, status = 'failed' \
        where endpoint_id = $1 and sequence > 1000000";
    let mut tx = app.app.engine.db.write().await.unwrap();
    tx.execute(update, args![endpoint.to_owned()]).await.unwrap();
    tx.commit().await.unwrap();
}

async fn backlog(app: &TestApp, endpoint: &str) -> Value {
    let stats = app.get(&format!("/v1/webhooks/stats?endpoint_id={endpoint}")).await.ok();
    assert_eq!(stats["backlogs"].as_array().unwrap().len(), 1, "{stats}");
    stats["backlogs"][0].clone()
}

async fn beyond_the_maximum_deliveries_are_held_back_until_there_is_room(app: TestApp, receiver: Receiver) {
    let since = app.clock_text();
    let (full, _) = endpoint(&app, &receiver, "/full", &[THING]).await;
    for number in 0..29 {
        endpoint(&app, &receiver, &format!("/{number}"), &[THING]).await;
    }
    fill(&app, &full, 5_000).await;
    // Few deliveries are made, but enough of them for the pending ones to be counted.
    for _ in 0..9 {
        thing(&app).await;
    }
    app.sent().await;
    assert_eq!((receiver.received("/full").len(), receiver.received("/0").len()), (9, 9));
    for _ in 0..3 {
        thing(&app).await;
    }
    app.sent().await;
    assert_eq!(receiver.received("/0").len(), 12, "others go on");
    assert_eq!(receiver.received("/full").len(), 9);
    let held = backlog(&app, &full).await;
    assert_eq!(
        (&held["pending"], &held["limit"], &held["full"], &held["held_back"]),
        (&json!(5_000), &json!(5_000), &json!(true), &json!(3))
    );
    let events = format!("/v1/accounts/orgs/{}/events?type={THING}", app.account);
    let events = app.get(&events).await.ok()["events"].as_array().unwrap().clone();
    assert_eq!(events.len(), 12, "they are events all the same");
    for (path, body) in [("test", json!({})), ("recover", json!({ "since": since }))] {
        let refused =
            app.post(&format!("{ENDPOINTS}/{full}/{path}"), &body).await.refused(Code::FailedPrecondition);
        assert_eq!(refused["details"][0]["reason"], "LIMIT_REACHED", "{path}");
        assert!(text(&refused["error"]).contains("5000"), "{refused}");
    }
    // Without room nothing changes; with room what was held back is made.
    app.advance(Duration::from_secs(2)).await;
    app.sent().await;
    assert_eq!(receiver.received("/full").len(), 9);
    drain(&app, &full).await;
    app.advance(Duration::from_secs(2)).await;
    app.sent().await;
    let arrived: HashSet<_> =
        receiver.received("/full").iter().map(|one| one.header("webhook-id").to_owned()).collect();
    let expected: HashSet<_> = events.iter().map(|event| text(&event["id"])).collect();
    assert_eq!(arrived, expected, "each of them, once");
    assert_eq!(receiver.received("/full").len(), 12);
    let held = backlog(&app, &full).await;
    assert_eq!((&held["pending"], &held["full"], &held["held_back"]), (&json!(0), &json!(false), &json!(0)));
    thing(&app).await;
    app.sent().await;
    assert_eq!(receiver.received("/full").len(), 13);
}

/// What one that is disabled has held back is not sent when it is enabled again, but can be recovered.
async fn a_disabled_endpoint_has_nothing_held_back(app: TestApp, receiver: Receiver) {
    let since = app.clock_text();
    let (full, _) = endpoint(&app, &receiver, "/full", &[THING]).await;
    fill(&app, &full, 5_000).await;
    let (other, _) = endpoint(&app, &receiver, "/other", &[THING]).await;
    // Whatever is recovered, the pending ones are counted.
    app.post(&format!("{ENDPOINTS}/{other}/recover"), &json!({ "since": since })).await.ok();
    app.sent().await;
    thing(&app).await;
    app.sent().await;
    assert_eq!(app.count("webhook_holds").await, 1);
    patch(&app, &full, &json!({ "enabled": false })).await.ok();
    app.advance(Duration::from_secs(2)).await;
    app.sent().await;
    assert_eq!(app.count("webhook_holds").await, 0);
    // The sender ends what is pending, some at a time.
    Box::pin(until("nothing is pending", async || backlog(&app, &full).await["pending"] == 0)).await;
    patch(&app, &full, &json!({ "enabled": true })).await.ok();
    app.sent().await;
    assert_eq!(receiver.received("/full").len(), 0);
    let recovered = app.post(&format!("{ENDPOINTS}/{full}/recover"), &json!({ "since": since })).await.ok();
    assert_eq!(recovered["recovered"], 1);
    app.sent().await;
    assert_eq!(receiver.received("/full").len(), 1);
}

async fn what_is_over_the_rate_of_the_plan_waits(app: TestApp, receiver: Receiver) {
    set_plan(&app, "few_deliveries").await;
    let (id, _) = endpoint(&app, &receiver, "/hook", &[THING]).await;
    for _ in 0..8 {
        thing(&app).await;
    }
    app.sent().await;
    assert_eq!(receiver.received("/hook").len(), 5);
    let waiting = deliveries(&app, &id).await.into_iter().filter(|each| each["status"] == "pending");
    assert!(waiting.clone().all(|each| each["attempts"] == json!([])), "none of them failed");
    assert_eq!(waiting.count(), 3);
    app.advance(Duration::from_secs(59)).await;
    app.sent().await;
    assert_eq!(receiver.received("/hook").len(), 5, "the minute is not over");
    app.advance(Duration::from_secs(2)).await;
    app.sent().await;
    assert_eq!(receiver.received("/hook").len(), 8);
    assert!(deliveries(&app, &id).await.iter().all(|each| each["status"] == "delivered"));
}

/// A name server that knows no name.
async fn name_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut message = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut message).await {
            // A response, and the name does not exist.
            (message[2], message[3]) = (message[2] | 0x80, 0x83);
            socket.send_to(&message[..length], from).await.unwrap();
        }
    });
    address
}

async fn without_hosts(database: Database) -> TestApp {
    let environment =
        Environment { egress_name_servers: vec![name_server().await], ..Environment::default() };
    TestApp::with(database, TestAppOptions { environment, ..TestAppOptions::default() }).await
}

/// An endpoint at a host that nobody knows.
async fn endpoint_at(app: &TestApp, url: &str) -> String {
    let body = json!({ "url": url, "event_types": [THING] });
    text(&app.post(ENDPOINTS, &body).await.ok()["id"])
}

/// Whoever ends what waits, so that the account has nothing to send any more, has used up their minute all the same.
async fn a_pause_gives_no_more_attempts(app: TestApp) {
    let id = endpoint_at(&app, "https://hooks.test/").await;
    for _ in 0..35 {
        thing(&app).await;
    }
    app.sent().await;
    assert_eq!(app.count("webhook_attempts").await, 30);
    patch(&app, &id, &json!({ "enabled": false })).await.ok();
    Box::pin(until("nothing is pending", async || {
        app.sent().await;
        backlog(&app, &id).await["pending"] == 0
    }))
    .await;
    for _ in 0..3 {
        app.advance(Duration::from_secs(11)).await;
        app.sent().await;
    }
    patch(&app, &id, &json!({ "enabled": true })).await.ok();
    for _ in 0..5 {
        thing(&app).await;
    }
    app.sent().await;
    assert_eq!(app.count("webhook_attempts").await, 30, "the minute is not over");
    app.advance(Duration::from_secs(30)).await;
    app.sent().await;
    assert_eq!(app.count("webhook_attempts").await, 35);
}

async fn hosts_that_took_nothing_yet_are_called_seldom(app: TestApp) {
    let mut endpoints = Vec::new();
    for number in 0..10 {
        endpoints.push(endpoint_at(&app, &format!("https://hooks{number}.test/")).await);
    }
    for _ in 0..12 {
        thing(&app).await;
    }
    app.sent().await;
    assert_eq!(app.count("webhook_attempts").await, 30, "of 120 that are due");
    for id in &endpoints {
        assert!(attempts(&app, id).await > 0, "each endpoint has its part");
    }
    app.advance(Duration::from_secs(50)).await;
    app.sent().await;
    assert_eq!(app.count("webhook_attempts").await, 30, "retries are attempts too");
    app.advance(Duration::from_secs(11)).await;
    app.sent().await;
    assert_eq!(app.count("webhook_attempts").await, 60);
    let before = attempts(&app, &endpoints[0]).await;
    // The host of the first takes a delivery; whatever else is due for it is sent.
    let mut tx = app.app.engine.db.write().await.unwrap();
    let prove = "update webhook_endpoints set proven_at = 1 where id = $1";
    tx.execute(prove, args![endpoints[0].clone()]).await.unwrap();
    tx.commit().await.unwrap();
    app.sent().await;
    assert!(attempts(&app, &endpoints[0]).await > before);
    let (all, proven) = (app.count("webhook_attempts").await, attempts(&app, &endpoints[0]).await);
    assert_eq!(all - 60, i64::try_from(proven - before).unwrap(), "the others still wait");
    // Another address must be proven again.
    let body = json!({ "url": "https://elsewhere.test/" });
    patch(&app, &endpoints[0], &body).await.ok();
    let proven = "select count(*) as value from webhook_endpoints where proven_at is not null";
    let proven: i64 = app.app.engine.db.query().value(proven, args![]).await.unwrap();
    assert_eq!(proven, 0);
}

async fn the_first_event_reaches_every_new_host_at_once(app: TestApp) {
    for number in 0..50 {
        endpoint_at(&app, &format!("https://hooks{number}.test/")).await;
    }
    thing(&app).await;
    app.sent().await;
    assert_eq!(app.count("webhook_attempts").await, 50);
    thing(&app).await;
    app.sent().await;
    assert_eq!(app.count("webhook_attempts").await, 50, "the second waits for its minute");
}

/// Whoever has a host may point its name elsewhere once it has proven itself.
async fn a_host_that_takes_nothing_any_more_must_prove_itself_again(app: TestApp) {
    let id = endpoint_at(&app, "https://hooks.test/").await;
    let mut tx = app.app.engine.db.write().await.unwrap();
    let prove = "update webhook_endpoints set proven_at = 1 where id = $1";
    tx.execute(prove, args![id.clone()]).await.unwrap();
    tx.commit().await.unwrap();
    for _ in 0..120 {
        thing(&app).await;
    }
    app.sent().await;
    let attempts = app.count("webhook_attempts").await;
    // Until it is known again, and the usual ones of a minute; a few are in flight meanwhile.
    assert!((60..=80).contains(&attempts), "{attempts}");
}

/// How many attempts at deliveries to the endpoint there were.
async fn attempts(app: &TestApp, endpoint: &str) -> usize {
    let all = deliveries(app, endpoint).await;
    all.iter().map(|each| each["attempts"].as_array().unwrap().len()).sum()
}

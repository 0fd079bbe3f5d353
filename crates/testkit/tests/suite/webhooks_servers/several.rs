//! Two servers on one database: each delivery is sent by one of them, and either can take over.

use portico_engine::clock::{Stopwatch, SystemClock};
use portico_kernel::Clock;
use portico_testkit::{Database, TestDatabase};
use portico_webhooks::limits;

use super::cluster::Cluster;
use super::ledger::check;
use super::receiver::Manner::{self, FailsFirst, Quick, Slow};
use super::scene::{Scene, start};

const THINGS: usize = 500;
const FIVE: [(Manner, bool); 5] =
    [(Quick, true), (Quick, false), (Quick, false), (Slow(10), false), (FailsFirst, false)];
const QUICK: [(Manner, bool); 3] = [(Quick, true), (Quick, false), (Quick, false)];
/// So slow that much waits for them.
const SLOW: [(Manner, bool); 3] = [(Quick, true), (Slow(50), false), (Slow(50), false)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_delivery_is_sent_by_one_of_two() {
    let (scene, first) = Scene::new(TestDatabase::create(Database::Postgres).await, &FIVE).await;
    let second = start(&scene.database);
    scene.make(&[&first, &second], THINGS).await;
    scene.settled().await;
    let findings = check(&scene, &[]).await;
    println!("two servers: {findings}");
    findings.nothing_again();
    let log = scene.receiver.log();
    assert!(log.open_most.iter().all(|most| *most <= limits::ENDPOINT_IN_FLIGHT_MAX), "{:?}", log.open_most);
    assert!(log.all_open_most <= limits::ACCOUNT_IN_FLIGHT_MAX, "{}", log.all_open_most);
    drop(log);
    assert_eq!((first.stop().code(), second.stop().code()), (Some(0), Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_takes_over_from_one_that_is_killed() {
    let (scene, first) = Scene::new(TestDatabase::create(Database::Postgres).await, &QUICK).await;
    // The first sends, since nobody else is there; and goes on when somebody is.
    scene.make(&[&first], 10).await;
    let second = start(&scene.database);
    scene.make(&[&first, &second], THINGS).await;
    first.kill();
    let mark = scene.receiver.hung_up().await;
    let watch = Stopwatch::start();
    let callers = scene.load(&[&second], THINGS, false);
    scene.receiver.reach(|progress| progress.requests > mark.requests).await;
    let after = watch.elapsed();
    assert!(after <= limits::CLAIM_LIFE + 2 * limits::POLL_EVERY, "{after:?}");
    scene.join(callers).await;
    scene.settled().await;
    let findings = check(&scene, &[mark]).await;
    println!("one of two killed, the other sends after {after:?}: {findings}");
    assert_eq!(second.stop().code(), Some(0));
}

/// A server that stood still for longer than its claims last sends nothing that another has sent meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_takes_over_from_one_that_stands_still() {
    let cluster = Cluster::start().await;
    let (scene, first) = Scene::new(TestDatabase::in_cluster(&cluster.url).await, &SLOW).await;
    scene.make(&[&first], 10).await;
    let second = start(&scene.database);
    let callers = scene.load(&[&second], THINGS, false);
    scene.receiver.reach_more(THINGS).await;
    first.signal("-STOP");
    let still_at = SystemClock.now().as_seconds();
    scene.join(callers).await;
    scene.settled().await;
    first.signal("-CONT");
    // Some of its calls ran out of time meanwhile.
    scene.join(scene.load(&[&first, &second], THINGS, true)).await;
    scene.settled().await;
    let findings = check(&scene, &[scene.receiver.mark_still(still_at)]).await;
    println!("one of two stood still: {findings}");
    assert_eq!((first.stop().code(), second.stop().code()), (Some(0), Some(0)));
}

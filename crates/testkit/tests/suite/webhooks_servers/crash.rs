//! A server that is killed, or told to stop, while it sends: nothing is lost, and little comes twice.

use portico_testkit::{Database, TestDatabase, kills, volume};

use super::ledger::check;
use super::receiver::Manner::{self, Down, FailsFirst, FailsRarely, Quick, RefusesSome, Slow};
use super::scene::{Scene, start};
use crate::metering_servers::client::below;

/// Ten endpoints, and which of them subscribe the audit log too.
const TEN: [(Manner, bool); 10] = [
    (Quick, true),
    (Quick, false),
    (Quick, false),
    (Quick, false),
    (FailsRarely, true),
    (FailsFirst, false),
    (FailsFirst, false),
    (Slow(10), false),
    (Down, false),
    (RefusesSome, false),
];
/// Ten that take everything at once.
const QUICK: [(Manner, bool); 10] = [
    (Quick, true),
    (Quick, true),
    (Quick, false),
    (Quick, false),
    (Quick, false),
    (Quick, false),
    (Quick, false),
    (Quick, false),
    (Quick, false),
    (Quick, false),
];
/// Each comes to all ten. So many in a full run.
const THINGS: usize = 5_000;
/// Requests after the start of a server that dies soon.
const SOON: usize = 50;
const STOPS: usize = 3;
const THINGS_PER_STOP: usize = 300;

async fn killed_while_it_sends(kind: Database) {
    let (scene, mut server) = Scene::new(TestDatabase::create(kind).await, &TEN).await;
    let things = volume(THINGS);
    let each = things / (kills() + 1);
    let mut marks = Vec::new();
    for round in 1..=kills() {
        // A thing makes ten requests at least. Now and then soon after the start.
        let goal = 1 + below(if round % 4 == 0 { SOON } else { 8 * each });
        let callers = scene.load(&[&server], scene.to_make(round * each), false);
        scene.receiver.reach_more(goal).await;
        server.kill();
        scene.join(callers).await;
        marks.push(scene.receiver.hung_up().await);
        if round == kills() / 2 {
            scene.receiver.come_up();
        }
        // Once the next server waits until the claim has ended.
        if round > 1 && kind == Database::Postgres {
            scene.expire_claims().await;
        }
        server = start(&scene.database);
    }
    scene.receiver.come_up();
    scene.join(scene.load(&[&server], scene.to_make(things), false)).await;
    scene.settled().await;
    assert_eq!(server.stop().code(), Some(0));
    let findings = check(&scene, &marks).await;
    println!("{} kills on {kind:?}: {findings}", kills());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_it_sends_on_sqlite() {
    killed_while_it_sends(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_it_sends_on_postgres() {
    killed_while_it_sends(Database::Postgres).await;
}

async fn stopped_while_it_sends(kind: Database) {
    let (scene, mut server) = Scene::new(TestDatabase::create(kind).await, &QUICK).await;
    for _ in 0..STOPS {
        let callers = scene.load(&[&server], THINGS_PER_STOP, false);
        scene.receiver.reach_more(1 + below(8 * THINGS_PER_STOP)).await;
        assert_eq!(server.stop().code(), Some(0));
        scene.join(callers).await;
        server = start(&scene.database);
    }
    scene.settled().await;
    assert_eq!(server.stop().code(), Some(0));
    let findings = check(&scene, &[]).await;
    println!("{STOPS} stops on {kind:?}: {findings}");
    findings.nothing_again();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_while_it_sends_on_sqlite() {
    stopped_while_it_sends(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_while_it_sends_on_postgres() {
    stopped_while_it_sends(Database::Postgres).await;
}

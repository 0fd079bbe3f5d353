//! One endpoint of ten that never answers keeps none of the others waiting.

use portico_testkit::{Database, TestDatabase};
use portico_webhooks::limits;

use super::receiver::Manner::{self, Hangs, Quick};
use super::scene::Scene;

const THINGS: usize = 200;
const HANGING: usize = 4;

async fn one_hangs(kind: Database) {
    let mut endpoints: [(Manner, bool); 10] = [(Quick, false); 10];
    endpoints[HANGING] = (Hangs, false);
    let (scene, server) = Scene::new(TestDatabase::create(kind).await, &endpoints).await;
    scene.make(&[&server], THINGS).await;
    let others = (endpoints.len() - 1) * THINGS;
    scene.receiver.reach(|progress| progress.taken == others).await;
    let log = scene.receiver.log();
    // Its first attempts are still open: not one of them has come to its end, be it for lack of time.
    let (hanging, ended): (Vec<_>, Vec<_>) = log
        .requests
        .iter()
        .filter(|request| request.endpoint == HANGING)
        .partition(|request| request.ended.is_none());
    println!("{others} taken on {kind:?} while {} hang; {:?} at once", hanging.len(), log.open_most);
    assert!(!hanging.is_empty() && ended.is_empty(), "{hanging:?} {ended:?}");
    assert!(log.open_most.iter().all(|most| *most <= limits::ENDPOINT_IN_FLIGHT_MAX), "{:?}", log.open_most);
    assert!(log.all_open_most <= limits::ACCOUNT_IN_FLIGHT_MAX, "{}", log.all_open_most);
    drop(log);
    assert_eq!(server.stop().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_hangs_on_sqlite() {
    one_hangs(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_hangs_on_postgres() {
    one_hangs(Database::Postgres).await;
}

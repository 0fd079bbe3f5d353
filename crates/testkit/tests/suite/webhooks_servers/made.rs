//! Endpoints that are made while much happens.

use portico_testkit::{Database, TestDatabase};

use super::ledger::check;
use super::receiver::Manner::{self, Quick};
use super::scene::Scene;

/// The making of each is an entry of the audit log, which it and those before it subscribe.
const MANY: [(Manner, bool); 50] = [(Quick, true); 50];

async fn endpoints_miss_nothing(kind: Database) {
    let (scene, server) = Scene::new(TestDatabase::create(kind).await, &MANY).await;
    scene.settled().await;
    let findings = check(&scene, &[]).await;
    println!("{} endpoints on {kind:?}: {findings}", MANY.len());
    findings.nothing_again();
    assert_eq!(server.stop().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_miss_nothing_on_sqlite() {
    endpoints_miss_nothing(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_miss_nothing_on_postgres() {
    endpoints_miss_nothing(Database::Postgres).await;
}

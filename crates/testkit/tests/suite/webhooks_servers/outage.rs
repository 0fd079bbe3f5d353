//! PostgreSQL goes away and comes back while a server sends.

use portico_testkit::TestDatabase;

use super::cluster::Cluster;
use super::ledger::check;
use super::receiver::Manner::{self, FailsFirst, Quick, Slow};
use super::scene::Scene;
use crate::metering_servers::client::below;

const FIVE: [(Manner, bool); 5] =
    [(Quick, true), (Quick, false), (Quick, false), (Slow(10), false), (FailsFirst, false)];
const THINGS: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_goes_away_and_comes_back() {
    let cluster = Cluster::start().await;
    let (scene, server) = Scene::new(TestDatabase::in_cluster(&cluster.url).await, &FIVE).await;
    for mode in ["fast", "immediate", "fast", "immediate"] {
        let callers = scene.load(&[&server], THINGS / 4, true);
        scene.receiver.reach_more(1 + below(THINGS)).await;
        cluster.restart(mode);
        scene.join(callers).await;
    }
    scene.settled().await;
    assert_eq!(server.stop().code(), Some(0));
    let findings = check(&scene, &[]).await;
    println!("four restarts of PostgreSQL: {findings}");
    findings.nothing_again();
}

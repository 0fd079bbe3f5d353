//! SIGTERM while a token is refreshed for somebody who has gone: the server waits for it, and writes it.

use portico_testkit::{Database, until};
use tokio::net::TcpStream;

use super::{Scene, TOKEN};

async fn stopped_during_a_refresh(kind: Database) {
    let scene = Scene::create(kind).await;
    let server = scene.start();
    let con = scene.connect(&server).await;
    scene.provider.end_access();
    let asked = scene.provider.calls(TOKEN).len();
    scene.provider.hold(TOKEN);
    let api = server.api.clone();
    tokio::select! {
        _ = scene.act(&api, &con) => panic!("the provider has not answered yet"),
        () = until("a fresh token is asked for", async || scene.provider.calls(TOKEN).len() > asked) => {}
    }
    // Whoever called is gone by now.
    server.signal("-TERM");
    until("it takes no connection any more", async || TcpStream::connect(&api).await.is_err()).await;
    scene.provider.hold("");
    assert_eq!(server.stop().code(), Some(0));
    let server = scene.start();
    assert!(scene.is_usable(&server, &con).await, "the fresh token was written");
    assert_eq!(scene.provider.calls(TOKEN).len(), asked + 1, "and is the one that is used");
    scene.is_whole(&server, &con).await;
    assert_eq!(server.stop().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite() {
    stopped_during_a_refresh(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    stopped_during_a_refresh(Database::Postgres).await;
}

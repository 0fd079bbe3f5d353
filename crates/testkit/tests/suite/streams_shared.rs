//! Streams on two servers that share a database.

use std::time::Duration;

use portico_kernel::{Code, Role};
use portico_testkit::{Database, SseClient, TestApp, TestServer, soon};
use serde_json::json;

/// Two servers on one PostgreSQL database, with one clock.
async fn two() -> (TestServer, TestServer) {
    let first = TestApp::new(Database::Postgres).await;
    let second = first.beside().await;
    (TestServer::new(first).await, TestServer::new(second).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_commits_the_other_streams() {
    let (first, second) = two().await;
    let token = &first.app.token;
    let mut here = SseClient::open(first.address, token, "?types=lab.thing.created", None).await.unwrap();
    let mut there = SseClient::open(second.address, token, "?types=lab.thing.created", None).await.unwrap();
    let mut ids = Vec::new();
    for at in 0..40 {
        let id = format!("thing{at}");
        let server = if at % 3 == 0 { &second } else { &first };
        let path = format!("/v1/lab/orgs/{}/things", first.app.account);
        let sent = portico_testkit::TestRequest::new("POST", &path).bearer(token);
        server.app.send(sent.json(&json!({ "id": id, "name": "a" }))).await.ok();
        ids.push(id);
    }
    assert_eq!(here.things(ids.len()).await, ids);
    assert_eq!(there.things(ids.len()).await, ids);
    // Both at once, from both sides: one order for everybody.
    let make = |server: &TestServer, name: &'static str| {
        let (app, token, account) = (server.app.clone(), token.clone(), first.app.account);
        tokio::spawn(async move {
            for at in 0..50 {
                let path = format!("/v1/lab/orgs/{account}/things");
                let sent = portico_testkit::TestRequest::new("POST", &path).bearer(&token);
                app.send(sent.json(&json!({ "id": format!("{name}{at}"), "name": "a" }))).await.ok();
            }
        })
    };
    let (one, other) = (make(&first, "one"), make(&second, "other"));
    let seen = here.things(100).await;
    assert_eq!(there.things(100).await, seen);
    one.await.unwrap();
    other.await.unwrap();
    let of = |name: &str| seen.iter().filter(|id| id.starts_with(name)).cloned().collect::<Vec<_>>();
    assert_eq!(of("one"), (0..50).map(|at| format!("one{at}")).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persons_streams_are_counted_over_both_and_in_all_accounts() {
    let (first, second) = two().await;
    let person = first.app.new_person("ada@example.com", None).await;
    first.app.join(first.app.account, person.id, Role::Member).await;
    let token = first.app.person_token(person.id).await;
    let team = format!("?account_id={}", first.app.account);
    let mut streams = Vec::new();
    for number in 0..32 {
        let (server, query) = if number % 2 == 0 { (&first, "") } else { (&second, team.as_str()) };
        streams.push(SseClient::open(server.address, &token, query, None).await.unwrap());
    }
    for (server, query) in [(&first, team.as_str()), (&second, "")] {
        let refused = SseClient::open(server.address, &token, query, None).await.err().unwrap();
        assert_eq!(refused.refused(Code::RateLimited)["details"][0]["metadata"]["of"], "credential");
    }
    drop(streams.pop());
    soon("a place", async { while SseClient::open(first.address, &token, "", None).await.is_err() {} }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_are_counted_over_both() {
    let (first, second) = two().await;
    let token = first.app.token.clone();
    // All at once: exactly so many are admitted.
    let mut dials = tokio::task::JoinSet::new();
    for at in 0..100 {
        let (address, token) = (if at % 2 == 0 { first.address } else { second.address }, token.clone());
        dials.spawn(async move { SseClient::open(address, &token, "", None).await });
    }
    let (mut open, mut refused) = (Vec::new(), 0);
    while let Some(dialled) = dials.join_next().await {
        match dialled.unwrap() {
            Ok(stream) => open.push(stream),
            Err(answer) => {
                answer.refused(Code::RateLimited);
                refused += 1;
            }
        }
    }
    assert_eq!((open.len(), refused), (32, 68));
    // One that is closed here can be opened there.
    open.clear();
    let mut again = Vec::new();
    soon("32 places", async {
        while again.len() < 32 {
            again.extend(SseClient::open(second.address, &token, "", None).await.ok());
        }
    })
    .await;
    SseClient::open(first.address, &token, "", None).await.err().unwrap().refused(Code::RateLimited);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_holds_no_places() {
    let (first, second) = two().await;
    let token = first.app.token.clone();
    let mut open = Vec::new();
    for _ in 0..32 {
        open.push(SseClient::open(first.address, &token, "", None).await.unwrap());
    }
    SseClient::open(second.address, &token, "", None).await.err().unwrap().refused(Code::RateLimited);
    // As if it were killed: nothing of it is heard any more.
    first.app.halt();
    second.app.advance(Duration::from_secs(30)).await;
    SseClient::open(second.address, &token, "", None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revocation_reaches_both() {
    let (first, second) = two().await;
    let made = first.app.new_token(first.app.account, first.app.all_scopes(), 7).await;
    let token = made["token"].as_str().unwrap();
    let mut here = SseClient::open(first.address, token, "", None).await.unwrap();
    let mut there = SseClient::open(second.address, token, "", None).await.unwrap();
    let id = made["token_id"].as_str().unwrap().to_owned();
    first.app.admin(portico::admin::Admin::Revoke { id }).await;
    for served in [&first, &second] {
        served.app.catch_up().await;
    }
    soon("both ends", async {
        while here.next().await.is_some() {}
        while there.next().await.is_some() {}
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_forgotten_writes_down_what_it_holds() {
    let (first, second) = two().await;
    let token = first.app.token.clone();
    let mut open = Vec::new();
    for _ in 0..32 {
        open.push(SseClient::open(first.address, &token, "", None).await.unwrap());
    }
    // As the other would do after both had lost the database for a minute.
    let mut tx = second.app.app.engine.db.write().await.unwrap();
    for text in ["delete from stream_places", "delete from stream_nodes"] {
        tx.execute(text, portico_store::args![]).await.unwrap();
    }
    tx.commit().await.unwrap();
    soon("its word", async {
        while second.app.count("stream_places").await == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    SseClient::open(second.address, &token, "", None).await.err().unwrap().refused(Code::RateLimited);
    // And one that stops leaves nothing behind.
    first.app.app.connections.drain(&first.app.app.engine).await;
    SseClient::open(second.address, &token, "", None).await.unwrap();
}

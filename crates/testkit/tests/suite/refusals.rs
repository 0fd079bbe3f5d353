//! What refusals leave behind: they are counted, and nothing grows with them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use portico_kernel::Code;
use portico_testkit::{
    Database, MqttClient, TestApp, TestRequest, TestServer, capture_log, captured_log, on_both_databases,
    soon, turn, until,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::metering::set_plan;

/// How many refusals of a caller are recorded in a minute.
const RECORDED: usize = portico_metering::limits::REFUSALS_RECORDED_PER_MINUTE as usize;

on_both_databases! {
    refusals_of_a_minute_are_counted_and_a_few_are_logged,
    calls_without_the_scope_are_counted_and_a_few_are_logged,
    a_log_that_is_full_for_the_day_counts_the_rest,
}

/// The requests in the account's log that ended with that code.
async fn logged(app: &TestApp, token: &str, code: &str) -> usize {
    let path = format!("/v1/accounts/orgs/{}/requests?page_size=200", app.account);
    let page = app.send(TestRequest::new("GET", &path).bearer(token)).await.ok();
    page["requests"].as_array().unwrap().iter().filter(|request| request["code"] == code).count()
}

/// The calls of this month, and of these the client's errors.
async fn counted(app: &TestApp, token: &str, rpc: &str) -> (i64, i64) {
    let path = format!("/v1/accounts/orgs/{}/usage", app.account);
    let usage = app.send(TestRequest::new("GET", &path).bearer(token)).await.ok();
    let rows = usage["rows"].as_array().unwrap().iter().filter(|row| row["rpc"] == rpc);
    let sum = |name: &str| rows.clone().map(|row| row[name].as_str().unwrap().parse::<i64>().unwrap()).sum();
    (sum("calls"), sum("client_errors"))
}

async fn refusals_of_a_minute_are_counted_and_a_few_are_logged(app: TestApp) {
    set_plan(&app, "slow").await;
    for _ in 0..5 {
        app.get("/v1/me").await.ok();
    }
    let refused = RECORDED + 30;
    for _ in 0..refused {
        app.get("/v1/me").await.refused(Code::RateLimited);
    }
    let other = app.token_with(app.account, ["usage:read"].into_iter().collect()).await;
    let expected = (i64::try_from(refused).unwrap() + 5, i64::try_from(refused).unwrap());
    assert_eq!(counted(&app, &other, "identity.me.get").await, expected, "before it is in the database");
    assert_eq!(logged(&app, &other, "rate_limited").await, RECORDED);
    app.catch_up().await;
    assert_eq!(counted(&app, &other, "identity.me.get").await, expected, "and after");
    assert_eq!(logged(&app, &other, "rate_limited").await, RECORDED);
    app.advance(Duration::from_secs(59)).await;
    app.get("/v1/me").await.refused(Code::RateLimited);
    app.advance(Duration::from_secs(1)).await;
    app.get("/v1/me").await.ok();
}

async fn calls_without_the_scope_are_counted_and_a_few_are_logged(app: TestApp) {
    let token = app.token_without("identity:read").await;
    for _ in 0..RECORDED + 30 {
        app.send(TestRequest::new("GET", "/v1/me").bearer(&token)).await.refused(Code::Forbidden);
    }
    app.catch_up().await;
    let calls = i64::try_from(RECORDED).unwrap() + 30;
    assert_eq!(counted(&app, &app.token, "identity.me.get").await, (calls, calls));
    assert_eq!(logged(&app, &app.token, "forbidden").await, RECORDED);
}

async fn a_log_that_is_full_for_the_day_counts_the_rest(app: TestApp) {
    set_plan(&app, "short_log").await;
    for _ in 0..8 {
        app.get("/v1/me").await.ok();
        app.catch_up().await;
    }
    assert_eq!(counted(&app, &app.token, "identity.me.get").await.0, 8);
    app.catch_up().await;
    let requests = app.get(&format!("/v1/accounts/orgs/{}/requests", app.account)).await.ok();
    assert_eq!(requests["requests"].as_array().unwrap().len(), 5, "{requests}");
    app.advance(Duration::from_hours(24)).await;
    app.get("/v1/me").await.ok();
    app.catch_up().await;
    let requests = app.get(&format!("/v1/accounts/orgs/{}/requests", app.account)).await.ok();
    assert_eq!(requests["requests"].as_array().unwrap().len(), 7, "another day has room: {requests}");
}

/// Calls on one connection until the server says that it ends.
async fn calls_until_the_end(served: &TestServer, token: &str) -> usize {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let request = format!("GET /v1/me HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n");
    for call in 1.. {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0);
        }
        if String::from_utf8(answer).unwrap().to_lowercase().contains("connection: close") {
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "and it ends");
            return call;
        }
    }
    unreachable!("the server ends it at some time")
}

#[tokio::test]
async fn a_connection_that_goes_on_after_a_hundred_refusals_is_closed() {
    let app = TestApp::new(Database::Sqlite).await;
    set_plan(&app, "slow").await;
    let served = TestServer::new(app).await;
    assert_eq!(calls_until_the_end(&served, &served.app.token).await, 105);
    assert_eq!(calls_until_the_end(&served, "unknown").await, 100);
}

#[tokio::test]
async fn a_connection_that_goes_on_where_nothing_is_is_closed_too() {
    let served = TestServer::new(TestApp::new(Database::Sqlite).await).await;
    let token = served.app.token_without("identity:read").await;
    assert_eq!(calls_until_the_end(&served, &token).await, 100, "without the scope");
}

#[tokio::test]
async fn a_socket_that_goes_on_after_a_hundred_refusals_is_closed() {
    let served = TestServer::new(TestApp::new(Database::Sqlite).await).await;
    let mut socket = served.socket(&served.app.slow_token().await).await.unwrap();
    assert_eq!(socket.receive().await["type"], "ready");
    // Opening it was the first of five calls.
    for _ in 0..4 {
        assert_eq!(socket.call("identity.me.get", json!({})).await["type"], "answer");
    }
    for _ in 0..100 {
        assert_eq!(socket.call("identity.me.get", json!({})).await["problem"]["code"], "rate_limited");
    }
    let (frames, code) = socket.closed().await;
    let types: Vec<_> = frames.iter().map(|frame| &frame["type"]).collect();
    assert_eq!((types, code), (vec![&json!("closing")], 4100));
}

#[tokio::test]
async fn an_mqtt_client_that_goes_on_after_a_hundred_refusals_is_disconnected() {
    let served = TestServer::new(TestApp::new(Database::Sqlite).await).await;
    let token = served.app.slow_token().await;
    let (mut client, _) = MqttClient::open(served.mqtt, 5, "busy", &token, 2, &[]).await.unwrap();
    for _ in 0..4 {
        assert!(client.call("identity.me.get", "", None).await.properties.contains("answer"));
    }
    for _ in 0..100 {
        let refused = client.call("identity.me.get", "", None).await;
        assert_eq!(refused.payload["code"], "rate_limited");
    }
    assert_eq!(client.closed().await, Some(0x97));
}

#[tokio::test]
async fn strangers_fill_no_log() {
    let app = TestApp::new(Database::Sqlite).await;
    capture_log();
    for _ in 0..200 {
        app.send(TestRequest::new("GET", "/healthz")).await.ok();
        app.send(TestRequest::new("GET", "/nowhere")).await.refused(Code::NotFound);
        app.send(TestRequest::new("GET", "/v1/me").bearer("no token")).await.refused(Code::Unauthenticated);
    }
    let lines = captured_log().lines().filter(|line| line.contains("Answered")).count();
    // Fifty a second, on a machine that may be slow.
    assert!((50..300).contains(&lines), "{lines} lines for 600 requests");
}

/// A file that somebody cuts is a fault that is told, and the server goes on.
#[tokio::test]
async fn a_journal_that_is_cut_is_told_and_the_server_goes_on() {
    let mut app = TestApp::new(Database::Sqlite).await;
    app.expect_errors();
    app.catch_up().await;
    app.get("/v1/me").await.ok();
    for entry in std::fs::read_dir(app.database.folder.path().join("journal")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension != "journal") {
            std::fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
        }
    }
    app.get("/v1/me").await.ok();
    app.catch_up().await;
    assert_eq!(app.app.metering.metrics.lost(), 1);
    assert_eq!(counted(&app, &app.token, "identity.me.get").await.0, 1, "the one before is gone");
}

async fn metering_backend(app: &TestApp) -> (u16, Value) {
    let answer = app.send(TestRequest::new("GET", "/readyz")).await;
    (answer.status, answer.json()["services"]["metering"].clone())
}

/// A disk that is full shows in `/readyz` before calls are refused, and goes by itself.
#[tokio::test]
async fn a_journal_that_cannot_grow_is_told_and_the_rest_of_it_still_serves() {
    let mut app = TestApp::new(Database::Sqlite).await;
    app.expect_errors();
    let folder = app.database.folder.path().join("journal");
    let aside = folder.with_extension("aside");
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "not a folder").unwrap();
    assert_eq!(metering_backend(&app).await, (200, json!("serving")));
    // Nobody counts meanwhile. Who has filled the journal is refused first, and others go on.
    let other = app.new_account("Other").await;
    let other = app.token_with(other, app.all_scopes()).await;
    let mut answer = app.get("/v1/me").await;
    while answer.status == 200 {
        answer = app.get("/v1/me").await;
    }
    answer.refused(Code::Unavailable);
    // The fault was told when it came, and is not told again for each call.
    capture_log();
    for _ in 0..10 {
        app.get("/v1/me").await.refused(Code::Unavailable);
    }
    assert!(!captured_log().contains("ERROR"), "{}", captured_log());
    app.send(TestRequest::new("GET", "/v1/me").bearer(&other)).await.ok();
    app.catch_up().await;
    app.get("/v1/me").await.ok();
    Box::pin(until("the journal that cannot grow", async || {
        app.advance(Duration::from_secs(1)).await;
        metering_backend(&app).await == (503, json!("not_serving"))
    }))
    .await;
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    turn(&app, "metering.count").await;
    Box::pin(until("the journal that grows again", async || {
        app.advance(Duration::from_secs(1)).await;
        metering_backend(&app).await == (200, json!("serving"))
    }))
    .await;
}

/// One request on a connection of its own: the head of its answer, in small letters.
async fn asked(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        assert!(soon("an answer", stream.read_buf(&mut head)).await.unwrap() > 0);
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

fn me(token: &str) -> String {
    format!("GET /v1/me HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n")
}

#[tokio::test]
async fn whoever_guesses_tokens_goes_on_slowly_and_keeps_nobody_waiting() {
    let served = TestServer::new(TestApp::new(Database::Sqlite).await).await;
    let is_closed = async |token: &str| asked(served.address, &me(token)).await.contains("connection: close");
    until("guesses that wait", async || is_closed("unknown").await).await;
    assert!(!is_closed(&served.app.token).await, "a token that is good, from the same address");
    assert!(is_closed("unknown").await);
}

#[tokio::test]
async fn a_caller_whose_minute_is_used_up_goes_on_slowly() {
    let app = TestApp::new(Database::Sqlite).await;
    set_plan(&app, "slow").await;
    let served = TestServer::new(app).await;
    let is_closed = async |token: &str| asked(served.address, &me(token)).await.contains("connection: close");
    until("refusals that wait", async || is_closed(&served.app.token).await).await;
    let other = served.app.new_account("Other").await;
    let other = served.app.token_with(other, ["identity:read"].into_iter().collect()).await;
    assert!(!is_closed(&other).await, "another account, from the same address");
}

#[tokio::test]
async fn whoever_asks_for_pages_waits_in_their_own_line() {
    let app = Arc::new(TestApp::new(Database::Sqlite).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_stop, stopped) = watch::channel(false);
    let limits = app.app.connections.limits.clone();
    let engine = app.app.engine.clone();
    tokio::spawn(portico_gateway::serve(listener, app.auth.clone(), engine, None, limits, stopped));
    let page = "GET /signin HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut asking = JoinSet::new();
    for _ in 0..300 {
        asking.spawn(async move { asked(address, page).await });
    }
    // So many are answered at once or wait; the rest is told so, and need not be waited for.
    let mut refused = None;
    while refused.is_none() {
        let head = asking.join_next().await.expect("one that is refused").unwrap();
        refused = Some(head).filter(|head| head.starts_with("http/1.1 429"));
    }
    let refused = refused.unwrap();
    assert!(refused.contains("retry-after: 5") && refused.contains("connection: close"), "{refused}");
    let keys = "GET /.well-known/jwks.json HTTP/1.1\r\nhost: a\r\n\r\n";
    assert!(
        asked(address, keys).await.starts_with("http/1.1 200"),
        "what programs ask for waits for no page"
    );
}

#[tokio::test]
async fn an_open_answer_between_refusals_does_not_begin_their_count_anew() {
    let served = TestServer::new(TestApp::new(Database::Sqlite).await).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let mut answers = 0;
    loop {
        let open = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
        stream.write_all([me("unknown"), open.to_owned()].concat().as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\"ok\"}") {
            if stream.read_buf(&mut answer).await.unwrap() == 0 {
                break;
            }
        }
        answers += 1;
        if !answer.ends_with(b"\"ok\"}") {
            break;
        }
    }
    assert_eq!(answers, 100);
}

#[tokio::test]
async fn an_assistant_whose_minute_is_used_up_is_refused_before_its_message_is_read() {
    let app = TestApp::new(Database::Sqlite).await;
    set_plan(&app, "slow").await;
    let served = TestServer::new(app).await;
    for _ in 0..5 {
        served.app.get("/v1/me").await.ok();
    }
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: 2000000\r\n\r\n{{",
        served.app.token
    );
    assert!(asked(served.address, &head).await.starts_with("http/1.1 429"));
}

//! The WebSocket: events and calls side by side.

use std::time::Duration;

use futures_util::SinkExt;
use portico_kernel::Code;
use portico_testkit::{
    Database, SocketClient, TestApp, TestRequest, TestServer, on_both_databases, soon, thing,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

async fn serve() -> TestServer {
    TestServer::new(TestApp::new(Database::Sqlite).await).await
}

fn problem(frame: &Value, code: Code) -> &Value {
    assert_eq!(frame["type"], "error", "{frame}");
    let problem = &frame["problem"];
    assert_eq!(problem["code"], code.name(), "{problem}");
    assert_eq!(problem["request_id"], "", "the frame's own id names the call");
    problem
}

on_both_databases! {
    calls_and_events_go_side_by_side,
    refusals_are_those_of_rest,
    a_kept_answer_is_the_same_on_every_transport,
    a_call_can_be_taken_back,
    what_was_taken_back_is_in_nobodys_way,
    calls_under_way_are_answered_before_a_stopping_server_closes,
    a_subscription_resumes_and_ends,
    a_subscription_names_event_types,
    subscriptions_count_in_the_minute,
    whoever_goes_on_after_a_hundred_refusals_is_closed,
}

async fn calls_and_events_go_side_by_side(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut socket = served.socket(&served.app.token).await.unwrap();
    let ready = socket.receive().await;
    assert_eq!((&ready["type"], &ready["account_id"]), (&json!("ready"), &json!(served.app.account)));
    assert_eq!(
        (&ready["ping_seconds"], &ready["idle_seconds"], &ready["life_seconds"]),
        (&json!(15), &json!(300), &json!(86_400))
    );
    socket.subscribe(&["lab.thing.created"], None).await;
    let org = served.app.account;
    // One that waits does not hold up the others.
    let slow = json!({ "org_id": org, "name": "wait", "id": "slow" });
    socket.send(json!({ "type": "call", "id": "slow", "method": "lab.things.create", "params": slow })).await;
    served.app.lab.waiting.notified().await;
    let me = socket.call("identity.me.get", json!({})).await;
    assert_eq!(me["result"], served.app.get("/v1/me").await.ok());
    served.app.lab.go_on.notify_one();
    let (mut told, mut answered) = (false, false);
    while !(told && answered) {
        let frame = socket.receive().await;
        told |= thing(&frame["event"]).as_deref() == Some("slow");
        answered |= frame["id"] == "slow" && frame["result"]["thing"]["id"] == "slow";
    }
}

async fn subscriptions_count_in_the_minute(app: TestApp) {
    let served = TestServer::new(app).await;
    let token = served.app.slow_token().await;
    let mut socket = served.socket(&token).await.unwrap();
    assert_eq!(socket.receive().await["type"], "ready");
    // Opening it was the first of five.
    for _ in 0..4 {
        socket.subscribe(&[], None).await;
        socket.send(json!({ "type": "unsubscribe", "id": "s" })).await;
        assert_eq!(socket.answer("s").await["type"], "answer");
    }
    socket.send(json!({ "type": "subscribe", "id": "more" })).await;
    let refused = socket.answer("more").await;
    assert_eq!(
        problem(&refused, Code::RateLimited)["details"],
        json!([{ "type": "retry", "after_seconds": "60" }])
    );
    let me = TestRequest::new("GET", "/v1/me").bearer(&token);
    served.app.send(me).await.refused(Code::RateLimited);
    served.app.advance(Duration::from_mins(1)).await;
    socket.subscribe(&[], None).await;
}

async fn whoever_goes_on_after_a_hundred_refusals_is_closed(app: TestApp) {
    let served = TestServer::new(app).await;
    let token = served.app.slow_token().await;
    let mut socket = served.socket(&token).await.unwrap();
    assert_eq!(socket.receive().await["type"], "ready");
    let subscribe = json!({ "type": "subscribe", "id": "s", "types": ["no.such"] });
    let call = json!({ "type": "call", "id": "c", "method": "identity.me.get", "params": {} });
    // Opening it was the first of five. What is wrong and not too often is no such refusal.
    for _ in 0..4 {
        socket.send(subscribe.clone()).await;
        problem(&socket.answer("s").await, Code::BadRequest);
    }
    for number in 0..100 {
        let (frame, id) = if number % 2 == 0 { (&subscribe, "s") } else { (&call, "c") };
        socket.send(frame.clone()).await;
        problem(&socket.answer(id).await, Code::RateLimited);
    }
    assert_eq!(socket.closed().await.1, 4100);
}

async fn a_subscription_names_event_types(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut socket = served.ready_socket().await;
    for types in [json!(["lab.thing.created", "no.such"]), json!(["lab.thing.created", ""])] {
        socket.send(json!({ "type": "subscribe", "id": "s", "types": types })).await;
        let refused = socket.answer("s").await;
        assert_eq!(problem(&refused, Code::BadRequest)["details"][0]["field"], "types[1]");
    }
    socket.subscribe(&["lab.thing.created"], None).await;
    served.make("one").await;
    assert_eq!(thing(&socket.receive().await["event"]).as_deref(), Some("one"));
}

async fn refusals_are_those_of_rest(app: TestApp) {
    let served = TestServer::new(app).await;
    let other = served.app.new_account("Other").await;
    let mut socket = served.ready_socket().await;
    let org = served.app.account;
    for (params, method, path, body) in [
        (json!({ "org_id": org }), "POST", served.app.things(), json!({})),
        (
            json!({ "org_id": org, "name": "a", "nope": 1 }),
            "POST",
            served.app.things(),
            json!({ "name": "a", "nope": 1 }),
        ),
        (
            json!({ "org_id": other, "name": "a" }),
            "POST",
            format!("/v1/lab/orgs/{other}/things"),
            json!({ "name": "a" }),
        ),
        (
            json!({ "org_id": "acc_1", "name": "a" }),
            "POST",
            "/v1/lab/orgs/acc_1/things".to_owned(),
            json!({ "name": "a" }),
        ),
        (
            json!({ "org_id": org, "name": "refuse" }),
            "POST",
            served.app.things(),
            json!({ "name": "refuse" }),
        ),
    ] {
        let frame = socket.call("lab.things.create", params).await;
        let mut rest = served
            .app
            .send(TestRequest::new(method, &path).bearer(&served.app.token).json(&body))
            .await
            .json();
        rest["request_id"] = json!("");
        assert_eq!(frame["problem"], rest);
    }
    problem(&socket.call("no.such", json!({})).await, Code::NotFound);
    problem(&socket.call("events.stream.open", json!({})).await, Code::NotFound);
    let missing = socket.call("lab.things.create", json!({ "name": "a" })).await;
    assert_eq!(problem(&missing, Code::BadRequest)["details"][0]["field"], "org_id");
}

async fn a_kept_answer_is_the_same_on_every_transport(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut socket = served.ready_socket().await;
    let org = served.app.account;
    for (name, code) in [("a", None), ("refuse", Some(Code::FailedPrecondition))] {
        let key = format!("key-{name}");
        let body = json!({ "name": name });
        let first = served
            .app
            .send(
                TestRequest::new("POST", &served.app.things())
                    .bearer(&served.app.token)
                    .header("idempotency-key", &key)
                    .json(&body),
            )
            .await
            .json();
        let call = json!({
            "type": "call", "id": "c", "method": "lab.things.create", "idempotency_key": key,
            "params": { "org_id": org, "name": name },
        });
        let runs = served.app.lab.runs();
        socket.send(call.clone()).await;
        let again = socket.answer("c").await;
        assert_eq!(served.app.lab.runs(), runs, "it ran once");
        match code {
            None => assert_eq!(again["result"], first),
            Some(code) => assert_eq!(problem(&again, code)["error"], first["error"]),
        }
        let mut changed = call;
        changed["params"]["name"] = json!("b");
        socket.send(changed).await;
        problem(&socket.answer("c").await, Code::Unprocessable);
    }
    let call = json!({
        "type": "call", "id": "c", "method": "lab.things.create", "idempotency_key": "",
        "params": { "org_id": org, "name": "a" },
    });
    socket.send(call).await;
    problem(&socket.answer("c").await, Code::BadRequest);
}

async fn a_call_can_be_taken_back(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut socket = served.ready_socket().await;
    let org = served.app.account;
    let params = json!({ "org_id": org, "name": "wait" });
    let wait = json!({ "type": "call", "id": "w", "method": "lab.things.create", "params": params });
    socket.send(wait.clone()).await;
    served.app.lab.waiting.notified().await;
    socket.send(wait).await;
    problem(&socket.answer("w").await, Code::Conflict);
    socket.send(json!({ "type": "cancel", "id": "w" })).await;
    problem(&socket.answer("w").await, Code::Cancelled);
    // Taken back twice, or after its end, it is nobody's any more.
    socket.send(json!({ "type": "cancel", "id": "w" })).await;
    assert_eq!(socket.call("identity.me.get", json!({})).await["type"], "answer");
    served.app.lab.go_on.notify_one();
}

async fn what_was_taken_back_is_in_nobodys_way(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut socket = served.ready_socket().await;
    let call = |id: &str, method: &str| json!({ "type": "call", "id": id, "method": method });
    for _ in 0..50 {
        socket.send(call("a", "platform.document.get")).await;
        socket.send(call("b", "identity.me.get")).await;
        socket.send(json!({ "type": "cancel", "id": "a" })).await;
        // The id is free again, and names the new call alone.
        socket.send(call("a", "identity.me.get")).await;
        let mut of_a = Vec::new();
        let mut of_b = 0;
        while of_b == 0 || of_a.last().is_none_or(|last: &Value| last["result"]["subject"].is_null()) {
            let frame = socket.receive().await;
            if frame["id"] == "b" { of_b += 1 } else { of_a.push(frame) }
        }
        // The first was taken back, or had its answer before.
        assert_eq!(of_a.len(), 2, "{of_a:?}");
    }
}

async fn calls_under_way_are_answered_before_a_stopping_server_closes(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut socket = served.ready_socket().await;
    let params = json!({ "org_id": served.app.account, "name": "wait", "id": "late" });
    socket.send(json!({ "type": "call", "id": "w", "method": "lab.things.create", "params": params })).await;
    served.app.lab.waiting.notified().await;
    let (lines, engine) = (served.app.app.connections.clone(), served.app.app.engine.clone());
    let drained = tokio::spawn(async move { lines.drain(&engine).await });
    served.app.lab.go_on.notify_one();
    let (frames, code) = socket.closed().await;
    assert_eq!((frames[0]["result"]["thing"]["id"].as_str(), code), (Some("late"), 4200));
    drained.await.unwrap();
}

async fn a_subscription_resumes_and_ends(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut socket = served.ready_socket().await;
    let begun = socket.subscribe(&["lab.thing.created"], None).await;
    served.make("one").await;
    let one = socket.receive().await;
    assert_eq!(thing(&one["event"]).as_deref(), Some("one"));
    socket.send(json!({ "type": "subscribe", "id": "again" })).await;
    assert_eq!(
        problem(&socket.answer("again").await, Code::FailedPrecondition)["details"][0]["reason"],
        "SUBSCRIBED"
    );
    socket.send(json!({ "type": "unsubscribe", "id": "s" })).await;
    assert_eq!(socket.answer("s").await["result"], json!({}));
    socket.send(json!({ "type": "unsubscribe", "id": "s" })).await;
    problem(&socket.answer("s").await, Code::NotFound);
    served.make("two").await;
    assert_eq!(socket.call("identity.me.get", json!({})).await["type"], "answer");
    let cursor = one["cursor"].as_str().unwrap();
    assert_eq!(socket.subscribe(&["lab.thing.created"], Some(cursor)).await, cursor);
    assert_eq!(socket.things(1).await, ["two"]);
    drop(socket);
    let mut socket = served.ready_socket().await;
    socket.subscribe(&[], Some(&begun)).await;
    assert_eq!(socket.things(2).await, ["one", "two"]);
    for (after, id) in [("nonsense", "n")] {
        let mut socket = served.ready_socket().await;
        socket.send(json!({ "type": "subscribe", "id": id, "after": after })).await;
        assert_eq!(problem(&socket.answer(id).await, Code::BadRequest)["details"][0]["field"], "after");
        socket.subscribe(&[], Some("99999-0")).await;
        assert_eq!(socket.receive().await["type"], "resync");
        assert_eq!(socket.things(2).await, ["one", "two"]);
    }
}

#[tokio::test]
async fn a_browser_says_who_it_is_in_its_first_frame() {
    let served = serve().await;
    let open = || async { SocketClient::open(served.address, None, Some("platform.v1")).await.unwrap() };
    let mut socket = open().await;
    socket.send(json!({ "type": "auth", "token": served.app.token })).await;
    assert_eq!(socket.receive().await["type"], "ready");
    assert_eq!(
        socket.call("identity.me.get", json!({})).await["result"],
        served.app.get("/v1/me").await.ok()
    );
    socket.send(json!({ "type": "auth", "token": served.app.token })).await;
    problem(&socket.receive().await, Code::FailedPrecondition);
    let without = served.app.token_without("events:read").await;
    for (frame, code, close) in [
        (json!({ "type": "auth", "token": "nonsense" }), Code::Unauthenticated, 4001),
        (json!({ "type": "auth", "token": without }), Code::Forbidden, 4003),
        (json!({ "type": "cancel", "id": "1" }), Code::BadRequest, 4004),
    ] {
        let mut socket = open().await;
        socket.send(frame).await;
        problem(&socket.receive().await, code);
        let (frames, closed) = socket.closed().await;
        assert_eq!((frames[0]["type"].as_str(), closed), (Some("closing"), close));
    }
    // Whoever says nothing is not waited for.
    let (frames, closed) = open().await.closed().await;
    assert_eq!((frames[0]["problem"]["code"].as_str(), closed), (Some("unauthenticated"), 4001));
}

#[tokio::test]
async fn whoever_is_not_known_yet_costs_little() {
    let served = serve().await;
    let head = "GET /v1/socket HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    // The head of a frame of two megabytes, and a frame of text that is not UTF-8.
    let huge = [0x81, 0xff, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0];
    let broken = [0x81, 0x81, 0, 0, 0, 0, 0xff];
    for (frame, code) in [(&huge[..], 1009_u16), (&broken[..], 1007)] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(&[head.as_bytes(), frame].concat()).await.unwrap();
        let mut answer = Vec::new();
        soon("the close", stream.read_to_end(&mut answer)).await.unwrap();
        assert!(answer.windows(2).any(|window| window == code.to_be_bytes()), "{code}");
    }
    // A ping comes before the token, and the token in two pieces.
    let mut socket = SocketClient::open(served.address, None, Some("platform.v1")).await.unwrap();
    socket.ws.send(Message::Ping(b"hello".to_vec().into())).await.unwrap();
    socket.send(json!({ "type": "auth", "token": served.app.token })).await;
    assert_eq!(socket.receive().await["type"], "ready");
    let note = "n".repeat(1 << 20);
    let params = json!({ "org_id": served.app.account, "name": "a", "note": note });
    let call = json!({ "type": "call", "id": "l", "method": "lab.things.create", "params": params });
    socket.send_text(&call.to_string()).await;
    assert_eq!(socket.answer("l").await["type"], "answer", "once it is known it may send as much as anybody");
    for query in ["?nope=1", "?account_id=acc_1"] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(head.replace("/v1/socket", &format!("/v1/socket{query}")).as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let read = stream.read(&mut answer).await.unwrap();
        let refused = portico_testkit::Answer::from_wire(&answer[..read]).unwrap();
        refused.refused(Code::BadRequest);
    }
}

#[tokio::test]
async fn frames_are_read_strictly() {
    let served = serve().await;
    let mut socket = served.ready_socket().await;
    for (text, field) in [
        ("not json", "body"),
        ("[]", "body"),
        ("{}", "type"),
        (r#"{"type":5}"#, "type"),
        (r#"{"type":"dance","id":"1"}"#, "type"),
        (r#"{"type":"call","method":"identity.me.get"}"#, "id"),
        (r#"{"type":"call","id":"","method":"identity.me.get"}"#, "id"),
        (r#"{"type":"call","id":7,"method":"identity.me.get"}"#, "id"),
        (r#"{"type":"call","id":"1"}"#, "method"),
        (r#"{"type":"call","id":"1","method":"identity.me.get","params":[]}"#, "params"),
        (r#"{"type":"call","id":"1","method":"identity.me.get","extra":1}"#, "extra"),
        (r#"{"type":"call","id":"1","method":"identity.me.get","params":{"a":1,"a":2}}"#, "params.a"),
        (r#"{"type":"subscribe","id":"1","types":"a"}"#, "types"),
    ] {
        socket.send_text(text).await;
        let frame = socket.receive().await;
        assert_eq!(problem(&frame, Code::BadRequest)["details"][0]["field"], field, "{text}");
    }
    socket.ws.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    problem(&socket.receive().await, Code::BadRequest);
    let long = format!(r#"{{"type":"call","id":"{}","method":"identity.me.get"}}"#, "x".repeat(101));
    socket.send_text(&long).await;
    problem(&socket.receive().await, Code::BadRequest);
    let many = format!(r#"{{"type":"call","id":"1","params":{{"x":[{}0]}}}}"#, "{\"\":0},".repeat(200_000));
    socket.send_text(&many).await;
    let frame = socket.receive().await;
    let said = &problem(&frame, Code::BadRequest)["details"][0]["description"];
    assert_eq!(said, "holds more than 10000 values, the maximum");
    // As large as a call may be, and larger.
    let org = served.app.account;
    let note = "n".repeat(2 << 20);
    let frame = json!({ "type": "call", "id": "l", "method": "lab.things.create",
        "params": { "org_id": org, "name": "a", "note": note } });
    socket.send_text(&frame.to_string()).await;
    assert_eq!(socket.answer("l").await["type"], "answer");
    let note = "n".repeat(3 << 20);
    let frame = json!({ "type": "call", "id": "l", "method": "lab.things.create",
        "params": { "org_id": org, "name": "a", "note": note } });
    // It may be closed before all of it was sent.
    let _ = socket.ws.send(Message::text(frame.to_string())).await;
    assert!([1009, 0].contains(&socket.closed().await.1));
}

#[tokio::test]
async fn what_is_no_websocket_is_refused_over_http() {
    let served = serve().await;
    let get = |path: &str| TestRequest::new("GET", path).bearer(&served.app.token);
    served.app.send(get("/v1/socket")).await.refused(Code::BadRequest);
    served.app.send(TestRequest::new("POST", "/v1/socket")).await.refused(Code::MethodNotAllowed);
    served.app.send(TestRequest::new("GET", "/v1/socket")).await.refused(Code::Unauthenticated);
    let refused = SocketClient::open(served.address, Some("nonsense"), None).await.err().unwrap();
    refused.refused(Code::Unauthenticated);
    let refused = SocketClient::open(served.address, Some(&served.app.token), Some("other")).await;
    refused.err().unwrap().refused_field("Sec-WebSocket-Protocol");
    let head = "GET /v1/socket HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n";
    for (rest, field) in [
        (
            "sec-websocket-version: 8\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
            "Sec-WebSocket-Version",
        ),
        ("sec-websocket-version: 13\r\n", "Sec-WebSocket-Key"),
    ] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(format!("{head}{rest}\r\n").as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let read = stream.read(&mut answer).await.unwrap();
        portico_testkit::Answer::from_wire(&answer[..read]).unwrap().refused_field(field);
    }
    // None is asked for: it may speak ours all the same.
    SocketClient::open(served.address, Some(&served.app.token), None).await.unwrap();
}

#[tokio::test]
async fn it_is_pinged_and_closed_when_nothing_is_heard() {
    let served = serve().await;
    let mut socket = served.ready_socket().await;
    for _ in 0..4 {
        served.app.advance(Duration::from_secs(15)).await;
        // The answer comes after the ping that the clock has caused, or before; a second one settles it.
        for id in ["a", "b"] {
            socket.send(json!({ "type": "call", "id": id, "method": "identity.me.get" })).await;
            socket.answer(id).await;
        }
    }
    assert!((3..=4).contains(&socket.pings), "{} pings in a minute", socket.pings);
    // Raw, so that nothing answers the pings.
    let mut raw = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "GET /v1/socket HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nauthorization: Bearer {}\r\n\r\n",
        served.app.token
    );
    raw.write_all(head.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("\"ready\"") {
        assert!(soon("ready", raw.read_buf(&mut seen)).await.unwrap() > 0);
    }
    served.app.clock.advance(Duration::from_mins(5));
    soon("the close", async { while raw.read_buf(&mut seen).await.unwrap_or(0) > 0 {} }).await;
    let close = 4202_u16.to_be_bytes();
    assert!(seen.windows(2).any(|window| window == close), "closed as idle");
    assert_eq!(socket.closed().await.1, 4202, "so is one whose pongs did not come in time");
}

#[tokio::test]
async fn only_so_many_calls_are_under_way() {
    let served = serve().await;
    let mut socket = served.ready_socket().await;
    let org = served.app.account;
    for at in 0..17 {
        let params = json!({ "org_id": org, "name": "wait" });
        let id = format!("c{at}");
        socket
            .send(json!({ "type": "call", "id": id, "method": "lab.things.create", "params": params }))
            .await;
    }
    let refused = problem(&socket.answer("c16").await, Code::RateLimited)["details"].clone();
    assert_eq!(refused[0]["reason"], "CALL_LIMIT");
    assert_eq!(refused[1], json!({ "type": "retry", "after_seconds": "1" }));
    drop(socket);
    let mut socket = served.ready_socket().await;
    assert_eq!(socket.call("identity.me.get", json!({})).await["type"], "answer");
    served.app.lab.go_on.notify_waiters();
}

//! Server-sent events, and what holds for every kind of stream.

use std::time::Duration;

use portico::Environment;
use portico_identity::RefreshTokenDays;
use portico_kernel::{Clock, Code};
use portico_testkit::{
    Browser, MqttClient, SseClient, TestApp, TestAppOptions, TestRequest, TestServer, on_both_databases,
    soon, turn,
};
use serde_json::{Value, json};

use crate::apps::{App, Tokens, sign_in_and_authorize};
use crate::signin::PASSWORD;

const TYPES: &str = "?types=lab.thing.created";

/// The number in a cursor, which is opaque to everyone but a test.
fn number(cursor: &str) -> i64 {
    cursor.split('-').next().unwrap().parse().unwrap()
}

on_both_databases! {
    events_come_as_they_are_committed,
    a_stream_resumes_where_it_was_cut,
    what_is_not_kept_any_more_is_told,
    what_does_not_read_is_refused,
    opening_a_stream_is_a_call,
    a_sign_of_life_comes_every_fifteen_seconds,
    it_ends_with_its_credential,
    a_stream_outlives_the_token_of_a_key_but_not_an_api_token,
    a_key_below_an_api_token_takes_its_streams_with_it,
    an_apps_streams_end_with_what_the_person_let_it_do,
    a_day_is_the_most,
    a_person_who_leaves_the_team_hears_no_more,
    thirty_two_for_a_credential_and_128_for_an_account,
    a_person_has_256_with_all_that_they_made,
    whoever_stops_reading_misses_nothing,
    a_stopping_server_ends_its_streams_in_order,
}

async fn events_come_as_they_are_committed(app: TestApp) {
    let served = TestServer::new(app).await;
    let other = served.app.new_account("Other").await;
    let mut stream = served.stream("", None).await.unwrap();
    assert!(stream.head.to_lowercase().contains("content-type: text/event-stream"));
    assert!(stream.head.to_lowercase().contains("cache-control: no-cache, no-transform"));
    assert_eq!((stream.first.retry.as_str(), stream.first.data.as_str()), ("2000", ""));
    served.app.token_with(other, served.app.all_scopes()).await;
    served.make("one").await;
    let events = [stream.event().await, stream.event().await];
    assert_eq!(events.each_ref().map(|event| event.event.as_str()), ["audit.event", "lab.thing.created"]);
    let envelope = events[1].json();
    assert_eq!(envelope["account_id"], json!(served.app.account));
    assert_eq!(envelope["type"], "lab.thing.created");
    assert_eq!(envelope["data"]["thing_id"], "one");
    assert_eq!(envelope["occurred_at"], json!(served.app.clock_text()));
    assert_eq!(number(&events[1].id), number(&stream.first.id) + 2);
    let listed =
        served.app.get(&format!("/v1/accounts/orgs/{}/events?page_size=1", served.app.account)).await.ok();
    assert_eq!(listed["events"][0], envelope, "it is the envelope of every other way");
}

async fn a_stream_resumes_where_it_was_cut(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut stream = served.stream(TYPES, None).await.unwrap();
    let begun = stream.first.id.clone();
    drop(stream);
    served.make("one").await;
    // Cut before the first event: the first block said where it began.
    stream = served.stream(TYPES, Some(&begun)).await.unwrap();
    let one = stream.event().await;
    drop(stream);
    for id in ["two", "three"] {
        served.make(id).await;
    }
    let event_id = one.json()["id"].as_str().unwrap().to_owned();
    for (query, last) in [
        (TYPES.to_owned(), Some(one.id.as_str())),
        (TYPES.to_owned(), Some(event_id.as_str())),
        (format!("{TYPES}&after={}", one.id), None),
        (format!("{TYPES}&after={event_id}"), None),
        // The header wins, because the address is that of the first time.
        (format!("{TYPES}&after={begun}"), Some(one.id.as_str())),
        (format!("{TYPES}&types=token.created"), Some(one.id.as_str())),
    ] {
        let mut stream = served.stream(&query, last).await.unwrap();
        assert_eq!(stream.things(2).await, ["two", "three"], "{query} {last:?}");
        served.make(&format!("after {} {query}", last.unwrap_or_default())).await;
        stream.things(1).await;
    }
}

async fn what_is_not_kept_any_more_is_told(app: TestApp) {
    let served = TestServer::new(app).await;
    served.make("old").await;
    let mut stream = served.stream("", None).await.unwrap();
    let old = stream.first.id.clone();
    served.make("older").await;
    let older = stream.event().await;
    drop(stream);
    served.app.advance(Duration::from_hours(33 * 24)).await;
    turn(&served.app, "engine.prune_events").await;
    let token = served.app.token_with(served.app.account, served.app.all_scopes()).await;
    served.make_with(&token, "new").await;
    for lost in [old.as_str(), &older.id, older.json()["id"].as_str().unwrap(), "999999-0", "1-AAAAAAAA"] {
        let mut stream = SseClient::open(served.address, &token, "", Some(lost)).await.unwrap();
        let resync = stream.event().await;
        assert_eq!((resync.event.as_str(), &resync.json()["recovered"]), ("resync", &json!(false)), "{lost}");
        // It goes on with the oldest that is there, and so does whoever resumes from what the resync names.
        assert_eq!(stream.things(1).await, ["new"]);
        let oldest = resync.json()["oldest"].as_str().unwrap().to_owned();
        let mut stream = SseClient::open(served.address, &token, "", Some(&oldest)).await.unwrap();
        assert_eq!(stream.event().await.event, "audit.event");
        assert_eq!(stream.things(1).await, ["new"]);
    }
}

async fn what_does_not_read_is_refused(app: TestApp) {
    let served = TestServer::new(app).await;
    let get =
        |path: &str| TestRequest::new("GET", &format!("/v1/events/stream{path}")).bearer(&served.app.token);
    for after in ["nonsense", "5", "5-", "evt_1", "-1-0"] {
        served.app.send(get(&format!("?after={after}"))).await.refused_field("after");
        served.app.send(get("").header("last-event-id", after)).await.refused_field("Last-Event-ID");
    }
    let named = served.app.send(get("?types=lab.thing.created&types=no.such")).await;
    assert!(named.refused_field("types[1]").contains("event type"), "{named:?}");
    let listed = format!("/v1/accounts/orgs/{}/events", served.app.account);
    for none in ["no.such", "", "lab.thing", "audit.*"] {
        served.app.get(&format!("{listed}?type={none}")).await.refused_field("type");
    }
    served.app.get(&format!("{listed}?type=token.created")).await.ok();
    served.app.send(get("?types=")).await.refused_field("types[0]");
    served.app.send(get(&format!("?types={}", "x".repeat(101)))).await.refused_field("types[0]");
    let many: Vec<_> = (0..101).map(|at| format!("types=a.{at}")).collect();
    served.app.send(get(&format!("?{}", many.join("&")))).await.refused_field("types");
    let other = served.app.new_account("Other").await;
    served.app.send(get(&format!("?account_id={other}"))).await.refused(Code::Forbidden);
    let head = served.app.send(TestRequest::new("HEAD", "/v1/events/stream").bearer(&served.app.token)).await;
    assert_eq!((head.status, head.header("content-type")), (200, "text/event-stream"));
    assert_eq!(served.app.app.connections.count(), 0, "nothing is left open");
}

async fn opening_a_stream_is_a_call(app: TestApp) {
    let served = TestServer::new(app).await;
    drop(served.stream("", None).await.unwrap());
    let mut socket = served.ready_socket().await;
    socket.call("identity.me.get", json!({})).await;
    served.app.catch_up().await;
    let path = format!("/v1/accounts/orgs/{}/requests", served.app.account);
    let requests = served.app.get(&path).await.ok();
    let requests: Vec<_> = requests["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["rpc"].as_str().unwrap(), &row["units"], &row["status"]))
        .collect();
    for (rpc, status) in [("events.stream.open", 200), ("events.socket.open", 101), ("identity.me.get", 200)]
    {
        assert!(requests.contains(&(rpc, &json!("1"), &json!(status))), "{rpc} in {requests:?}");
    }
}

async fn a_sign_of_life_comes_every_fifteen_seconds(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut stream = served.stream("?types=domain.verified", None).await.unwrap();
    let begun = number(&stream.first.id);
    for _ in 0..3 {
        served.app.advance(Duration::from_secs(15)).await;
        let block = stream.next().await.unwrap();
        assert_eq!((block.comments, block.data.as_str(), block.id.as_str()), (1, "", ""));
    }
    // What passed by unseen moves the client's place all the same.
    served.make("unseen").await;
    let block = loop {
        served.app.advance(Duration::from_secs(15)).await;
        let block = stream.next().await.unwrap();
        assert_eq!(block.comments, 1);
        // The first sign may have been on its way before the event.
        if !block.id.is_empty() {
            break block;
        }
    };
    assert_eq!(number(&block.id), begun + 2);
    let mut resumed = served.stream("", Some(&block.id)).await.unwrap();
    served.make("seen").await;
    assert_eq!(resumed.things(1).await, ["seen"]);
}

async fn it_ends_with_its_credential(app: TestApp) {
    let served = TestServer::new(app).await;
    let made = served.app.new_token(served.app.account, served.app.all_scopes(), 7).await;
    let (id, token) = (made["token_id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let mut stream = SseClient::open(served.address, token, "", None).await.unwrap();
    let mut socket = served.socket(token).await.unwrap();
    let mut unaffected = served.stream("?types=token.revoked", None).await.unwrap();
    assert_eq!(socket.receive().await["type"], "ready");
    served.app.admin(portico::admin::Admin::Revoke { id: id.to_owned() }).await;
    served.app.catch_up().await;
    let last = loop {
        let block = stream.event().await;
        if block.event == "error" {
            break block;
        }
    };
    assert_eq!(last.json()["code"], "unauthenticated");
    assert!(
        stream.head.contains(last.json()["request_id"].as_str().unwrap()),
        "it names the call that opened the stream"
    );
    assert_eq!(stream.next().await, None);
    let (frames, code) = socket.closed().await;
    assert_eq!((frames.last().unwrap()["type"].as_str(), code), (Some("closing"), 4001));
    assert_eq!(frames.last().unwrap()["retry"], false);
    assert_eq!(unaffected.event().await.json()["data"]["token_id"], json!(id));
}

async fn a_stream_outlives_the_token_of_a_key_but_not_an_api_token(app: TestApp) {
    let served = TestServer::new(app).await;
    let key = served.app.new_key(served.app.account, served.app.all_scopes()).await;
    let exchanged = served.app.exchange(&key).await;
    let mut of_key = SseClient::open(served.address, &exchanged, "", None).await.unwrap();
    let mut socket = served.socket(&exchanged).await.unwrap();
    assert_eq!(socket.receive().await["type"], "ready");
    // Not so far at once that the server thinks it stood still.
    for _ in 0..4 {
        served.app.advance(Duration::from_mins(4)).await;
        assert_eq!(of_key.next().await.unwrap().comments, 1);
        socket.send(json!({ "type": "call", "id": "c", "method": "identity.me.get" })).await;
        assert_eq!(socket.answer("c").await["type"], "answer");
    }
    served
        .app
        .send(TestRequest::new("GET", "/v1/me").bearer(&exchanged))
        .await
        .refused(Code::Unauthenticated);
    let short = served.app.new_token(served.app.account, served.app.all_scopes(), 7).await;
    let mut of_token =
        SseClient::open(served.address, short["token"].as_str().unwrap(), "", None).await.unwrap();
    drop((of_key, socket));
    served.app.advance(Duration::from_hours(24)).await;
    soon("the end", async { while of_token.next().await.is_some() {} }).await;
}

async fn a_key_below_an_api_token_takes_its_streams_with_it(app: TestApp) {
    let above = app.new_token(app.account, app.all_scopes(), 7).await;
    let keys = format!("/v1/accounts/orgs/{}/keys", app.account);
    let made = TestRequest::new("POST", &keys).bearer(above["token"].as_str().unwrap());
    let mut below = app.send(made.json(&json!({ "scopes": ["events:read"] }))).await.ok();
    below["client_id"] = below["key"]["id"].clone();
    let lasting = app.new_key(app.account, app.all_scopes()).await;
    app.advance(Duration::from_hours(7 * 24) - Duration::from_mins(2)).await;
    // A server that has just begun did not stand still.
    let served = TestServer::new(app.beside().await).await;
    let (token, lasting) = (app.exchange(&below).await, app.exchange(&lasting).await);
    let mut stream = SseClient::open(served.address, &token, "", None).await.unwrap();
    let mut socket = served.socket(&token).await.unwrap();
    assert_eq!(socket.receive().await["type"], "ready");
    let (mut mqtt, connack) = MqttClient::open(served.mqtt, 5, "a", &token, 2, &[]).await.unwrap();
    assert_eq!(connack[1], 0);
    let mut unaffected = served.socket(&lasting).await.unwrap();
    assert_eq!(unaffected.receive().await["type"], "ready");
    for _ in 0..3 {
        served.app.advance(Duration::from_secs(30)).await;
        mqtt.quiet().await;
        assert_eq!(socket.call("events.types.list", json!({})).await["type"], "answer");
        assert_eq!(stream.next().await.unwrap().comments, 1);
    }
    served.app.advance(Duration::from_secs(30)).await;
    let last = loop {
        let block = stream.next().await.unwrap();
        if block.event == "error" {
            break block;
        }
    };
    assert_eq!(last.json()["code"], "unauthenticated");
    assert_eq!(stream.next().await, None);
    let (frames, code) = socket.closed().await;
    assert_eq!((code, &frames.last().unwrap()["retry"]), (4002, &json!(false)));
    assert_eq!(mqtt.closed().await, Some(0x87));
    assert_eq!(unaffected.call("identity.me.get", json!({})).await["type"], "answer");
}

async fn an_apps_streams_end_with_what_the_person_let_it_do(app: TestApp) {
    let options = || {
        let refresh_token_days = RefreshTokenDays::new(1).unwrap();
        let environment = Environment { refresh_token_days, ..Environment::default() };
        TestAppOptions { environment, ..TestAppOptions::default() }
    };
    let app = app.beside_with(options()).await;
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::create(&app, "events:read", false).await;
    let tokens = sign_in_and_authorize(&app, &mut Browser::new(&app), &client, "events:read").await;
    app.advance(Duration::from_mins(24 * 60 - 5)).await;
    let again = [("grant_type", "refresh_token"), ("refresh_token", tokens.refresh.as_str())];
    let token = Tokens::read(&client.token(&app, &again).await).access;
    let served = TestServer::new(app.beside_with(options()).await).await;
    let mut stream = SseClient::open(served.address, &token, "", None).await.unwrap();
    served.app.advance(Duration::from_mins(4)).await;
    assert_eq!(stream.next().await.unwrap().comments, 1);
    served.app.advance(Duration::from_mins(1)).await;
    soon("the end", async { while stream.next().await.is_some() {} }).await;
}

async fn a_day_is_the_most(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut stream = served.stream("", None).await.unwrap();
    let mut socket = served.ready_socket().await;
    served.app.clock.advance(Duration::from_hours(24));
    soon("the end", async { while stream.next().await.is_some() {} }).await;
    let (frames, code) = socket.closed().await;
    assert_eq!((code, &frames.last().unwrap()["retry"]), (4201, &json!(true)));
}

async fn a_person_who_leaves_the_team_hears_no_more(app: TestApp) {
    let served = TestServer::new(app).await;
    let person = served.app.new_person("ada@test", None).await;
    served.app.join(served.app.account, person.id, portico_kernel::Role::Member).await;
    let token = served.app.person_token(person.id).await;
    let team = format!("?account_id={}", served.app.account);
    let mut stream = SseClient::open(served.address, &token, &team, None).await.unwrap();
    served.make("one").await;
    stream.things(1).await;
    let path = format!("/v1/accounts/orgs/{}/members/{}", served.app.account, person.id);
    let owner = served.app.new_person("owner@test", None).await;
    served.app.join(served.app.account, owner.id, portico_kernel::Role::Owner).await;
    let owner = served.app.person_token(owner.id).await;
    served.app.send(TestRequest::new("DELETE", &path).bearer(&owner)).await.ok();
    served.app.advance(Duration::from_secs(2)).await;
    soon("the end", async { while stream.next().await.is_some() {} }).await;
}

async fn thirty_two_for_a_credential_and_128_for_an_account(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut tokens = vec![served.app.token.clone()];
    for _ in 0..4 {
        tokens.push(served.app.token_with(served.app.account, served.app.all_scopes()).await);
    }
    let (mut streams, mut sockets) = (Vec::new(), Vec::new());
    for token in &tokens[..4] {
        for at in 0..32 {
            if at % 2 == 0 {
                streams.push(SseClient::open(served.address, token, "", None).await.unwrap());
            } else {
                sockets.push(served.socket(token).await.unwrap());
            }
        }
    }
    for (token, of, limit) in [(&tokens[0], "credential", "32"), (&tokens[4], "account", "128")] {
        let refused =
            SseClient::open(served.address, token, "", None).await.err().unwrap().refused(Code::RateLimited);
        assert_eq!(refused["details"][0]["reason"], "STREAM_LIMIT");
        assert_eq!(refused["details"][0]["metadata"], json!({ "of": of, "limit": limit }));
        served.socket(token).await.err().unwrap().refused(Code::RateLimited);
    }
    // Being refused costs nothing.
    served.app.catch_up().await;
    let path = format!("/v1/accounts/orgs/{}/requests?status=429", served.app.account);
    let requests = served.app.get(&path).await.ok();
    let requests = requests["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().all(|request| request["units"] == "0"), "{requests:?}");
    // A browser's comes after the upgrade.
    let mut late =
        portico_testkit::SocketClient::open(served.address, None, Some("platform.v1")).await.unwrap();
    late.send(json!({ "type": "auth", "token": tokens[4] })).await;
    let (frames, code) = late.closed().await;
    assert_eq!((frames[0]["problem"]["code"].as_str(), code), (Some("rate_limited"), 4100));
    // Other accounts are not held back, and a place that is given back can be taken.
    let other = served.app.new_account("Other").await;
    let other = served.app.token_with(other, served.app.all_scopes()).await;
    SseClient::open(served.address, &other, "", None).await.unwrap();
    drop(streams.pop());
    soon("a place", async { while SseClient::open(served.address, &tokens[4], "", None).await.is_err() {} })
        .await;
}

async fn a_person_has_256_with_all_that_they_made(app: TestApp) {
    let served = TestServer::new(app).await;
    let app = &served.app;
    let person = app.new_person("ada@example.com", None).await;
    let own = app.person_token(person.id).await;
    let post = async |token: &str, path: &str, body: &Value| {
        app.send(TestRequest::new("POST", &format!("/v1/accounts/orgs{path}")).bearer(token).json(body))
            .await
            .ok()
    };
    let open = async |token: &str, query: &str| SseClient::open(served.address, token, query, None).await;
    let scopes = json!({ "scopes": ["events:read", "account:keys"], "days": 7 });
    let mut teams = Vec::new();
    for name in ["one", "two", "three"] {
        teams.push(post(&own, "", &json!({ "name": name })).await["id"].as_str().unwrap().to_owned());
    }
    let mut streams = Vec::new();
    for team in &teams[..2] {
        for number in 0..4 {
            let made = post(&own, &format!("/{team}/tokens"), &scopes).await;
            let mut token = made["token"].as_str().unwrap().to_owned();
            if number == 3 {
                // A key that was made by one that they made.
                let mut key =
                    post(&token, &format!("/{team}/keys"), &json!({ "scopes": ["events:read"] })).await;
                key["client_id"] = key["key"]["id"].clone();
                token = app.exchange(&key).await;
            }
            for _ in 0..32 {
                streams.push(open(&token, "").await.unwrap());
            }
        }
    }
    let other = post(&own, &format!("/{}/tokens", teams[2]), &scopes).await;
    let in_team = format!("?account_id={}", teams[2]);
    for (token, query) in [(other["token"].as_str().unwrap(), ""), (&own, in_team.as_str())] {
        let refused = open(token, query).await.err().unwrap().refused(Code::RateLimited);
        assert_eq!(refused["details"][0]["metadata"], json!({ "of": "person", "limit": "256" }));
    }
    // What the operator made is of nobody.
    let team = teams[2].parse().unwrap();
    open(&app.token_with(team, app.all_scopes()).await, "").await.unwrap();
    streams.truncate(200);
    soon("room", async {
        while app.app.connections.count() > 201 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // As themselves they have 32, wherever.
    for number in 0..32 {
        let query = if number % 2 == 0 { "" } else { &in_team };
        streams.push(open(&own, query).await.unwrap());
    }
    let refused = open(&own, "").await.err().unwrap().refused(Code::RateLimited);
    assert_eq!(refused["details"][0]["metadata"], json!({ "of": "credential", "limit": "32" }));
}

async fn whoever_stops_reading_misses_nothing(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut slow = served.stream(TYPES, None).await.unwrap();
    let mut fast = served.stream(TYPES, None).await.unwrap();
    let note = "n".repeat(1_000);
    let mut ids = Vec::new();
    // More than the kernel's buffers, the ring and the tail in memory hold together.
    for at in 0..6_000 {
        let id = format!("thing-with-a-long-name-{at:0>30}");
        served.app.post(&served.app.things(), &json!({ "id": id, "name": "a", "note": note })).await.ok();
        ids.push(id);
    }
    assert_eq!(fast.things(ids.len()).await, ids);
    assert_eq!(slow.things(ids.len()).await, ids);
}

async fn a_stopping_server_ends_its_streams_in_order(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut stream = served.stream("", None).await.unwrap();
    let mut socket = served.ready_socket().await;
    served.app.stopping.begin();
    served.stop.send_replace(true);
    let (lines, engine) = (served.app.app.connections.clone(), served.app.app.engine.clone());
    let drained = tokio::spawn(async move { lines.drain(&engine).await });
    soon("the end", async { while stream.next().await.is_some() {} }).await;
    let (frames, code) = socket.closed().await;
    assert_eq!((code, &frames.last().unwrap()["retry"]), (4200, &json!(true)));
    drained.await.unwrap();
    served.server.await.unwrap();
    assert_eq!(served.app.app.connections.count(), 0);
}

#[tokio::test]
async fn the_scope_is_asked_for() {
    let served = TestServer::new(TestApp::new(portico_testkit::Database::Sqlite).await).await;
    let token = served.app.token_without("events:read").await;
    let refused =
        SseClient::open(served.address, &token, "", None).await.err().unwrap().refused(Code::Forbidden);
    assert_eq!(refused["details"][0]["metadata"]["scope"], "events:read");
    served.socket(&token).await.err().unwrap().refused(Code::Forbidden);
    SseClient::open(served.address, "nonsense", "", None).await.err().unwrap().refused(Code::Unauthenticated);
    assert!(served.app.clock.now().as_seconds() > 0);
}

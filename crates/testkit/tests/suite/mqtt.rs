//! MQTT over a real listener: events, sessions, calls, and how connections end.

use std::time::Duration;

use portico::admin::Admin;
use portico_testkit::{
    Browser, MqttClient as Client, MqttMessage as Published, TestApp, TestServer, mqtt_text as text,
    on_both_databases,
};
use serde_json::json;

use crate::apps::{App, sign_in_and_authorize};
use crate::signin::PASSWORD;

const CREATED: &str = "events/lab.thing.created";
const CLEAN: u8 = 2;

async fn let_in(served: &TestServer, version: u8, id: &str) -> Client {
    let (client, connack) = connect(served, version, id, &served.app.token, CLEAN, &[]).await;
    assert_eq!(connack[1], 0, "{connack:?}");
    client
}

/// Connects, and answers the body of the CONNACK too.
async fn connect(
    served: &TestServer,
    version: u8,
    id: &str,
    token: &str,
    flags: u8,
    properties: &[u8],
) -> (Client, Vec<u8>) {
    Client::open(served.mqtt, version, id, token, flags, properties).await.unwrap()
}

fn thing(published: &Published) -> &str {
    published.payload["data"]["thing_id"].as_str().unwrap()
}

on_both_databases! {
    events_arrive_in_both_versions_and_with_both_qualities,
    a_session_goes_on_where_its_client_stopped,
    calls_are_those_of_rest,
    a_topic_of_events_names_an_event_type,
    subscriptions_count_in_the_minute,
    whoever_goes_on_after_a_hundred_refusals_is_closed,
    a_session_that_ends_with_its_connection_is_never_written,
    a_persons_apps_share_neither_names_nor_sessions,
}

async fn events_arrive_in_both_versions_and_with_both_qualities(app: TestApp) {
    let served = TestServer::new(app).await;
    let other = served.app.new_account("Other").await;
    let other = served.app.token_with(other, served.app.all_scopes()).await;
    let (mut stranger, _) = connect(&served, 5, "a", &other, CLEAN, &[]).await;
    stranger.subscribe("events/#", 1).await;
    let mut clients = Vec::new();
    for version in [4, 5] {
        for qos in [0, 1] {
            let mut client = let_in(&served, version, &format!("{version}{qos}")).await;
            assert_eq!(client.subscribe(CREATED, qos).await, qos);
            // Again, and once more with another: nothing comes twice.
            assert_eq!(client.subscribe(CREATED, qos).await, qos);
            assert_eq!(client.subscribe("events/+", 0).await, 0);
            clients.push((client, qos));
        }
    }
    served.make("one").await;
    for (client, qos) in &mut clients {
        let mut events = [client.published().await, client.published().await];
        events.sort_by_key(|event| event.topic.clone());
        let [audit, created] = events;
        assert_eq!((audit.topic.as_str(), audit.id), ("events/audit.event", None));
        assert_eq!((created.topic.as_str(), created.id.is_some()), (CREATED, *qos == 1));
        assert_eq!(thing(&created), "one");
        if client.version == 5 {
            let id = created.payload["id"].as_str().unwrap();
            for part in ["application/json", "event_id", id, "cursor"] {
                assert!(created.properties.contains(part), "{}", created.properties);
            }
        }
        if let Some(id) = created.id {
            client.acknowledge(id).await;
        }
        client.quiet().await;
    }
    stranger.quiet().await;
}

async fn a_topic_of_events_names_an_event_type(app: TestApp) {
    let served = TestServer::new(app).await;
    for (version, refused) in [(4, 0x80), (5, 0x8f)] {
        let mut client = let_in(&served, version, &format!("{version}")).await;
        assert_eq!(client.subscribe("events/no.such", 1).await, refused);
        assert_eq!(client.subscribe(CREATED, 1).await, 1);
    }
}

async fn subscriptions_count_in_the_minute(app: TestApp) {
    let served = TestServer::new(app).await;
    for (version, over) in [(4, 0x80), (5, 0x97)] {
        let token = served.app.slow_token().await;
        let (mut client, _) = connect(&served, version, "busy", &token, CLEAN, &[]).await;
        // Connecting was the first of five.
        for _ in 0..3 {
            assert_eq!(client.subscribe(CREATED, 1).await, 1);
        }
        client.unsubscribe(CREATED).await;
        assert_eq!(client.next().await.unwrap().0, 0xb0);
        assert_eq!(client.subscribe(CREATED, 1).await, over);
        client.unsubscribe(CREATED).await;
        if version == 4 {
            // There is no answer that would say so.
            assert_eq!(client.closed().await, None);
            continue;
        }
        assert_eq!(client.next().await.unwrap(), (0xb0, vec![0, 9, 0, 0x83]));
        served.app.clock.advance(Duration::from_secs(30));
        client.quiet().await;
        served.app.clock.advance(Duration::from_secs(30));
        assert_eq!(client.subscribe(CREATED, 1).await, 1);
    }
}

async fn whoever_goes_on_after_a_hundred_refusals_is_closed(app: TestApp) {
    let served = TestServer::new(app).await;
    let token = served.app.slow_token().await;
    let (mut client, _) = connect(&served, 5, "busy", &token, CLEAN, &[]).await;
    // Connecting was the first of five.
    for number in 0..104 {
        let code = if number < 4 { 1 } else { 0x97 };
        assert_eq!(client.subscribe(CREATED, 1).await, code, "{number}");
    }
    assert_eq!(client.closed().await, Some(0x97));
}

async fn a_session_that_ends_with_its_connection_is_never_written(app: TestApp) {
    let served = TestServer::new(app).await;
    let token = served.app.token.clone();
    let (mut client, connack) = connect(&served, 5, "passing", &token, 0, &[]).await;
    assert_eq!(connack[..2], [0, 0]);
    client.subscribe(CREATED, 1).await;
    assert_eq!(served.app.count("mqtt_sessions").await, 0);
    drop(client);
    // What a lasting session left is gone on with all the same, and is over then.
    let hour = [&[0x11][..], &3600_u32.to_be_bytes()].concat();
    let (mut client, _) = connect(&served, 5, "lasting", &token, 0, &hour).await;
    client.subscribe(CREATED, 1).await;
    client.send(0xe0, &[]).await;
    assert!(client.next().await.is_none());
    served.make("one").await;
    let (mut client, connack) = connect(&served, 5, "lasting", &token, 0, &[]).await;
    assert_eq!(connack[..2], [1, 0]);
    assert_eq!(thing(&client.published().await), "one");
    assert_eq!(served.app.count("mqtt_sessions").await, 0);
    drop(client);
    let (_, connack) = connect(&served, 5, "lasting", &token, 0, &[]).await;
    assert_eq!(connack[..2], [0, 0]);
}

async fn a_persons_apps_share_neither_names_nor_sessions(app: TestApp) {
    let served = TestServer::new(app).await;
    served.app.new_person("ada@example.com", Some(PASSWORD)).await;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let client = App::create(&served.app, "events:read", false).await;
        let mut browser = Browser::new(&served.app);
        tokens.push(sign_in_and_authorize(&served.app, &mut browser, &client, "events:read").await.access);
    }
    let (mut first, _) = connect(&served, 4, "same", &tokens[0], 0, &[]).await;
    first.subscribe("events/#", 1).await;
    let (mut second, connack) = connect(&served, 4, "same", &tokens[1], 0, &[]).await;
    assert_eq!(connack[..2], [0, 0], "what the other app subscribed is not its own");
    first.quiet().await;
    second.send(0xe0, &[]).await;
    assert!(second.next().await.is_none());
    drop(first);
    let (_again, connack) = connect(&served, 4, "same", &tokens[0], 0, &[]).await;
    assert_eq!(connack[..2], [1, 0]);
}

async fn a_session_goes_on_where_its_client_stopped(app: TestApp) {
    let served = TestServer::new(app).await;
    let token = served.app.token.clone();
    let hour = [&[0x11][..], &3600_u32.to_be_bytes()].concat();
    for (version, properties) in [(4, &[][..]), (5, &hour[..])] {
        let name = |number: usize| format!("{version}-{number}");
        let (mut client, connack) = connect(&served, version, "back", &token, 0, properties).await;
        assert_eq!(connack[..2], [0, 0]);
        client.subscribe(CREATED, 1).await;
        for number in 0..3 {
            served.make(&name(number)).await;
        }
        let mut ids = Vec::new();
        for number in 0..3 {
            let event = client.published().await;
            assert_eq!(thing(&event), name(number));
            ids.push(event.id.unwrap());
        }
        // The second is left out, so it and what follows comes again.
        client.acknowledge(ids[0]).await;
        client.acknowledge(ids[2]).await;
        client.quiet().await;
        drop(client);
        served.make(&name(3)).await;
        let (mut client, connack) = connect(&served, version, "back", &token, 0, properties).await;
        assert_eq!(connack[..2], [1, 0]);
        for number in 1..4 {
            let event = client.published().await;
            assert_eq!(thing(&event), name(number));
            client.acknowledge(event.id.unwrap()).await;
        }
        client.quiet().await;
        client.send(0xe0, &[]).await;
        assert!(client.next().await.is_none());
        // Whoever wants a clean start has nothing of it, and leaves nothing.
        let (mut client, connack) = connect(&served, version, "back", &token, CLEAN, &[]).await;
        assert_eq!(connack[..2], [0, 0]);
        served.make(&name(4)).await;
        client.quiet().await;
        drop(client);
        let (_, connack) = connect(&served, version, "back", &token, CLEAN, &[]).await;
        assert_eq!(connack[..2], [0, 0]);
    }
}

async fn calls_are_those_of_rest(app: TestApp) {
    let served = TestServer::new(app).await;
    let mut client = let_in(&served, 5, "caller").await;
    let me = client.call("identity.me.get", "", None).await;
    assert!(me.properties.contains("answer"));
    assert_eq!(me.payload, served.app.get("/v1/me").await.ok());
    let create = json!({ "org_id": served.app.account, "name": "a", "id": "made" }).to_string();
    let first = client.call("lab.things.create", &create, Some("k")).await;
    let again = client.call("lab.things.create", &create, Some("k")).await;
    assert_eq!((first.payload["thing"]["id"].as_str(), &first.payload), (Some("made"), &again.payload));
    for (method, payload, code) in [
        ("lab.things.create", create.as_str(), "already_exists"),
        ("lab.things.create", "{\"name\":1,", "bad_request"),
        ("nowhere", "{}", "not_found"),
    ] {
        let refused = client.call(method, payload, None).await;
        assert!(refused.properties.contains("error"));
        assert_eq!((&refused.payload["code"], &refused.payload["request_id"]), (&json!(code), &json!("")));
    }
    let many = format!(r#"{{"x":[{}0]}}"#, "{\"\":0},".repeat(20_000));
    let refused = client.call("lab.things.create", &many, None).await;
    assert_eq!(refused.payload["details"][0]["description"], "holds more than 10000 values, the maximum");
    // Without a topic for the answer, or elsewhere, it is refused; the connection stays.
    client.send(0x32, &[&text("rpc/identity.me.get"), &[0, 8, 0][..]].concat()).await;
    assert_eq!(client.next().await.unwrap(), (0x40, vec![0, 8, 0x83]));
    client.send(0x32, &[&text(CREATED), &[0, 8, 0][..]].concat()).await;
    assert_eq!(client.next().await.unwrap(), (0x40, vec![0, 8, 0x87]));
    client.send(0x30, &[&text(CREATED), &[0][..]].concat()).await;
    client.quiet().await;
    // An answer that the client does not take becomes a refusal.
    let small = [&[0x27][..], &300_u32.to_be_bytes()].concat();
    let (mut client, _) = connect(&served, 5, "small", &served.app.token, CLEAN, &small).await;
    let refused = client.call("events.types.list", "", None).await;
    assert_eq!(refused.payload["code"], "payload_too_large");
}

#[tokio::test]
async fn who_may_not_is_refused_with_its_code() {
    let served = TestServer::new(TestApp::new(portico_testkit::Database::Sqlite).await).await;
    let without = served.app.token_without("events:read").await;
    let token = served.app.token.clone();
    let long = "x".repeat(129);
    for (id, token, flags, five, three) in [
        ("a", "nonsense", CLEAN, 0x86, 4),
        ("a", "", CLEAN, 0x86, 4),
        ("a", &without, CLEAN, 0x87, 5),
        (&long, &token, CLEAN, 0x85, 2),
    ] {
        for (version, code) in [(5, five), (4, three)] {
            let (mut client, connack) = connect(&served, version, id, token, flags, &[]).await;
            assert_eq!(connack[1], code, "{id} {version}");
            assert!(client.next().await.is_none());
        }
    }
    let (_, connack) = connect(&served, 4, "", &token, 0, &[]).await;
    assert_eq!(connack[1], 2);
    let (_, connack) = connect(&served, 5, "", &token, CLEAN, &[]).await;
    assert!(String::from_utf8_lossy(&connack).contains("client-"));
    let mut client = let_in(&served, 5, "a").await;
    for (filter, code) in [("#", 0x87), ("rpc/#", 0x87), ("$share/a/events/#", 0x9e), ("rpc/reply/+", 1)] {
        assert_eq!(client.subscribe(filter, 2).await, code, "{filter}");
    }
    assert_eq!(let_in(&served, 4, "b").await.subscribe("#", 1).await, 0x80);
    // What must not be sent ends the connection.
    for (head, body, reason) in [
        (0x34, [&text("rpc/a"), &[0, 1, 0][..]].concat(), 0x9b),
        (0x31, [&text("rpc/a"), &[0][..]].concat(), 0x9a),
        (0x10, vec![], 0x82),
        (0x80, vec![], 0x81),
    ] {
        let mut client = let_in(&served, 5, "a").await;
        client.send(head, &body).await;
        assert_eq!(client.closed().await, Some(reason));
        let mut client = let_in(&served, 4, "a").await;
        client.send(head, &body).await;
        assert_eq!(client.closed().await, None);
    }
}

#[tokio::test]
async fn there_are_32_and_the_next_is_told_why() {
    let served = TestServer::new(TestApp::new(portico_testkit::Database::Sqlite).await).await;
    let mut clients = Vec::new();
    for number in 0..32 {
        clients.push(let_in(&served, 5, &number.to_string()).await);
    }
    let (_, connack) = connect(&served, 5, "more", &served.app.token, CLEAN, &[]).await;
    assert_eq!(connack[1], 0x97);
    assert!(String::from_utf8_lossy(&connack).contains("32"));
    let (_, connack) = connect(&served, 4, "more", &served.app.token, CLEAN, &[]).await;
    assert_eq!(connack[1], 3);
    // Who comes back under its own name needs no second place.
    let _again = let_in(&served, 5, "7").await;
    assert_eq!(clients[7].closed().await, Some(0x8e));
}

#[tokio::test]
async fn a_name_is_taken_over_within_its_credential_alone() {
    let served = TestServer::new(TestApp::new(portico_testkit::Database::Sqlite).await).await;
    let other = served.app.token_with(served.app.account, served.app.all_scopes()).await;
    let mut first = let_in(&served, 5, "same").await;
    let (mut theirs, _) = connect(&served, 5, "same", &other, CLEAN, &[]).await;
    first.quiet().await;
    let mut second = let_in(&served, 4, "same").await;
    assert_eq!(first.closed().await, Some(0x8e));
    theirs.quiet().await;
    second.quiet().await;
}

#[tokio::test]
async fn silence_and_revocation_end_it() {
    let served = TestServer::new(TestApp::new(portico_testkit::Database::Sqlite).await).await;
    let mut client = let_in(&served, 5, "silent").await;
    served.app.clock.advance(Duration::from_secs(44));
    client.quiet().await;
    served.app.clock.advance(Duration::from_secs(44));
    client.quiet().await;
    served.app.clock.advance(Duration::from_secs(45));
    assert_eq!(client.closed().await, Some(0x8d));

    served.app.catch_up().await;
    let made = served.app.new_token(served.app.account, served.app.all_scopes(), 7).await;
    let (mut client, _) = connect(&served, 5, "gone", made["token"].as_str().unwrap(), CLEAN, &[]).await;
    client.subscribe("events/#", 1).await;
    served.app.admin(Admin::Revoke { id: made["token_id"].as_str().unwrap().to_owned() }).await;
    served.app.catch_up().await;
    // Its own end may be told before it comes.
    loop {
        let (head, body) = client.next().await.unwrap();
        if head == 0xe0 {
            assert_eq!(body, [0x87]);
            break;
        }
    }
    assert!(client.next().await.is_none());
}

#[tokio::test]
async fn a_slow_client_holds_a_window_and_loses_nothing() {
    let served = TestServer::new(TestApp::new(portico_testkit::Database::Sqlite).await).await;
    let three = [0x21, 0, 3];
    let (mut client, _) = connect(&served, 5, "slow", &served.app.token, CLEAN, &three).await;
    client.subscribe(CREATED, 1).await;
    for number in 0..20 {
        served.make(&number.to_string()).await;
    }
    let mut under_way = Vec::new();
    for number in 0..20 {
        let event = client.published().await;
        assert_eq!(thing(&event), number.to_string());
        under_way.push(event.id.unwrap());
        if under_way.len() == 3 {
            client.quiet().await;
            for id in under_way.drain(..).rev() {
                client.acknowledge(id).await;
            }
        }
    }
}

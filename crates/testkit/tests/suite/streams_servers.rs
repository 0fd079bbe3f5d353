//! Clients that are cut off at random, and servers that are killed: whoever resumes misses nothing, on any transport.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use portico_kernel::AccountId;
use portico_store::{Db, Select, args, from_row};
use portico_testkit::{Database, MqttClient, SocketClient, SseClient, TestDatabase, kills, volume};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::metering_servers::client::{Client, Target, below};
use crate::program::Server;

/// Events in a full run, and how many one call makes: an audit entry, the thing's own, and its echoes.
const EVENTS: usize = 100_000;
const EVENTS_PER_CALL: usize = 200;
/// How often each client is cut off in a full run, beside the times when its server goes.
const CUTS: usize = 100;
const CALLERS: usize = 4;
/// The thing that is made last.
const LAST: &str = "the last";

/// Where the server is, its API and its MQTT; nowhere while there is none.
type Where = watch::Receiver<Option<(SocketAddr, SocketAddr)>>;

fn place(server: &Server) -> (SocketAddr, SocketAddr) {
    (server.api.parse().unwrap(), server.mqtt.parse().unwrap())
}

/// An event as a client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    id: String,
    thing: Option<String>,
}

impl Seen {
    fn new(envelope: &Value) -> Self {
        let id = envelope["id"].as_str().unwrap().to_owned();
        Self { id, thing: portico_testkit::thing(envelope) }
    }
}

/// What a client has taken so far, and where to go on.
#[derive(Default)]
struct Log {
    seen: Vec<Seen>,
    cursor: Option<String>,
}

impl Log {
    fn take(&mut self, envelope: &Value, cursor: &str) -> bool {
        let seen = Seen::new(envelope);
        let last = seen.thing.as_deref() == Some(LAST);
        self.seen.push(seen);
        self.cursor = Some(cursor.to_owned());
        last
    }
}

/// Waits until there is a server.
async fn find(server: &mut Where) -> (SocketAddr, SocketAddr) {
    server.wait_for(Option::is_some).await.unwrap().unwrap()
}

/// How many events a client takes before it is cut off.
fn patience() -> usize {
    below(2 * EVENTS / CUTS)
}

/// Follows over server-sent events, until the last.
async fn over_sse(token: Arc<str>, mut server: Where, ready: Arc<Semaphore>) -> Log {
    let mut log = Log::default();
    loop {
        let (address, _) = find(&mut server).await;
        let dialled = tokio::spawn({
            let (token, cursor) = (token.clone(), log.cursor.clone());
            async move { SseClient::open(address, &token, "", cursor.as_deref()).await }
        });
        // A dial that fails panics in its own task: the server has gone in between.
        let Ok(Ok(mut stream)) = dialled.await else {
            tokio::task::yield_now().await;
            continue;
        };
        log.cursor.get_or_insert(stream.first.id.clone());
        ready.add_permits(1);
        for _ in 0..=patience() {
            let Some(block) = stream.next().await else { break };
            assert!(block.event != "resync" && block.event != "error", "{block:?}");
            if !block.data.is_empty() && log.take(&block.json(), &block.id) {
                return log;
            }
        }
    }
}

/// Follows over the socket, until the last.
async fn over_socket(token: Arc<str>, mut server: Where, ready: Arc<Semaphore>) -> Log {
    let mut log = Log::default();
    loop {
        let (address, _) = find(&mut server).await;
        let dialled = tokio::spawn({
            let (token, cursor) = (token.clone(), log.cursor.clone());
            async move {
                let mut socket = SocketClient::open(address, Some(&token), None).await.ok()?;
                let subscribe = json!({ "type": "subscribe", "id": "s", "after": cursor });
                socket.send(subscribe).await;
                let cursor = socket.answer("s").await["result"]["cursor"].as_str()?.to_owned();
                Some((socket, cursor))
            }
        });
        let Ok(Some((mut socket, cursor))) = dialled.await else {
            tokio::task::yield_now().await;
            continue;
        };
        log.cursor.get_or_insert(cursor);
        ready.add_permits(1);
        for _ in 0..=patience() {
            let Ok(frame) = socket.receive_or_close().await else { break };
            if frame["type"] == "closing" {
                break;
            }
            assert_eq!(frame["type"], "event", "{frame}");
            if log.take(&frame["event"], frame["cursor"].as_str().unwrap()) {
                return log;
            }
        }
    }
}

/// Follows over MQTT with a session that is kept, until the last. What comes again after a cut is passed over, as a client
/// would by the event's id; what comes again within a connection is not.
async fn over_mqtt(token: Arc<str>, mut server: Where, ready: Arc<Semaphore>) -> Log {
    const FOR_AN_HOUR: [u8; 5] = [0x11, 0, 0, 0x0e, 0x10];
    let (mut log, mut known) = (Log::default(), HashSet::new());
    loop {
        let (_, address) = find(&mut server).await;
        let Some((mut client, connack)) = MqttClient::open(address, 5, "c", &token, 0, &FOR_AN_HOUR).await
        else {
            tokio::task::yield_now().await;
            continue;
        };
        if connack[1] == 0x88 {
            // It is about to stop.
            tokio::task::yield_now().await;
            continue;
        }
        assert_eq!(connack[1], 0, "{connack:?}");
        if connack[0] == 0 {
            assert!(log.seen.is_empty(), "the session was lost");
            client.subscribe("events/#", 1).await;
            ready.add_permits(1);
        }
        let mut now = HashSet::new();
        for _ in 0..=patience() {
            let Some(published) = client.published_or_end().await else { break };
            client.acknowledge(published.id.unwrap()).await;
            let id = published.payload["id"].as_str().unwrap().to_owned();
            assert!(now.insert(id.clone()), "twice on one connection");
            if known.insert(id) && log.take(&published.payload, "") {
                return log;
            }
        }
    }
}

/// Makes things until there are enough, or the server goes.
async fn load(api: String, target: Target, left: Arc<AtomicUsize>, names: Arc<AtomicUsize>) {
    let line = format!("POST /v1/lab/orgs/{}/things", target.org);
    let Some(mut client) = Client::connect(&api, &target).await else { return };
    while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
        let name = names.fetch_add(1, Ordering::SeqCst);
        let body = json!({ "name": "n", "id": format!("t{name}"), "echoes": EVENTS_PER_CALL - 2 });
        if client.call(&line, &body.to_string(), "load").await.is_none() {
            return;
        }
    }
}

struct EventRow {
    id: String,
}

from_row!(EventRow { id });

/// The account's events after the first so many, as the database has them.
async fn truth(database: &TestDatabase, account: &str, after: i64) -> Vec<String> {
    let db = Db::open(&database.url).await.unwrap();
    let account: AccountId = account.parse().unwrap();
    let text = "select id from events where account_id = $1 and sequence > $2 order by sequence";
    let rows: Vec<EventRow> = db.query().all(text, args![account, after]).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

async fn resumed_without_loss(kind: Database) {
    let database = TestDatabase::create(kind).await;
    let target = Target::create(&database);
    let before = truth(&database, &target.org, 0).await.len();
    let mut server = Server::start(&database);
    let (told, found) = watch::channel(Some(place(&server)));
    let (mut clients, ready) = (JoinSet::new(), Arc::new(Semaphore::new(0)));
    let names_of = [
        (clients.spawn(over_sse(target.token.clone(), found.clone(), ready.clone())).id(), "SSE"),
        (clients.spawn(over_socket(target.token.clone(), found.clone(), ready.clone())).id(), "the socket"),
        (clients.spawn(over_mqtt(target.token.clone(), found, ready.clone())).id(), "MQTT"),
    ];
    // Everyone listens before anything happens.
    drop(ready.acquire_many(3).await.unwrap());
    let names = Arc::new(AtomicUsize::new(0));
    let events = volume(EVENTS);
    let calls = events / EVENTS_PER_CALL;
    for round in 0..=kills() {
        // With what the rounds before left undone.
        let more = calls * (round + 1) / (kills() + 1) - names.load(Ordering::SeqCst);
        let left = Arc::new(AtomicUsize::new(more));
        let callers: JoinSet<()> = (0..CALLERS)
            .map(|_| load(server.api.clone(), target.clone(), left.clone(), names.clone()))
            .collect();
        if round == kills() {
            callers.join_all().await;
            break;
        }
        // Killed in the middle of it; every third time it is told to stop instead.
        while left.load(Ordering::SeqCst) > more / 2 {
            tokio::task::yield_now().await;
        }
        told.send_replace(None);
        if round % 3 == 2 {
            assert_eq!(server.stop().code(), Some(0));
        } else {
            server.kill();
        }
        callers.join_all().await;
        server = Server::start(&database);
        told.send_replace(Some(place(&server)));
    }
    let mut client = Client::connect(&server.api, &target).await.unwrap();
    let line = format!("POST /v1/lab/orgs/{}/things", target.org);
    client.call(&line, &json!({ "name": "n", "id": LAST }).to_string(), "last").await.unwrap().ok();
    let mut logs = Vec::new();
    while let Some(ended) = clients.join_next_with_id().await {
        logs.push(ended.unwrap());
    }
    let truth = truth(&database, &target.org, i64::try_from(before).unwrap()).await;
    assert!(truth.len() > events / 2, "{} events", truth.len());
    for (client, log) in logs {
        let name = names_of.iter().find(|(id, _)| *id == client).unwrap().1;
        let seen: Vec<_> = log.seen.into_iter().map(|seen| seen.id).collect();
        assert!(seen == truth, "{name}: each event once, in order; {} of {}", seen.len(), truth.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumed_without_loss_on_sqlite() {
    resumed_without_loss(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumed_without_loss_on_postgres() {
    resumed_without_loss(Database::Postgres).await;
}

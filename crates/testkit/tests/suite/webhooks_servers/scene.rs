//! An account with endpoints, and callers whose calls make events for them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portico_engine::clock::SystemClock;
use portico_kernel::Clock;
use portico_store::{Db, Select, args};
use portico_testkit::{Stall, TestDatabase, while_moving};
use serde_json::json;
use tokio::task::JoinSet;

use super::receiver::{Manner, Receiver};
use crate::metering_servers::client::{Client, Target};
use crate::program::{Server, command};

/// What every endpoint subscribes: each call makes one.
pub(crate) const THING: &str = "lab.thing.created";
/// What some subscribe beside it: each call makes one, and some other calls too.
pub(crate) const AUDIT: &str = "audit.event";
const CALLERS: usize = 8;
/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// An endpoint of the account.
pub(crate) struct Endpoint {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) manner: Manner,
    pub(crate) audited: bool,
}

/// What callers know of their calls.
#[derive(Default)]
pub(crate) struct Calls {
    /// Things whose making was answered: they have their event for certain.
    pub(crate) answered: HashSet<String>,
    /// Things of which nobody knows.
    pub(crate) in_doubt: HashSet<String>,
    /// Things that were refused because the server could not do anything, or was about to stop.
    pub(crate) turned_away: HashSet<String>,
}

/// An account with endpoints.
pub(crate) struct Scene {
    pub(crate) database: TestDatabase,
    pub(crate) target: Target,
    pub(crate) receiver: Arc<Receiver>,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) calls: Arc<Mutex<Calls>>,
    names: Arc<AtomicUsize>,
}

/// A server that may send to this machine.
pub(crate) fn start(database: &TestDatabase) -> Server {
    let mut command = command(database);
    command.env("PORTICO_EGRESS_ALLOW", "127.0.0.0/8");
    Server::start_as(command)
}

impl Scene {
    /// An account with endpoints of these manners, which subscribe the audit log too where so marked; and a server.
    pub(crate) async fn new(database: TestDatabase, endpoints: &[(Manner, bool)]) -> (Self, Server) {
        let manners: Vec<_> = endpoints.iter().map(|(manner, _)| *manner).collect();
        let receiver = Receiver::start(&manners).await;
        let target = Target::create(&database);
        let server = start(&database);
        let mut client = Client::connect(&server.api, &target).await.unwrap();
        let mut made = Vec::new();
        for (at, (manner, audited)) in endpoints.iter().copied().enumerate() {
            let types = if audited { vec![THING, AUDIT] } else { vec![THING] };
            let body = json!({ "url": receiver.url(at), "event_types": types }).to_string();
            let answer = client.call("POST /v1/webhooks/endpoints", &body, "make").await.unwrap().ok();
            let text = |name: &str| answer[name].as_str().unwrap().to_owned();
            made.push(Endpoint { id: text("id"), secret: text("secret"), manner, audited });
        }
        let (calls, names) = (Arc::default(), Arc::default());
        (Self { database, target, receiver, endpoints: made, calls, names }, server)
    }

    /// Callers that make so many things together, at these servers; `tenacious` ones go on when a server turns them
    /// away or goes away, the others end.
    pub(crate) fn load(&self, servers: &[&Server], things: usize, tenacious: bool) -> JoinSet<()> {
        let left = Arc::new(AtomicUsize::new(things));
        (0..CALLERS)
            .map(|number| {
                let caller = Caller {
                    api: servers[number % servers.len()].api.clone(),
                    target: self.target.clone(),
                    calls: self.calls.clone(),
                    names: self.names.clone(),
                };
                caller.make(left.clone(), tenacious)
            })
            .collect()
    }

    /// Waits for callers.
    pub(crate) async fn join(&self, callers: JoinSet<()>) {
        let answered = || self.calls.lock().unwrap().answered.len();
        while_moving("the end of the callers", answered, callers.join_all()).await;
    }

    /// How many things are to be made until there are so many that were answered.
    pub(crate) fn to_make(&self, things: usize) -> usize {
        things.saturating_sub(self.calls.lock().unwrap().answered.len())
    }

    /// Makes so many things, each answered.
    pub(crate) async fn make(&self, servers: &[&Server], things: usize) {
        self.join(self.load(servers, things, false)).await;
        let calls = self.calls.lock().unwrap();
        assert!(calls.in_doubt.is_empty(), "every call was answered");
    }

    /// Waits until nothing waits to be sent. What was tried twice does not wait as long as it would.
    pub(crate) async fn settled(&self) {
        let db = Db::open(&self.database.url).await.unwrap();
        let mut stall = Stall::start();
        loop {
            let mut tx = db.query();
            let waiting = "select (select count(*) from webhook_deliveries where next_at is not null) \
                + (select count(*) from webhook_holds) as value";
            let waiting: i64 = tx.value(waiting, args![]).await.unwrap();

            if waiting == 0 {
                break;
            }
            stall.check((waiting, self.receiver.progress()), || format!("{waiting} deliveries still wait"));
            let mut tx = db.write().await.unwrap();
            let hurry = "update webhook_deliveries set next_at = $1 where attempts >= 2 and next_at > $1";
            tx.execute(hurry, args![SystemClock.now()]).await.unwrap();
            tx.commit().await.unwrap();
            SystemClock.sleep(LOOK_EVERY).await;
        }
        db.close().await;
    }

    /// Lets the claims of a server that was killed end as if their time had gone by.
    pub(crate) async fn expire_claims(&self) {
        let db = Db::open(&self.database.url).await.unwrap();
        let mut tx = db.write().await.unwrap();
        tx.execute("update webhook_queues set claimed_until = 0", args![]).await.unwrap();
        tx.commit().await.unwrap();
        db.close().await;
    }
}

/// Somebody who makes things.
struct Caller {
    api: String,
    target: Target,
    calls: Arc<Mutex<Calls>>,
    names: Arc<AtomicUsize>,
}

impl Caller {
    async fn make(self, left: Arc<AtomicUsize>, tenacious: bool) {
        let line = format!("POST /v1/lab/orgs/{}/things", self.target.org);
        let mut client = None;
        while left.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            let name = format!("thing-{}", self.names.fetch_add(1, Ordering::SeqCst));
            if client.is_none() {
                client = Client::connect(&self.api, &self.target).await;
            }
            let body = json!({ "name": "n", "id": name }).to_string();
            let answer = match &mut client {
                Some(client) => client.call(&line, &body, &name).await,
                None => None,
            };
            let mut calls = self.calls.lock().unwrap();
            match &answer {
                Some(answer) if answer.status == 200 => {
                    calls.answered.insert(name);
                    continue;
                }
                // The server is stopping, or has no database; what it did may still have come about.
                Some(answer) if answer.status == 503 => calls.turned_away.insert(name),
                // A server that has just come waits for its share of the minute, and sometimes in vain.
                Some(answer) if answer.status == 429 => {
                    calls.turned_away.insert(name);
                    left.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                Some(answer) => panic!("{}", String::from_utf8_lossy(&answer.body)),
                None => calls.in_doubt.insert(name),
            };
            left.fetch_add(1, Ordering::SeqCst);
            if !tenacious {
                return;
            }
            if answer.is_none() {
                client = None;
            }
        }
    }
}

//! A server under load that is killed, or told to stop: every call that was answered is counted, once.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use portico_store::{Db, Select, args};
use portico_testkit::{Database, TestDatabase, kills, while_moving};
use tokio::sync::Notify;

use super::client::{Client, PRICES, Target, below};
use super::ledger::{Fate, Ledger};
use crate::program::{Server, command};

const CALLERS: usize = 8;
/// Answers before a server is killed, at most.
const ANSWERS_MAX: usize = 1_500;
const STOPS: usize = 3;

/// Tells when so many answers have come.
struct Progress {
    answers: AtomicUsize,
    goal: usize,
    reached: Notify,
}

/// Calls as fast as it can until the server goes away.
async fn caller(api: String, target: Target, name: String, progress: Arc<Progress>) -> Vec<(String, Fate)> {
    let mut calls = Vec::new();
    let Some(mut client) = Client::connect(&api, &target).await else { return calls };
    loop {
        let id = format!("{name}-{}", calls.len());
        let price = PRICES[below(PRICES.len())];
        // Now and then a report, which counts what is in the journal: so that many die while they count.
        let answer = if below(20) == 0 {
            (1, client.call(&target.report("units"), "", &id).await)
        } else {
            (price, client.spend(price, &id).await)
        };
        let (price, Some(answer)) = answer else {
            calls.push((id, Fate::Unknown(answer.0)));
            return calls;
        };
        match answer.status {
            200 => calls.push((id, Fate::Answered(price))),
            // The server is stopping, and says so before it closes the connection.
            503 => {
                calls.push((id, Fate::TurnedAway));
                return calls;
            }
            _ => panic!("{}", String::from_utf8_lossy(&answer.body)),
        }
        if progress.answers.fetch_add(1, Ordering::SeqCst) + 1 == progress.goal {
            progress.reached.notify_one();
        }
    }
}

/// Puts load on the server until so many answers have come, ends it in this way, and writes down what became of the
/// calls. The signal is progress, not time.
async fn load_and_end(
    server: Server,
    target: &Target,
    ledger: &mut Ledger,
    (round, goal): (usize, usize),
    end: impl FnOnce(Server),
) {
    let progress = Arc::new(Progress { answers: AtomicUsize::new(0), goal, reached: Notify::new() });
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| {
            let name = format!("{round}-{number}");
            tokio::spawn(caller(server.api.clone(), target.clone(), name, progress.clone()))
        })
        .collect();
    let answers = || progress.answers.load(Ordering::SeqCst);
    while_moving("enough answers", answers, progress.reached.notified()).await;
    end(server);
    for caller in callers {
        ledger.extend(while_moving("the end of a caller", answers, caller).await.unwrap());
    }
}

/// The files of journals in the data folder.
fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder.join("journal")) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A server that is killed before it is ready, about when it has taken over what the one before left.
fn die_while_taking_over(database: &TestDatabase) {
    let left = files(database.folder.path());
    let mut child = command(database).arg("serve").stdout(Stdio::null()).spawn().unwrap();
    while files(database.folder.path()) == left {
        assert!(child.try_wait().unwrap().is_none(), "it did not start");
        std::thread::yield_now();
    }
    for _ in 0..below(3_000) {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Nothing of a server is left once it was told to stop.
async fn nothing_is_left(database: &TestDatabase) {
    assert_eq!(files(database.folder.path()), Vec::<String>::new());
    let db = Db::open(&database.url).await.unwrap();
    let mut tx = db.query();
    for count in [
        "select count(*) as value from meter_journals",
        "select count(*) as value from leases where resource like 'units %'",
    ] {
        let count_now: i64 = tx.value(count, args![]).await.unwrap();
        assert_eq!(count_now, 0, "{count}");
    }

    db.close().await;
}

async fn killed_under_load(kind: Database) {
    let database = TestDatabase::create(kind).await;
    let (target, mut ledger) = (Target::create(&database), Ledger::default());
    for round in 1..=kills() {
        let server = Server::start(&database);
        ledger.check(&server.api, &target, false).await;
        let goal = 1 + below(ANSWERS_MAX);
        load_and_end(server, &target, &mut ledger, (round, goal), Server::kill).await;
        if round % 4 == 0 {
            die_while_taking_over(&database);
        }
    }
    let server = Server::start(&database);
    ledger.check(&server.api, &target, true).await;
    assert_eq!(server.stop().code(), Some(0));
    nothing_is_left(&database).await;
    println!("{} kills on {kind:?}: {}", kills(), ledger.summary());
}

async fn stopped_under_load(kind: Database) {
    let database = TestDatabase::create(kind).await;
    let (target, mut ledger) = (Target::create(&database), Ledger::default());
    for round in 1..=STOPS {
        let server = Server::start(&database);
        ledger.check(&server.api, &target, false).await;
        let stop = |server: Server| assert_eq!(server.stop().code(), Some(0));
        load_and_end(server, &target, &mut ledger, (round, 1 + below(ANSWERS_MAX)), stop).await;
        nothing_is_left(&database).await;
    }
    let server = Server::start(&database);
    ledger.check(&server.api, &target, true).await;
    assert_eq!(server.stop().code(), Some(0));
    nothing_is_left(&database).await;
    println!("{STOPS} stops on {kind:?}: {}", ledger.summary());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_load_on_sqlite() {
    killed_under_load(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_load_on_postgres() {
    killed_under_load(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_under_load_on_sqlite() {
    stopped_under_load(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_under_load_on_postgres() {
    stopped_under_load(Database::Postgres).await;
}

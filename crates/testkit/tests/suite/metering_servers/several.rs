//! Three servers on one database: together they keep to what one alone would keep to.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use portico_engine::clock::Stopwatch;
use portico_kernel::Code;
use portico_store::{Db, Select, args};
use portico_testkit::{Database, Stall, TestDatabase, soon, while_moving};

use super::client::{Client, PRICES, Target, below};
use crate::program::{Server, admin, limit};

const SERVERS: usize = 3;
const CALLERS: usize = 64;
/// What is left of the account's units.
const BUDGET: i64 = 20_000;
const MONTHLY: i64 = 1_000_000;
const PER_MINUTE: usize = 300;
/// For how long they go on once they are refused.
const GO_ON: Duration = Duration::from_secs(3);

/// A database whose one account is near its end, and three servers.
async fn near_the_end() -> (TestDatabase, Target, Vec<Server>) {
    let database = TestDatabase::create(Database::Postgres).await;
    limit(&database, MONTHLY, 100_000_000);
    let target = Target::create(&database);
    let taken = (BUDGET - MONTHLY).to_string();
    admin(&database, &["units", "grant", &target.org, &taken]);
    let servers = (0..SERVERS).map(|_| Server::start(&database)).collect();
    (database, target, servers)
}

/// What the database says was used.
async fn used(db: &Db) -> i64 {
    let used = db.query().first_value("select used as value from unit_months", args![]).await.unwrap();
    used.unwrap_or(0)
}

/// Spends until the last unit is used: a call that is refused for its price is not made again, but for the cheapest.
/// Then once more, in vain.
async fn spend_all(api: String, target: Target, name: usize, spent: Arc<AtomicI64>) -> usize {
    let mut client = Client::connect(&api, &target).await.unwrap();
    let (mut prices, mut refused) = (PRICES.to_vec(), 0);
    for number in 0.. {
        let was_spent = spent.load(Ordering::SeqCst) == BUDGET;
        let at = if was_spent { 0 } else { below(prices.len()) };
        let answer = client.spend(prices[at], &format!("{name}-{number}")).await.unwrap();
        if answer.status == 200 {
            let now = spent.fetch_add(prices[at], Ordering::SeqCst) + prices[at];
            assert!(now <= BUDGET, "{now} of {BUDGET} are spent");
            continue;
        }
        answer.refused(Code::QuotaExceeded);
        refused += 1;
        if was_spent {
            break;
        }
        prices.truncate(at.max(1));
    }
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_allowance_holds_and_its_last_unit_is_used() {
    let (database, target, servers) = near_the_end().await;
    let spent = Arc::new(AtomicI64::new(0));
    let callers: Vec<_> = (0..CALLERS)
        .map(|name| {
            let api = servers[name % SERVERS].api.clone();
            tokio::spawn(spend_all(api, target.clone(), name, spent.clone()))
        })
        .collect();
    let watch = Stopwatch::start();
    let mut refused = 0;
    for caller in callers {
        let moving = || spent.load(Ordering::SeqCst);
        refused += while_moving("the last unit", moving, caller).await.unwrap();
    }
    println!("all of {BUDGET} spent after {:?}; {refused} calls refused", watch.elapsed());
    for server in servers {
        assert_eq!(server.stop().code(), Some(0));
    }
    let db = Db::open(&database.url).await.unwrap();
    assert_eq!((spent.load(Ordering::SeqCst), used(&db).await), (BUDGET, BUDGET));
    db.close().await;
}

/// Spends, and often hangs up before the answer comes.
async fn spend_and_hang_up(api: String, target: Target, name: usize, done: Arc<AtomicBool>) {
    let mut client = Client::connect(&api, &target).await.unwrap();
    for number in 0.. {
        if done.load(Ordering::SeqCst) {
            return;
        }
        let (line, body) = target.call(PRICES[below(PRICES.len())]);
        client.send(&line, body, &format!("{name}-{number}")).await.unwrap();
        if below(4) == 0 {
            client = Client::connect(&api, &target).await.unwrap();
        } else {
            let answer = client.receive().await.unwrap();
            assert!(answer.status == 200 || answer.refused(Code::QuotaExceeded).is_object());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_unit_is_used_where_callers_hang_up() {
    let (database, target, servers) = near_the_end().await;
    let done = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..CALLERS)
        .map(|name| {
            let api = servers[name % SERVERS].api.clone();
            tokio::spawn(spend_and_hang_up(api, target.clone(), name, done.clone()))
        })
        .collect();
    let db = Db::open(&database.url).await.unwrap();
    let (watch, mut stall) = (Stopwatch::start(), Stall::start());
    let mut now = 0;
    while now < BUDGET {
        now = used(&db).await;
        assert!(now <= BUDGET, "{now} of {BUDGET} are used");
        stall.check(now, || format!("{now} of {BUDGET} are used"));
    }
    println!("all of {BUDGET} used after {:?}", watch.elapsed());
    done.store(true, Ordering::SeqCst);
    for caller in callers {
        soon("the end of a caller", caller).await.unwrap();
    }
    for server in servers {
        assert_eq!(server.stop().code(), Some(0));
    }
    assert_eq!(used(&db).await, BUDGET);
    db.close().await;
}

/// What callers of several servers know together.
#[derive(Default)]
struct Seen {
    calls: AtomicUsize,
    admitted: AtomicUsize,
    refused_by: [AtomicBool; SERVERS],
    /// Since every server has refused.
    full: OnceLock<Stopwatch>,
}

/// Calls until every server that is `called` has refused, and some time more.
async fn call_until_refused(
    (api, server): (String, usize),
    target: Target,
    name: usize,
    seen: Arc<Seen>,
    called: usize,
) {
    let mut client = Client::connect(&api, &target).await.unwrap();
    for number in 0.. {
        let answer = client.spend(1, &format!("{name}-{number}")).await.unwrap();
        seen.calls.fetch_add(1, Ordering::SeqCst);
        if answer.status == 200 {
            seen.admitted.fetch_add(1, Ordering::SeqCst);
        } else {
            answer.refused(Code::RateLimited);
            seen.refused_by[server].store(true, Ordering::SeqCst);
        }
        if seen.refused_by[..called].iter().all(|refused| refused.load(Ordering::SeqCst))
            && seen.full.get_or_init(Stopwatch::start).elapsed() > GO_ON
        {
            return;
        }
    }
}

/// Callers of one token, at the first `called` of three servers.
async fn one_limit(called: usize) {
    let database = TestDatabase::create(Database::Postgres).await;
    limit(&database, 1_000_000_000, u32::try_from(PER_MINUTE).unwrap());
    let target = Target::create(&database);
    let servers: Vec<_> = (0..SERVERS).map(|_| Server::start(&database)).collect();
    let seen = Arc::new(Seen::default());
    // Every server has a share to begin with; what is not used of it is given back.
    for server in &servers {
        let mut client = Client::connect(&server.api, &target).await.unwrap();
        client.spend(1, "first").await.unwrap().ok();
        seen.admitted.fetch_add(1, Ordering::SeqCst);
    }
    let callers: Vec<_> = (0..CALLERS)
        .map(|name| {
            let server = name % called;
            let at = (servers[server].api.clone(), server);
            tokio::spawn(call_until_refused(at, target.clone(), name, seen.clone(), called))
        })
        .collect();
    for caller in callers {
        let calls = || seen.calls.load(Ordering::SeqCst);
        while_moving("a refusal by each server", calls, caller).await.unwrap();
    }
    let admitted = seen.admitted.load(Ordering::SeqCst);
    println!("{admitted} of {PER_MINUTE} admitted by {called} servers");
    let off = PER_MINUTE / 50;
    assert!((PER_MINUTE - off..=PER_MINUTE + off).contains(&admitted), "{admitted} were admitted");
    for server in servers {
        assert_eq!(server.stop().code(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_kept_by_three_servers_together() {
    one_limit(SERVERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_can_be_used_at_one_of_three_servers() {
    one_limit(1).await;
}

/// Calls one after the other until it is refused; returns how many were admitted.
async fn admitted_until_refused(server: &Server, target: &Target) -> usize {
    let mut client = Client::connect(&server.api, target).await.unwrap();
    for number in 0..=PER_MINUTE {
        let answer = client.spend(1, &format!("one-{number}")).await.unwrap();
        if answer.status != 200 {
            answer.refused(Code::RateLimited);
            return number;
        }
    }
    PER_MINUTE + 1
}

/// What a server has admitted counts in the others' minutes after it was killed or stopped, and counts once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_outlives_one_of_several_servers() {
    for killed in [true, false] {
        let database = TestDatabase::create(Database::Postgres).await;
        limit(&database, 1_000_000_000, u32::try_from(PER_MINUTE).unwrap());
        let target = Target::create(&database);
        let (stays, goes) = (Server::start(&database), Server::start(&database));
        let mut client = Client::connect(&goes.api, &target).await.unwrap();
        for number in 0..PER_MINUTE / 2 {
            client.spend(1, &format!("first-{number}")).await.unwrap().ok();
        }
        drop(client);
        if killed {
            goes.kill();
        } else {
            assert_eq!(goes.stop().code(), Some(0));
        }
        let comes = Server::start(&database);
        let admitted = PER_MINUTE / 2
            + admitted_until_refused(&stays, &target).await
            + admitted_until_refused(&comes, &target).await;
        assert_eq!(admitted, PER_MINUTE, "killed: {killed}");
    }
}

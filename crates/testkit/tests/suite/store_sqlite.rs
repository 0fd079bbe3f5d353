//! SQLite in place: whoever goes away leaves the lane whole, and nothing long holds an async thread.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use portico_kernel::{Entropy as _, SystemEntropy};
use portico_store::{Db, Select, StoreError, Tx, args};
use portico_testkit::{Database, TestDatabase, soon};

/// Counts to `$1`, row by row.
const COUNT: &str = "with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < $1) \
                     select count(*) as value from numbers";

/// Rows that are written beside readers, of some pages each.
const LOG_WRITES: u64 = 4_000;
/// How often a reader lets others run before it ends.
const READER_YIELDS: u32 = 3_000;
/// Half of what they take in the log.
const LOG_BYTES_MAX: u64 = 56 << 20;

async fn open() -> (TestDatabase, Arc<Db>) {
    let test = TestDatabase::create(Database::Sqlite).await;
    let db = Db::open(&test.url).await.unwrap();
    let mut tx = db.write().await.unwrap();
    tx.run("create table pairs (name text primary key, half bigint not null)", args![]).await.unwrap();
    tx.commit().await.unwrap();
    (test, Arc::new(db))
}

/// Both halves of a pair, or none; with a pause between any two steps.
async fn insert_pair(db: &Db, name: &str) -> Result<(), StoreError> {
    let insert = "insert into pairs (name, half) values ($1, $2)";
    let mut tx = db.write().await?;
    for half in [1_i64, 2] {
        tokio::task::yield_now().await;
        tx.run(insert, args![format!("{name}-{half}"), half]).await?;
    }
    tokio::task::yield_now().await;
    tx.commit().await
}

/// Sixteen tasks write pairs and give up at a point of their own, ten thousand times in all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_dropped_tasks_leave_the_lane_whole() {
    let (_test, db) = open().await;
    let promised = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..16)
        .map(|writer| {
            let (db, promised) = (db.clone(), promised.clone());
            tokio::spawn(async move {
                for round in 0..625 {
                    let mut patience = [0];
                    SystemEntropy.fill(&mut patience);
                    let name = format!("{writer}-{round}");
                    if let Some(inserted) = unless_pending(patience[0] % 8, insert_pair(&db, &name)).await {
                        inserted.unwrap();
                        promised.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    insert_pair(&db, "last").await.unwrap();
    let mut query = db.query();
    let halves: i64 = query.value("select count(*) as value from pairs", args![]).await.unwrap();
    let seconds: i64 =
        query.value("select count(*) as value from pairs where half = 2", args![]).await.unwrap();
    assert_eq!(halves, 2 * seconds, "no half stands alone");
    let promised = i64::try_from(promised.load(Ordering::Relaxed)).unwrap();
    assert!(promised > 100 && seconds > promised, "{promised} promised of {seconds}");
    db.close().await;
}

/// Gives `future` up once it was pending more often than `times`.
async fn unless_pending<F: Future>(mut times: u8, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if times == 0 => Poll::Ready(None),
        Poll::Pending => {
            times -= 1;
            Poll::Pending
        }
    })
    .await
}

/// Ends after it was polled so often.
async fn polls(times: u8) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

/// On the one thread of this test everything else would stand still while a statement ran in place.
#[tokio::test]
async fn a_long_statement_holds_no_async_thread() {
    let (_test, db) = open().await;
    let mut query = db.query();
    let mut long = pin!(query.value::<i64>(COUNT, args![1_000_000_i64]));
    tokio::select! {
        biased;
        _ = &mut long => unreachable!("it ran in place"),
        () = polls(1) => {}
    }
    assert_eq!(soon("the count", long).await.unwrap(), 1_000_000);
    let mut tx = db.write().await.unwrap();
    let fill = "insert into pairs (name, half) with recursive numbers(n) as \
                (select $1 union all select n + 1 from numbers where n < $2) select 'many ' || n, n from numbers";
    tx.run(fill, args![1_i64, 100_000_i64]).await.unwrap();
    {
        let mut again = pin!(tx.run(fill, args![100_001_i64, 200_000_i64]));
        tokio::select! {
            biased;
            _ = &mut again => unreachable!("what took long before ran in place"),
            () = polls(1) => {}
        }
        soon("the rows", again).await.unwrap();
    }
    tx.commit().await.unwrap();
    let rows: i64 = db.query().value("select count(*) as value from pairs", args![]).await.unwrap();
    assert_eq!(rows, 200_000);
}

/// A reader that has begun to see the database as it is.
async fn reading(db: &Db) -> Tx {
    let mut tx = db.read().await.unwrap();
    let _: i64 =
        tx.value("select count(*) as value from (select 1 from pairs limit 1)", args![]).await.unwrap();
    tx
}

/// There is always somebody who reads, and yet the log begins anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_short_beside_readers() {
    let (test, db) = open().await;
    let stop = Arc::new(AtomicBool::new(false));
    let readers = tokio::spawn({
        let (db, stop) = (db.clone(), stop.clone());
        async move {
            let mut before = reading(&db).await;
            while !stop.load(Ordering::Relaxed) {
                // One begins before the other ends.
                let next = reading(&db).await;
                std::mem::replace(&mut before, next).rollback();
                for _ in 0..READER_YIELDS {
                    tokio::task::yield_now().await;
                }
            }
            before.rollback();
        }
    });
    let padding = "x".repeat(4_000);
    for number in 0..LOG_WRITES {
        let mut tx = db.write().await.unwrap();
        tx.run("insert into pairs (name, half) values ($1, 1)", args![format!("{number} {padding}")])
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    readers.await.unwrap();
    let log = std::fs::metadata(test.folder.path().join("portico.db-wal")).unwrap().len();
    assert!(log < LOG_BYTES_MAX, "{log} bytes");
    db.close().await;
}

/// A report that nobody waits for gives its reader back.
#[tokio::test]
async fn a_long_statement_ends_with_its_caller() {
    let (_test, db) = open().await;
    for _ in 0..20 {
        let mut query = db.query();
        tokio::select! {
            biased;
            counted = query.value::<i64>(COUNT, args![i64::MAX]) => unreachable!("it counts for ever: {counted:?}"),
            () = polls(3) => {}
        }
    }
    let one: i64 = soon("a reader", db.query().value("select 1 as value", args![])).await.unwrap();
    assert_eq!(one, 1);
    // It waits for every reader.
    soon("the end of what was given up", db.close()).await;
}

//! The store: commits that are shared, migrations that run once, keys that fit.

use std::sync::Arc;

use portico_kernel::{SystemEntropy, Timestamp};
use portico_store::{Db, Keyring, PendingRows, Select, StoreError, args};
use portico_testkit::{Database, TestDatabase, soon, until};

const NOW: Timestamp = Timestamp::from_seconds(1_775_000_000);

async fn open(database: Database) -> (TestDatabase, Arc<Db>) {
    let test = TestDatabase::create(database).await;
    let db = Db::open(&test.url).await.unwrap();
    let mut tx = db.write().await.unwrap();
    tx.execute("create table notes (name text primary key)", args![]).await.unwrap();
    tx.commit().await.unwrap();
    (test, Arc::new(db))
}

async fn insert(db: &Db, name: &str) -> Result<(), StoreError> {
    let mut tx = db.write().await?;
    tx.execute("insert into notes (name) values ($1)", args![name.to_owned()]).await?;
    tx.commit().await
}

async fn names(db: &Db) -> Vec<String> {
    let mut tx = db.read().await.unwrap();
    let names: Vec<String> =
        tx.values("select name as value from notes order by name", args![]).await.unwrap();
    tx.rollback();
    names
}

macro_rules! on_both {
    ($($name:ident)+) => {$(
        mod $name {
            use portico_testkit::Database;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::stories::$name(Database::Sqlite).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::stories::$name(Database::Postgres).await;
            }
        }
    )+};
}

on_both! {
    one_turn_that_fails_spoils_no_other what_was_committed_is_there_and_what_was_dropped_is_not
    a_future_that_is_dropped_midway_leaves_nothing arguments_must_match_placeholders
    processes_that_start_together_migrate_once a_database_of_a_newer_program_is_refused
    a_wrong_keyring_is_told_at_start a_reader_sees_one_state what_is_sent_goes_with_the_commit
}

mod stories {
    use super::*;

    pub(super) async fn one_turn_that_fails_spoils_no_other(database: Database) {
        let (_test, db) = open(database).await;
        insert(&db, "taken").await.unwrap();
        let writers: Vec<_> = (0..64)
            .map(|number| {
                let db = db.clone();
                let name = if number % 3 == 0 { "taken".to_owned() } else { format!("n{number:02}") };
                tokio::spawn(async move { (name.clone(), insert(&db, &name).await) })
            })
            .collect();
        let mut expected = vec!["taken".to_owned()];
        for writer in writers {
            match writer.await.unwrap() {
                (name, Ok(())) => expected.push(name),
                (name, Err(error)) => {
                    assert!(name == "taken" && matches!(error, StoreError::Conflict(_)), "{error}");
                }
            }
        }
        expected.sort();
        assert_eq!(names(&db).await, expected);
        assert_eq!(expected.len(), 43);
    }

    pub(super) async fn what_was_committed_is_there_and_what_was_dropped_is_not(database: Database) {
        let (test, db) = open(database).await;
        insert(&db, "kept").await.unwrap();
        let mut tx = db.write().await.unwrap();
        tx.execute("insert into notes (name) values ('dropped')", args![]).await.unwrap();
        drop(tx);
        let mut tx = db.write().await.unwrap();
        tx.execute("insert into notes (name) values ('taken back')", args![]).await.unwrap();
        tx.rollback();
        insert(&db, "also kept").await.unwrap();
        db.close().await;
        let again = Db::open(&test.url).await.unwrap();
        assert_eq!(names(&again).await, ["also kept", "kept"]);
    }

    pub(super) async fn a_future_that_is_dropped_midway_leaves_nothing(database: Database) {
        let (_test, db) = open(database).await;
        for round in 0..50u32 {
            let writing = {
                let db = db.clone();
                tokio::spawn(async move {
                    let mut tx = db.write().await.unwrap();
                    for number in 0..20 {
                        let name = format!("half {round} {number}");
                        tx.execute("insert into notes (name) values ($1)", args![name]).await.unwrap();
                    }
                    std::future::pending::<()>().await;
                })
            };
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
            writing.abort();
            insert(&db, &format!("whole {round:02}")).await.unwrap();
        }
        let names = names(&db).await;
        assert_eq!(names.len(), 50);
        assert!(names.iter().all(|name| name.starts_with("whole")));
    }

    pub(super) async fn what_is_sent_goes_with_the_commit(database: Database) {
        let (_test, db) = open(database).await;
        let insert = "insert into notes (name) values ($1) returning name as value";
        let mut tx = db.write().await.unwrap();
        let first = tx.run_for_rows(insert, args!["first".to_owned()]).await.unwrap();
        tx.run(insert, args!["second".to_owned()]).await.unwrap();
        let seen: i64 = tx.value("select count(*) as value from notes", args![]).await.unwrap();
        assert_eq!(seen, 2, "what was sent before runs before");
        let third = tx.run_for_rows(insert, args!["third".to_owned()]).await.unwrap();
        tx.commit().await.unwrap();
        let names = |rows: &PendingRows| rows.values::<String>().unwrap();
        assert_eq!((names(&first), names(&third)), (vec!["first".to_owned()], vec!["third".to_owned()]));
        let mut tx = db.write().await.unwrap();
        tx.run(insert, args!["fourth".to_owned()]).await.unwrap();
        let failed = match tx.run(insert, args!["first".to_owned()]).await {
            Ok(()) => tx.commit().await,
            failed => failed,
        };
        assert!(matches!(failed, Err(StoreError::Conflict(_))), "{failed:?}");
        assert_eq!(super::names(&db).await, ["first", "second", "third"], "nothing of it remains");
    }

    pub(super) async fn arguments_must_match_placeholders(database: Database) {
        let (_test, db) = open(database).await;
        let mut tx = db.write().await.unwrap();
        let missing = tx.execute("insert into notes (name) values ($1)", args![]).await;
        assert!(matches!(missing, Err(StoreError::Fault(_))));
        let many =
            tx.execute("insert into notes (name) values ($1)", args!["a".to_owned(), "b".to_owned()]).await;
        assert!(matches!(many, Err(StoreError::Fault(_))));
    }

    pub(super) async fn processes_that_start_together_migrate_once(database: Database) {
        let test = TestDatabase::create(database).await;
        let starts: Vec<_> = (0..4)
            .map(|_| {
                let url = test.url.clone();
                tokio::spawn(async move { Db::open(&url).await.unwrap().migrate(NOW).await.unwrap() })
            })
            .collect();
        let mut runs = Vec::new();
        for start in starts {
            runs.push(start.await.unwrap().ran.len());
        }
        runs.sort_unstable();
        assert_eq!(runs[..3], [0, 0, 0]);
        assert!(runs[3] >= 3);
    }

    pub(super) async fn a_database_of_a_newer_program_is_refused(database: Database) {
        let test = TestDatabase::create(database).await;
        let db = Db::open(&test.url).await.unwrap();
        db.migrate(NOW).await.unwrap();
        let change = |sql: &'static str| {
            let db = &db;
            async move {
                let mut tx = db.write().await.unwrap();
                tx.execute(sql, args![]).await.unwrap();
                tx.commit().await.unwrap();
            }
        };
        change(
            "insert into schema_migrations (number, name, checksum, applied_at) values (9999, 'x', 'y', 1)",
        )
        .await;
        let refused = db.migrate(NOW).await.unwrap_err().to_string();
        assert!(refused.contains("newer portico"), "{refused}");
        change("delete from schema_migrations where number = 9999").await;
        change("update schema_migrations set checksum = 'other' where number = 1").await;
        let refused = db.migrate(NOW).await.unwrap_err().to_string();
        assert!(refused.contains("never edited"), "{refused}");
    }

    pub(super) async fn a_wrong_keyring_is_told_at_start(database: Database) {
        let test = TestDatabase::create(database).await;
        let db = Db::open(&test.url).await.unwrap();
        db.migrate(NOW).await.unwrap();
        let (right, wrong) = (test.folder.path().join("right"), test.folder.path().join("wrong"));
        Keyring::open_for(&db, &right, &SystemEntropy).await.unwrap();
        Keyring::open_for(&db, &right, &SystemEntropy).await.unwrap();
        let gone = Keyring::open_for(&db, &wrong, &SystemEntropy).await.unwrap_err();
        assert!(gone.to_string().contains("it is not there"), "{gone}");
        assert!(!wrong.exists(), "no other one is made in its place");
        let other = TestDatabase::create(database).await;
        let other_db = Db::open(&other.url).await.unwrap();
        other_db.migrate(NOW).await.unwrap();
        Keyring::open_for(&other_db, &wrong, &SystemEntropy).await.unwrap();
        let refused = Keyring::open_for(&db, &wrong, &SystemEntropy).await.unwrap_err();
        assert!(refused.to_string().contains("does not open"), "{refused}");
    }

    pub(super) async fn a_reader_sees_one_state(database: Database) {
        let (_test, db) = open(database).await;
        let mut tx = db.read().await.unwrap();
        let count = "select count(*) as value from notes";
        let before: i64 = tx.value(count, args![]).await.unwrap();
        insert(&db, "meanwhile").await.unwrap();
        let after: i64 = tx.value(count, args![]).await.unwrap();
        assert_eq!(before, after);
        assert!(
            tx.execute("insert into notes (name) values ('no')", args![]).await.is_err(),
            "a reader writes nothing"
        );
        drop(tx);
        assert_eq!(names(&db).await, ["meanwhile"]);
    }
}

/// A caller that gives up while another process holds the file must not leave the writer in a state unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_gives_up_waiting_leaves_the_writer_whole() {
    let (test, db) = open(Database::Sqlite).await;
    let other = Db::open(&test.url).await.unwrap();
    for round in 0..3 {
        let held = other.write().await.unwrap();
        let gave_up = tokio::time::timeout(std::time::Duration::from_millis(50), insert(&db, "never")).await;
        assert!(gave_up.is_err(), "the file was held");
        held.rollback();
        insert(&db, &format!("round {round}")).await.unwrap();
    }
    // What was given up may have run to its end behind our back, but only once and whole.
    let names = names(&db).await;
    assert_eq!(names.iter().filter(|name| name.starts_with("round")).count(), 3);
    assert!(!names.contains(&"never".to_owned()), "nobody committed it");
}

/// On a full disk SQLite ends the whole transaction by itself; who rides along is told, and nothing is half there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_that_was_promised() {
    let (_test, db) = open(Database::Sqlite).await;
    let mut tx = db.write().await.unwrap();
    tx.execute("pragma max_page_count = 60", args![]).await.unwrap();
    tx.commit().await.unwrap();
    let writers: Vec<_> = (0..200)
        .map(|number| {
            let db = db.clone();
            let name = format!("{number:03} {}", "x".repeat(2_000));
            tokio::spawn(async move { insert(&db, &name).await.map(|()| name) })
        })
        .collect();
    let (mut promised, mut refused) = (Vec::new(), 0);
    for writer in writers {
        match writer.await.unwrap() {
            Ok(name) => promised.push(name),
            Err(error) => {
                assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
                refused += 1;
            }
        }
    }
    promised.sort();
    assert!(refused > 0 && !promised.is_empty(), "{refused} refused, {} promised", promised.len());
    assert_eq!(names(&db).await, promised);
    let mut tx = db.write().await.unwrap();
    tx.execute("pragma max_page_count = 100000", args![]).await.unwrap();
    tx.commit().await.unwrap();
    insert(&db, "after").await.unwrap();
}

/// `docs/schema.sql` shows a reviewer what a migration does. `make docs` writes it anew.
#[tokio::test]
async fn the_committed_schema_is_that_of_the_migrations() {
    let committed = std::fs::read_to_string(crate::root().join("docs/schema.sql")).unwrap();
    assert!(committed == portico_store::schema().unwrap(), "docs/schema.sql is old: run `make docs`");
}

const SLEEPING: &str = "select count(*) as value from pg_stat_activity where datname = current_database() and \
                        state = 'active' and query like '%pg_sleep(50)%' and pid <> pg_backend_pid()";
const SLEEP: &str = "select 'x' as value from pg_sleep(50)";

async fn sleeping(db: &Db) -> i64 {
    db.query().value(SLEEPING, args![]).await.unwrap()
}

/// What a call that has ended left running in PostgreSQL ends too, and its connection holds nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_whose_caller_went_away_is_stopped() {
    let (_test, db) = open(Database::Postgres).await;
    for in_transaction in [true, false] {
        let caller = tokio::spawn({
            let db = db.clone();
            async move {
                if in_transaction {
                    let mut tx = db.write().await.unwrap();
                    tx.run("insert into notes (name) values ('kept by nobody')", args![]).await.unwrap();
                    tx.execute(SLEEP, args![]).await.unwrap();
                } else {
                    db.query().run(SLEEP, args![]).await.unwrap();
                }
            }
        });
        until("the statement that runs", async || sleeping(&db).await == 1).await;
        caller.abort();
        until("its end", async || sleeping(&db).await == 0).await;
    }
    assert_eq!(names(&db).await, Vec::<String>::new());
    insert(&db, "kept by nobody").await.unwrap();
    db.close().await;
}

/// A call whose time is up is rolled back without waiting for the statement that took it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_was_cut_off_is_not_waited_for() {
    let (_test, db) = open(Database::Postgres).await;
    for keeps in [false, true] {
        let mut tx = db.write().await.unwrap();
        tx.run("insert into notes (name) values ('kept by nobody')", args![]).await.unwrap();
        tokio::select! {
            _ = tx.execute(SLEEP, args![]) => unreachable!("it sleeps for 50 seconds"),
            () = until("the statement that runs", async || sleeping(&db).await == 1) => {}
        }
        if keeps {
            assert!(soon("a refusal", tx.commit()).await.is_err());
        } else {
            tx.rollback();
        }
        until("its end", async || sleeping(&db).await == 0).await;
        assert_eq!(names(&db).await, Vec::<String>::new());
    }
    db.close().await;
}

/// Behind a pooler nothing is kept on a connection, and all else is as without one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_kept_on_a_connection_behind_a_pooler() {
    let (test, _) = open(Database::Postgres).await;
    let db = Db::open(&format!("{}&pooler=transaction", test.url)).await.unwrap();
    let mut tx = db.write().await.unwrap();
    tx.run("insert into notes (name) values ($1)", args!["sent".to_owned()]).await.unwrap();
    tx.execute("insert into notes (name) values ($1)", args!["run".to_owned()]).await.unwrap();
    tx.commit().await.unwrap();
    let taken = insert(&db, "run").await;
    assert!(matches!(taken, Err(StoreError::Conflict(_))), "{taken:?}");
    assert_eq!(names(&db).await, ["run", "sent"]);
    let kept = "select count(*) as value from pg_prepared_statements";
    let kept: i64 = db.query().value(kept, args![]).await.unwrap();
    assert_eq!(kept, 0);
    db.close().await;
}

/// What PostgreSQL says is told, so that an operator knows what to mend.
#[tokio::test]
async fn a_refusal_of_postgres_says_why() {
    let test = TestDatabase::create(Database::Postgres).await;
    let (server, rest) = test.url.rsplit_once("/postgres").unwrap();
    let refused = match Db::open(&format!("{server}/nobody_made_this{rest}")).await {
        Ok(db) => db.ping().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(refused.to_string().contains("nobody_made_this"), "{refused}");
    let db = Db::open(&test.url).await.unwrap();
    let missing = db.query().run("select 1 from no_such_table", args![]).await.unwrap_err();
    assert!(missing.to_string().contains("no_such_table"), "{missing}");
    db.close().await;
}

/// No statement runs for ever on PostgreSQL, and one that was stopped for its time can be tried again.
#[tokio::test]
async fn a_statement_has_a_time_limit() {
    let (_test, db) = open(Database::Postgres).await;
    for (name, expected) in [("statement_timeout", "1min"), ("client_connection_check_interval", "1s")] {
        let setting = "select current_setting($1) as value";
        let value: String = db.query().value(setting, args![name.to_owned()]).await.unwrap();
        assert_eq!(value, expected, "{name}");
    }
    let mut tx = db.write().await.unwrap();
    tx.run("set local statement_timeout = '20ms'", args![]).await.unwrap();
    let stopped = tx.execute(SLEEP, args![]).await;
    assert!(matches!(stopped, Err(StoreError::Unavailable(_))), "{stopped:?}");
    tx.rollback();
    db.close().await;
}

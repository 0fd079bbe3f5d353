//! A database of a test's own.

use portico_kernel::Entropy;
use portico_kernel::{SystemEntropy, hex};
use portico_store::{Db, args};
use tempfile::TempDir;

/// Which database a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// A file in a folder of its own.
    Sqlite,
    /// A schema of its own in the cluster that `make test` starts.
    Postgres,
}

/// A database of a test's own, empty, and the folder that goes with it.
pub struct TestDatabase {
    /// Where it is.
    pub url: String,
    /// A folder for the keyring and the like.
    pub folder: TempDir,
}

/// The cluster that `make test` starts. There is no test without it: one that does not run proves nothing.
#[expect(clippy::disallowed_methods, reason = "the scripts tell the tests where the cluster is")]
fn cluster() -> String {
    std::env::var("PORTICO_TEST_POSTGRES").expect(
        "PORTICO_TEST_POSTGRES is not set: run `make test`, or `scripts/with-postgres cargo nextest run`",
    )
}

/// How often tests that kill servers do so in `make test`: often enough for each kind of kill to happen.
const KILLS: usize = 4;
/// How often they do in `check/judges/long-runs`, and with it all that they do in between.
const KILLS_FULL: usize = 12;

/// How often tests that kill servers do so: `PORTICO_TEST_KILLS`, or as often as `make test` has time for.
#[expect(clippy::disallowed_methods, reason = "whoever runs the tests says how long they may take")]
pub fn kills() -> usize {
    std::env::var("PORTICO_TEST_KILLS").map_or(KILLS, |kills| kills.parse().expect("a number of kills"))
}

/// How much a long test does, around the kills or without any: `full`, or a fifth of it in `make test`.
pub fn volume(full: usize) -> usize {
    if kills() < KILLS_FULL { full / 5 } else { full }
}

impl TestDatabase {
    /// A new one.
    pub async fn create(database: Database) -> Self {
        match database {
            Database::Sqlite => {
                let folder = tempfile::tempdir().unwrap();
                Self { url: format!("sqlite:{}", folder.path().join("portico.db").display()), folder }
            }
            Database::Postgres => Self::in_cluster(&cluster()).await,
        }
    }

    /// A new one in the PostgreSQL at that address.
    pub async fn in_cluster(cluster: &str) -> Self {
        let entropy: &dyn Entropy = &SystemEntropy;
        let schema = format!("test_{}", hex(&entropy.bytes::<8>()));
        let db = Db::open(cluster).await.unwrap();
        let mut tx = db.write().await.unwrap();
        // A name is no argument; this one is made of hexadecimal digits.
        let create: &'static str = Box::leak(format!("create schema {schema}").into_boxed_str());
        tx.execute(create, args![]).await.unwrap();
        tx.commit().await.unwrap();
        db.close().await;
        Self {
            url: format!("{cluster}?options=-csearch_path%3D{schema}"),
            folder: tempfile::tempdir().unwrap(),
        }
    }
}

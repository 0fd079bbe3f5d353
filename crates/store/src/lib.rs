//! Two databases behind one SQL text.
//!
//! [`Db`] is SQLite, embedded, or PostgreSQL; [`Tx`] is one transaction on either, and [`Query`] runs
//! statements outside of one; both read rows by [`Select`]. A statement is written once,
//! with `$1` placeholders and columns of TEXT, BIGINT, BOOLEAN and BYTEA; time is BIGINT microseconds and JSON is
//! TEXT. The few texts that differ stand in `dialect.rs`.
//!
//! Secrets are sealed by the [`Keyring`] before they reach a statement.
//!
//! Invariant: this is the only crate that names a driver or knows which database runs.

mod bulk;
mod db;
mod delete;
mod dialect;
mod error;
mod keyring;
mod migrate;
mod notify;
mod placeholders;
mod postgres;
mod query;
mod row;
mod schema;
mod seal;
mod sealed_column;
mod select;
mod sqlite;
mod tx;
mod value;

pub use bulk::BulkStatement;
pub use db::Db;
pub use dialect::TouchingStatement;
pub use error::{OnConflict, StoreError};
pub use keyring::{CANARY_COLUMN, Keyring, KeyringError};
pub use migrate::Migrated;
pub use notify::Listener;
pub use query::Query;
pub use row::{FromRow, Row};
pub use schema::schema;
pub use seal::{Context, SealError};
pub use sealed_column::{SealedColumn, Wrapping};
pub use select::Select;
pub use tx::{PendingRows, Queries, Tx};
pub use value::{Arg, Value};

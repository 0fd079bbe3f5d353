//! Sealed values of whichever column, by the key that wraps them.

use portico_store::{Query, SealedColumn, Select, StoreError, Tx, Wrapping, args, from_row, sealed_column};

/// Kept answers, which end within a day.
pub(crate) const ANSWERS: SealedColumn = sealed_column!("idempotency_records", "answer", counted);
/// Results of steps, which end within a day.
pub(crate) const STEPS: SealedColumn = sealed_column!("idempotency_records", "steps", counted);

/// How many values of a column a key wraps.
pub(crate) struct KeyCount {
    pub(crate) key: Vec<u8>,
    pub(crate) number: i64,
}

from_row!(KeyCount { key, number });

/// A sealed value, and what it belongs to.
pub(crate) struct SealedRow {
    pub(crate) id: String,
    pub(crate) account: String,
    pub(crate) place: String,
    pub(crate) sealed: Vec<u8>,
}

from_row!(SealedRow { id, account, place, sealed });

/// How many values of the column each key wraps.
pub(crate) async fn count(tx: &mut Tx, column: &SealedColumn) -> Result<Vec<KeyCount>, StoreError> {
    tx.all(column.count, args![]).await
}

/// The first values behind the row `after` that the key wraps.
pub(crate) async fn wrapped_by(
    mut query: Query<'_>,
    wrapping: &Wrapping,
    key: &[u8],
    after: &str,
    limit: i64,
) -> Result<Vec<SealedRow>, StoreError> {
    query.all(wrapping.select, args![key.to_vec(), after.to_owned(), limit]).await
}

/// Puts the value that was wrapped anew in the place of the one that was read; returns whether that one was still there.
pub(crate) async fn replace(
    tx: &mut Tx,
    wrapping: &Wrapping,
    row: &SealedRow,
    anew: &[u8],
) -> Result<bool, StoreError> {
    let args = args![anew.to_vec(), row.id.clone(), row.sealed.clone()];
    Ok(tx.execute(wrapping.replace, args).await? == 1)
}

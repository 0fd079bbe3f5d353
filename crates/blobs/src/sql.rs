//! Every statement of the crate.

use portico_kernel::{AccountId, BlobId, Timestamp};
use portico_store::{Select, StoreError, Tx, args, from_row};

use crate::model::{Blob, Upload};

/// Runs when the table can be used.
pub const PROBE: &str = "select id from blobs limit 1";

/// Erases what the table holds of the account `$1`, at most `$2` rows at once. The sweep removes the objects.
pub const ERASE: [&str; 1] =
    ["delete from blobs where id in (select id from blobs where account_id = $1 order by id limit $2)"];

/// Writes the row of an upload, or counts one use more of the row that has the same content; returns that row.
pub(crate) async fn record(tx: &mut Tx, upload: &Upload, now: Timestamp) -> Result<Blob, StoreError> {
    tx.one(
        "insert into blobs (id, account_id, hash, size, media_type, sealed, data_key, uses, created_at) \
         values ($1, $2, $3, $4, $5, $6, $7, 1, $8) \
         on conflict (account_id, hash, media_type, sealed) do update set uses = blobs.uses + 1 \
         returning id, account_id, hash, size, media_type, data_key, created_at",
        args![
            upload.id,
            upload.account,
            upload.hash.clone(),
            i64::try_from(upload.size).unwrap_or(i64::MAX),
            upload.media_type.clone(),
            upload.data_key.is_some(),
            upload.data_key.clone(),
            now
        ],
    )
    .await
}

pub(crate) async fn find(
    query: &mut impl Select,
    account: AccountId,
    id: BlobId,
) -> Result<Option<Blob>, StoreError> {
    query
        .first(
            "select id, account_id, hash, size, media_type, data_key, created_at from blobs \
         where account_id = $1 and id = $2",
            args![account, id],
        )
        .await
}

/// Takes one use back, and removes the row with the last one. Returns false when there is no such row.
pub(crate) async fn release(tx: &mut Tx, account: AccountId, id: BlobId) -> Result<bool, StoreError> {
    let rows = tx
        .execute("update blobs set uses = uses - 1 where account_id = $1 and id = $2", args![account, id])
        .await?;
    tx.run("delete from blobs where account_id = $1 and id = $2 and uses <= 0", args![account, id]).await?;
    Ok(rows == 1)
}

/// The ids of rows after `after`, in order.
pub(crate) async fn ids_after(
    query: &mut impl Select,
    after: &str,
    limit: usize,
) -> Result<Vec<String>, StoreError> {
    query
        .values(
            "select id as value from blobs where id > $1 order by id limit $2",
            args![after.to_owned(), i64::try_from(limit).unwrap_or(i64::MAX)],
        )
        .await
}

/// How much the table knows of.
pub(crate) struct Totals {
    pub(crate) blobs: i64,
    pub(crate) bytes: i64,
}

from_row!(Totals { blobs, bytes });

pub(crate) async fn totals(query: &mut impl Select) -> Result<Totals, StoreError> {
    query
        .one("select count(*) as blobs, cast(coalesce(sum(size), 0) as bigint) as bytes from blobs", args![])
        .await
}

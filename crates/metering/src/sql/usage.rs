//! Statements of what was used, by hour, day and month, and of the log of requests.

use std::collections::HashMap;

use portico_kernel::{AccountId, Day, Hour, Month, Timestamp};
use portico_store::{BulkStatement, Query, Select, StoreError, Tx, args, delete_some, from_row};

/// Sums of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) calls: i64,
    pub(crate) units: i64,
    pub(crate) client_errors: i64,
    pub(crate) platform_errors: i64,
}

pub(crate) async fn add_to_hour(
    tx: &mut Tx,
    account: AccountId,
    hour: Hour,
    counts: &Counts,
) -> Result<(), StoreError> {
    tx.run(
        "insert into usage_hours (account_id, hour, calls, units, client_errors, platform_errors) \
         values ($1, $2, $3, $4, $5, $6) on conflict (account_id, hour) do update set \
         calls = usage_hours.calls + excluded.calls, units = usage_hours.units + excluded.units, \
         client_errors = usage_hours.client_errors + excluded.client_errors, \
         platform_errors = usage_hours.platform_errors + excluded.platform_errors",
        args![
            account,
            hour.number(),
            counts.calls,
            counts.units,
            counts.client_errors,
            counts.platform_errors
        ],
    )
    .await
}

/// Rows of one statement that adds up.
const ROWS_MAX: usize = 16;

/// What to add to a day: the day, the subject, the operation, and how much.
pub(crate) type DayCounts = (Day, String, String, Counts);

pub(crate) async fn add_to_days(
    tx: &mut Tx,
    account: AccountId,
    days: impl Iterator<Item = DayCounts>,
) -> Result<(), StoreError> {
    static ROWS: BulkStatement = BulkStatement::new(
        "insert into usage_days (account_id, day, subject, rpc, calls, units, client_errors, platform_errors) \
         values",
        "($a, $b, $c, $d, $e, $f, $g, $h)",
        "on conflict (account_id, day, subject, rpc) do update set \
             calls = usage_days.calls + excluded.calls, units = usage_days.units + excluded.units, \
             client_errors = usage_days.client_errors + excluded.client_errors, \
             platform_errors = usage_days.platform_errors + excluded.platform_errors",
    )
    .every_size_up_to(ROWS_MAX);
    let row = |(day, subject, rpc, counts): DayCounts| {
        let Counts { calls, units, client_errors, platform_errors } = counts;
        args![account, day.number(), subject, rpc, calls, units, client_errors, platform_errors]
    };
    ROWS.run(tx, args![], days.map(row).collect()).await
}

/// Adds to the rows of a month. The histogram is not added to but replaced: whoever adds has read it, and holds the row of
/// the month in `unit_months`.
pub(crate) async fn add_to_usage(
    tx: &mut Tx,
    account: AccountId,
    month: Month,
    rows: impl Iterator<Item = UsageRow>,
) -> Result<(), StoreError> {
    static ROWS: BulkStatement = BulkStatement::new(
        "insert into usage_months (account_id, month, subject, rpc, calls, units, tokens, client_errors, \
             platform_errors, latency) values",
        "($a, $b, $c, $d, $e, $f, $g, $h, $i, $j)",
        "on conflict (account_id, month, subject, rpc) do update set \
             calls = usage_months.calls + excluded.calls, units = usage_months.units + excluded.units, \
             tokens = usage_months.tokens + excluded.tokens, \
             client_errors = usage_months.client_errors + excluded.client_errors, \
             platform_errors = usage_months.platform_errors + excluded.platform_errors, \
             latency = excluded.latency",
    )
    .every_size_up_to(ROWS_MAX);
    let month = month.to_string();
    let row = |row: UsageRow| {
        let UsageRow { subject, rpc, calls, units, tokens, client_errors, platform_errors, latency } = row;
        args![account, month, subject, rpc, calls, units, tokens, client_errors, platform_errors, latency]
    };
    ROWS.run(tx, args![], rows.map(row).collect()).await
}

/// The histograms of a month, by subject and operation.
pub(crate) async fn latencies(
    tx: &mut Tx,
    account: AccountId,
    month: Month,
) -> Result<HashMap<(String, String), Vec<u8>>, StoreError> {
    let rows: Vec<LatencyRow> = tx
        .all(
            "select subject, rpc, latency from usage_months where account_id = $1 and month = $2",
            args![account, month.to_string()],
        )
        .await?;
    Ok(rows.into_iter().map(|row| ((row.subject, row.rpc), row.latency)).collect())
}

struct LatencyRow {
    subject: String,
    rpc: String,
    latency: Vec<u8>,
}

from_row!(LatencyRow { subject, rpc, latency });

/// What one subject used of one operation in a month.
pub(crate) struct UsageRow {
    pub(crate) subject: String,
    pub(crate) rpc: String,
    pub(crate) calls: i64,
    pub(crate) units: i64,
    pub(crate) tokens: i64,
    pub(crate) client_errors: i64,
    pub(crate) platform_errors: i64,
    pub(crate) latency: Vec<u8>,
}

from_row!(UsageRow { subject, rpc, calls, units, tokens, client_errors, platform_errors, latency });

/// What was used in a month.
pub(crate) async fn usage(
    tx: &mut Tx,
    account: AccountId,
    month: Month,
) -> Result<Vec<UsageRow>, StoreError> {
    tx.all(
        "select subject, rpc, calls, units, tokens, client_errors, platform_errors, latency from usage_months \
         where account_id = $1 and month = $2",
        args![account, month.to_string()],
    )
    .await
}

/// Counts of one span of time, and of one group within it.
pub(crate) struct SpanRow {
    /// The number of the hour or day.
    pub(crate) number: i64,
    /// The group; empty where there are none.
    pub(crate) part: String,
    pub(crate) calls: i64,
    pub(crate) units: i64,
    pub(crate) client_errors: i64,
    pub(crate) platform_errors: i64,
}

from_row!(SpanRow { number, part, calls, units, client_errors, platform_errors });

macro_rules! spans {
    ($number:literal, $part:literal, $from:literal, $group:literal) => {
        concat!(
            "select ",
            $number,
            " as number, ",
            $part,
            " as part, cast(sum(calls) as bigint) as calls, cast(sum(units) as bigint) as units, ",
            "cast(sum(client_errors) as bigint) as client_errors, ",
            "cast(sum(platform_errors) as bigint) as platform_errors from ",
            $from,
            " where account_id = $1 and ",
            $group
        )
    };
}

/// By hour, from one number of an hour to before another.
pub(crate) const BY_HOUR: &str =
    spans!("hour", "''", "usage_hours", "hour >= $2 and hour < $3 group by hour order by hour");
/// By day, from one number of an hour to before another.
pub(crate) const BY_DAY: &str = spans!(
    "hour / 24",
    "''",
    "usage_hours",
    "hour >= $2 and hour < $3 group by hour / 24 order by hour / 24"
);
/// By day and operation, from one number of a day to before another.
pub(crate) const BY_RPC: &str =
    spans!("day", "rpc", "usage_days", "day >= $2 and day < $3 group by day, rpc order by day, rpc");
/// By day and key, API token or person, from one number of a day to before another.
pub(crate) const BY_SUBJECT: &str = spans!(
    "day",
    "subject",
    "usage_days",
    "day >= $2 and day < $3 group by day, subject order by day, subject"
);

/// What was used from `from` to before `until`, in one of the ways above.
pub(crate) async fn spans(
    tx: &mut Tx,
    by: &'static str,
    account: AccountId,
    from: i64,
    until: i64,
) -> Result<Vec<SpanRow>, StoreError> {
    tx.all(by, args![account, from, until]).await
}

/// A block of the log of requests.
pub(crate) struct BlockRow {
    pub(crate) id: String,
    pub(crate) first_at: Timestamp,
    pub(crate) last_at: Timestamp,
    /// How many it has.
    pub(crate) requests: i64,
    /// The highest status among them.
    pub(crate) worst_status: i64,
    pub(crate) body: Vec<u8>,
}

from_row!(BlockRow { id, first_at, last_at, requests, worst_status, body });

macro_rules! blocks {
    ($rest:literal) => {
        concat!(
            "select id, first_at, last_at, requests, worst_status, body from request_blocks where account_id = $1 ",
            $rest
        )
    };
}

pub(crate) async fn insert_block(tx: &mut Tx, account: AccountId, block: BlockRow) -> Result<(), StoreError> {
    tx.run(
        "insert into request_blocks (account_id, last_at, id, first_at, requests, worst_status, body) \
         values ($1, $2, $3, $4, $5, $6, $7)",
        args![
            account,
            block.last_at,
            block.id,
            block.first_at,
            block.requests,
            block.worst_status,
            block.body
        ],
    )
    .await
}

/// Blocks with a request from `since` to `until`, those that end last first, from behind the block `before` on.
pub(crate) async fn blocks_before(
    tx: &mut Tx,
    account: AccountId,
    since: Timestamp,
    until: Timestamp,
    before: &(Timestamp, String),
    limit: i64,
) -> Result<Vec<BlockRow>, StoreError> {
    tx.all(
        blocks!(
            "and last_at >= $2 and first_at <= $3 and (last_at, id) < ($4, $5) \
             order by last_at desc, id desc limit $6"
        ),
        args![account, since, until, before.0, before.1, limit],
    )
    .await
}

/// Blocks of every account that ended at `since` or later, the last ones first.
pub(crate) async fn blocks_since(
    query: &mut Query<'_>,
    since: Timestamp,
    limit: i64,
) -> Result<Vec<Vec<u8>>, StoreError> {
    query
        .values(
            "select body as value from request_blocks where last_at >= $1 order by last_at desc limit $2",
            args![since, limit],
        )
        .await
}

/// How many requests of the account that came since `since` are in the log.
pub(crate) async fn count_logged(
    tx: &mut Tx,
    account: AccountId,
    since: Timestamp,
) -> Result<i64, StoreError> {
    tx.value(
        "select cast(coalesce(sum(requests), 0) as bigint) as value from request_blocks \
         where account_id = $1 and last_at >= $2",
        args![account, since],
    )
    .await
}

/// The last block, if it began after `since` and has fewer than `few` requests.
pub(crate) async fn last_small_block(
    tx: &mut Tx,
    account: AccountId,
    since: Timestamp,
    few: i64,
) -> Result<Option<BlockRow>, StoreError> {
    let last: Option<BlockRow> =
        tx.first(blocks!("order by last_at desc, id desc limit 1"), args![account]).await?;
    Ok(last.filter(|last| last.first_at > since && last.requests < few))
}

/// Removes a block; returns whether it was there.
pub(crate) async fn delete_block(
    tx: &mut Tx,
    account: AccountId,
    last_at: Timestamp,
    id: &str,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "delete from request_blocks where account_id = $1 and last_at = $2 and id = $3",
            args![account, last_at, id.to_owned()],
        )
        .await?;
    Ok(rows == 1)
}

/// Removes blocks that ended before `before`.
pub(crate) async fn prune_blocks(tx: &mut Tx, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        delete_some!("request_blocks", "account_id, last_at, id", "last_at < $1 order by last_at"),
        args![before, limit],
    )
    .await
}

//! Every statement of the engine: the sequence of an account, events, audit entries, kept answers.

use portico_kernel::{AccountId, AuditId, EventId, Timestamp};
use portico_store::{StoreError, Tx, args, from_row};

use crate::ctx::{AuditRecord, Record};

/// Runs when the engine's own tables can be read.
pub(crate) const PROBE: &str = "select account_id from account_sequences limit 1";

/// Erases the engine's own rows of an account.
pub(crate) const ERASE: [&str; 4] = [
    "delete from events where account_id = $1 and sequence in \
     (select sequence from events where account_id = $1 order by sequence limit $2)",
    "delete from audit_entries where account_id = $1 and sequence in \
     (select sequence from audit_entries where account_id = $1 order by sequence limit $2)",
    "delete from idempotency_records where account_id = $1 and (caller, operation, key) in \
     (select caller, operation, key from idempotency_records where account_id = $1 limit $2)",
    "delete from account_sequences where account_id = $1 and $2 > 0",
];

/// Who wrote an audit entry.
pub(crate) struct Actor {
    pub(crate) subject: String,
    pub(crate) kind: &'static str,
    pub(crate) request_id: String,
}

/// Takes `count` numbers of the account's sequence; answers the last. Its row stays locked until the commit, so
/// numbers become visible in their order.
pub(crate) async fn take_sequence(tx: &mut Tx, account: AccountId, count: usize) -> Result<i64, StoreError> {
    let (last,) = tx
        .one(
            "insert into account_sequences (account_id, last) values ($1, $2) \
             on conflict (account_id) do update set last = account_sequences.last + excluded.last \
             returning last as value",
            args![account, i64::try_from(count).unwrap_or(i64::MAX)],
        )
        .await?;
    Ok(last)
}

macro_rules! insert_events {
    ($($rows:literal)+) => {
        concat!("insert into events (account_id, sequence, id, type, occurred_at, data) values ", $($rows),+)
    };
}

/// Inserts of one, two and three events: most changes make two, and a statement costs far more than a row.
const INSERT_EVENTS: [&str; 3] = [
    insert_events!("($1, $2, $3, $4, $5, $6)"),
    insert_events!("($1, $2, $3, $4, $5, $6), " "($7, $8, $9, $10, $11, $12)"),
    insert_events!("($1, $2, $3, $4, $5, $6), " "($7, $8, $9, $10, $11, $12), " "($13, $14, $15, $16, $17, $18)"),
];

/// Inserts the events of one account, numbered from `first`.
pub(crate) async fn insert_events(
    tx: &mut Tx,
    records: &[Record],
    first: i64,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut sequence = first..;
    for some in records.chunks(INSERT_EVENTS.len()) {
        let rows = some.iter().zip(&mut sequence).flat_map(|(record, sequence)| {
            args![record.account, sequence, record.id, record.event_type.to_owned(), now, record.data.clone()]
        });
        tx.execute(INSERT_EVENTS[some.len() - 1], rows.collect()).await?;
    }
    Ok(())
}

pub(crate) async fn insert_audit(
    tx: &mut Tx,
    account: AccountId,
    sequence: i64,
    now: Timestamp,
    actor: &Actor,
    audit: &AuditRecord,
) -> Result<(), StoreError> {
    tx.execute(
        "insert into audit_entries (account_id, sequence, id, at, action, actor, actor_kind, request_id, target, \
         metadata) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        args![
            account,
            sequence,
            audit.id,
            now,
            audit.action.to_owned(),
            actor.subject,
            actor.kind.to_owned(),
            actor.request_id,
            audit.target,
            audit.metadata.to_string(),
        ],
    )
    .await
    .map(drop)
}

/// An audit entry as it is kept.
#[derive(Debug)]
pub struct AuditRow {
    /// Its number within the account.
    pub sequence: i64,
    /// Its id.
    pub id: AuditId,
    /// When it was written.
    pub at: Timestamp,
    /// What was done.
    pub action: String,
    /// Who did it.
    pub actor: String,
    /// What kind of caller that was.
    pub actor_kind: String,
    /// The call that did it.
    pub request_id: String,
    /// What it was done to.
    pub target: String,
    /// What else belongs to it, as JSON.
    pub metadata: String,
}

from_row!(AuditRow { sequence, id, at, action, actor, actor_kind, request_id, target, metadata });

/// The number of an audit entry of the account.
pub async fn audit_sequence(tx: &mut Tx, account: AccountId, id: AuditId) -> Result<Option<i64>, StoreError> {
    let row: Option<(i64,)> = tx
        .first(
            "select sequence as value from audit_entries where account_id = $1 and id = $2",
            args![account, id],
        )
        .await?;
    Ok(row.map(|(sequence,)| sequence))
}

/// The audit entries of the account after the number `after`, oldest first.
pub async fn audit_after(
    tx: &mut Tx,
    account: AccountId,
    after: i64,
    most: i64,
) -> Result<Vec<AuditRow>, StoreError> {
    tx.all(
        "select sequence, id, at, action, actor, actor_kind, request_id, target, metadata from audit_entries \
         where account_id = $1 and sequence > $2 order by sequence limit $3",
        args![account, after, most],
    )
    .await
}

/// An event as it is kept.
#[derive(Debug)]
pub struct EventRow {
    /// Its number within the account.
    pub sequence: i64,
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub event_type: String,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// Its data, as JSON.
    pub data: String,
}

from_row!(EventRow { sequence, id, event_type, occurred_at, data });

/// Which events of an account to look back at.
#[derive(Debug, Default)]
pub struct EventQuery {
    /// Of this type alone.
    pub event_type: Option<String>,
    /// After this number.
    pub after: i64,
    /// Before this number.
    pub before: Option<i64>,
}

/// The number of an event of the account.
pub async fn event_sequence(tx: &mut Tx, account: AccountId, id: EventId) -> Result<Option<i64>, StoreError> {
    let row: Option<(i64,)> = tx
        .first("select sequence as value from events where account_id = $1 and id = $2", args![account, id])
        .await?;
    Ok(row.map(|(sequence,)| sequence))
}

/// The account's events, newest first.
pub async fn events_before(
    tx: &mut Tx,
    account: AccountId,
    query: &EventQuery,
    most: i64,
) -> Result<Vec<EventRow>, StoreError> {
    let before = query.before.unwrap_or(i64::MAX);
    match &query.event_type {
        None => {
            tx.all(
                "select sequence, id, type as event_type, occurred_at, data from events \
                 where account_id = $1 and sequence > $2 and sequence < $3 order by sequence desc limit $4",
                args![account, query.after, before, most],
            )
            .await
        }
        Some(event_type) => {
            tx.all(
                "select sequence, id, type as event_type, occurred_at, data from events \
                 where account_id = $1 and type = $5 and sequence > $2 and sequence < $3 \
                 order by sequence desc limit $4",
                args![account, query.after, before, most, event_type.clone()],
            )
            .await
        }
    }
}

/// The account's events after a number, oldest first.
pub async fn events_after(
    tx: &mut Tx,
    account: AccountId,
    after: i64,
    most: i64,
) -> Result<Vec<EventRow>, StoreError> {
    tx.all(
        "select sequence, id, type as event_type, occurred_at, data from events \
         where account_id = $1 and sequence > $2 order by sequence limit $3",
        args![account, after, most],
    )
    .await
}

/// Where a kept answer is found: account, caller, operation and key.
pub(crate) struct RecordKey {
    pub(crate) account: String,
    pub(crate) caller: String,
    pub(crate) operation: &'static str,
    pub(crate) key: String,
}

/// A record as another call left it.
pub(crate) struct KeptRow {
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) state: String,
    pub(crate) answer: Option<Vec<u8>>,
}

from_row!(KeptRow { fingerprint, state, answer });

/// Makes a running record, or takes over one whose time is up; answers whether it did.
pub(crate) async fn claim_record(
    tx: &mut Tx,
    at: &RecordKey,
    fingerprint: [u8; 32],
    claim: &str,
    now: Timestamp,
    lease_ends: Timestamp,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "insert into idempotency_records (account_id, caller, operation, key, fingerprint, claim, state, \
             expires_at, answer) values ($1, $2, $3, $4, $5, $6, 'running', $7, null) \
             on conflict (account_id, caller, operation, key) do update set fingerprint = excluded.fingerprint, \
             claim = excluded.claim, state = excluded.state, expires_at = excluded.expires_at, answer = null \
             where idempotency_records.expires_at <= $8",
            args![
                at.account,
                at.caller,
                at.operation.to_owned(),
                at.key,
                fingerprint.to_vec(),
                claim.to_owned(),
                lease_ends,
                now
            ],
        )
        .await?;
    Ok(rows == 1)
}

pub(crate) async fn record(tx: &mut Tx, at: &RecordKey) -> Result<Option<KeptRow>, StoreError> {
    tx.first(
        "select fingerprint, state, answer from idempotency_records \
         where account_id = $1 and caller = $2 and operation = $3 and key = $4",
        args![at.account, at.caller, at.operation.to_owned(), at.key],
    )
    .await
}

/// Keeps the answer, if the claim is still ours.
pub(crate) async fn keep_answer(
    tx: &mut Tx,
    at: &RecordKey,
    claim: &str,
    answer: Vec<u8>,
    expires_at: Timestamp,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update idempotency_records set state = 'kept', answer = $6, expires_at = $7 \
             where account_id = $1 and caller = $2 and operation = $3 and key = $4 and claim = $5",
            args![
                at.account,
                at.caller,
                at.operation.to_owned(),
                at.key,
                claim.to_owned(),
                answer,
                expires_at
            ],
        )
        .await?;
    Ok(rows == 1)
}

/// Lets go of a claim without an answer.
pub(crate) async fn release_claim(tx: &mut Tx, at: &RecordKey, claim: &str) -> Result<(), StoreError> {
    tx.execute(
        "delete from idempotency_records \
         where account_id = $1 and caller = $2 and operation = $3 and key = $4 and claim = $5 and state = 'running'",
        args![at.account, at.caller, at.operation.to_owned(), at.key, claim.to_owned()],
    )
    .await
    .map(drop)
}

/// Lets go of every claim; right only where no other process can hold one.
pub(crate) async fn release_all_claims(tx: &mut Tx) -> Result<u64, StoreError> {
    tx.execute("delete from idempotency_records where state = 'running'", args![]).await
}

/// Removes up to `most` events that are older than `before`, which is no real event's id.
pub(crate) async fn prune_events(tx: &mut Tx, before: EventId, most: i64) -> Result<u64, StoreError> {
    tx.execute(
        "delete from events where id in (select id from events where id < $1 order by id limit $2)",
        args![before, most],
    )
    .await
}

/// Removes up to `most` records whose time is up.
pub(crate) async fn prune_records(tx: &mut Tx, now: Timestamp, most: i64) -> Result<u64, StoreError> {
    tx.execute(
        "delete from idempotency_records where expires_at <= $1 and (account_id, caller, operation, key) in \
         (select account_id, caller, operation, key from idempotency_records where expires_at <= $1 limit $2)",
        args![now, most],
    )
    .await
}

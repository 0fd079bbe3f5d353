//! Every statement of the engine: the sequence of an account, events, audit entries, kept answers.

pub(crate) mod queue;
pub(crate) mod sealed;
mod sequence;

use portico_kernel::{AccountId, AuditId, EventId, Timestamp};
use portico_store::{
    BulkStatement, PendingRows, Query, Select, StoreError, Tx, args, delete_some, from_row, touching,
};

use crate::ctx::AuditRecord;
use crate::ports::NewEvent;

pub use sequence::lock_sequence;
pub(crate) use sequence::{number_behind, take_sequence};

/// Runs when the engine's own tables can be read.
pub(crate) const PROBE: &str = "select account_id from account_sequences limit 1";

/// Erases the engine's own rows of an account.
pub(crate) const ERASE: [&str; 5] = [
    delete_some!("queue_items", "id", "account_id = $1"),
    delete_some!("events", "sequence", "account_id = $1 order by sequence", also "account_id = $1"),
    delete_some!("audit_entries", "sequence", "account_id = $1 order by sequence", also "account_id = $1"),
    delete_some!("idempotency_records", "caller, operation, key", "account_id = $1", also "account_id = $1"),
    "delete from account_sequences where account_id = $1 and $2 > 0",
];

/// Inserts events of the account `$1`.
macro_rules! insert_events {
    () => {
        BulkStatement::new(
            "insert into events (account_id, sequence, id, type, occurred_at, data) values",
            concat!("($1, ", number_behind!(), ", $a, $c, $d, $e)"),
            "",
        )
    };
}

/// Most changes make two events,
static INSERT_FEW_EVENTS: BulkStatement = insert_events!().every_size_up_to(FEW_EVENTS);
const FEW_EVENTS: usize = 3;
/// and what a service publishes is many at once.
static INSERT_EVENTS: BulkStatement = insert_events!();

/// Inserts the events of one account, whose numbers were taken.
pub(crate) async fn insert_events(
    tx: &mut Tx,
    account: AccountId,
    events: &[NewEvent],
) -> Result<(), StoreError> {
    let row = |event: &NewEvent| {
        let (event_type, data) = (event.event_type.to_string(), event.data.clone());
        args![event.id, event.behind, event_type, event.occurred_at, data]
    };
    let insert = if events.len() > FEW_EVENTS { &INSERT_EVENTS } else { &INSERT_FEW_EVENTS };
    insert.run(tx, args![account], events.iter().map(row).collect()).await
}

static INSERT_AUDIT: BulkStatement = BulkStatement::new(
    "insert into audit_entries (account_id, sequence, id, at, action, actor, actor_kind, request_id, target, \
     metadata) values",
    concat!("($1, ", number_behind!(), ", $a, $2, $c, $d, $e, $f, $g, $h)"),
    "",
)
.every_size_up_to(2);

/// Inserts the audit entries of those events that have one.
pub(crate) async fn insert_audit(
    tx: &mut Tx,
    account: AccountId,
    now: Timestamp,
    events: &[NewEvent],
    audit: &[Option<AuditRecord>],
) -> Result<(), StoreError> {
    let rows = events.iter().zip(audit).filter_map(|(event, audit)| {
        let audit = audit.as_ref()?;
        let (action, metadata) = (audit.action.to_owned(), audit.metadata.to_string());
        let (actor, request_id) = (&audit.actor, audit.request_id.to_string());
        let subject = actor.subject.clone();
        Some(args![audit.id, event.behind, action, subject, actor.kind, request_id, audit.target, metadata])
    });
    INSERT_AUDIT.run(tx, args![account, now], rows.collect()).await
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
    tx.first_value(
        "select sequence as value from audit_entries where account_id = $1 and id = $2",
        args![account, id],
    )
    .await
}

/// The audit entries of the account after the number `after`, oldest first.
pub async fn audit_after(
    tx: &mut Tx,
    account: AccountId,
    after: i64,
    limit: i64,
) -> Result<Vec<AuditRow>, StoreError> {
    tx.all(
        "select sequence, id, at, action, actor, actor_kind, request_id, target, metadata from audit_entries \
         where account_id = $1 and sequence > $2 order by sequence limit $3",
        args![account, after, limit],
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
    tx.first_value(
        "select sequence as value from events where account_id = $1 and id = $2",
        args![account, id],
    )
    .await
}

/// The account's events, newest first.
pub async fn events_before(
    tx: &mut Tx,
    account: AccountId,
    query: &EventQuery,
    limit: i64,
) -> Result<Vec<EventRow>, StoreError> {
    let before = query.before.unwrap_or(i64::MAX);
    match &query.event_type {
        None => {
            tx.all(
                "select sequence, id, type as event_type, occurred_at, data from events \
                 where account_id = $1 and sequence > $2 and sequence < $3 order by sequence desc limit $4",
                args![account, query.after, before, limit],
            )
            .await
        }
        Some(event_type) => {
            tx.all(
                "select sequence, id, type as event_type, occurred_at, data from events \
                 where account_id = $1 and type = $5 and sequence > $2 and sequence < $3 \
                 order by sequence desc limit $4",
                args![account, query.after, before, limit, event_type.clone()],
            )
            .await
        }
    }
}

/// The account's events after a number, oldest first.
pub async fn events_after(
    query: &mut Query<'_>,
    account: AccountId,
    after: i64,
    limit: i64,
) -> Result<Vec<EventRow>, StoreError> {
    query
        .all(
            "select sequence, id, type as event_type, occurred_at, data from events \
         where account_id = $1 and sequence > $2 order by sequence limit $3",
            args![account, after, limit],
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
    pub(crate) steps: Option<Vec<u8>>,
}

from_row!(KeptRow { fingerprint, state, answer, steps });

/// What a call that claimed its key goes on with: the sealed results of the steps that an earlier try committed.
pub(crate) struct ClaimRow {
    pub(crate) steps: Option<Vec<u8>>,
}

from_row!(ClaimRow { steps });

/// Makes a running record, or takes over one whose time is up; no row comes back when another call holds the key. Steps that were
/// committed stay, and then the key is only for a request of the same fingerprint.
pub(crate) async fn claim_record(
    tx: &mut Tx,
    at: &RecordKey,
    fingerprint: [u8; 32],
    claim: &str,
    now: Timestamp,
    lease_ends: Timestamp,
) -> Result<PendingRows, StoreError> {
    tx.run_for_rows(
        "insert into idempotency_records (account_id, caller, operation, key, fingerprint, claim, state, \
         expires_at, claimed_until, answer, steps) values ($1, $2, $3, $4, $5, $6, 'running', $7, $7, null, null) \
         on conflict (account_id, caller, operation, key) do update set fingerprint = excluded.fingerprint, \
         claim = excluded.claim, state = excluded.state, claimed_until = excluded.claimed_until, answer = null, \
         expires_at = case when idempotency_records.steps is not null and idempotency_records.expires_at > $8 \
         then idempotency_records.expires_at else excluded.expires_at end, \
         steps = case when idempotency_records.expires_at > $8 then idempotency_records.steps end \
         where coalesce(idempotency_records.claimed_until, idempotency_records.expires_at) <= $8 \
         and (idempotency_records.steps is null or idempotency_records.expires_at <= $8 \
         or idempotency_records.fingerprint = excluded.fingerprint) \
         returning steps",
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
    .await
}

/// Keeps the results of the steps so far and renews the lease, if the claim is still ours.
pub(crate) async fn save_steps(
    tx: &mut Tx,
    at: &RecordKey,
    claim: &str,
    steps: Vec<u8>,
    lease_ends: Timestamp,
    expires_at: Timestamp,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update idempotency_records set steps = $6, claimed_until = $7, expires_at = $8 \
             where account_id = $1 and caller = $2 and operation = $3 and key = $4 and claim = $5 \
             and state = 'running'",
            args![
                at.account,
                at.caller,
                at.operation.to_owned(),
                at.key,
                claim.to_owned(),
                steps,
                lease_ends,
                expires_at
            ],
        )
        .await?;
    Ok(rows == 1)
}

pub(crate) async fn record(mut query: Query<'_>, at: &RecordKey) -> Result<Option<KeptRow>, StoreError> {
    query
        .first(
            "select fingerprint, state, answer, steps from idempotency_records \
         where account_id = $1 and caller = $2 and operation = $3 and key = $4",
            args![at.account, at.caller, at.operation.to_owned(), at.key],
        )
        .await
}

/// Keeps the answer; fails with `NoRow` unless the claim is still ours.
pub(crate) async fn keep_answer(
    tx: &mut Tx,
    at: &RecordKey,
    claim: &str,
    answer: Vec<u8>,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    let keep = touching!(
        "update idempotency_records set state = 'kept', answer = $6, expires_at = $7, claimed_until = null, \
         steps = null where account_id = $1 and caller = $2 and operation = $3 and key = $4 and claim = $5"
    );
    let key = args![at.account, at.caller, at.operation.to_owned(), at.key, claim.to_owned()];
    tx.run_touching(keep, [key, args![answer, expires_at]].concat()).await
}

/// Lets go of a claim without an answer. What steps have committed stays on record for a repeat.
pub(crate) async fn release_claim(tx: &mut Tx, at: &RecordKey, claim: &str) -> Result<(), StoreError> {
    let key = || args![at.account, at.caller, at.operation.to_owned(), at.key, claim.to_owned()];
    let released = tx
        .execute(
            "delete from idempotency_records where account_id = $1 and caller = $2 and operation = $3 and key = $4 \
             and claim = $5 and state = 'running' and steps is null",
            key(),
        )
        .await?;
    if released == 0 {
        tx.run(
            "update idempotency_records set claimed_until = 0 where account_id = $1 and caller = $2 \
             and operation = $3 and key = $4 and claim = $5 and state = 'running'",
            key(),
        )
        .await?;
    }
    Ok(())
}

/// Releases every claim; right only where no other process can hold one.
pub(crate) async fn release_all_claims(tx: &mut Tx) -> Result<u64, StoreError> {
    let paused =
        "update idempotency_records set claimed_until = 0 where state = 'running' and steps is not null";
    let paused = tx.execute(paused, args![]).await?;
    let removed = "delete from idempotency_records where state = 'running' and steps is null";
    Ok(paused + tx.execute(removed, args![]).await?)
}

/// Removes up to `limit` events that are older than `before`, which is no real event's id.
pub(crate) async fn prune_events(tx: &mut Tx, before: EventId, limit: i64) -> Result<u64, StoreError> {
    tx.execute(delete_some!("events", "id", "id < $1 order by id"), args![before, limit]).await
}

/// Removes up to `limit` records whose time is up.
pub(crate) async fn prune_records(tx: &mut Tx, now: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        delete_some!(
            "idempotency_records",
            "account_id, caller, operation, key",
            "expires_at <= $1 and coalesce(claimed_until, 0) <= $1",
            also "expires_at <= $1 and coalesce(claimed_until, 0) <= $1"
        ),
        args![now, limit],
    )
    .await
}

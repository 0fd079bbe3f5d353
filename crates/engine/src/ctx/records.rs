//! What a call tells: its events and audit entries, written with its transaction.
//!
//! An event and its audit entry share one number of the account's sequence. The row of the sequence stays locked until
//! the commit, so numbers become visible in their order: whoever has read number 7 is never handed a 6 that was
//! committed late. That is why every reader of the log (`ListAuditEntries`, `ListEvents`, the streams) can go on after
//! the last number that it has seen, by a range of the primary key, at the same cost however long the log is.

use std::sync::Arc;

use portico_kernel::{AccountId, EndpointId, EventId, Timestamp};
use portico_store::StoreError;
use serde_json::Value;

use super::Ctx;
use crate::ports::{AfterCommit, StoredEvent};
use crate::{Engine, sql};

/// Something to be written at the end of the transaction, numbered within its account.
pub(crate) struct Record {
    pub(crate) account: AccountId,
    pub(crate) id: EventId,
    pub(crate) event_type: &'static str,
    pub(crate) data: String,
    pub(crate) audit: Option<AuditRecord>,
    /// The one endpoint that it is for.
    pub(crate) only_to: Option<EndpointId>,
}

impl Record {
    fn made(&self, sequence: i64) -> StoredEvent {
        let &Self { id, event_type, only_to, .. } = self;
        StoredEvent { sequence, id, event_type, data: self.data.clone(), only_to }
    }
}

/// The audit entry whose event the record is.
pub(crate) struct AuditRecord {
    pub(crate) id: portico_kernel::AuditId,
    pub(crate) action: &'static str,
    pub(crate) target: String,
    pub(crate) metadata: Value,
}

/// Tells whoever listens, once the events are committed.
fn announce(
    engine: &Arc<Engine>,
    account: AccountId,
    last: i64,
    now: Timestamp,
    made: &[StoredEvent],
) -> AfterCommit {
    let events = if engine.streams.is_watched(account) { made.to_vec() } else { Vec::new() };
    let engine = engine.clone();
    Box::new(move || engine.streams.committed(&engine, account, last, now, events))
}

impl Ctx {
    /// Writes what was recorded. It comes last in the transaction, because it holds the account's sequence from here
    /// to the commit.
    pub(crate) async fn write_records(&mut self) -> Result<(), StoreError> {
        if self.records.is_empty() {
            return Ok(());
        }
        // What talks to the database is boxed here and below: it is large, and a call that only reads has none of it.
        Box::pin(self.write_all_records()).await
    }

    async fn write_all_records(&mut self) -> Result<(), StoreError> {
        let mut records = std::mem::take(&mut self.records);
        // Always in the same order, so that two transactions never wait for each other.
        records.sort_by_key(|record| record.account);
        let (engine, now) = (self.engine.clone(), self.now);
        let actor = sql::Actor {
            subject: self.caller.subject.clone(),
            kind: self.caller.kind,
            request_id: self.request_id.to_string(),
        };
        let mut after_commit = Vec::new();
        let tx = self.tx().await?;
        for of_one_account in records.chunk_by(|a, b| a.account == b.account) {
            let last = sql::take_sequence(tx, of_one_account[0].account, of_one_account.len()).await?;
            let first = last - i64::try_from(of_one_account.len()).unwrap_or(0) + 1;
            for (sequence, record) in (first..).zip(of_one_account) {
                if let Some(audit) = &record.audit {
                    sql::insert_audit(tx, record.account, sequence, now, &actor, audit).await?;
                }
            }
            sql::insert_events(tx, of_one_account, first, now).await?;
            let account = of_one_account[0].account;
            let made: Vec<_> =
                (first..).zip(of_one_account).map(|(sequence, record)| record.made(sequence)).collect();
            after_commit.push(announce(&engine, account, last, now, &made));
            after_commit.extend(engine.outbox.fill(tx, account, now, made).await?);
        }
        self.after_commit.extend(after_commit);
        Ok(())
    }
}

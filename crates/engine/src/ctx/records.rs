//! What a call tells: its events and audit entries, written with its transaction.
//!
//! An event and its audit entry share one number of the account's sequence. The row of the sequence stays locked until
//! the commit, so numbers become visible in their order: whoever has read number 7 is never handed a 6 that was
//! committed late. That is why every reader of the log (`ListAuditEntries`, `ListEvents`, the streams) can go on after
//! the last number that it has seen, by a range of the primary key, at the same cost however long the log is.

use std::iter;
use std::sync::Arc;

use portico_kernel::{AccountId, Caller, EventId, Timestamp};
use portico_store::{PendingRows, StoreError};
use serde_json::Value;

use super::Ctx;
use crate::ports::{AfterCommit, NewEvent};
use crate::{Engine, sql};

/// Something to be written at the end of the transaction, numbered within its account.
pub(crate) struct Record {
    pub(crate) account: AccountId,
    pub(crate) event: NewEvent,
    pub(crate) audit: Option<AuditRecord>,
}

/// The audit entry whose event the record is.
pub(crate) struct AuditRecord {
    /// Who did it, and the call that did it; empty where the account may not learn of that.
    pub(crate) actor: Arc<Caller>,
    pub(crate) request_id: Arc<str>,
    pub(crate) id: portico_kernel::AuditId,
    pub(crate) action: &'static str,
    pub(crate) target: String,
    pub(crate) metadata: Value,
}

/// An event of any account, whose type is not one of the platform's own: what a service tells.
#[derive(Debug)]
pub struct Publication {
    /// The account that it happened in.
    pub account: AccountId,
    /// Its type.
    pub event_type: String,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// Its data, as JSON, of at most [`EVENT_BYTES_MAX`](crate::EVENT_BYTES_MAX).
    pub data: String,
}

/// Tells whoever listens, once the events are committed.
fn announce(
    engine: &Arc<Engine>,
    account: AccountId,
    last: PendingRows,
    events: &Arc<[NewEvent]>,
) -> AfterCommit {
    let events = engine.streams.is_watched(account).then(|| events.clone());
    let engine = engine.clone();
    Box::new(move || match last.value() {
        Ok(last) => {
            engine.streams.committed(&engine, account, last, events.as_deref().unwrap_or_default());
        }
        Err(error) => {
            tracing::error!(%error, %account, "Events were committed, and their numbers do not read");
        }
    })
}

impl Ctx {
    /// Sends an event of any account, with the commit; those of one account in the order in which they are given here.
    /// Checks nothing: for what may tell of accounts by a right of its own.
    pub fn publish(&mut self, publication: Publication) -> EventId {
        let Publication { account, event_type, occurred_at, data } = publication;
        let (id, event_type) = (self.new_id(), event_type.into());
        let event = NewEvent { behind: 0, id, event_type, occurred_at, data, only_to: None };
        self.records.push(Record { account, event, audit: None });
        id
    }

    /// Tells of something in another account, as the platform: who calls, and with which call, is not for that account to
    /// know.
    pub fn as_platform<T>(&mut self, account: AccountId, tell: impl FnOnce(&mut Self) -> T) -> T {
        let caller = std::mem::replace(&mut self.caller, Arc::new(Caller::platform()));
        let request_id = std::mem::replace(&mut self.request_id, "".into());
        let own = self.account.replace(account);
        let told = tell(self);
        (self.caller, self.request_id, self.account) = (caller, request_id, own);
        told
    }

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
        let mut after_commit = Vec::new();
        let tx = self.tx().await?;
        let mut records = records.into_iter().peekable();
        while let Some(account) = records.peek().map(|record| record.account) {
            let of_account = iter::from_fn(|| records.next_if(|record| record.account == account));
            let (mut events, audit): (Vec<_>, Vec<_>) =
                of_account.map(|record| (record.event, record.audit)).unzip();
            for (behind, event) in (0..).zip(events.iter_mut().rev()) {
                event.behind = behind;
            }
            let last = sql::take_sequence(tx, account, events.len()).await?;
            sql::insert_audit(tx, account, now, &events, &audit).await?;
            sql::insert_events(tx, account, &events).await?;
            let events = events.into();
            after_commit.push(announce(&engine, account, last, &events));
            after_commit.push(engine.outbox.fill(tx, account, now, events).await?);
        }
        self.after_commit.extend(after_commit);
        Ok(())
    }
}

//! One row for every call, written before its answer leaves.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use portico_connectors::Reading;
use portico_engine::Engine;
use portico_kernel::{AccountId, ConnectionId, ConnectionUseId, GrantId, Problem, Timestamp};

use super::Calls;
use super::outcome::CallError;
use crate::limits;
use crate::model::{Consumer, ErrorClass, UseStatus};
use crate::provider::Provider;
use crate::sql::{self, UseRow};

/// How many consumers a server remembers as noted; then it forgets all of them.
const RECENT_MAX: usize = 10_000;

/// Who was noted last, so that a busy consumer does not write the same row with every call.
#[derive(Default)]
pub(crate) struct RecentUses(DashMap<(ConnectionId, Consumer), Timestamp>);

impl RecentUses {
    /// Is this worth a note?
    fn is_news(&self, connection: ConnectionId, consumer: &Consumer, now: Timestamp) -> bool {
        if self.0.len() > RECENT_MAX {
            self.0.clear();
        }
        match self.0.entry((connection, consumer.clone())) {
            Entry::Occupied(noted) if now.since(*noted.get()) < limits::LAST_USED_EVERY => false,
            entry => {
                entry.insert(now);
                true
            }
        }
    }
}

/// Who used what.
pub(crate) struct Use {
    pub(crate) account: AccountId,
    /// `None` for the test of a connection that is not made.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) provider: Provider,
    pub(crate) action: String,
    pub(crate) consumer: Consumer,
    pub(crate) grant: Option<GrantId>,
    pub(crate) at: Timestamp,
}

/// What became of it.
pub(crate) struct Ending {
    pub(crate) status: UseStatus,
    pub(crate) class: ErrorClass,
    pub(crate) status_code: u16,
    pub(crate) input_tokens: u32,
    pub(crate) output_tokens: u32,
}

impl Ending {
    /// The provider did it.
    pub(crate) const fn ok(status_code: u16) -> Self {
        let (status, class) = (UseStatus::Ok, ErrorClass::None);
        Self { status, class, status_code, input_tokens: 0, output_tokens: 0 }
    }

    /// The provider did it, and answered this.
    pub(crate) fn read(status_code: u16, reading: &Reading) -> Self {
        let Reading { input_tokens, output_tokens, .. } = *reading;
        Self { input_tokens, output_tokens, ..Self::ok(status_code) }
    }
}

impl From<&CallError> for Ending {
    fn from(error: &CallError) -> Self {
        let CallError { status, class, status_code, .. } = *error;
        Self { status, class, status_code, input_tokens: 0, output_tokens: 0 }
    }
}

impl Calls {
    /// Puts a use on record, in a transaction of its own.
    pub(crate) async fn record(
        &self,
        engine: &Arc<Engine>,
        of: &Use,
        ending: &Ending,
        elapsed: Duration,
    ) -> Result<ConnectionUseId, Problem> {
        self.metrics.called(of.provider.name(), ending.status, ending.class, elapsed);
        let id: ConnectionUseId = engine.entropy.id(engine.clock.now());
        let row = UseRow {
            id,
            account_id: of.account,
            connection_id: of.connection.map(|id| id.to_string()).unwrap_or_default(),
            action: of.action.clone(),
            at: of.at,
            caller_kind: of.consumer.kind,
            caller: of.consumer.id.clone(),
            grant_id: of.grant.map(|id| id.to_string()).unwrap_or_default(),
            status: ending.status,
            error_class: ending.class,
            executor: portico_connectors::Executor::Cloud.name().to_owned(),
            status_code: ending.status_code.into(),
            latency_ms: i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX),
            input_tokens: ending.input_tokens.into(),
            output_tokens: ending.output_tokens.into(),
        };
        let mut tx = engine.db.write().await?;
        sql::insert_use(&mut tx, &row).await?;
        let is_action = of.action != super::test::TEST && ending.status != UseStatus::Refused;
        if let Some(connection) = of.connection.filter(|_| is_action)
            && self.recent.is_news(connection, &of.consumer, of.at)
        {
            sql::note_consumer(&mut tx, of.account, connection, &of.consumer, of.at).await?;
            if let Some(grant) = of.grant {
                sql::note_grant(&mut tx, grant, of.at).await?;
            }
        }
        tx.commit().await?;
        tracing::info!(
            account = %of.account,
            connection = row.connection_id,
            action = row.action,
            caller_kind = of.consumer.kind.name(),
            caller = of.consumer.id,
            status = ending.status.name(),
            error_class = ending.class.name(),
            "Used a connection"
        );
        Ok(id)
    }
}

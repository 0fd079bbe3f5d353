//! A reader of an account's log: a cursor and a filter.

use std::collections::BTreeSet;
use std::sync::Arc;

use portico_engine::{Engine, Registry, event_sequence};
use portico_kernel::{AccountId, Problem};
use portico_store::StoreError;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;

use crate::channel::{self, Channel, TailRead};
use crate::limits::TYPES_MAX;
use crate::{Cursor, Frame, Hub, Start, sql};

/// Which types of events a stream carries.
#[derive(Debug, Clone, Default)]
pub struct Filter(Option<BTreeSet<Box<str>>>);

impl Filter {
    /// These types alone, each of which must be one; all of them when none are named.
    pub fn parse(registry: &Registry, types: &[String]) -> Result<Self, Problem> {
        if types.len() > TYPES_MAX {
            return Err(Problem::field("types", format!("must be at most {TYPES_MAX} types")));
        }
        for (at, name) in types.iter().enumerate() {
            registry.catalog().check_event_type(&format!("types[{at}]"), name)?;
        }
        Ok(Self::types(types.iter().map(String::as_str)))
    }

    /// These types alone; all of them when none are named.
    pub fn types<'a>(types: impl IntoIterator<Item = &'a str>) -> Self {
        let types: BTreeSet<_> = types.into_iter().map(Into::into).collect();
        Self((!types.is_empty()).then_some(types))
    }

    /// Does the stream carry that type?
    pub fn passes(&self, event_type: &str) -> bool {
        self.0.as_ref().is_none_or(|types| types.contains(event_type))
    }

    /// The types, where they are named.
    pub fn named(&self) -> Option<&BTreeSet<Box<str>>> {
        self.0.as_ref()
    }
}

/// What was asked for is not in the log any more, or never was. The stream goes on with the oldest event that is there.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Resync {
    /// Always false: events were missed.
    pub recovered: bool,
    /// The place before the oldest event that is still there, from which the stream goes on.
    pub oldest: String,
}

/// Reads an account's events in order, from memory while it keeps up and from the database when it does not. A slow
/// reader costs others nothing but its reads.
pub struct Feed {
    hub: Arc<Hub>,
    channel: Arc<Channel>,
    head: watch::Receiver<i64>,
    cursor: i64,
    filter: Filter,
}

impl Feed {
    /// Opens the account's log at `start`. Also returns a resync when that position is no longer in the log.
    pub async fn open(
        hub: &Arc<Hub>,
        engine: &Arc<Engine>,
        account: AccountId,
        start: &Start,
        filter: Filter,
    ) -> Result<(Self, Option<Resync>), Problem> {
        let channel = hub.channel(account);
        let head = channel.watch();
        channel.start(engine).await?;
        // Boxed, because it is large and soon over.
        let (cursor, resync) = match Box::pin(locate(engine, account, start)).await? {
            Position::Known(sequence) => (sequence, None),
            Position::Lost { oldest } => {
                (oldest, Some(Resync { recovered: false, oldest: Cursor::at(oldest).to_string() }))
            }
        };
        Ok((Self { hub: hub.clone(), channel, head, cursor, filter }, resync))
    }

    /// The number of the last event that was returned or filtered out.
    pub fn position(&self) -> i64 {
        self.cursor
    }

    /// Changes the filter, from here on.
    pub fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
    }

    /// Continues after the event of that number.
    pub fn seek(&mut self, sequence: i64) {
        self.cursor = sequence;
    }

    /// Waits for the next events, at most about 32 KiB of them. Cancel safe: no event is lost when the future is dropped.
    pub async fn next(&mut self, engine: &Engine) -> Result<Vec<Arc<Frame>>, StoreError> {
        loop {
            // Before the read, so that an event that comes after it wakes us.
            self.head.mark_unchanged();
            match self.channel.read_tail(self.cursor, &self.filter) {
                TailRead::UpToDate => {
                    // It lives as long as we hold the channel.
                    let _ = self.head.changed().await;
                }
                TailRead::Frames(frames, last) => {
                    self.cursor = last;
                    if !frames.is_empty() {
                        return Ok(frames);
                    }
                }
                // Boxed, because this future is large and a stream that keeps up never needs it.
                TailRead::Behind => {
                    let (frames, last) = Box::pin(self.read_log(engine)).await?;
                    self.cursor = last;
                    if !frames.is_empty() {
                        return Ok(frames);
                    }
                }
            }
        }
    }

    async fn read_log(&self, engine: &Engine) -> Result<(Vec<Arc<Frame>>, i64), StoreError> {
        // Before the page is read: what is committed meanwhile must not be skipped.
        let known = *self.head.borrow();
        let frames = channel::read_page(engine, &self.hub.readers, self.channel.account, self.cursor).await?;
        let (batch, last) = channel::batch(frames.iter(), &self.filter);
        // An empty page although more was known: those events have expired.
        Ok((batch, last.unwrap_or(known)))
    }
}

/// Where a stream begins in the log.
enum Position {
    /// After the event of that number.
    Known(i64),
    /// The position is not in the log: the stream begins before the oldest event, after the number `oldest`.
    Lost { oldest: i64 },
}

/// Finds the position of `start` in the log.
async fn locate(engine: &Engine, account: AccountId, start: &Start) -> Result<Position, StoreError> {
    if matches!(start, Start::Now) {
        return Ok(Position::Known(sql::last(&mut engine.db.query(), account).await?));
    }
    let mut tx = engine.db.read().await?;
    let last = sql::last(&mut tx, account).await?;
    let known = match start {
        Start::Now => Some(last),
        Start::AfterEvent(id) => event_sequence(&mut tx, account, *id).await?,
        Start::After(cursor) if cursor.sequence > last => None,
        Start::After(cursor) => {
            let id = sql::event_at(&mut tx, account, cursor.sequence).await?;
            // The event itself may have expired, as long as the next one is there.
            id.is_none_or(|id| cursor.matches(id)).then_some(cursor.sequence)
        }
    };
    let before_oldest = sql::oldest(&mut tx, account).await?.map_or(last, |oldest| oldest - 1);
    tx.rollback();
    let known = known.filter(|sequence| before_oldest <= *sequence);
    Ok(known.map_or(Position::Lost { oldest: before_oldest }, Position::Known))
}

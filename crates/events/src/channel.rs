//! The newest events of one account, shared by every stream of it on this server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portico_engine::{Engine, events_after};
use portico_kernel::AccountId;
use portico_store::StoreError;
use tokio::sync::{OnceCell, Semaphore, watch};

use crate::limits::{
    BATCH_BYTES_MAX, BATCH_FRAMES_MAX, ORDER_WAIT, OUT_OF_ORDER_MAX, PAGE_ROWS, RETRY_WAIT, TAIL_BYTES_MAX,
};
use crate::{Filter, Frame, pause, sql};

/// What all streams of an account share on this server. It lives as long as one of them does.
pub(crate) struct Channel {
    pub(crate) account: AccountId,
    started: OnceCell<()>,
    tail: Mutex<Tail>,
    /// The number up to which all events are known; streams wait for it to change.
    head: watch::Sender<i64>,
}

/// The end of the log, as far as it is in memory.
#[derive(Default)]
struct Tail {
    /// The number of the last event that is known with all before it; `None` until it was read.
    head: Option<i64>,
    /// The newest events up to `head`, without a gap.
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    /// Events after a gap: those before them are committed, and come at any moment.
    out_of_order: BTreeMap<i64, Arc<Frame>>,
    /// The last number of the account, as another server or a poll reported it.
    reported: i64,
    /// Is the log being read to fill a gap?
    filling: bool,
    /// The head when the tail was last evicted.
    evicted_at: i64,
}

/// What the tail has after a cursor.
pub(crate) enum TailRead {
    /// No newer event.
    UpToDate,
    /// The events that pass the filter, perhaps none, and the cursor after them.
    Frames(Vec<Arc<Frame>>, i64),
    /// The next event is no longer in memory.
    Behind,
}

impl Tail {
    fn push(&mut self, frame: Arc<Frame>) {
        self.bytes += frame.size();
        self.head = Some(frame.sequence);
        self.frames.push_back(frame);
        while self.bytes > TAIL_BYTES_MAX {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(frame) = self.frames.pop_front() {
            self.bytes -= frame.size();
        }
    }

    fn add(&mut self, frames: Vec<Arc<Frame>>) {
        for frame in frames {
            match self.head {
                Some(head) if frame.sequence <= head => {}
                Some(head) if frame.sequence == head + 1 => self.push(frame),
                _ => drop(self.out_of_order.insert(frame.sequence, frame)),
            }
        }
        self.take_in_order();
        if self.out_of_order.len() > OUT_OF_ORDER_MAX {
            self.reported =
                self.reported.max(self.out_of_order.last_key_value().map_or(0, |(last, _)| *last));
            self.out_of_order.clear();
        }
    }

    /// Takes the events that follow without a gap.
    fn take_in_order(&mut self) {
        let Some(mut head) = self.head else { return };
        while let Some(first) = self.out_of_order.first_entry().filter(|first| *first.key() <= head + 1) {
            let frame = first.remove();
            if frame.sequence > head {
                self.push(frame);
            }
            head = self.head.unwrap_or(head);
        }
    }

    /// Returns whether there are events that are not known without a gap.
    fn has_gap(&self) -> bool {
        self.head.is_some_and(|head| head < self.reported)
            || (self.head.is_some() && !self.out_of_order.is_empty())
    }
}

impl Channel {
    pub(crate) fn new(account: AccountId) -> Self {
        let (started, tail) = (OnceCell::new(), Mutex::default());
        Self { account, started, tail, head: watch::Sender::new(0) }
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(&self) -> watch::Receiver<i64> {
        self.head.subscribe()
    }

    /// Reads the number of the account's last event, once. Events that are committed meanwhile come to the tail anyway.
    pub(crate) async fn start(&self, engine: &Engine) -> Result<(), StoreError> {
        let reading = async {
            let last = sql::last(&mut engine.db.query(), self.account).await?;
            let mut tail = self.tail();
            tail.head = Some(last);
            tail.take_in_order();
            self.head.send_replace(tail.head.unwrap_or(last));
            Ok::<_, StoreError>(())
        };
        self.started.get_or_try_init(|| Box::pin(reading)).await.map(drop)
    }

    /// Adds events that were committed on this server.
    pub(crate) fn committed(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        readers: &Arc<Semaphore>,
        frames: Vec<Arc<Frame>>,
    ) {
        let mut tail = self.tail();
        tail.add(frames);
        self.publish(&tail);
        self.fill_gap(tail, engine, readers);
    }

    /// Notes that the account's last event has the number `last`, as another server or a poll reported it.
    pub(crate) fn report_last(self: &Arc<Self>, engine: &Arc<Engine>, readers: &Arc<Semaphore>, last: i64) {
        let mut tail = self.tail();
        tail.reported = tail.reported.max(last);
        self.fill_gap(tail, engine, readers);
    }

    fn publish(&self, tail: &Tail) {
        if let Some(head) = tail.head {
            self.head.send_if_modified(|known| std::mem::replace(known, head) != head);
        }
    }

    fn fill_gap(
        self: &Arc<Self>,
        mut tail: MutexGuard<'_, Tail>,
        engine: &Arc<Engine>,
        readers: &Arc<Semaphore>,
    ) {
        if tail.has_gap() && !std::mem::replace(&mut tail.filling, true) {
            let (channel, engine, readers) = (self.clone(), engine.clone(), readers.clone());
            tokio::spawn(async move { channel.fill(&engine, &readers).await });
        }
    }

    /// Fills the gap from the database, once for all streams. Mostly the missing events come while this waits.
    async fn fill(&self, engine: &Engine, readers: &Semaphore) {
        pause(ORDER_WAIT).await;
        loop {
            let after = {
                let mut tail = self.tail();
                let head = tail.head.filter(|_| tail.has_gap());
                let Some(head) = head else {
                    tail.filling = false;
                    return;
                };
                head
            };
            let page = read_page(engine, readers, self.account, after).await;
            let mut tail = self.tail();
            match page {
                // Numbers become visible in their order, so what is not there was never committed: the report was wrong,
                // or the account was erased.
                Ok(frames) if frames.is_empty() => {
                    tail.reported = 0;
                    tail.out_of_order.clear();
                }
                Ok(frames) => {
                    // What is missing before the first one has expired.
                    tail.head = frames.first().map(|frame| frame.sequence - 1).max(tail.head);
                    tail.add(frames);
                    self.publish(&tail);
                }
                Err(error) => {
                    drop(tail);
                    tracing::warn!(%error, "Failed to read the event log; will try again");
                    pause(RETRY_WAIT).await;
                }
            }
        }
    }

    /// Reads a batch of the events after `cursor` that pass the filter.
    pub(crate) fn read_tail(&self, cursor: i64, filter: &Filter) -> TailRead {
        let tail = self.tail();
        let Some(head) = tail.head.filter(|head| *head > cursor) else { return TailRead::UpToDate };
        let first = tail.frames.front().map_or(head + 1, |frame| frame.sequence);
        if first > cursor + 1 {
            return TailRead::Behind;
        }
        let skip = usize::try_from(cursor + 1 - first).unwrap_or(usize::MAX);
        let (frames, last) = batch(tail.frames.iter().skip(skip), filter);
        TailRead::Frames(frames, last.unwrap_or(head))
    }

    /// Evicts the events that were in memory at the last call: every stream had a second to take them.
    pub(crate) fn evict(&self) {
        let mut tail = self.tail();
        while tail.frames.front().is_some_and(|frame| frame.sequence <= tail.evicted_at) {
            tail.pop();
        }
        if tail.frames.is_empty() {
            tail.frames.shrink_to_fit();
        }
        tail.evicted_at = tail.head.unwrap_or(0);
    }
}

/// Returns the next batch of events that pass the filter, and the number of the last event that was considered.
pub(crate) fn batch<'a>(
    frames: impl Iterator<Item = &'a Arc<Frame>>,
    filter: &Filter,
) -> (Vec<Arc<Frame>>, Option<i64>) {
    let (mut batch, mut bytes, mut last) = (Vec::new(), 0, None);
    for frame in frames {
        if filter.passes(&frame.event_type) {
            bytes += frame.size();
            if !batch.is_empty() && (bytes > BATCH_BYTES_MAX || batch.len() == BATCH_FRAMES_MAX) {
                break;
            }
            batch.push(frame.clone());
        }
        last = Some(frame.sequence);
    }
    (batch, last)
}

/// Reads a page of the log from the database.
pub(crate) async fn read_page(
    engine: &Engine,
    readers: &Semaphore,
    account: AccountId,
    after: i64,
) -> Result<Vec<Arc<Frame>>, StoreError> {
    let _permit = readers.acquire().await.map_err(|_| StoreError::unavailable("the streams are closed"))?;
    let rows = events_after(&mut engine.db.query(), account, after, PAGE_ROWS).await?;
    Ok(rows.iter().map(|row| Frame::from_row(account, row)).collect())
}

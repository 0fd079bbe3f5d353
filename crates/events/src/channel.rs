//! The newest events of one account, for everyone who listens to it on this server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portico_engine::clock::SystemClock;
use portico_engine::{Engine, events_after};
use portico_kernel::{AccountId, Clock};
use portico_store::StoreError;
use tokio::sync::{OnceCell, Semaphore, watch};

use crate::limits::{
    BATCH_BYTES_MAX, BATCH_FRAMES_MAX, EARLY_MAX, ORDER_WAIT, PAGE_ROWS, RETRY_WAIT, TAIL_BYTES_MAX,
};
use crate::{Filter, Frame, sql};

/// What everyone shares who listens to an account here. It is there as long as somebody does.
pub(crate) struct Channel {
    pub(crate) account: AccountId,
    begun: OnceCell<()>,
    tail: Mutex<Tail>,
    /// Up to which number everything is known; listeners wait for it to move.
    head: watch::Sender<i64>,
}

/// The end of the log, as far as it is in memory.
#[derive(Default)]
struct Tail {
    /// The number of the last event that is known with all before it. Nothing is known before it was read.
    head: Option<i64>,
    /// The newest events up to `head`, without a gap.
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    /// Events beyond a gap: those before them are committed, and come at any moment.
    early: BTreeMap<i64, Arc<Frame>>,
    /// The account has come this far, by what others say.
    wanted: i64,
    /// Is the log being read to close a gap?
    filling: bool,
    /// What was there already when the tail was last swept.
    swept: i64,
}

/// What a listener finds after its cursor.
pub(crate) enum Found {
    /// Nothing new yet.
    Nothing,
    /// These events, which may be none of its types, and where it stands then.
    Frames(Vec<Arc<Frame>>, i64),
    /// What comes next is not in memory any more.
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
                _ => drop(self.early.insert(frame.sequence, frame)),
            }
        }
        self.close_gap();
        if self.early.len() > EARLY_MAX {
            self.wanted = self.wanted.max(self.early.last_key_value().map_or(0, |(last, _)| *last));
            self.early.clear();
        }
    }

    fn close_gap(&mut self) {
        let Some(mut head) = self.head else { return };
        while let Some(first) = self.early.first_entry().filter(|first| *first.key() <= head + 1) {
            let frame = first.remove();
            if frame.sequence > head {
                self.push(frame);
            }
            head = self.head.unwrap_or(head);
        }
    }

    /// Is there more than is known without a gap?
    fn has_gap(&self) -> bool {
        self.head.is_some_and(|head| head < self.wanted) || (self.head.is_some() && !self.early.is_empty())
    }
}

impl Channel {
    pub(crate) fn new(account: AccountId) -> Self {
        let (begun, tail) = (OnceCell::new(), Mutex::default());
        Self { account, begun, tail, head: watch::Sender::new(0) }
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(&self) -> watch::Receiver<i64> {
        self.head.subscribe()
    }

    /// Learns where the account stands. What is committed meanwhile comes to the tail by itself.
    pub(crate) async fn begin(&self, engine: &Engine) -> Result<(), StoreError> {
        let reading = async {
            let last = sql::last(&mut engine.db.query(), self.account).await?;
            let mut tail = self.tail();
            tail.head = Some(last);
            tail.close_gap();
            self.head.send_replace(tail.head.unwrap_or(last));
            Ok::<_, StoreError>(())
        };
        self.begun.get_or_try_init(|| Box::pin(reading)).await.map(drop)
    }

    /// These events were committed here.
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

    /// The account has come to `last`, by what somebody else says.
    pub(crate) fn hint(self: &Arc<Self>, engine: &Arc<Engine>, readers: &Arc<Semaphore>, last: i64) {
        let mut tail = self.tail();
        tail.wanted = tail.wanted.max(last);
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

    /// Closes the gap, for everyone at once. Mostly it closes by itself while this waits.
    async fn fill(&self, engine: &Engine, readers: &Semaphore) {
        SystemClock.sleep(ORDER_WAIT).await;
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
            let page = read(engine, readers, self.account, after).await;
            let mut tail = self.tail();
            match page {
                // Numbers become visible in their order, so what is not there was never committed: a word that was
                // wrong, or an account that was erased.
                Ok(frames) if frames.is_empty() => {
                    tail.wanted = 0;
                    tail.early.clear();
                }
                Ok(frames) => {
                    // What is missing before it was removed after its time.
                    tail.head = frames.first().map(|frame| frame.sequence - 1).max(tail.head);
                    tail.add(frames);
                    self.publish(&tail);
                }
                Err(error) => {
                    drop(tail);
                    tracing::warn!(%error, "The log of events could not be read; trying again");
                    SystemClock.sleep(RETRY_WAIT).await;
                }
            }
        }
    }

    /// What comes after `cursor`, as far as it passes the filter and is one piece.
    pub(crate) fn find(&self, cursor: i64, filter: &Filter) -> Found {
        let tail = self.tail();
        let Some(head) = tail.head.filter(|head| *head > cursor) else { return Found::Nothing };
        let first = tail.frames.front().map_or(head + 1, |frame| frame.sequence);
        if first > cursor + 1 {
            return Found::Behind;
        }
        let skip = usize::try_from(cursor + 1 - first).unwrap_or(usize::MAX);
        let (frames, last) = piece(tail.frames.iter().skip(skip), filter);
        Found::Frames(frames, last.unwrap_or(head))
    }

    /// Lets go of what everybody had a second to take.
    pub(crate) fn sweep(&self) {
        let mut tail = self.tail();
        while tail.frames.front().is_some_and(|frame| frame.sequence <= tail.swept) {
            tail.pop();
        }
        if tail.frames.is_empty() {
            tail.frames.shrink_to_fit();
        }
        tail.swept = tail.head.unwrap_or(0);
    }
}

/// The next piece of what passes the filter, and the last event that was looked at.
pub(crate) fn piece<'a>(
    frames: impl Iterator<Item = &'a Arc<Frame>>,
    filter: &Filter,
) -> (Vec<Arc<Frame>>, Option<i64>) {
    let (mut piece, mut bytes, mut last) = (Vec::new(), 0, None);
    for frame in frames {
        if filter.passes(&frame.event_type) {
            bytes += frame.size();
            if !piece.is_empty() && (bytes > BATCH_BYTES_MAX || piece.len() == BATCH_FRAMES_MAX) {
                break;
            }
            piece.push(frame.clone());
        }
        last = Some(frame.sequence);
    }
    (piece, last)
}

/// A page of the log.
pub(crate) async fn read(
    engine: &Engine,
    readers: &Semaphore,
    account: AccountId,
    after: i64,
) -> Result<Vec<Arc<Frame>>, StoreError> {
    let _place = readers.acquire().await.map_err(|_| StoreError::unavailable("the streams are closed"))?;
    let rows = events_after(&mut engine.db.query(), account, after, PAGE_ROWS).await?;
    Ok(rows.iter().map(|row| Frame::kept(account, row)).collect())
}

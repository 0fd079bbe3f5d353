//! Calls under way, which go on as long as somebody waits for them: a client disconnects, or, in a revision with a
//! handshake, cancels its call by a notification.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use portico_engine::Spec;
use tokio::sync::oneshot;

use super::message::Id;

/// The calls under way, by who made them and under which id. Clients of one holder number theirs alike, so there may be
/// several of one id.
#[derive(Default)]
pub(super) struct RunningCalls {
    calls: DashMap<At, Vec<(u64, oneshot::Sender<()>)>>,
    begun: AtomicU64,
}

/// Whose call, under which id.
type At = (String, Id);

/// A call under way, until this is dropped.
#[derive(Default)]
pub(super) struct RunningCall {
    /// `None` for a call that cannot be cancelled by a notification.
    known: Option<(Arc<RunningCalls>, At, u64)>,
    gone: Option<oneshot::Receiver<()>>,
    waiting: Option<oneshot::Sender<()>>,
}

impl RunningCalls {
    /// Begins a call that may be cancelled by a notification.
    pub(super) fn begin(self: &Arc<Self>, subject: &str, id: &Id) -> RunningCall {
        let (sender, receiver) = oneshot::channel();
        let (at, number) = ((subject.to_owned(), id.clone()), self.begun.fetch_add(1, Ordering::Relaxed));
        self.calls.entry(at.clone()).or_default().push((number, sender));
        RunningCall { known: Some((self.clone(), at, number)), gone: Some(receiver), waiting: None }
    }

    /// Cancels a call, if it is under way here. Where two have that id, nobody knows which is meant, and both go on.
    pub(super) fn cancel(&self, subject: &str, id: &Id) {
        self.calls.remove_if(&(subject.to_owned(), id.clone()), |_, calls| calls.len() == 1);
    }
}

impl RunningCall {
    /// Resolves when the client has gone; `None` for a call that only reads and cannot be cancelled by a notification,
    /// which ends with its client anyway.
    pub(super) fn gone_from(&mut self, spec: &Spec) -> Option<oneshot::Receiver<()>> {
        (self.known.is_some() || !spec.only_reads()).then(|| self.gone())
    }

    /// Resolves when nobody waits for it any more.
    fn gone(&mut self) -> oneshot::Receiver<()> {
        self.gone.take().unwrap_or_else(|| {
            let (waiting, gone) = oneshot::channel();
            self.waiting = Some(waiting);
            gone
        })
    }

    /// Resolves when it is cancelled.
    pub(super) async fn cancelled(&mut self) {
        let _ = self.gone().await;
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let Some((running, at, number)) = &self.known else { return };
        running.calls.remove_if_mut(at, |_, calls| {
            calls.retain(|(known, _)| known != number);
            calls.is_empty()
        });
    }
}

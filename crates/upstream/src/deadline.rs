//! How long is waited for a target.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;

use crate::time::{Instant, now};

/// Ends when the target has done nothing for the whole time. While the caller is waited for, it stands still.
pub(crate) struct Deadline<'a> {
    timer: Pin<&'a mut Sleep>,
    time: Duration,
    /// Since when the target is waited for.
    since: Option<Instant>,
}

impl<'a> Deadline<'a> {
    /// The timer may end early, but not late.
    pub(crate) fn new(timer: Pin<&'a mut Sleep>, time: Duration) -> Self {
        Self { timer, time, since: Some(now()) }
    }

    /// The target has done what it was waited for.
    pub(crate) fn restart(&mut self) {
        self.since = Some(now());
    }

    /// It is not the target that is waited for.
    pub(crate) fn pause(&mut self) {
        self.since = None;
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.since.is_none()
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(since) = self.since else { return Poll::Pending };
        let end = since + self.time;
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if now() >= end {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(end);
        }
    }
}

//! A future that is looked at only when it has woken somebody.
//!
//! The task of a connection waits for its bytes, and beside them for what hardly ever comes: that the connection is to end,
//! that the server stops, that nothing was heard for long. Asked at every turn, those cost more than the bytes.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Polls `future` when it was woken, and not when only the task around it was.
pub(crate) struct OnWake<F> {
    future: F,
    state: Arc<WakeState>,
    /// Sets `woken`, and wakes the task.
    waker: Waker,
    /// The task that polled last.
    task: Option<Waker>,
}

struct WakeState {
    woken: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Wake for WakeState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        task.inspect(Waker::wake_by_ref);
    }
}

impl<F: Future + Unpin> OnWake<F> {
    /// It is polled once in any case.
    pub(crate) fn new(future: F) -> Self {
        let state = Arc::new(WakeState { woken: AtomicBool::new(true), task: Mutex::new(None) });
        Self { future, waker: state.clone().into(), state, task: None }
    }
}

impl<F: Future + Unpin> Future for OnWake<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if !this.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            this.task = Some(cx.waker().clone());
            // Before `woken` is read: whoever wakes from here on wakes this task.
            *this.state.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        }
        if !this.state.woken.load(Ordering::Acquire) || !this.state.woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        Pin::new(&mut this.future).poll(&mut Context::from_waker(&this.waker))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use futures_util::FutureExt;
    use tokio::sync::Notify;

    use super::*;

    /// Counts how often a task was woken.
    struct CountWakes(AtomicUsize);

    impl Wake for CountWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn it_is_polled_when_it_was_woken_and_wakes_the_task_that_polled_last() {
        let (notify, polls) = (Notify::new(), AtomicUsize::new(0));
        let mut notified = Box::pin(notify.notified());
        let mut future = OnWake::new(poll_fn(|cx| {
            polls.fetch_add(1, Ordering::Relaxed);
            notified.as_mut().poll(cx)
        }));
        let tasks = [(); 2].map(|()| Arc::new(CountWakes(AtomicUsize::new(0))));
        let wakers = tasks.clone().map(Waker::from);
        for waker in [&wakers[0], &wakers[0], &wakers[1], &wakers[1]] {
            assert!(future.poll_unpin(&mut Context::from_waker(waker)).is_pending());
        }
        assert_eq!(polls.load(Ordering::Relaxed), 1, "nothing has woken it");
        notify.notify_one();
        assert_eq!(tasks.map(|task| task.0.load(Ordering::Relaxed)), [0, 1]);
        assert!(future.poll_unpin(&mut Context::from_waker(&wakers[1])).is_ready());
    }

    #[tokio::test]
    async fn a_wake_of_another_thread_is_never_lost() {
        for _ in 0..1_000 {
            let notify = Arc::new(Notify::new());
            let other = notify.clone();
            let waking = tokio::task::spawn_blocking(move || other.notify_one());
            OnWake::new(Box::pin(notify.notified())).await;
            waking.await.unwrap();
        }
    }
}

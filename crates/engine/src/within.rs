//! A bound on time that costs nothing while it is not needed.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// What `future` gives, if it takes at most `limit`; nothing otherwise. Most of what is bounded ends at once, so the timer
/// is set only for what does not. It is pinned by whoever calls, because a future that is passed on is copied.
pub async fn within<F: Future>(limit: Duration, mut future: Pin<&mut F>) -> Option<F::Output> {
    if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        return Some(output);
    }
    tokio::time::timeout(limit, future).await.ok()
}

//! The channels of this server, and the notifications between servers.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use dashmap::DashMap;
use portico_engine::Engine;
use portico_engine::ports::{NewEvent, Streams};
use portico_kernel::AccountId;
use portico_store::{Listener, StoreError};
use tokio::sync::{Notify, Semaphore, watch};

use crate::channel::Channel;
use crate::limits::{NOTIFICATION_BYTES_MAX, NOTIFY_DELAY, POLL_EVERY, READERS_MAX, RETRY_WAIT};
use crate::{Frame, pause, sql};

/// The channel on which servers that share a database notify each other of the accounts' last events.
const NOTIFY_CHANNEL: &str = "portico_events";

/// Brings committed events to the streams: those of this server from memory, those of other servers after a notification.
/// A notification that is lost costs a second, never an event.
pub struct Hub {
    channels: DashMap<AccountId, Arc<Channel>>,
    pub(crate) readers: Arc<Semaphore>,
    /// What other servers are to be notified of; `None` when there can be none.
    reports: Option<PeerReports>,
}

/// The accounts with new events, and the numbers of their last events.
#[derive(Default)]
struct PeerReports {
    heads: Mutex<HashMap<AccountId, i64>>,
    wake: Notify,
}

impl Hub {
    /// A hub without streams; `shared` says that other servers may use the same database.
    pub fn new(shared: bool) -> Self {
        let reports = shared.then(PeerReports::default);
        Self { channels: DashMap::new(), readers: Arc::new(Semaphore::new(READERS_MAX)), reports }
    }

    pub(crate) fn channel(&self, account: AccountId) -> Arc<Channel> {
        self.channels.entry(account).or_insert_with(|| Arc::new(Channel::new(account))).clone()
    }

    /// Notes the number of the account's last event, if there is a stream of it.
    fn report_last(&self, engine: &Arc<Engine>, account: AccountId, last: i64) {
        let channel = self.channels.get(&account).map(|channel| channel.clone());
        if let Some(channel) = channel {
            channel.report_last(engine, &self.readers, last);
        }
    }

    /// Sends and receives notifications, and polls every account that has a stream, until `stop`.
    pub(crate) async fn run(&self, engine: &Arc<Engine>, mut stop: watch::Receiver<bool>) {
        let stopped = async {
            let _ = stop.wait_for(|stop| *stop).await.map(drop);
        };
        tokio::select! {
            () = stopped => {}
            () = self.notify_peers(engine) => {}
            () = self.listen_to_peers(engine) => {}
            () = self.poll(engine) => {}
        }
    }

    /// Notifies the other servers, once for all that was committed within a moment.
    async fn notify_peers(&self, engine: &Engine) {
        let Some(reports) = &self.reports else { return std::future::pending().await };
        loop {
            reports.wake.notified().await;
            pause(NOTIFY_DELAY).await;
            let heads = std::mem::take(&mut *reports.heads.lock().unwrap_or_else(PoisonError::into_inner));
            for notification in encode(&heads) {
                if let Err(error) = engine.db.notify(NOTIFY_CHANNEL, &notification).await {
                    // They also poll.
                    tracing::debug!(%error, "Failed to notify other servers of events");
                }
            }
        }
    }

    async fn listen_to_peers(&self, engine: &Arc<Engine>) {
        loop {
            if let Err(error) = self.receive_notifications(engine).await {
                tracing::debug!(%error, "Failed to receive notifications of other servers; will try again");
            }
            pause(RETRY_WAIT).await;
        }
    }

    async fn receive_notifications(&self, engine: &Arc<Engine>) -> Result<(), StoreError> {
        let mut listener: Listener = engine.db.listen(NOTIFY_CHANNEL).await?;
        loop {
            match listener.hear().await? {
                Some(notification) => {
                    decode(&notification).for_each(|(account, last)| self.report_last(engine, account, last));
                }
                None => self.poll_once(engine).await?,
            }
        }
    }

    /// Polls every account that has a stream, in case a notification was lost, or a writer sends none, such as the
    /// operator's command line.
    async fn poll(&self, engine: &Arc<Engine>) {
        loop {
            pause(POLL_EVERY).await;
            self.channels.retain(|_, channel| Arc::strong_count(channel) > 1);
            if let Err(error) = self.poll_once(engine).await {
                tracing::debug!(%error, "Failed to poll for new events");
            }
        }
    }

    async fn poll_once(&self, engine: &Arc<Engine>) -> Result<(), StoreError> {
        let mut accounts = Vec::with_capacity(self.channels.len());
        for channel in &self.channels {
            channel.evict();
            accounts.push(channel.account);
        }
        for some in accounts.chunks(sql::LASTS_MAX) {
            for (account, last) in sql::lasts(&mut engine.db.query(), some).await? {
                self.report_last(engine, account, last);
            }
        }
        Ok(())
    }
}

impl Streams for Hub {
    fn is_watched(&self, account: AccountId) -> bool {
        self.channels.contains_key(&account)
    }

    fn committed(&self, engine: &Arc<Engine>, account: AccountId, last: i64, events: &[NewEvent]) {
        if let Some(reports) = &self.reports {
            let mut heads = reports.heads.lock().unwrap_or_else(PoisonError::into_inner);
            let head = heads.entry(account).or_insert(last);
            *head = last.max(*head);
            reports.wake.notify_one();
        }
        let channel = self.channels.get(&account).map(|channel| channel.clone());
        let Some(channel) = channel else { return };
        if events.is_empty() {
            // The stream was opened after the events were written.
            channel.report_last(engine, &self.readers, last);
        } else {
            let frames =
                events.iter().map(|event| Frame::from_committed(account, last - event.behind, event));
            channel.committed(engine, &self.readers, frames.collect());
        }
    }
}

/// Writes these heads as notifications, none of them too long.
fn encode(heads: &HashMap<AccountId, i64>) -> Vec<String> {
    let mut notifications = vec![String::new()];
    for (account, last) in heads {
        if notifications.last().is_some_and(|last| last.len() > NOTIFICATION_BYTES_MAX) {
            notifications.push(String::new());
        }
        if let Some(notification) = notifications.last_mut() {
            // Writing to a string cannot fail.
            let _ = write!(notification, "{account} {last};");
        }
    }
    notifications.retain(|notification| !notification.is_empty());
    notifications
}

/// Reads a notification; what cannot be parsed is skipped.
fn decode(notification: &str) -> impl Iterator<Item = (AccountId, i64)> {
    notification.split(';').filter_map(|head| {
        let (account, last) = head.split_once(' ')?;
        Some((account.parse().ok()?, last.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_read_as_they_were_written() {
        let heads: HashMap<AccountId, i64> =
            (0..1_000_u16).map(|at| (AccountId::from_u128(at.into()), i64::from(at) * 7)).collect();
        let notifications = encode(&heads);
        assert!(notifications.iter().all(|each| each.len() < 8_000));
        assert!(notifications.len() > 1);
        let all: HashMap<AccountId, i64> = notifications.iter().flat_map(|each| decode(each)).collect();
        assert_eq!(all, heads);
        assert_eq!(decode("nonsense;acc_x 5;; 7").count(), 0);
    }
}

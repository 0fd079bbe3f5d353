//! Who listens to which account here, and the words between servers.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use dashmap::DashMap;
use portico_engine::Engine;
use portico_engine::clock::SystemClock;
use portico_engine::ports::{StoredEvent, Streams};
use portico_kernel::{AccountId, Clock, Timestamp};
use portico_store::{Listener, StoreError};
use tokio::sync::{Notify, Semaphore, watch};

use crate::channel::Channel;
use crate::limits::{GATHER, LOOK_EVERY, READERS_MAX, RETRY_WAIT, WORD_BYTES_MAX};
use crate::{Frame, sql};

/// What servers that share a database say to each other: which account has come how far.
const WORDS: &str = "portico_events";

/// Brings events that were committed to whoever listens: those of this server from memory, those of others after a word
/// from them. A word that is lost costs a second, never an event.
pub struct Hub {
    channels: DashMap<AccountId, Arc<Channel>>,
    pub(crate) readers: Arc<Semaphore>,
    /// What other servers are to be told; nothing when there can be none.
    words: Option<Words>,
}

#[derive(Default)]
struct Words {
    heads: Mutex<HashMap<AccountId, i64>>,
    wake: Notify,
}

impl Hub {
    /// A hub that nobody listens to yet; `shared` says that other servers may use the same database.
    pub fn new(shared: bool) -> Self {
        let words = shared.then(Words::default);
        Self { channels: DashMap::new(), readers: Arc::new(Semaphore::new(READERS_MAX)), words }
    }

    pub(crate) fn channel(&self, account: AccountId) -> Arc<Channel> {
        self.channels.entry(account).or_insert_with(|| Arc::new(Channel::new(account))).clone()
    }

    fn hint(&self, engine: &Arc<Engine>, account: AccountId, last: i64) {
        let channel = self.channels.get(&account).map(|channel| channel.clone());
        if let Some(channel) = channel {
            channel.hint(engine, &self.readers, last);
        }
    }

    /// Brings and takes words, and looks at every account that is listened to, until `stop`.
    pub(crate) async fn run(&self, engine: &Arc<Engine>, mut stop: watch::Receiver<bool>) {
        let stopped = async {
            let _ = stop.wait_for(|stop| *stop).await.map(drop);
        };
        tokio::select! {
            () = stopped => {}
            () = self.tell(engine) => {}
            () = self.hear(engine) => {}
            () = self.look(engine) => {}
        }
    }

    /// Tells the other servers, once for all that was committed within a moment.
    async fn tell(&self, engine: &Engine) {
        let Some(words) = &self.words else { return std::future::pending().await };
        loop {
            words.wake.notified().await;
            SystemClock.sleep(GATHER).await;
            let heads = std::mem::take(&mut *words.heads.lock().unwrap_or_else(PoisonError::into_inner));
            for word in written(&heads) {
                if let Err(error) = engine.db.notify(WORDS, &word).await {
                    // They look by themselves.
                    tracing::debug!(%error, "Other servers could not be told of events");
                }
            }
        }
    }

    async fn hear(&self, engine: &Arc<Engine>) {
        loop {
            if let Err(error) = self.hear_some(engine).await {
                tracing::debug!(%error, "Other servers are not heard");
            }
            SystemClock.sleep(RETRY_WAIT).await;
        }
    }

    async fn hear_some(&self, engine: &Arc<Engine>) -> Result<(), StoreError> {
        let mut listener: Listener = engine.db.listen(WORDS).await?;
        loop {
            match listener.hear().await? {
                Some(word) => read(&word).for_each(|(account, last)| self.hint(engine, account, last)),
                None => self.look_once(engine).await?,
            }
        }
    }

    /// Looks at every account that is listened to, in case a word was lost or somebody wrote who says none, such as the
    /// operator at the command line.
    async fn look(&self, engine: &Arc<Engine>) {
        loop {
            SystemClock.sleep(LOOK_EVERY).await;
            self.channels.retain(|_, channel| Arc::strong_count(channel) > 1);
            if let Err(error) = self.look_once(engine).await {
                tracing::debug!(%error, "Accounts that are listened to could not be looked at");
            }
        }
    }

    async fn look_once(&self, engine: &Arc<Engine>) -> Result<(), StoreError> {
        let mut accounts = Vec::with_capacity(self.channels.len());
        for channel in &self.channels {
            channel.sweep();
            accounts.push(channel.account);
        }
        for some in accounts.chunks(sql::LASTS_MAX) {
            for (account, last) in sql::lasts(&mut engine.db.query(), some).await? {
                self.hint(engine, account, last);
            }
        }
        Ok(())
    }
}

impl Streams for Hub {
    fn is_watched(&self, account: AccountId) -> bool {
        self.channels.contains_key(&account)
    }

    fn committed(
        &self,
        engine: &Arc<Engine>,
        account: AccountId,
        last: i64,
        now: Timestamp,
        events: Vec<StoredEvent>,
    ) {
        if let Some(words) = &self.words {
            let mut heads = words.heads.lock().unwrap_or_else(PoisonError::into_inner);
            let head = heads.entry(account).or_insert(last);
            *head = last.max(*head);
            words.wake.notify_one();
        }
        let channel = self.channels.get(&account).map(|channel| channel.clone());
        let Some(channel) = channel else { return };
        if events.is_empty() {
            // Somebody began to listen after the events were written.
            channel.hint(engine, &self.readers, last);
        } else {
            let frames = events.iter().map(|event| Frame::made(account, now, event));
            channel.committed(engine, &self.readers, frames.collect());
        }
    }
}

/// The words that say these heads, none too long.
fn written(heads: &HashMap<AccountId, i64>) -> Vec<String> {
    let mut words = vec![String::new()];
    for (account, last) in heads {
        if words.last().is_some_and(|word| word.len() > WORD_BYTES_MAX) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            // To a string it cannot fail.
            let _ = write!(word, "{account} {last};");
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What a word says; what does not read is passed over.
fn read(word: &str) -> impl Iterator<Item = (AccountId, i64)> {
    word.split(';').filter_map(|head| {
        let (account, last) = head.split_once(' ')?;
        Some((account.parse().ok()?, last.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_written() {
        let heads: HashMap<AccountId, i64> =
            (0..1_000_u16).map(|at| (AccountId::from_u128(at.into()), i64::from(at) * 7)).collect();
        let words = written(&heads);
        assert!(words.iter().all(|word| word.len() < 8_000));
        assert!(words.len() > 1);
        let all: HashMap<AccountId, i64> = words.iter().flat_map(|word| read(word)).collect();
        assert_eq!(all, heads);
        assert_eq!(read("nonsense;acc_x 5;; 7").count(), 0);
    }
}

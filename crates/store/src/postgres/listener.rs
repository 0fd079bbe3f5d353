//! Hearing what other servers say, by `LISTEN`.

use std::future::poll_fn;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client};

use super::PgPool;
use super::pool::Connector;
use crate::StoreError;

/// A connection of its own that listens on one channel, and is made anew when it is lost.
pub(crate) struct PgListener {
    connector: Arc<Connector>,
    channel: &'static str,
    listening: Option<Listening>,
}

struct Listening {
    /// The connection lasts as long as its client.
    _client: Client,
    words: UnboundedReceiver<String>,
}

impl PgListener {
    /// `None` behind a pooler, which carries no notifications.
    pub(crate) async fn listen(pool: &PgPool, channel: &'static str) -> Result<Option<Self>, StoreError> {
        let connector = pool.connector().clone();
        if connector.pooler {
            return Ok(None);
        }
        let listening = Some(Listening::begin(&connector, channel).await?);
        Ok(Some(Self { connector, channel, listening }))
    }

    /// Waits for the next word; `None` when the connection was lost in between and some may have gone unheard.
    pub(crate) async fn hear(&mut self) -> Result<Option<String>, StoreError> {
        let listening = match &mut self.listening {
            Some(listening) => listening,
            lost => lost.insert(Listening::begin(&self.connector, self.channel).await?),
        };
        let word = listening.words.recv().await;
        if word.is_none() {
            self.listening = None;
        }
        Ok(word)
    }
}

impl Listening {
    async fn begin(connector: &Connector, channel: &'static str) -> Result<Self, StoreError> {
        let (client, mut connection) = connector.open().await?;
        let (heard, words) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(word) = message
                    && heard.send(word.payload().to_owned()).is_err()
                {
                    return;
                }
            }
        });
        client.batch_execute(&format!("listen {channel}")).await?;
        Ok(Self { _client: client, words })
    }
}

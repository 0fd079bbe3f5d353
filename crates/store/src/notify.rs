//! Words between the servers that share a database. They may be lost: whoever waits for one looks by itself, too.

use sqlx::postgres::{PgListener, PgPool};

use crate::{Db, StoreError, args};

/// Hears what [`Db::notify`] says, on whichever server. On SQLite there is no other server, and it hears nothing.
pub struct Listener(Option<PgListener>);

impl Listener {
    pub(crate) async fn postgres(pool: &PgPool, channel: &'static str) -> Result<Self, StoreError> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen(channel).await?;
        Ok(Self(Some(listener)))
    }

    pub(crate) const fn deaf() -> Self {
        Self(None)
    }

    /// Waits for the next word; `None` when the connection was lost in between and some may have gone unheard.
    pub async fn hear(&mut self) -> Result<Option<String>, StoreError> {
        match &mut self.0 {
            Some(listener) => Ok(listener.try_recv().await?.map(|heard| heard.payload().to_owned())),
            None => std::future::pending().await,
        }
    }
}

impl Db {
    /// Says `word`, of at most 8,000 bytes, to every server that listens on `channel`.
    pub async fn notify(&self, channel: &'static str, word: &str) -> Result<(), StoreError> {
        let Some(statement) = self.dialect().notify() else { return Ok(()) };
        self.query().run(statement, args![channel.to_owned(), word.to_owned()]).await
    }
}

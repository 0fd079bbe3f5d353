//! Words between the servers that share a database. They may be lost: whoever waits for one looks by itself, too.

use crate::postgres::PgListener;
use crate::{Db, StoreError, args};

/// Hears what [`Db::notify`] says, on whichever server. On SQLite there is no other server, and behind a pooler nothing is
/// carried to us: then it hears nothing.
pub struct Listener(pub(crate) Option<PgListener>);

impl Listener {
    /// Waits for the next word; `None` when the connection was lost in between and some may have gone unheard.
    pub async fn hear(&mut self) -> Result<Option<String>, StoreError> {
        match &mut self.0 {
            Some(listener) => listener.hear().await,
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

//! What the gateway gives to the others: a way to tell a client how far a call is.

/// Hears how far a call is, on its way to whoever waits for it.
pub trait Progress: Send + Sync {
    /// So many of so many are done.
    fn tell(&self, done: u64, total: u64, words: &str);
}

//! How a connection stands.

use portico_kernel::text_enum;
use schemars::JsonSchema;
use serde::Serialize;

text_enum! {
    /// How a connection stands, for its account.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum ConnectionStatus {
        /// It can be used.
        Active = "active",
        /// Somebody paused it; nothing is sent.
        Paused = "paused",
        /// Its credential is not taken any more; nothing is sent until it has another.
        NeedsReconnect = "needs_reconnect",
    }
}

text_enum! {
    /// How its credential stands, whether or not it is paused.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Health {
        /// As far as anybody knows, the provider takes it.
        Active = "active",
        /// The provider refused it.
        NeedsReconnect = "needs_reconnect",
    }
}

impl ConnectionStatus {
    /// A pause hides how the credential stands, and comes off without changing it.
    pub(crate) const fn of(health: Health, paused: bool) -> Self {
        match (paused, health) {
            (true, _) => Self::Paused,
            (false, Health::Active) => Self::Active,
            (false, Health::NeedsReconnect) => Self::NeedsReconnect,
        }
    }
}

//! Records and rules without I/O.

mod consumer;
mod grant;
mod handle;
mod refresh;
mod status;

use portico_kernel::text_enum;
use portico_store::text_value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use consumer::{Consumer, ConsumerKind};
pub(crate) use grant::{Labels, allows, has_trifecta};
pub(crate) use handle::{handle_of, is_clash};
pub(crate) use refresh::{is_due, retry_after};
pub(crate) use status::{ConnectionStatus, Health};

text_enum! {
    /// How a use ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum UseStatus {
        /// The provider did it.
        Ok = "ok",
        /// It was sent, or could not be, and nothing good came of it.
        Failed = "failed",
        /// Nothing was sent.
        Refused = "refused",
    }
}

text_enum! {
    /// Why a use did not end well.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub(crate) enum ErrorClass {
        /// It did end well.
        None = "",
        /// The consumer has no grant for it.
        NoGrant = "no_grant",
        /// The connection is paused.
        Paused = "paused",
        /// The connection needs another credential.
        NeedsReconnect = "needs_reconnect",
        /// A parameter does not fit.
        BadParams = "bad_params",
        /// The host is in no verified domain of the account.
        DomainUnverified = "domain_unverified",
        /// The address must not be called.
        BlockedAddress = "blocked_address",
        /// The provider refuses the credential.
        Auth = "auth",
        /// The credential may not do that.
        Permission = "permission",
        /// There is no such thing at the provider.
        NotFound = "not_found",
        /// Another refusal of the provider.
        Provider4xx = "provider_4xx",
        /// The provider's answer leads elsewhere.
        Redirect = "redirect",
        /// Too many calls.
        RateLimited = "rate_limited",
        /// The answer is too large.
        TooLarge = "too_large",
        /// The provider failed.
        Provider5xx = "provider_5xx",
        /// Nobody answered, or the connection broke.
        Network = "network",
        /// It took too long.
        Timeout = "timeout",
    }
}

text_value!(UseStatus, ErrorClass, Health, ConsumerKind);

impl From<portico_connectors::ErrorClass> for ErrorClass {
    fn from(class: portico_connectors::ErrorClass) -> Self {
        use portico_connectors::ErrorClass as Provider;
        match class {
            Provider::Auth => Self::Auth,
            Provider::Permission => Self::Permission,
            Provider::NotFound => Self::NotFound,
            Provider::Provider4xx => Self::Provider4xx,
            Provider::Redirect => Self::Redirect,
            Provider::RateLimited => Self::RateLimited,
            Provider::Provider5xx => Self::Provider5xx,
        }
    }
}

/// A count as the wire has it.
pub(crate) fn int32(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A time as the API has it: empty when there is none.
pub(crate) fn optional_time(at: Option<portico_kernel::Timestamp>) -> String {
    at.map(|at| at.to_string()).unwrap_or_default()
}

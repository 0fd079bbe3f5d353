//! Events of keys and API tokens.

use portico_engine::{Event, example_id};
use portico_kernel::kind;
use schemars::JsonSchema;
use serde::Serialize;

macro_rules! events {
    ($($(#[doc = $when:literal])+ $name:ident = $type:literal, $field:ident, $kind:ident;)+) => {$(
        $(#[doc = $when])+
        #[derive(Debug, Serialize, JsonSchema)]
        pub(crate) struct $name {
            #[doc = concat!("The id of the ", stringify!($field), ".")]
            pub(crate) $field: String,
            /// Who did it.
            pub(crate) actor: String,
        }

        impl Event for $name {
            const TYPE: &'static str = $type;

            fn example() -> Self {
                let actor = example_id::<kind::Person>().to_string();
                Self { $field: example_id::<kind::$kind>().to_string(), actor }
            }
        }
    )+};
}

events! {
    /// An API token was made.
    TokenCreated = "token.created", token_id, Token;
    /// An API token was revoked.
    TokenRevoked = "token.revoked", token_id, Token;
    /// An API key was made.
    KeyCreated = "key.created", key_id, Key;
    /// An API key was revoked.
    KeyRevoked = "key.revoked", key_id, Key;
}

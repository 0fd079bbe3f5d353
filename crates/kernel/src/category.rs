//! The price list.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! categories {
    ($($(#[doc = $meaning:literal])+ $variant:ident = $name:literal, $units:literal;)+) => {
        /// What an operation costs: each call is counted in units by the category of its operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[schemars(inline)]
        pub enum Category {
            $($(#[doc = $meaning])+ #[serde(rename = $name)] $variant,)+
        }

        impl Category {
            /// Every category, cheapest kinds first.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Units charged for one call.
            pub const fn units(self) -> i64 {
                match self { $(Self::$variant => $units),+ }
            }

            /// The category in words.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => concat!($($meaning),+).trim_ascii()),+ }
            }
        }
    };
}

categories! {
    /// Reading one thing.
    Read = "read", 1;
    /// Reading a page of a list.
    List = "list", 1;
    /// Reading a versioned document.
    Document = "document", 1;
    /// Searching by words.
    Search = "search", 2;
    /// Making, changing or removing something.
    Write = "write", 5;
    /// Sending: test events, resends and recoveries.
    Send = "send", 5;
    /// Checking something outside: domains and connections.
    Check = "check", 10;
    /// Calling an action of a connection.
    Action = "action", 10;
    /// Turning text into audio.
    Narrate = "narrate", 100;
    /// Running a model.
    Generate = "generate", 400;
}

//! Who uses a connection.

use std::fmt;

use portico_kernel::{Caller, CallerKind, text_enum};
use serde::Serialize;

text_enum! {
    /// What kind of consumer it is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum ConsumerKind {
        /// An API key or API token.
        Key = "key",
        /// An app or assistant that acts for a person.
        Agent = "agent",
        /// The platform itself.
        Product = "product",
        /// A person in the console.
        Person = "person",
    }
}

/// Who uses a connection: `kind:id`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Consumer {
    pub(crate) kind: ConsumerKind,
    pub(crate) id: String,
}

/// The longest id: that of an app may be an address.
const ID_BYTES_MAX: usize = 2_048;

impl Consumer {
    /// Who calls.
    pub(crate) fn of(caller: &Caller) -> Self {
        let (kind, id) = match (caller.kind, &caller.client_id) {
            (CallerKind::Client, _) => (ConsumerKind::Key, &caller.subject),
            (CallerKind::Person, Some(client)) if caller.scopes.is_some() => (ConsumerKind::Agent, client),
            (CallerKind::Person, _) => (ConsumerKind::Person, &caller.subject),
            (CallerKind::Service, _) => (ConsumerKind::Product, &caller.subject),
        };
        Self { kind, id: id.clone() }
    }

    /// Reads `kind:id`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once(':')?;
        let kind = ConsumerKind::parse(kind)?;
        let fits =
            !id.is_empty() && id.len() <= ID_BYTES_MAX && id.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self { kind, id: id.to_owned() })
    }

    /// Does it call without a grant? A person in the console does, to try what they could do anyway.
    pub(crate) fn needs_no_grant(&self) -> bool {
        self.kind == ConsumerKind::Person
    }
}

impl fmt::Display for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_reads_as_it_is_written() {
        for text in ["key:tok_1", "agent:https://app.example/client:1", "person:usr_1", "product:monitors"] {
            assert_eq!(Consumer::parse(text).unwrap().to_string(), text);
        }
        for bad in ["", "key", "key:", "robot:1", "key:a b", "key:\u{e9}"] {
            assert_eq!(Consumer::parse(bad), None, "{bad}");
        }
    }
}

//! Ids: a prefix that says the kind, and a ULID.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use ulid::Ulid;

use crate::Timestamp;

/// What an [`Id`] names.
pub trait Kind: 'static {
    /// The letters before the underscore.
    const PREFIX: &'static str;
    /// The kind in words, for messages and schemas.
    const WHAT: &'static str;
}

/// The id of one thing of kind `K`. Made only from a clock and a source of randomness.
pub struct Id<K>(Ulid, PhantomData<fn() -> K>);

macro_rules! kinds {
    ($($(#[doc = $what:literal])+ $kind:ident = $prefix:literal, $id:ident;)+) => {
        /// One type for each kind of id.
        pub mod kind {
            $($(#[doc = $what])+ #[derive(Debug)] pub enum $kind {}
            impl super::Kind for $kind {
                const PREFIX: &'static str = $prefix;
                const WHAT: &'static str = concat!($($what),+).trim_ascii();
            })+
        }
        $(#[doc = concat!("The id of", $($what),+)] pub type $id = Id<kind::$kind>;)+
    };
}

kinds! {
    /// an account
    Account = "acc", AccountId;
    /// a change of an account
    AccountChange = "chg", AccountChangeId;
    /// an app
    App = "app", AppId;
    /// an attempt of a delivery
    Attempt = "wha", AttemptId;
    /// an audit entry
    AuditEntry = "aud", AuditId;
    /// an authorization
    Authorization = "aut", AuthorizationId;
    /// a blob
    Blob = "blob", BlobId;
    /// a connection
    Connection = "con", ConnectionId;
    /// the credential of a connection
    ConnectionCredential = "crd", ConnectionCredentialId;
    /// a use of a connection
    ConnectionUse = "use", ConnectionUseId;
    /// a delivery
    Delivery = "whd", DeliveryId;
    /// a domain
    Domain = "dom", DomainId;
    /// a webhook endpoint
    Endpoint = "whe", EndpointId;
    /// an event
    Event = "evt", EventId;
    /// a grant
    Grant = "grt", GrantId;
    /// a test inbox
    Inbox = "whi", InboxId;
    /// a request that a test inbox received
    InboxRequest = "whr", InboxRequestId;
    /// an invitation
    Invitation = "inv", InvitationId;
    /// an API key
    Key = "key", KeyId;
    /// a letter
    MailMessage = "mail", MailId;
    /// a person
    Person = "usr", PersonId;
    /// a request
    Request = "req", RequestId;
    /// a service
    Service = "svc", ServiceId;
    /// a credential of a service
    ServiceKey = "svk", ServiceKeyId;
    /// a session
    Session = "ses", SessionId;
    /// a sign-in to a connection
    SignIn = "sin", SignInId;
    /// an API token
    Token = "tok", TokenId;
}

const RANDOM_BYTES: usize = 10;
/// Longer than any prefix.
const PREFIX_BYTES_MAX: usize = 8;

impl<K: Kind> Id<K> {
    /// The id made at `now` with these random bytes.
    pub fn from_parts(now: Timestamp, random: [u8; RANDOM_BYTES]) -> Self {
        let random = random.iter().fold(0u128, |all, byte| (all << 8) | u128::from(*byte));
        Self(Ulid::from_parts(now.as_millis().unsigned_abs(), random), PhantomData)
    }

    /// The id as a number.
    pub fn as_u128(self) -> u128 {
        self.0.into()
    }

    /// The id of that number.
    pub fn from_u128(number: u128) -> Self {
        Self(Ulid::from(number), PhantomData)
    }
}

impl<K: Kind> Id<K> {
    /// Gives the text of the id to `take`, written in one piece: every answer and every line of the log has some.
    pub fn with_text<T>(self, take: impl FnOnce(&str) -> T) -> T {
        let mut ulid = [0; ulid::ULID_LEN];
        let ulid = self.0.array_to_str(&mut ulid);
        let mut whole = [0; PREFIX_BYTES_MAX + 1 + ulid::ULID_LEN];
        let length = K::PREFIX.len() + 1 + ulid.len();
        let (prefix, rest) = whole[..length].split_at_mut(K::PREFIX.len());
        prefix.copy_from_slice(K::PREFIX.as_bytes());
        rest[0] = b'_';
        rest[1..].copy_from_slice(ulid.as_bytes());
        take(str::from_utf8(&whole[..length]).unwrap_or_default())
    }
}

impl<K: Kind> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.write_str(text))
    }
}

impl<K: Kind> FromStr for Id<K> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The decoder also takes small letters; an id has one spelling only.
        let spelled = |rest: &str, ulid: &Ulid| ulid.array_to_str(&mut [0; ulid::ULID_LEN]) == rest;
        text.strip_prefix(K::PREFIX)
            .and_then(|rest| rest.strip_prefix('_'))
            .and_then(|rest| Ulid::from_string(rest).ok().filter(|ulid| spelled(rest, ulid)))
            .map(|ulid| Self(ulid, PhantomData))
            .ok_or_else(|| format!("must be the id of {}: `{}_` and 26 characters", K::WHAT, K::PREFIX))
    }
}

impl<K: Kind> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Id<K> {}

impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K> Eq for Id<K> {}

impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<K> Hash for Id<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<K: Kind> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_text(|text| serializer.serialize_str(text))
    }
}

impl<'de, K: Kind> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl<K: Kind> JsonSchema for Id<K> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Id_{}", K::PREFIX).into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = format!("^{}_[0-7][0-9A-HJKMNP-TV-Z]{{25}}$", K::PREFIX);
        json_schema!({ "type": "string", "pattern": pattern })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        let id = AccountId::from_parts(Timestamp::from_micros(1_700_000_000_000_000), [7; 10]);
        let text = id.to_string();
        assert_eq!(text.parse(), Ok(id));
        assert!(text.to_lowercase().parse::<AccountId>().is_err(), "small letters");
        assert!(text.replace("acc_", "key_").parse::<AccountId>().is_err(), "another kind");
        assert!(text[..text.len() - 1].parse::<AccountId>().is_err(), "too short");
        assert!("acc_80000000000000000000000000".parse::<AccountId>().is_err(), "over 128 bits");
    }

    #[test]
    fn later_ids_sort_after_earlier_ones_as_text() {
        let at = |micros| AccountId::from_parts(Timestamp::from_micros(micros), [9; 10]).to_string();
        assert!(at(1_700_000_000_000_000) < at(1_700_000_000_001_000));
    }
}

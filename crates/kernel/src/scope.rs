//! What a token may call.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

macro_rules! scopes {
    ($($(#[doc = $meaning:literal])+ $variant:ident = $name:literal;)+) => {
        /// One scope. A token holds only those given when it was made.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Scope {
            $($(#[doc = $meaning])+ $variant,)+
        }

        impl Scope {
            /// Every scope.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// It and no other.
            pub const fn alone(self) -> &'static [Self] {
                match self { $(Self::$variant => &[Self::$variant]),+ }
            }

            /// What it lets a token do, for a person.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => concat!($($meaning),+).trim_ascii()),+ }
            }
        }
    };
}

scopes! {
    /// See who calls: the id, the name and the e-mail address.
    IdentityRead = "identity:read";
    /// Read the account and its entitlements.
    AccountRead = "account:read";
    /// Read the audit log.
    AccountAudit = "account:audit";
    /// Make and revoke keys below the caller's own.
    AccountKeys = "account:keys";
    /// Read units, usage and the price list.
    UsageRead = "usage:read";
    /// Read radar digests and items.
    RadarRead = "radar:read";
    /// Read the event catalogue and the account's events.
    EventsRead = "events:read";
    /// Read webhook endpoints, deliveries, stats and inboxes.
    WebhooksRead = "webhooks:read";
    /// Make, change, test, rotate and delete webhook endpoints and the inbox; resend a delivery.
    WebhooksWrite = "webhooks:write";
    /// List and read domains.
    DomainsRead = "domains:read";
    /// Add, check, confirm and remove domains.
    DomainsWrite = "domains:write";
    /// Read trail recordings and error groups.
    TrailRead = "trail:read";
    /// Upload and delete trail recordings.
    TrailWrite = "trail:write";
    /// Read connection kinds, connections, grants, history and tools.
    ConnectionsRead = "connections:read";
    /// Add, change, pause, test and delete connections; revoke a grant.
    ConnectionsWrite = "connections:write";
    /// Call a connection action that a grant gives the token.
    ConnectionsUse = "connections:use";
    /// Use assistant tools that only read.
    McpRead = "mcp:read";
    /// Use assistant tools that change something.
    McpWrite = "mcp:write";
    /// Use assistant tools that run a model, counted against the account's budget.
    McpGenerate = "mcp:generate";
    /// Read the catalogue of extensions.
    ExtensionsRead = "extensions:read";
    /// Read decisions and corrections.
    DecisionsRead = "decisions:read";
    /// Write decisions and corrections.
    DecisionsWrite = "decisions:write";
    /// Turn text into audio.
    NarrationWrite = "narration:write";
}

/// A name that is no scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownScope(pub String);

impl fmt::Display for UnknownScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a scope", self.0)
    }
}

impl std::error::Error for UnknownScope {}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(name: &str) -> Result<Self, UnknownScope> {
        let known = Self::ALL.iter().find(|scope| scope.name() == name);
        known.copied().ok_or_else(|| UnknownScope(name.to_owned()))
    }
}

/// A set of scopes, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ScopeSet(u64);

impl ScopeSet {
    /// Every scope there is.
    pub fn all() -> Self {
        Scope::ALL.iter().copied().collect()
    }

    /// Is `scope` in the set?
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u64) != 0
    }

    /// Is every scope of this set in `other`?
    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Is there no scope in it?
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes that are in both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// This set without `scope`.
    #[must_use]
    pub const fn without(self, scope: Scope) -> Self {
        Self(self.0 & !(1 << scope as u64))
    }

    /// The names, sorted.
    pub fn names(self) -> Vec<&'static str> {
        self.sorted().collect()
    }

    fn sorted(self) -> impl Iterator<Item = &'static str> {
        static SORTED: LazyLock<Vec<Scope>> = LazyLock::new(|| {
            let mut scopes = Scope::ALL.to_vec();
            scopes.sort_unstable_by_key(|scope| scope.name());
            scopes
        });
        SORTED.iter().filter(move |scope| self.contains(**scope)).map(|scope| scope.name())
    }
}

impl FromIterator<Scope> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | 1 << scope as u64))
    }
}

/// Names with spaces between them, as OAuth writes them.
impl fmt::Display for ScopeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(" "))
    }
}

impl FromStr for ScopeSet {
    type Err = UnknownScope;

    fn from_str(names: &str) -> Result<Self, UnknownScope> {
        names.split(' ').filter(|name| !name.is_empty()).map(str::parse).collect()
    }
}

impl Serialize for ScopeSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.sorted())
    }
}

impl<'de> Deserialize<'de> for ScopeSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        names.iter().map(|name| name.parse::<Scope>().map_err(de::Error::custom)).collect()
    }
}

impl JsonSchema for ScopeSet {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Scopes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = Scope::ALL.iter().map(|scope| scope.name()).collect();
        json_schema!({ "type": "array", "items": { "type": "string", "enum": names } })
    }
}

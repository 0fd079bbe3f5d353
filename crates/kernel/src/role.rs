//! What a member may do in an account.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A person's role in an account; a later one may do all that an earlier one may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Role {
    /// Reads.
    Member,
    /// Also makes keys and tokens, and invites.
    Admin,
    /// Also changes roles and erases the account.
    Owner,
}

impl Role {
    /// The name on the wire and in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }

    /// The role of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Member, Self::Admin, Self::Owner].into_iter().find(|role| role.name() == name)
    }
}

//! An account as its members and keys see it.

use portico_kernel::{AccountId, Role, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::AccountKind;
use crate::sql::AccountRow;

/// An account.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Account {
    /// The account's id: the `org_id` of paths.
    id: AccountId,
    /// `personal` or `team`.
    kind: String,
    /// A short name for addresses.
    pub(crate) slug: String,
    /// The account's name.
    pub(crate) name: String,
    /// The plan: `free`, `team`, `scale`, or another of the operator's.
    plan: String,
    /// `active`, `suspended` or `erasing`.
    status: String,
    /// The caller's role: `owner`, `admin` or `member`; empty for a key.
    role: String,
    /// When it was made.
    created_at: Timestamp,
    /// When it will be erased; empty while it stays.
    erase_after: String,
    /// Is it one of the platform's own test accounts?
    probe: bool,
}

impl From<AccountRow> for Account {
    fn from(row: AccountRow) -> Self {
        Self {
            id: row.id,
            kind: row.kind.name().to_owned(),
            slug: row.slug,
            name: row.name,
            plan: row.plan,
            status: row.status.name().to_owned(),
            role: row.role.map(Role::name).unwrap_or_default().to_owned(),
            created_at: row.created_at,
            // A required string that has no value is empty.
            erase_after: row.erase_after.map(|time| time.to_string()).unwrap_or_default(),
            probe: row.probe,
        }
    }
}

impl Account {
    /// Is it one person's own?
    pub(crate) fn is_personal(&self) -> bool {
        self.kind == AccountKind::Personal.name()
    }
}

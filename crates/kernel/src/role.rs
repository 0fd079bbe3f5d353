//! What a member may do in an account.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text_enum;

text_enum! {
    /// A person's role in an account; a later one may do all that an earlier one may.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    pub enum Role {
        /// Reads.
        Member = "member",
        /// Also makes keys, tokens and webhook endpoints, and invites.
        Admin = "admin",
        /// Also changes roles and erases the account.
        Owner = "owner",
    }
}

//! What identity and webhooks give to accounts: what somebody made in an account, and how it is ended.

use futures_util::future::BoxFuture;
use portico_kernel::{AccountId, Problem, Timestamp};
use portico_store::{StoreError, Tx};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Ctx;

/// What of an account goes on when whoever made it has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    /// An API key.
    Key,
    /// An API token.
    Token,
    /// A webhook endpoint.
    Endpoint,
}

/// Something of an account, and who made it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CreatedResource {
    /// What it is.
    pub kind: ResourceKind,
    /// Its id.
    pub id: String,
    /// The name of a key or API token; the address of an endpoint.
    pub name: String,
    /// Who made it, or of an endpoint who last set its address: the member, or a key or API token that they made.
    pub created_by: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Keys and API tokens, by which other resources are made.
pub trait CreatedCredentials: CreatedResources {
    /// The ids of those that any of `creators` made in the account, and of those that these made, whether they are in use or
    /// have ended.
    fn all_created_by<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        creators: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;
}

/// Resources of one area that name who made them.
pub trait CreatedResources: Send + Sync {
    /// What any of `creators`, ids of people, keys and API tokens, made in the account and is still in use.
    fn created_by<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        creators: &'a [String],
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<CreatedResource>, StoreError>>;

    /// Ends the use of these: keys and API tokens are revoked, endpoints are disabled.
    fn end<'a>(
        &'a self,
        ctx: &'a mut Ctx,
        account: AccountId,
        resources: &'a [CreatedResource],
    ) -> BoxFuture<'a, Result<(), Problem>>;
}

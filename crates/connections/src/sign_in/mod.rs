//! Signing in at a provider: a person is sent there, and comes back with a code that is exchanged for tokens.
//!
//! A sign-in belongs to one person in one account. Its state stands in the address alone, and its SHA-256 in the row; one
//! statement uses it up (`complete.rs`). The verifier is sealed, and goes when the sign-in has ended.

pub(crate) mod complete;
pub(crate) mod connect;

use std::collections::BTreeMap;

use portico_engine::{AccountRef, Ctx, Operation, Spec};
use portico_kernel::{Caller, CallerKind, Category, Problem, SignInId, Timestamp, text_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::records::{Connection, connection_record};
use crate::sql::{self, SignInRow};
use crate::{Connections, refusals};

text_enum! {
    /// How a sign-in stands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    pub(crate) enum SignInStatus {
        /// The person is at the provider.
        Pending = "pending",
        /// There is a connection.
        Completed = "completed",
        /// It did not work; `reason` says why.
        Failed = "failed",
        /// The person did not come back in time.
        Expired = "expired",
    }
}

/// What a sign-in is to make.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SignInRequest {
    name: Option<String>,
    description: String,
    /// `None` where none was sent: then that of the connection stays.
    config: Option<BTreeMap<String, String>>,
    scopes: Vec<String>,
}

/// A sign-in at a provider.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ConnectionSignIn")]
pub(crate) struct SignIn {
    /// Its id.
    id: SignInId,
    /// The connector.
    connector: String,
    /// How it stands.
    status: SignInStatus,
    /// Why it failed; empty when it did not.
    reason: String,
    /// When it began.
    created_at: Timestamp,
    /// When it ends by itself.
    expires_at: Timestamp,
}

impl SignIn {
    pub(crate) fn new(row: &SignInRow, now: Timestamp) -> Self {
        let stored = SignInStatus::parse(&row.status).unwrap_or(SignInStatus::Failed);
        let is_over = stored == SignInStatus::Pending && row.expires_at <= now;
        Self {
            id: row.id,
            connector: row.connector.clone(),
            status: if is_over { SignInStatus::Expired } else { stored },
            reason: row.reason.clone(),
            created_at: row.created_at,
            expires_at: row.expires_at,
        }
    }
}

/// The person in whose name the caller acts; refuses keys and API tokens, which act in nobody's.
pub(crate) fn person(caller: &Caller) -> Result<&str, Problem> {
    if caller.kind == CallerKind::Person { Ok(&caller.subject) } else { Err(refusals::person_required()) }
}

/// Read a sign-in. Only the person who began it may.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetSignIn {
    /// The account.
    org_id: AccountRef,
    /// The sign-in.
    sign_in_id: SignInId,
}

/// A sign-in, and what came of it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SignInAnswer {
    /// The sign-in.
    sign_in: SignIn,
    /// The connection, once it is completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<Connection>,
}

impl Operation for GetSignIn {
    const SPEC: Spec =
        Spec::get("connections.sign_ins.get", "/v1/accounts/orgs/{org_id}/connections/connect/{sign_in_id}")
            .scope("connections:read")
            .category(Category::Read);
    type Area = Connections;
    type Answer = SignInAnswer;

    async fn run(self, _: &Connections, ctx: &mut Ctx) -> Result<SignInAnswer, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let missing = || Problem::not_found("sign-in", self.sign_in_id);
        let person = person(ctx.caller()).map_err(|_| missing())?.to_owned();
        let now = ctx.now();
        let tx = ctx.tx().await?;
        let row = sql::sign_in(tx, account, &person, self.sign_in_id).await?.ok_or_else(missing)?;
        let sign_in = SignIn::new(&row, now);
        let made = row.connection_id.parse().ok().filter(|_| sign_in.status == SignInStatus::Completed);
        let connection = match made {
            Some(id) => sql::connection(tx, account, id).await?,
            None => None,
        };
        let connection = match connection {
            Some(row) => Some(connection_record(ctx, row).await?),
            None => None,
        };
        Ok(SignInAnswer { sign_in, connection })
    }
}

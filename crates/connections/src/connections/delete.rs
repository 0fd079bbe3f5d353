//! Deleting a connection.

use portico_connectors::Mode;
use portico_engine::{AccountRef, Ctx, Operation, Spec};
use portico_kernel::{Category, ConnectionId, Problem, Role, text_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calls::Opened;
use crate::events::ConnectionDeleted;
use crate::provider::Provider;
use crate::records::config_of;
use crate::sql::{self, ConnectionRow, CredentialRow};
use crate::{Connections, grants, refusals};

text_enum! {
    /// What became of the credential at the provider.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    pub(crate) enum Upstream {
        /// The provider revoked it.
        Revoked = "revoked",
        /// The provider was asked to revoke it, and did not say that it has.
        Failed = "failed",
        /// The provider has no way to revoke it.
        None = "none",
    }
}

/// Delete a connection with its credential and its grants. Its tokens are revoked at the provider as well as that can be
/// done in a few seconds; its history stays.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteConnection {
    /// The account.
    org_id: AccountRef,
    /// The connection.
    connection_id: ConnectionId,
}

/// A connection that was deleted.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DeletedConnection {
    /// What became of the credential at the provider.
    upstream: Upstream,
}

impl Operation for DeleteConnection {
    const SPEC: Spec = Spec::delete(
        "connections.connections.delete",
        "/v1/accounts/orgs/{org_id}/connections/{connection_id}",
    )
    .scope("connections:write")
    .role(Role::Admin)
    .category(Category::Write);
    type Area = Connections;
    type Answer = DeletedConnection;

    async fn run(self, connections: &Connections, ctx: &mut Ctx) -> Result<DeletedConnection, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let id = self.connection_id;
        let row = sql::lock_connection(ctx.tx().await?, account, id).await?;
        let row = row.ok_or_else(|| refusals::no_connection(id))?;
        let credential = sql::credential(ctx.tx().await?, &row.credential_id).await?;
        ctx.step("delete", async |ctx| {
            let now = ctx.now();
            for grant in sql::revoke_all(ctx.tx().await?, id, now).await? {
                grants::tell_revoked(ctx, id, grant)?;
            }
            sql::delete_connection(ctx.tx().await?, id).await?;
            connections.tools_changed(ctx, account).await?;
            ctx.audit("connection.deleted", &id)?;
            let actor = ctx.caller().subject.clone();
            ctx.emit(&ConnectionDeleted { connection_id: id.to_string(), actor })?;
            Ok(())
        })
        .await?;
        ctx.give_back();
        Ok(DeletedConnection { upstream: connections.revoke_upstream(ctx, &row, credential).await? })
    }
}

impl Connections {
    /// Revokes what a deleted connection had at its provider.
    async fn revoke_upstream(
        &self,
        ctx: &Ctx,
        row: &ConnectionRow,
        credential: Option<CredentialRow>,
    ) -> Result<Upstream, Problem> {
        let engine = ctx.engine();
        ctx.egress()?;
        let opened = credential.as_ref().and_then(|credential| Opened::of(engine, row, credential));
        let (Some(Provider::Connector(manifest)), Some(opened)) = (Provider::of(&row.kind), opened) else {
            return Ok(Upstream::None);
        };
        // What is not from a sign-in was not given out for this connection.
        if opened.mode != Some(Mode::OAuth2) {
            return Ok(Upstream::None);
        }
        let config = config_of(&row.config);
        let revoking = self.calls.revoke(engine, row.account_id, manifest, &config, &opened.values);
        Ok(match revoking.await {
            None => Upstream::None,
            Some(true) => Upstream::Revoked,
            Some(false) => Upstream::Failed,
        })
    }
}

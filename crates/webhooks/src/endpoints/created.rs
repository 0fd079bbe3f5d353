//! Endpoints by who made them, for the removal of members.

use futures_util::future::BoxFuture;
use portico_engine::Ctx;
use portico_engine::ports::{CreatedResource, CreatedResources, ResourceKind};
use portico_kernel::{AccountId, EndpointId, Problem, Timestamp};
use portico_store::{StoreError, Tx};
use serde_json::json;

use crate::Webhooks;
use crate::sql::{self, EndpointRow};

/// Why an endpoint is disabled with the removal of a member.
const CREATOR_REMOVED: &str = "Whoever made it, or set its address, was removed from the account.";

/// Which of `creators` the endpoint is from: who set its address counts before who made it.
fn creator(row: &EndpointRow, creators: &[String]) -> Option<String> {
    [&row.url_set_by, &row.created_by].into_iter().find(|by| creators.contains(by)).cloned()
}

impl CreatedResources for Webhooks {
    fn created_by<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        creators: &'a [String],
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<CreatedResource>, StoreError>> {
        Box::pin(async move {
            let rows = sql::endpoints(tx, account).await?;
            let resource = |row: EndpointRow| {
                let created_by = creator(&row, creators)?;
                let (kind, id) = (ResourceKind::Endpoint, row.id.to_string());
                Some(CreatedResource { kind, id, name: row.url, created_by, created_at: row.created_at })
            };
            Ok(rows.into_iter().filter(|row| row.enabled).filter_map(resource).collect())
        })
    }

    fn end<'a>(
        &'a self,
        ctx: &'a mut Ctx,
        account: AccountId,
        resources: &'a [CreatedResource],
    ) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(async move {
            for resource in resources {
                let id: EndpointId = resource.id.parse().map_err(Problem::internal)?;
                let tx = ctx.tx().await?;
                let Some(row) = sql::lock_endpoint(tx, id).await? else { continue };
                if sql::disable_endpoint(tx, id, row.version, CREATOR_REMOVED).await? {
                    self.endpoint_changed_after_commit(ctx, account, id);
                    ctx.audit_with("endpoint.disabled", &id, json!({ "reason": CREATOR_REMOVED }))?;
                }
            }
            Ok(())
        })
    }
}

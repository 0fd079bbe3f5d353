//! Changing an endpoint.

use portico_engine::{Ctx, Operation, Spec, Tool};
use portico_kernel::{Category, EndpointId, Problem, Role};
use schemars::JsonSchema;
use serde::Deserialize;

use super::address::host;
use super::create::{description, event_types};
use super::{Endpoint, endpoint_record, lock_endpoint};
use crate::{Webhooks, limits, sql};

/// The reason of an endpoint that its owner disabled.
const BY_OWNER: &str = "It was disabled by its owner.";

/// Change an endpoint: its address, description, event types or state. What is left out stays. Disabling it ends the
/// deliveries that wait; once it is enabled again, `recover` sends them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateEndpoint {
    /// The endpoint.
    endpoint_id: EndpointId,
    /// Another address.
    #[serde(default)]
    #[schemars(length(max = limits::URL_CHARACTERS_MAX))]
    url: Option<String>,
    /// Another description.
    #[serde(default)]
    #[schemars(length(max = limits::DESCRIPTION_CHARACTERS_MAX))]
    description: Option<String>,
    /// Other event types, at least one.
    #[serde(default)]
    #[schemars(length(min = 1))]
    event_types: Option<Vec<String>>,
    /// Is anything to be sent to it?
    #[serde(default)]
    enabled: Option<bool>,
}

impl Operation for UpdateEndpoint {
    const SPEC: Spec = Spec::patch("webhooks.endpoints.update", "/v1/webhooks/endpoints/{endpoint_id}")
        .tool(Tool::new("webhooks_update_endpoint", "Change a webhook endpoint"))
        .scope("webhooks:write")
        .role(Role::Admin)
        .category(Category::Write);
    type Area = Webhooks;
    type Answer = Endpoint;

    async fn run(self, webhooks: &Webhooks, ctx: &mut Ctx) -> Result<Endpoint, Problem> {
        let mut row = lock_endpoint(ctx, self.endpoint_id).await?;
        let (account, now) = (row.account_id, ctx.now());
        if let Some(types) = &self.event_types {
            let types = event_types(ctx, types)?;
            sql::replace_subscriptions(ctx.tx().await?, account, row.id, &types).await?;
        }
        if let Some(text) = &self.description {
            row.description = description(text)?;
        }
        if let Some(url) = &self.url {
            let address = webhooks.address(ctx.tx().await?, account, url, now).await?;
            if address.url != row.url {
                row.url_set_by = ctx.caller().subject.clone();
            }
            // The own inbox takes what is sent to it, and proves nothing.
            if row.inbox_id.is_some() || host(&address.url) != host(&row.url) {
                row.proven_at = None;
            }
            (row.url, row.inbox_id) = (address.url, address.inbox);
        }
        match self.enabled {
            Some(true) if !row.enabled => {
                row.enabled = true;
                row.disabled_reason.clear();
                // The five days of failures begin anew.
                row.failing_since = None;
            }
            Some(false) if row.enabled => {
                row.enabled = false;
                // The sender ends its pending deliveries.
                BY_OWNER.clone_into(&mut row.disabled_reason);
            }
            _ => {}
        }
        sql::update_endpoint(ctx.tx().await?, &row).await?;
        ctx.audit("endpoint.updated", &row.id)?;
        webhooks.endpoint_changed_after_commit(ctx, account, row.id);
        endpoint_record(ctx, row).await
    }
}

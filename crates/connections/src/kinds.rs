//! The catalogue of what can be connected.

use portico_connectors::Kind;
use portico_engine::{AccountRef, Ctx, Operation, Page, Spec};
use portico_kernel::{Category, Problem};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Connections, provider};

/// List what can be connected, by name: the account's own services, and the providers that there is a connector for, each
/// with its configuration and its actions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListKinds {
    /// The team that asks; without it the caller's own account.
    #[serde(default)]
    account_id: Option<AccountRef>,
}

impl Operation for ListKinds {
    const SPEC: Spec = Spec::get("connections.kinds.list", "/v1/connections/kinds")
        .scope("connections:read")
        .category(Category::List)
        .list("kinds");
    type Area = Connections;
    type Answer = Page<Kind>;

    async fn run(self, _: &Connections, ctx: &mut Ctx) -> Result<Page<Kind>, Problem> {
        ctx.account(self.account_id).await?;
        ctx.page()?.slice(provider::kinds())
    }
}

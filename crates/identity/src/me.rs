//! Who the caller is.

use std::sync::Arc;

use portico_engine::{Ctx, Operation, Spec, Tool};
use portico_kernel::{Caller, Category, Problem};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Identity;

/// See who the caller is. The answer is what the token says: the subject, the scopes it was granted and the account
/// that its calls count against.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetMe {}

impl Operation for GetMe {
    const SPEC: Spec = Spec::get("identity.me.get", "/v1/me")
        .tool(Tool::new("identity_get_me", "See who the token is"))
        .scope("identity:read")
        .also_services()
        .category(Category::Read);
    type Area = Identity;
    type Answer = Arc<Caller>;

    async fn run(self, _: &Identity, ctx: &mut Ctx) -> Result<Arc<Caller>, Problem> {
        Ok(ctx.shared_caller().clone())
    }
}

//! Who the caller is.

use portico_engine::{Ctx, Operation, Spec};
use portico_kernel::{AccountId, CallerKey, CallerKind, Category, Problem, Role, Scope, ScopeSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Identity;

/// See who the caller is. The answer is what the token says: the subject, the scopes it was granted and the account
/// that its calls count against.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetMe {}

/// The caller.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Caller")]
pub struct Me {
    /// The id of the key or API token, or of the person.
    pub subject: String,
    /// What kind of caller it is: `client` for a key or API token.
    pub kind: CallerKind,
    /// The granted scopes; for a person without any, the role decides.
    pub scopes: ScopeSet,
    /// The OAuth client that the call came through.
    pub client_id: Option<String>,
    /// The e-mail address, when the token carries one.
    pub email: Option<String>,
    /// A display name.
    pub name: Option<String>,
    /// The account that the call counts against: the `org_id` of paths.
    pub org: Option<AccountId>,
    /// The role that the consent step stamped.
    pub role: Option<Role>,
    /// The key or API token; null for a person.
    pub key: Option<CallerKey>,
}

impl Operation for GetMe {
    const SPEC: Spec =
        Spec::get("identity.me.get", "/v1/me").scope(Scope::IdentityRead).category(Category::Read);
    type Area = Identity;
    type Answer = Me;

    async fn run(self, _: &Identity, ctx: &mut Ctx) -> Result<Me, Problem> {
        let caller = ctx.caller().clone();
        Ok(Me {
            subject: caller.subject,
            kind: caller.kind,
            scopes: caller.scopes.unwrap_or_default(),
            client_id: caller.client_id,
            email: caller.email,
            name: caller.name,
            org: caller.org,
            role: caller.role,
            key: caller.key,
        })
    }
}

//! What an account's plan lets it use.

use portico_engine::{AccountRef, Ctx, Operation, Spec};
use portico_kernel::{AccountId, Category, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Accounts, sql};

/// See what the account may use: its plan, and the features and extensions that come with it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetEntitlements {
    /// The account.
    org_id: AccountRef,
}

/// What the account may use.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Entitlements {
    /// The account.
    account_id: AccountId,
    /// Its plan.
    plan: String,
    /// The features that it may use.
    features: Vec<String>,
    /// The extensions that it may use.
    extensions: Vec<String>,
    /// Where they come from: `plan`.
    granted_by: String,
}

impl Entitlements {
    /// What comes with the plan.
    pub(crate) fn of_plan(ctx: &Ctx, account: AccountId, plan: &str) -> Self {
        Self {
            account_id: account,
            plan: plan.to_owned(),
            features: ctx.engine().plans.get_or_first(plan).features.clone(),
            extensions: Vec::new(),
            granted_by: "plan".to_owned(),
        }
    }
}

impl Operation for GetEntitlements {
    const SPEC: Spec = Spec::get("accounts.entitlements.get", "/v1/accounts/orgs/{org_id}/entitlements")
        .scope("account:read")
        .category(Category::Read);
    type Area = Accounts;
    type Answer = Entitlements;

    async fn run(self, _: &Accounts, ctx: &mut Ctx) -> Result<Entitlements, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let row = sql::account(ctx.tx().await?, account).await?;
        let row = row.ok_or_else(|| Problem::not_found("account", account))?;
        Ok(Entitlements::of_plan(ctx, account, &row.plan))
    }
}

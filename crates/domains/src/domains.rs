//! Reading and removing domains.

use portico_engine::{AccountRef, CountedPage, Ctx, Cursor, Done, Operation, Spec, Tool};
use portico_kernel::{Category, Problem, Role};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::Status;
use crate::moves;
use crate::names::Name;
use crate::record::{Domain, OneDomain};
use crate::{Domains, sql};

/// 404 for a domain that the account does not have.
pub(crate) fn missing(name: &Name) -> Problem {
    Problem::not_found("domain", name)
}

/// List the account's domains, newest first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListDomains {
    /// The account.
    org_id: AccountRef,
}

impl Operation for ListDomains {
    const SPEC: Spec = Spec::get("domains.domains.list", "/v1/accounts/orgs/{org_id}/domains")
        .tool(Tool::new("domains_list_domains", "List domains"))
        .scope("domains:read")
        .category(Category::List)
        .list("domains");
    type Area = Domains;
    type Answer = CountedPage<Domain>;

    async fn run(self, _: &Domains, ctx: &mut Ctx) -> Result<CountedPage<Domain>, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let page = ctx.page()?;
        let before = page.after.as_ref().map(|cursor| cursor.0.as_str());
        let tx = ctx.tx().await?;
        let rows = sql::domains_before(tx, account, before, page.rows()).await?;
        let total_size = i32::try_from(sql::count(tx, account).await?).unwrap_or(i32::MAX);
        Ok(CountedPage { page: page.page(rows, |row| Cursor(row.id.to_string()), Domain::from), total_size })
    }
}

/// Read a domain.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetDomain {
    /// The account.
    org_id: AccountRef,
    /// The domain.
    domain: String,
}

impl Operation for GetDomain {
    const SPEC: Spec = Spec::get("domains.domains.get", "/v1/accounts/orgs/{org_id}/domains/{domain}")
        .scope("domains:read")
        .category(Category::Read);
    type Area = Domains;
    type Answer = OneDomain;

    async fn run(self, _: &Domains, ctx: &mut Ctx) -> Result<OneDomain, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let name = Name::field(&self.domain)?;
        let row = sql::domain(ctx.tx().await?, account, name.as_str()).await?;
        row.map(OneDomain::from).ok_or_else(|| missing(&name))
    }
}

/// Remove a domain. What relies on it is refused from then on; adding it again begins anew, with another record.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteDomain {
    /// The account.
    org_id: AccountRef,
    /// The domain.
    domain: String,
}

impl Operation for DeleteDomain {
    const SPEC: Spec = Spec::delete("domains.domains.delete", "/v1/accounts/orgs/{org_id}/domains/{domain}")
        .scope("domains:write")
        .role(Role::Admin)
        .category(Category::Write);
    type Area = Domains;
    type Answer = Done;

    async fn run(self, _: &Domains, ctx: &mut Ctx) -> Result<Done, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let name = Name::field(&self.domain)?;
        let tx = ctx.tx().await?;
        let row = sql::lock_domain(tx, account, name.as_str()).await?.ok_or_else(|| missing(&name))?;
        // The look that waits in the queue finds nothing, and ends.
        sql::delete(tx, row.id).await?;
        ctx.audit("domain.removed", &row.name)?;
        if row.status == Status::Verified {
            moves::tell_unverified(ctx, &row.name)?;
        }
        Ok(Done {})
    }
}

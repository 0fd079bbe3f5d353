//! The operations on accounts: a person's own, and teams.

use portico_engine::{AccountRef, Ctx, Cursor, Operation, Page, Spec};
use portico_kernel::{AccountId, Category, Code, PersonId, Plans, Problem, Role};
use portico_store::OnConflict;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::account::Account;
use crate::copies::note_change;
use crate::model::{self, AccountChange};
use crate::{AccountKind, AccountStatus, Accounts, limits, sql};

/// The person who calls.
pub(crate) fn person(ctx: &Ctx) -> Result<PersonId, Problem> {
    ctx.caller().subject.parse().map_err(|_| Problem::new(Code::Forbidden, "Only a person may do this."))
}

/// The account, with the role of the person who calls.
async fn account(ctx: &mut Ctx, id: AccountId) -> Result<Account, Problem> {
    let person = person(ctx)?;
    let row = sql::account_of(ctx.tx().await?, id, person).await?;
    row.map(Account::from).ok_or_else(|| Problem::not_found("account", id))
}

/// List the accounts that the person belongs to, newest first: their own and their teams.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListOrgs {}

impl Operation for ListOrgs {
    const SPEC: Spec =
        Spec::get("accounts.orgs.list", "/v1/accounts/orgs").persons().category(Category::List).list("orgs");
    type Area = Accounts;
    type Answer = Page<Account>;

    async fn run(self, _: &Accounts, ctx: &mut Ctx) -> Result<Page<Account>, Problem> {
        let (page, person) = (ctx.page()?, person(ctx)?);
        let before = page.after.as_ref().map(|cursor| cursor.0.clone());
        let rows = sql::accounts_before(ctx.tx().await?, person, before, page.rows()).await?;
        Ok(page.page(rows, |row| Cursor(row.id.to_string()), Account::from))
    }
}

/// Make a team. Whoever makes it owns it. A person may own only a few teams on the first plan.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateOrg {
    /// The team's name.
    #[schemars(length(min = 1, max = limits::NAME_CHARACTERS_MAX))]
    name: String,
    /// A short name for addresses: small letters, digits and hyphens; left out, one is made from the name.
    #[serde(default)]
    slug: Option<String>,
}

impl Operation for CreateOrg {
    const SPEC: Spec =
        Spec::post("accounts.orgs.create", "/v1/accounts/orgs").persons().category(Category::Write);
    type Area = Accounts;
    type Answer = Account;

    async fn run(self, accounts: &Accounts, ctx: &mut Ctx) -> Result<Account, Problem> {
        let person = person(ctx)?;
        accounts.lock_for_new_team(ctx, person).await?;
        accounts.check_free_teams(ctx, person).await?;
        let id = accounts.create(ctx, AccountKind::Team, &self.name, self.slug, Plans::FIRST).await?;
        accounts.add_member(ctx, id, person, Role::Owner).await?;
        account(ctx, id).await
    }
}

/// Change an account's name or slug, or keep an account that was to be erased.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateOrg {
    /// The account.
    org_id: AccountRef,
    /// Its new name.
    #[serde(default)]
    name: Option<String>,
    /// Its new slug.
    #[serde(default)]
    slug: Option<String>,
    /// `active` takes an erasure back, as long as its 30 days last.
    #[schemars(extend("enum" = ["active", null]))]
    #[serde(default)]
    status: Option<String>,
}

impl Operation for UpdateOrg {
    const SPEC: Spec = Spec::patch("accounts.orgs.update", "/v1/accounts/orgs/{org_id}")
        .persons()
        .role(Role::Owner)
        .category(Category::Write);
    type Area = Accounts;
    type Answer = Account;

    async fn run(self, accounts: &Accounts, ctx: &mut Ctx) -> Result<Account, Problem> {
        let now = ctx.now();
        let id = ctx.lock_account(self.org_id).await?.id;
        if let Some(name) = &self.name {
            model::check_name(name)?;
        }
        if let Some(slug) = &self.slug {
            model::check_slug(slug)?;
        }
        let found = account(ctx, id).await?;
        let renamed = self.name.as_ref().is_some_and(|name| *name != found.name);
        if renamed || self.slug.as_ref().is_some_and(|slug| *slug != found.slug) {
            let change = AccountChange { name: self.name, slug: self.slug };
            sql::update_account(ctx.tx().await?, id, &change).await.on_conflict(slug_taken)?;
            note_change(ctx, id).await?;
            ctx.audit("account.updated", &id)?;
        }
        match self.status.as_deref() {
            None => {}
            Some(status) if status == AccountStatus::Active.name() => {
                if !sql::keep_account(ctx.tx().await?, id, now).await? {
                    let message = "The account is not about to be erased.";
                    return Err(Problem::failed_precondition("NOT_ERASING", "accounts", message, []));
                }
                accounts.directory.set_closed(ctx.tx().await?, id, false, now).await?;
                note_change(ctx, id).await?;
                ctx.audit("account.kept", &id)?;
            }
            Some(_) => return Err(Problem::field("status", "can only be set to `active`")),
        }
        account(ctx, id).await
    }
}

pub(crate) fn slug_taken() -> Problem {
    Problem::new(Code::AlreadyExists, "An account with this slug exists already.")
}

/// Erase an account: in 30 days everything that belongs to it is erased for good, and with a person's own account the
/// person. Until then its keys and API tokens are refused, and an owner can take it back with `PATCH {"status":
/// "active"}`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteOrg {
    /// The account.
    org_id: AccountRef,
}

impl Operation for DeleteOrg {
    const SPEC: Spec = Spec::delete("accounts.orgs.delete", "/v1/accounts/orgs/{org_id}")
        .persons()
        .role(Role::Owner)
        .category(Category::Write);
    type Area = Accounts;
    type Answer = Account;

    async fn run(self, accounts: &Accounts, ctx: &mut Ctx) -> Result<Account, Problem> {
        let now = ctx.now();
        let id = ctx.lock_account(self.org_id).await?.id;
        let (found, owner) = (account(ctx, id).await?, person(ctx)?);
        if found.is_personal()
            && let Some(team) = sql::sole_owner_of(ctx.tx().await?, owner).await?
        {
            let message = format!("You are the only owner of {}: hand it on or erase it first.", team.name);
            let team = [("account_id", team.id.to_string())];
            return Err(Problem::failed_precondition("LAST_OWNER", "accounts", message, team));
        }
        if sql::erase_account(ctx.tx().await?, id, now + limits::ERASURE_GRACE).await? {
            accounts.directory.set_closed(ctx.tx().await?, id, true, now).await?;
            note_change(ctx, id).await?;
            ctx.audit("account.erasing", &id)?;
        }
        account(ctx, id).await
    }
}

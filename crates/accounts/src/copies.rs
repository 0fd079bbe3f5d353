//! Accounts as services see them, which may keep a copy of each.
//!
//! Accounts are listed in the order of their last change. A change is noted in its own commit and gets its number later,
//! from whoever lists next: one at a time gives numbers, and to changes alone that are committed. So numbers become visible
//! in their order, whoever goes on after the last one that they have seen misses nothing, and no change waits for another.

use portico_engine::{Answer, Body, Ctx, Engine, Operation, Output, Spec};
use portico_kernel::{AccountChangeId, AccountId, Int64, Problem, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::entitlements::Entitlements;
use crate::sql::AccountRow;
use crate::{Accounts, limits, sql};

/// Notes that the account changes with the commit of `ctx`.
pub(crate) async fn note_change(ctx: &mut Ctx, account: AccountId) -> Result<(), Problem> {
    let id = ctx.new_id();
    Ok(sql::insert_change(ctx.tx().await?, id, account).await?)
}

/// Gives numbers to some of the changes that have none: to more than one page can show.
async fn number_changes(engine: &Engine) -> Result<(), Problem> {
    if !sql::has_changes(&mut engine.db.query()).await? {
        return Ok(());
    }
    let mut tx = engine.db.write().await?;
    let last = sql::last_number(&mut tx, true).await?;
    let mut accounts = sql::take_changes(&mut tx, limits::NUMBERED_CHANGES).await?;
    accounts.sort_unstable();
    accounts.dedup();
    sql::number_accounts(&mut tx, last, accounts.into_iter()).await?;
    Ok(tx.commit().await?)
}

/// An account and what it may use.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AccountCopy {
    /// The account.
    account: Account,
    /// What it may use.
    entitlements: Entitlements,
}

impl AccountCopy {
    fn new(ctx: &Ctx, row: AccountRow) -> Self {
        Self { entitlements: Entitlements::of_plan(ctx, row.id, &row.plan), account: row.into() }
    }
}

/// See an account, what it may use and what is left of its units. For services. The `ETag` changes with all but the
/// units.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetCopy {
    /// The account.
    account_id: AccountId,
}

/// Units of a month.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RemainingUnits {
    /// Units that remain of this month; negative when more was used than there was.
    remaining: Int64,
    /// When the next month begins, and the units with it.
    resets_at: Timestamp,
}

/// An account with its units.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AccountWithUnits {
    #[serde(flatten)]
    copy: AccountCopy,
    /// What is left of its units.
    units: RemainingUnits,
    /// What happens to keys when the units are spent: `refuse` or `allow`.
    at_zero: String,
}

/// The same, tagged by all but the units.
pub(crate) struct TaggedAccount(AccountWithUnits);

impl Answer for TaggedAccount {
    fn schema(_: &Spec, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<AccountWithUnits>()
    }

    fn write(self, _: &Ctx) -> Result<Output, Problem> {
        let Self(answer) = self;
        let tagged = serde_json::to_vec(&(&answer.copy, &answer.at_zero)).map_err(Problem::internal)?;
        let body = serde_json::to_vec(&answer).map_err(Problem::internal)?;
        Ok(Output { tagged: Some(tagged.into()), ..Body::Json(body.into()).into() })
    }
}

impl Operation for GetCopy {
    const SPEC: Spec = Spec::get("accounts.copies.get", "/v1/services/accounts/{account_id}")
        .service("service:accounts")
        .etag();
    type Area = Accounts;
    type Answer = TaggedAccount;

    async fn run(self, accounts: &Accounts, ctx: &mut Ctx) -> Result<TaggedAccount, Problem> {
        let missing = || Problem::not_found("account", self.account_id);
        accounts.services.calling(ctx.caller())?;
        let left = accounts.units.left(ctx, self.account_id).await?.ok_or_else(missing)?;
        let row = sql::account(ctx.tx().await?, self.account_id).await?.ok_or_else(missing)?;
        let at_zero = ctx.engine().plans.get_or_first(&row.plan).at_zero.name().to_owned();
        let units = RemainingUnits { remaining: Int64(left.remaining), resets_at: left.resets_at };
        Ok(TaggedAccount(AccountWithUnits { copy: AccountCopy::new(ctx, row), units, at_zero }))
    }
}

/// List the accounts in the order of their last change, at most 200 at once, so that a service can keep a copy of them.
/// Begin without `after`, and go on with the one of each answer: also when there was nothing new, and for good.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListCopies {
    /// The `after` of the answer before.
    #[serde(default)]
    after: Option<String>,
}

/// Accounts that changed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChangedAccounts {
    /// The accounts, each once, as they are now.
    accounts: Vec<AccountCopy>,
    /// Where to go on.
    after: String,
}

impl Operation for ListCopies {
    const SPEC: Spec = Spec::get("accounts.changes.get", "/v1/services/accounts").service("service:accounts");
    type Area = Accounts;
    type Answer = ChangedAccounts;

    async fn run(self, accounts: &Accounts, ctx: &mut Ctx) -> Result<ChangedAccounts, Problem> {
        accounts.services.calling(ctx.caller())?;
        let unknown = || Problem::field("after", "is not the `after` of an answer");
        let after = match &self.after {
            None => 0,
            Some(after) => number(after).ok_or_else(unknown)?,
        };
        number_changes(&ctx.engine().clone()).await?;
        let tx = ctx.tx().await?;
        if after > sql::last_number(tx, false).await? {
            return Err(unknown());
        }
        let rows = sql::changed_after(tx, after, limits::COPIES_MAX).await?;
        let last = rows.last().map_or(after, |row| row.number);
        Ok(ChangedAccounts {
            accounts: rows.into_iter().map(|row| AccountCopy::new(ctx, row.account)).collect(),
            after: AccountChangeId::from_u128(last.unsigned_abs().into()).to_string(),
        })
    }
}

/// The number in what the caller sends as `after`.
fn number(after: &str) -> Option<i64> {
    after.parse::<AccountChangeId>().ok()?.as_u128().try_into().ok()
}

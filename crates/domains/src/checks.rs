//! Checking a domain: how the world sees its record.
//!
//! A check and a confirmation go the same way. A first transaction finds the domain and notes the check, since a domain may be
//! checked ten times a minute only (`note_check`). Then resolvers are asked, with no transaction open. A second transaction
//! locks the domain as it stands by then, and moves it by what was found. If it was removed meanwhile, it is not found; if it
//! was added anew, it has another token, and the look says nothing about that.

use portico_dns::{Busy, Look, Verdict};
use portico_engine::queue::{NewItem, reschedule};
use portico_engine::{AccountRef, Ctx, Operation, Spec, Tool};
use portico_kernel::{AccountId, Category, Code, DomainId, Problem, Role, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domains::missing;
use crate::look::LookAgain;
use crate::model::{Cause, Checks};
use crate::names::{Name, Scope};
use crate::record::{Domain, ResolverView, views};
use crate::sql::{self, DomainRow};
use crate::{Domains, limits};

/// What is looked for, as it was when the check began.
#[derive(Serialize, Deserialize)]
struct Checked {
    id: DomainId,
    scope: Scope,
    token: String,
}

/// Finds the domain and counts the check.
async fn note_check(ctx: &mut Ctx, account: AccountId, name: &Name) -> Result<Checked, Problem> {
    let now = ctx.now();
    let tx = ctx.tx().await?;
    let row = sql::lock_domain(tx, account, name.as_str()).await?.ok_or_else(|| missing(name))?;
    let mut checks = Checks::from_text(&row.checks);
    checks.note(now).map_err(|wait| {
        let (most, seconds) = (limits::CHECKS_MAX, limits::CHECKS_WINDOW.as_secs());
        let message = format!("A domain is checked and confirmed at most {most} times in {seconds} seconds.");
        Problem::new(Code::RateLimited, message).retry_after(wait)
    })?;
    sql::set_checks(tx, row.id, checks.to_text()).await?;
    Ok(Checked { id: row.id, scope: row.scope, token: row.token })
}

/// 503: nobody could say anything.
fn unreachable() -> Problem {
    let message =
        "No resolver answers, so nobody can say how the record stands. That is no fault of the domain.";
    Problem::unavailable(message, limits::RETRY_WAIT).with_info("RESOLVERS_UNREACHABLE", "domains", [])
}

/// 503: nobody was asked.
fn busy() -> Problem {
    let message = "Too many records are looked for at the moment.";
    Problem::unavailable(message, limits::RETRY_WAIT)
}

impl Domains {
    /// Counts a check of the account's domain and looks for its record; returns the id under which it was looked for, too.
    pub(crate) async fn check(
        &self,
        ctx: &mut Ctx,
        account: AccountId,
        name: &Name,
    ) -> Result<(DomainId, Look), Problem> {
        let checked = ctx.step("note_check", async |ctx| note_check(ctx, account, name).await).await?;
        ctx.check_calls_out()?;
        let look = self.look(name.as_str(), checked.scope, &checked.token).await.map_err(|Busy| busy())?;
        if look.verdict == Verdict::Unreachable {
            return Err(unreachable());
        }
        Ok((checked.id, look))
    }
}

/// Puts the next look of the platform into the queue, where it is at another time than it was.
pub(crate) async fn reschedule_look(
    ctx: &mut Ctx,
    row: &DomainRow,
    before: Option<Timestamp>,
) -> Result<(), Problem> {
    let now = ctx.now();
    if let Some(due_at) = row.next_look_at.filter(|next| Some(*next) != before) {
        let item = NewItem { id: row.id.to_string(), account: Some(row.account_id), payload: &[], due_at };
        reschedule::<LookAgain>(ctx.tx().await?, item, now).await?;
    }
    Ok(())
}

/// See how the world sees the record of a domain, right now: each resolver is asked anew, and a mistake that is common is named.
/// The domain becomes `seen` when enough of them have the record. One that was verified, and whose record is gone, is
/// `unverified` at once.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckDomain {
    /// The account.
    org_id: AccountRef,
    /// The domain.
    domain: String,
}

/// How the world sees the record.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CheckedDomain {
    /// The domain after the check.
    domain: Domain,
    /// What each resolver says, and then each of the zone's own servers.
    resolvers: Vec<ResolverView>,
    /// Its status after the check.
    status: &'static str,
}

impl Operation for CheckDomain {
    const SPEC: Spec = Spec::post("domains.domains.check", "/v1/accounts/orgs/{org_id}/domains/{domain}/check")
        .tool(Tool::new("domains_check_domain", "Check the record of a domain").hint(
            "Publish record_value as a TXT record at record_name, check until the status is `seen`, then a person confirms \
             in the console.",
        ))
        .scope("domains:write")
        .role(Role::Admin)
        .category(Category::Check)
        .accepts_idempotency_key();
    type Area = Domains;
    type Answer = CheckedDomain;

    async fn run(self, domains: &Domains, ctx: &mut Ctx) -> Result<CheckedDomain, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let name = Name::field(&self.domain)?;
        let (id, look) = domains.check(ctx, account, &name).await?;
        let row = sql::lock_domain(ctx.tx().await?, account, name.as_str()).await?;
        let mut row = row.ok_or_else(|| missing(&name))?;
        if row.id == id {
            let before = row.next_look_at;
            domains.apply(ctx, &mut row, Cause::Check, &look).await?;
            reschedule_look(ctx, &row, before).await?;
        }
        let (status, now) = (row.status.name(), ctx.engine().clock.now());
        Ok(CheckedDomain { domain: row.into(), resolvers: views(look, now), status })
    }
}

//! Checking a domain: how the world sees its record.
//!
//! A check and a confirmation go the same way. A first transaction finds the domain and notes the check, since a domain may be
//! checked ten times a minute only (`note_check`). Then resolvers are asked, with no transaction open. A second transaction
//! locks the domain as it stands by then, and moves it by what was found. If it was removed meanwhile, it is not found; if it
//! was added anew, it has another token, and the look says nothing about that; and if a look that began later is applied by
//! then, this one moves nothing.

use portico_dns::{Busy, Verdict};
use portico_engine::{AccountRef, Ctx, Engine, Operation, Spec, Tool};
use portico_kernel::{AccountId, Category, Code, DomainId, Problem, Role, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::domains::missing;
use crate::look::{Looked, reschedule_look};
use crate::model::{Cause, Checks};
use crate::names::{Name, Scope};
use crate::record::{Domain, ResolverView, views};
use crate::{Domains, limits, sql};

/// What is looked for, as it was when the check began.
struct Checked {
    id: DomainId,
    scope: Scope,
    token: String,
}

/// Finds the domain and counts the check, in a transaction of its own. It is no step of the call: a repeat with the same
/// Idempotency-Key looks anew, so it counts, and finds the domain as it is by then.
async fn note_check(
    engine: &Engine,
    now: Timestamp,
    account: AccountId,
    name: &Name,
) -> Result<Checked, Problem> {
    let mut tx = engine.db.write().await?;
    let row = sql::lock_domain(&mut tx, account, name.as_str()).await?.ok_or_else(|| missing(name))?;
    let mut checks = Checks::from_text(&row.checks);
    checks.note(now).map_err(|wait| {
        let (most, seconds) = (limits::CHECKS_MAX, limits::CHECKS_WINDOW.as_secs());
        let message = format!("A domain is checked and confirmed at most {most} times in {seconds} seconds.");
        Problem::new(Code::RateLimited, message).retry_after(wait)
    })?;
    sql::set_checks(&mut tx, row.id, checks.to_text()).await?;
    tx.commit().await?;
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

/// 429: the account's other looks take all its share, and have for as long as one waits.
fn share_taken() -> Problem {
    let most = limits::ASKING_AT_ONCE;
    let message = format!("The account has {most} domains checked already, the most at once; try again.");
    Problem::new(Code::RateLimited, message).retry_after(limits::ASKING_AGAIN)
}

impl Domains {
    /// Counts a check of the account's domain and looks for its record; returns what was found.
    pub(crate) async fn check(
        &self,
        ctx: &mut Ctx,
        account: AccountId,
        name: &Name,
    ) -> Result<Looked, Problem> {
        ctx.check_calls_out()?;
        let checked = note_check(ctx.engine(), ctx.now(), account, name).await?;
        let share = timeout(limits::ASKING_WAIT_MAX, self.shares.take(account)).await;
        let _share = share.map_err(|_| share_taken())?;
        let at = ctx.engine().clock.now();
        let look = self.look(name.as_str(), checked.scope, &checked.token).await.map_err(|Busy| busy())?;
        if look.verdict == Verdict::Unreachable {
            return Err(unreachable());
        }
        Ok(Looked { id: checked.id, at, look })
    }
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
        let found = domains.check(ctx, account, &name).await?;
        let row = sql::lock_domain(ctx.tx().await?, account, name.as_str()).await?;
        let mut row = row.ok_or_else(|| missing(&name))?;
        let is_outdated = row.state().was_looked_at_since(found.at, ctx.engine().clock.now());
        if row.id == found.id && !is_outdated {
            let before = row.next_look_at;
            domains.apply(ctx, &mut row, Cause::Check, &found).await?;
            reschedule_look(ctx, &row, before).await?;
        }
        let (status, now) = (row.status.name(), ctx.engine().clock.now());
        Ok(CheckedDomain { domain: row.into(), resolvers: views(found.look, now), status })
    }
}

//! Confirming a domain: taking it, from another account too.

use portico_dns::{Authority, Look, Verdict};
use portico_engine::{AccountRef, Ctx, Operation, Spec};
use portico_kernel::{Category, Code, Problem, Role, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::checks::reschedule_look;
use crate::domains::missing;
use crate::model::{Cause, State, Status};
use crate::names::Name;
use crate::record::{OneDomain, hint};
use crate::{Domains, sql};

/// Why the domain cannot be confirmed, as it stands and by what the look found.
fn refusal(state: &State, look: &Look, now: Timestamp) -> Option<Problem> {
    if state.status != Status::Verified && state.is_expired(now) {
        let message =
            "The record is over seven days old and no longer accepted; add the domain again for a new one.";
        return Some(Problem::failed_precondition("TOKEN_EXPIRED", "domains", message, []));
    }
    if look.verdict == Verdict::Seen {
        return None;
    }
    if look.authority == Authority::Lacking {
        let message = "The domain's own name servers do not have the record.";
        let metadata = [("hint", hint(look))];
        return Some(Problem::failed_precondition("NOT_AUTHORITATIVE", "domains", message, metadata));
    }
    let metadata = [
        ("found", look.found.to_string()),
        ("needed", look.needed.to_string()),
        ("asked", look.asked.to_string()),
        ("hint", hint(look)),
    ];
    let message = format!(
        "The record is not seen: {} of {} resolvers have it, and {} must.",
        look.found, look.asked, look.needed
    );
    Some(Problem::failed_precondition("RECORD_NOT_SEEN", "domains", message, metadata))
}

/// Confirm a domain: the record is looked for once more, and when it is seen the domain is verified. If another account held
/// the domain, that account loses it. The record must stay: it is looked at every day.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfirmDomain {
    /// The account.
    org_id: AccountRef,
    /// The domain.
    domain: String,
}

impl Operation for ConfirmDomain {
    const SPEC: Spec =
        Spec::post("domains.domains.confirm", "/v1/accounts/orgs/{org_id}/domains/{domain}/confirm")
            .scope("domains:write")
            .role(Role::Admin)
            .category(Category::Check);
    type Area = Domains;
    type Answer = OneDomain;

    async fn run(self, domains: &Domains, ctx: &mut Ctx) -> Result<OneDomain, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let name = Name::field(&self.domain)?;
        let (id, look) = domains.check(ctx, account, &name).await?;
        let now = ctx.now();
        ctx.lock_account(account).await?.active()?;
        let tx = ctx.tx().await?;
        sql::lock_name(tx, name.as_str()).await?;
        let row = sql::lock_domain(tx, account, name.as_str()).await?;
        let mut row = row.ok_or_else(|| missing(&name))?;
        if row.id != id {
            let message = "The domain was added anew meanwhile, and has another record; confirm it again.";
            return Err(Problem::new(Code::Conflict, message));
        }
        if let Some(refusal) = refusal(&row.state(), &look, now) {
            return Err(refusal);
        }
        if row.status != Status::Verified {
            domains.take_from_holder(ctx, name.as_str(), account).await?;
        }
        let before = row.next_look_at;
        domains.apply(ctx, &mut row, Cause::Confirm, &look).await?;
        reschedule_look(ctx, &row, before).await?;
        sql::unlock_name(ctx.tx().await?, name.as_str()).await?;
        Ok(row.into())
    }
}

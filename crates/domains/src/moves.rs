//! Writes what a look found, and tells of it, in the transaction in which the domain is locked.

use portico_dns::{Look, Verdict, Zone};
use portico_engine::Ctx;
use portico_kernel::{AccountId, Problem};
use serde_json::json;

use crate::events::{DomainTransferred, DomainUnverified, DomainVerified};
use crate::model::{Cause, Finding, Move, Status, looked, transfer};
use crate::sql::{self, DomainRow};
use crate::{Domains, model};

/// Are there name servers, and is none of them what it was?
fn moved(before: &str, zone: &Zone) -> bool {
    let is_new = |server: &String| !before.split(' ').any(|known| known == server);
    !before.is_empty() && !zone.name_servers.is_empty() && zone.name_servers.iter().all(is_new)
}

/// Notes who serves the domain. What this look did not find out stays as the last one found it.
fn note_zone(row: &mut DomainRow, told: Move, look: &Look) {
    if !look.zone.provider.is_empty() {
        row.dns_provider.clone_from(&look.zone.provider);
    }
    let is_seen = row.status == Status::Verified && look.verdict == Verdict::Seen;
    if told == Move::Verified || (is_seen && row.verified_servers.is_empty()) {
        row.verified_servers = look.zone.name_servers.join(" ");
    }
}

/// Sends the event of a domain that is no longer verified.
pub(crate) fn tell_unverified(ctx: &mut Ctx, domain: &str) -> Result<(), Problem> {
    let (domain, actor) = (domain.to_owned(), ctx.caller().subject.clone());
    ctx.emit(&DomainUnverified { domain, actor }).map(drop)
}

/// Writes that a domain ended, and why.
fn audit_unverified(ctx: &mut Ctx, row: &DomainRow) -> Result<(), Problem> {
    let reason = json!({ "reason": row.unverified_reason });
    ctx.audit_with("domain.unverified", &row.name, reason)
}

impl Domains {
    /// Moves the domain, whose row is locked, by what a look found. A look that nobody answered may not come here.
    pub(crate) async fn apply(
        &self,
        ctx: &mut Ctx,
        row: &mut DomainRow,
        cause: Cause,
        look: &Look,
    ) -> Result<(), Problem> {
        let (mut state, before) = (row.state(), row.status);
        let finding = Finding {
            verdict: look.verdict,
            moved: moved(&row.verified_servers, &look.zone),
            chance: u32::from_le_bytes(ctx.engine().entropy.bytes()),
        };
        let told = looked(&mut state, cause, finding, ctx.now());
        row.set_state(&state);
        note_zone(row, told, look);
        sql::update(ctx.tx().await?, row).await?;
        match told {
            Move::Silent => {}
            Move::Verified => {
                let (domain, actor) = (row.name.clone(), ctx.caller().subject.clone());
                ctx.emit(&DomainVerified { domain, actor })?;
                ctx.audit("domain.verified", &row.name)?;
            }
            Move::Unverified => {
                tell_unverified(ctx, &row.name)?;
                audit_unverified(ctx, row)?;
            }
            Move::Missing(ends_at) => {
                let metadata = json!({ "reason": row.unverified_reason, "ends_at": ends_at });
                ctx.audit_with("domain.missing", &row.name, metadata)?;
            }
        }
        if row.status != before {
            self.metrics.moved_after_commit(ctx, row.status);
        }
        Ok(())
    }

    /// Takes the name from the other account that holds it, if one does. It is told as the platform's doing: nobody learns
    /// who has it now.
    pub(crate) async fn take_from_holder(
        &self,
        ctx: &mut Ctx,
        name: &str,
        account: AccountId,
    ) -> Result<(), Problem> {
        let tx = ctx.tx().await?;
        let Some(mut row) = sql::lock_holder(tx, name, account).await? else { return Ok(()) };
        let mut state = row.state();
        transfer(&mut state);
        row.set_state(&state);
        sql::update(tx, &row).await?;
        ctx.as_platform(row.account_id, |ctx| {
            tell_unverified(ctx, &row.name)?;
            let (domain, actor) = (row.name.clone(), ctx.caller().subject.clone());
            ctx.emit(&DomainTransferred { domain, actor })?;
            audit_unverified(ctx, &row)
        })?;
        self.metrics.moved_after_commit(ctx, row.status);
        Ok(())
    }

    /// Ends a domain whose token is over, without a look, which could change nothing.
    pub(crate) async fn expire(&self, ctx: &mut Ctx, row: &mut DomainRow) -> Result<(), Problem> {
        let mut state = row.state();
        model::expire(&mut state);
        row.set_state(&state);
        sql::update(ctx.tx().await?, row).await?;
        self.metrics.moved_after_commit(ctx, row.status);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_has_moved_when_no_server_is_what_it_was() {
        let zone = |servers: &[&str]| Zone {
            name_servers: servers.iter().map(|server| (*server).to_owned()).collect(),
            ..Zone::default()
        };
        for (before, after, has_moved) in [
            ("a.ns b.ns", vec!["c.ns", "d.ns"], true),
            ("a.ns b.ns", vec!["b.ns", "c.ns"], false),
            ("a.ns b.ns", vec!["a.ns", "b.ns"], false),
            // Nobody knows.
            ("a.ns b.ns", vec![], false),
            ("", vec!["a.ns"], false),
        ] {
            assert_eq!(moved(before, &zone(&after)), has_moved, "{before} {after:?}");
        }
    }
}

//! What other areas ask of units: what is left of them, and to count what services report.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use portico_engine::Ctx;
use portico_engine::ports::{ReportedUsage, Units, UnitsLeft};
use portico_kernel::{AccountId, Month, Problem};

use crate::Metering;
use crate::batch::aggregate;
use crate::flush::add_sums;
use crate::journal::{NameTable, Record, SubjectId};
use crate::units::used_and_granted;

impl Units for Metering {
    fn left<'a>(
        &'a self,
        ctx: &'a mut Ctx,
        account: AccountId,
    ) -> BoxFuture<'a, Result<Option<UnitsLeft>, Problem>> {
        Box::pin(async move {
            let engine = ctx.engine().clone();
            let pending = self.pending(ctx, account).await?;
            let month = Month::of(ctx.now());
            let tx = ctx.tx().await?;
            let Some(plan) = engine.memberships.plan(tx, account).await? else { return Ok(None) };
            let (used, granted) = used_and_granted(tx, account, month, &pending).await?;
            let allowance = engine.plans.get_or_first(&plan).monthly_units;
            let remaining = allowance.saturating_add(granted).saturating_sub(used);
            Ok(Some(UnitsLeft { remaining, resets_at: month.next().start() }))
        })
    }

    /// They go past the journal: they are counted in the commit that keeps their ids. None is refused for the units of
    /// the account, since it has happened already.
    fn report<'a>(
        &'a self,
        ctx: &'a mut Ctx,
        service: &'a str,
        reports: Vec<ReportedUsage>,
    ) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(async move {
            let mut names = NameTable::default();
            let mut numbers: BTreeMap<String, u16> = BTreeMap::new();
            let mut records = Vec::with_capacity(reports.len());
            for report in reports {
                let next = u16::try_from(numbers.len()).map_err(Problem::internal)?;
                let operation = *numbers.entry(report.name.clone()).or_insert_with(|| {
                    names.operations.push(report.name.clone());
                    next
                });
                let known = report.credential.as_deref().and_then(SubjectId::parse);
                records.push(Some(record(
                    &report,
                    known.unwrap_or(SubjectId::of_service(service)),
                    operation,
                )));
            }
            let (_, accounts) = aggregate(&records, usize::MAX);
            let engine = ctx.engine().clone();
            for (account, batch) in accounts {
                // An account that was erased meanwhile must not get rows again.
                let plan = engine.memberships.plan(ctx.tx().await?, account).await?;
                if let Some(plan) = plan {
                    let plan = engine.plans.get_or_first(&plan);
                    add_sums(ctx, ("", &names), account, plan, &batch).await?;
                }
            }
            Ok(())
        })
    }
}

/// One call that nobody timed, and that is in no log.
fn record(report: &ReportedUsage, subject: SubjectId, operation: u16) -> Record<'static> {
    Record {
        at: report.at,
        account: report.account,
        subject,
        operation,
        status: 200,
        code: 0,
        leased: false,
        micros: 0,
        units: report.units,
        tokens: 0,
        month: Month::of(report.at),
        repeats: 1,
        request_id: "".into(),
    }
}

//! From the journal into the database.
//!
//! Each transaction counts some records and says, in the same commit, how far the journal is counted. If nobody knows
//! whether a commit came to be, the database is asked how far it is, and counting goes on from there: a try more or less
//! changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use portico_engine::{Ctx, Engine};
use portico_kernel::{AccountId, Entropy, Month, Plan, Problem, Timestamp};
use portico_store::Tx;

use crate::batch::{AccountBatch, add_up};
use crate::block::{self, Logged, Unpacked};
use crate::events::UsageThreshold;
use crate::journal::{Names, Record};
use crate::lease::units_of;
use crate::sql::{LeaseAt, MonthRow, UsageRow};
use crate::{Metering, latency, limits, sql};

/// How far the journal of this server is counted.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) position: u64,
    /// Did the last try fail? Then the database knows better.
    unsure: bool,
}

impl Metering {
    /// Counts everything that is in the journal now.
    pub async fn flush(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        while self.flush_some(engine).await? {}
        Ok(())
    }

    /// Counts some of what is in the journal; answers whether there is more.
    pub(crate) async fn flush_some(&self, engine: &Arc<Engine>) -> Result<bool, Problem> {
        let journal = self.journal()?;
        let mut counted = self.counted.lock().await;
        if counted.unsure {
            let position = sql::journal_position(&mut engine.db.query(), journal.id()).await?;
            let position =
                position.ok_or_else(|| Problem::internal("the journal of this server was closed"))?;
            *counted = Counted { position, unsure: false };
        }
        if counted.position < journal.first() {
            // The database went back behind what was removed because it had it; the rest still counts.
            let lost = journal.first() - counted.position;
            tracing::error!(lost, "The database has lost calls that it had counted");
            counted.position = skip(engine, journal.id(), counted.position, journal.first()).await?;
        }
        let records = journal.read(counted.position, limits::BATCH_RECORDS_MAX);
        if records.is_empty() {
            return Ok(false);
        }
        counted.unsure = true;
        let at = self.count(engine, journal.id(), journal.names(), counted.position, &records).await?;
        *counted = Counted { position: at, unsure: false };
        self.metrics.counted_up_to(at);
        journal.release(at);
        Ok(records.len() == limits::BATCH_RECORDS_MAX)
    }

    /// Counts these records of a journal, the first of which has the number `from`; answers the number after the last.
    pub(crate) async fn count(
        &self,
        engine: &Arc<Engine>,
        journal: &str,
        names: &Names,
        from: u64,
        records: &[Option<Record<'static>>],
    ) -> Result<u64, Problem> {
        let (mut rest, mut at) = (records, from);
        while !rest.is_empty() {
            let (count, accounts) = add_up(rest, limits::BATCH_ACCOUNTS_MAX);
            let to = at + count as u64;
            let mut ctx = Ctx::platform(engine);
            if !sql::advance_journal(ctx.tx().await?, journal, at, to).await? {
                return Err(Problem::internal("a journal is counted by another server"));
            }
            for (account, batch) in accounts {
                count_account(&mut ctx, (journal, at, names), account, batch).await?;
            }
            ctx.finish().await?;
            (rest, at) = (&rest[count..], to);
        }
        Ok(at)
    }
}

/// Says that the journal is counted up to `to`, though some of it is gone.
pub(crate) async fn skip(engine: &Engine, journal: &str, from: u64, to: u64) -> Result<u64, Problem> {
    let mut tx = engine.db.write().await?;
    sql::advance_journal(&mut tx, journal, from, to).await?;
    tx.commit().await?;
    Ok(to)
}

async fn count_account(
    ctx: &mut Ctx,
    (journal, first, names): (&str, u64, &Names),
    account: AccountId,
    batch: AccountBatch<'_>,
) -> Result<(), Problem> {
    let engine = ctx.engine().clone();
    // An account that was erased meanwhile is not brought back.
    let Some(plan) = engine.memberships.plan(ctx.tx().await?, account).await? else { return Ok(()) };
    let plan = engine.plans.get_or_first(&plan);
    for (month, (used, leased)) in batch.units {
        let tx = ctx.tx().await?;
        let row = sql::add_to_month(tx, account, month, used, 0).await?;
        if leased > 0 {
            let (account, resource, holder) = (account.to_string(), units_of(month), journal.to_owned());
            sql::shrink_lease(tx, &LeaseAt { account, resource, holder }, leased).await?;
        }
        tell(ctx, account, month, plan, row).await?;
    }
    let tx = ctx.tx().await?;
    for (hour, counts) in &batch.hours {
        sql::add_to_hour(tx, account, *hour, counts).await?;
    }
    let name = |operation: u16| names.operation(operation).to_owned();
    let days = batch.days.into_iter();
    let days =
        days.map(|((day, subject, operation), counts)| (day, subject.to_string(), name(operation), counts));
    sql::add_to_days(tx, account, days).await?;
    let mut months: BTreeMap<Month, Vec<UsageRow>> = BTreeMap::new();
    for ((month, subject, operation), counts) in &batch.months {
        let mut row = UsageRow::new(subject.to_string(), name(*operation), counts);
        row.latency = latency::to_bytes(&counts.latency)?;
        months.entry(*month).or_default().push(row);
    }
    for (month, rows) in months {
        add_usage(tx, account, month, rows).await?;
    }
    let requests = batch.records.iter();
    let requests = requests.map(|(place, record)| Logged::new(record, journal, first + *place as u64, names));
    log(tx, account, requests.collect(), engine.entropy.as_ref()).await
}

/// Adds to the log, in the last piece while that is small.
async fn log(
    tx: &mut Tx,
    account: AccountId,
    mut requests: Vec<Logged<'_>>,
    entropy: &dyn Entropy,
) -> Result<(), Problem> {
    let last = match requests.iter().map(|request| request.at).min() {
        Some(at) if requests.len() < limits::BLOCK_REQUESTS_MAX / 2 => {
            let since = Timestamp::from_micros(at) - limits::BLOCK_SPAN_MAX;
            sql::last_small_block(tx, account, since, limits::BLOCK_REQUESTS_FEW).await?
        }
        _ => None,
    };
    // A piece that does not read, or that another server took first, stays as it is.
    let unpacked = last.as_ref().and_then(|last| Some((last, Unpacked::new(&last.body).ok()?)));
    if let Some((last, unpacked)) = &unpacked
        && sql::delete_block(tx, account, last.last_at, &last.id).await?
    {
        requests.extend(unpacked.requests());
    }
    for block in block::pack(requests, entropy)? {
        sql::insert_block(tx, account, block).await?;
    }
    Ok(())
}

/// Adds to the usage of a month, whose histograms are read, merged and written back.
async fn add_usage(
    tx: &mut Tx,
    account: AccountId,
    month: Month,
    mut rows: Vec<UsageRow>,
) -> Result<(), Problem> {
    let kept = sql::latencies(tx, account, month).await?;
    for row in &mut rows {
        if let Some(kept) = kept.get(&(row.subject.clone(), row.rpc.clone())) {
            // One that does not read begins anew: the counts beside it are what matters, and nobody must wait for it.
            let mut histogram = latency::from_bytes(kept).unwrap_or_default();
            histogram.merge(&latency::from_bytes(&row.latency)?);
            row.latency = latency::to_bytes(&histogram)?;
        }
    }
    Ok(sql::add_to_usage(tx, account, month, rows.into_iter()).await?)
}

/// Tells the account once a month that it has used 80 % of its budget, and once that it has used it all.
async fn tell(
    ctx: &mut Ctx,
    account: AccountId,
    month: Month,
    plan: &Plan,
    row: MonthRow,
) -> Result<(), Problem> {
    let budget = i128::from(plan.monthly_units) + i128::from(row.granted);
    let crossed = |threshold: i64| {
        row.used > 0
            && row.notified < threshold
            && i128::from(row.used) * 100 >= budget * i128::from(threshold)
    };
    for threshold in limits::THRESHOLDS.into_iter().filter(|threshold| crossed(*threshold)) {
        sql::set_notified(ctx.tx().await?, account, month, threshold).await?;
        ctx.set_account(account);
        ctx.emit(&UsageThreshold {
            account_id: account.to_string(),
            month: month.to_string(),
            threshold: i32::try_from(threshold).unwrap_or(0),
            actor: "platform".to_owned(),
        })?;
    }
    Ok(())
}

//! Counts the records of the journal in the database.
//!
//! Each transaction counts some records and moves the journal's position in the same commit. When the result of a commit
//! is unknown, the position is read from the database and counting goes on from there: no record is counted twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use portico_engine::{Ctx, Engine};
use portico_kernel::{AccountId, Day, Entropy, Month, Plan, Problem, Timestamp};
use portico_store::Tx;

use crate::batch::{AccountBatch, aggregate};
use crate::block::{self, BlockReader, LogEntry};
use crate::events::UsageThreshold;
use crate::journal::{NameTable, Record, SubjectId};
use crate::lease::units_resource;
use crate::metering::journal_failure;
use crate::sql::{Counts, LeaseAt, MonthRow, UsageRow};
use crate::{Metering, latency, limits, sql};

/// How far the journal of this server is counted.
#[derive(Debug, Default)]
pub(crate) struct JournalPosition {
    /// The number of the first record that is not counted.
    pub(crate) number: u64,
    /// Did the last commit fail? Then the database must be asked.
    unsure: bool,
}

impl Metering {
    /// Counts everything that is in the journal now.
    pub async fn flush(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        while self.flush_some(engine).await? == limits::BATCH_RECORDS_MAX {}
        Ok(())
    }

    /// Counts some of what is in the journal; returns how many records those were.
    pub(crate) async fn flush_some(&self, engine: &Arc<Engine>) -> Result<usize, Problem> {
        let journal = self.journal()?;
        // What cannot be recorded now is counted later.
        let _ = self.record_refusals();
        let mut position = self.position.lock().await;
        if position.unsure {
            let number = sql::journal_position(&mut engine.db.query(), journal.id()).await?;
            let number = number.ok_or_else(|| Problem::internal("the journal of this server was closed"))?;
            *position = JournalPosition { number, unsure: false };
        }
        if position.number < journal.first() {
            // The database was set back to before segments that are removed; the rest still counts.
            let lost = journal.first() - position.number;
            tracing::error!(lost, "Database lost calls that it had counted");
            position.number = skip_lost(engine, journal.id(), position.number, journal.first()).await?;
        }
        let records = journal.read(position.number, limits::BATCH_RECORDS_MAX).map_err(journal_failure)?;
        if records.is_empty() {
            return Ok(0);
        }
        position.unsure = true;
        let at = self.count(engine, journal.id(), journal.names(), position.number, &records).await?;
        *position = JournalPosition { number: at, unsure: false };
        let lost = records.iter().filter(|record| record.is_none()).count();
        if lost > 0 {
            self.metrics.not_recorded(lost);
            tracing::error!(
                lost,
                "Journal does not hold calls that were written to it: a file was cut or damaged"
            );
        }
        self.metrics.counted_up_to(at);
        journal.release(at);
        Ok(records.len())
    }

    /// Counts these records of a journal, the first of which has the number `from`; returns the number after the last.
    pub(crate) async fn count(
        &self,
        engine: &Arc<Engine>,
        journal: &str,
        names: &NameTable,
        from: u64,
        records: &[Option<Record<'static>>],
    ) -> Result<u64, Problem> {
        let (mut rest, mut at) = (records, from);
        while !rest.is_empty() {
            let (count, accounts) = aggregate(rest, limits::BATCH_ACCOUNTS_MAX);
            let to = at + count as u64;
            let mut ctx = Ctx::platform(engine);
            if !sql::advance_journal(ctx.tx().await?, journal, at, to).await? {
                return Err(Problem::internal("a journal is counted by another server"));
            }
            let source = BatchSource { metering: self, journal, names, first: at };
            for (account, batch) in accounts {
                count_account(&mut ctx, &source, account, batch).await?;
            }
            ctx.finish().await?;
            (rest, at) = (&rest[count..], to);
        }
        Ok(at)
    }
}

/// Moves the journal's position to `to`, past records that are lost.
pub(crate) async fn skip_lost(engine: &Engine, journal: &str, from: u64, to: u64) -> Result<u64, Problem> {
    let mut tx = engine.db.write().await?;
    sql::advance_journal(&mut tx, journal, from, to).await?;
    tx.commit().await?;
    Ok(to)
}

/// Where a batch of records comes from.
struct BatchSource<'a> {
    metering: &'a Metering,
    journal: &'a str,
    names: &'a NameTable,
    /// The number of the batch's first record.
    first: u64,
}

async fn count_account(
    ctx: &mut Ctx,
    source: &BatchSource<'_>,
    account: AccountId,
    batch: AccountBatch<'_>,
) -> Result<(), Problem> {
    let &BatchSource { metering, journal, names, first } = source;
    let engine = ctx.engine().clone();
    // An account that was erased meanwhile must not get rows again.
    let Some(plan) = engine.memberships.plan(ctx.tx().await?, account).await? else { return Ok(()) };
    let plan = engine.plans.get_or_first(&plan);
    add_sums(ctx, (journal, names), account, plan, &batch).await?;
    let single = batch.records.iter().filter(|(_, record)| record.is_single());
    let requests = single.map(|(index, record)| LogEntry::new(record, journal, first + *index as u64, names));
    let mut requests: Vec<_> = requests.collect();
    let tx = ctx.tx().await?;
    let logged = metering.logged.take(tx, account, plan, engine.clock.now(), requests.len()).await?;
    metering.metrics.not_logged(requests.len() - logged);
    requests.truncate(logged);
    append_requests(tx, account, requests, engine.entropy.as_ref()).await
}

/// Adds the calls of an account to what it used, by month, day and hour. What was leased of them is no lease of the
/// journal any more.
pub(crate) async fn add_sums(
    ctx: &mut Ctx,
    (journal, names): (&str, &NameTable),
    account: AccountId,
    plan: &Plan,
    batch: &AccountBatch<'_>,
) -> Result<(), Problem> {
    for (&month, &(used, leased)) in &batch.units {
        let tx = ctx.tx().await?;
        let row = sql::add_to_month(tx, account, month, used, 0).await?;
        if leased > 0 {
            let (account, resource, holder) =
                (account.to_string(), units_resource(month), journal.to_owned());
            sql::shrink_lease(tx, &LeaseAt { account, resource, holder }, leased).await?;
        }
        let mut notified = Notified { account, month, highest: row.notified };
        judge_past_budgets(ctx, &mut notified, &row, batch).await?;
        notified.judge(ctx, row.used, i128::from(plan.monthly_units) + i128::from(row.granted)).await?;
    }
    let tx = ctx.tx().await?;
    for (hour, counts) in &batch.hours {
        sql::add_to_hour(tx, account, *hour, counts).await?;
    }
    let name = |operation: u16| names.operation(operation).to_owned();
    let day = |(&(day, subject, operation), &counts): (&(Day, SubjectId, u16), &Counts)| {
        (day, subject.to_string(), name(operation), counts)
    };
    sql::add_to_days(tx, account, batch.days.iter().map(day)).await?;
    let mut months: BTreeMap<Month, Vec<UsageRow>> = BTreeMap::new();
    for ((month, subject, operation), counts) in &batch.months {
        let mut row = UsageRow::new(subject.to_string(), name(*operation), counts);
        row.latency = latency::to_bytes(&counts.latency)?;
        months.entry(*month).or_default().push(row);
    }
    for (month, rows) in months {
        add_usage(tx, account, month, rows).await?;
    }
    Ok(())
}

/// Appends to the log of requests; a small last block is replaced by a larger one.
async fn append_requests(
    tx: &mut Tx,
    account: AccountId,
    mut requests: Vec<LogEntry<'_>>,
    entropy: &dyn Entropy,
) -> Result<(), Problem> {
    let last = match requests.iter().map(|request| request.at).min() {
        Some(at) if requests.len() < limits::BLOCK_REQUESTS_MAX / 2 => {
            let since = Timestamp::from_micros(at) - limits::BLOCK_SPAN_MAX;
            sql::last_small_block(tx, account, since, limits::BLOCK_REQUESTS_FEW).await?
        }
        _ => None,
    };
    // A block that does not parse, or that another server replaced first, stays as it is.
    let reader = last.as_ref().and_then(|last| Some((last, BlockReader::new(&last.body).ok()?)));
    if let Some((last, reader)) = &reader
        && sql::delete_block(tx, account, last.last_at, &last.id).await?
    {
        requests.extend(reader.requests());
    }
    for block in block::encode(requests, entropy)? {
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
            // A histogram that does not parse begins anew: the counts beside it matter more.
            let mut histogram = latency::from_bytes(kept).unwrap_or_default();
            histogram.merge(&latency::from_bytes(&row.latency)?);
            row.latency = latency::to_bytes(&histogram)?;
        }
    }
    Ok(sql::add_to_usage(tx, account, month, rows.into_iter()).await?)
}

/// Judges the calls that were made before the budget changed, and are counted only now, by the budget of their moment.
async fn judge_past_budgets(
    ctx: &mut Ctx,
    notified: &mut Notified,
    row: &MonthRow,
    batch: &AccountBatch<'_>,
) -> Result<(), Problem> {
    let Notified { account, month, .. } = *notified;
    let own = || batch.records.iter().map(|(_, record)| *record).filter(move |record| record.month == month);
    let first = own().map(|record| record.at).min();
    let Some(first) = first.filter(|first| *first < row.budget_changed_at) else { return Ok(()) };
    for mut past in sql::past_budgets(ctx.tx().await?, account, month, first).await? {
        let made = own().filter(|record| record.at < past.until);
        past.used += made.map(|record| i64::from(record.units)).sum::<i64>();
        sql::set_used_of_past_budget(ctx.tx().await?, account, month, &past).await?;
        notified.judge(ctx, past.used, past.budget.into()).await?;
    }
    Ok(())
}

/// The thresholds of an account's month that events have told of.
struct Notified {
    account: AccountId,
    month: Month,
    highest: i64,
}

impl Notified {
    /// Emits an event when `used` is 80 % of the budget, and one when it is all of it, each once a month.
    async fn judge(&mut self, ctx: &mut Ctx, used: i64, budget: i128) -> Result<(), Problem> {
        let Self { account, month, highest } = *self;
        let crossed = |threshold: i64| {
            used > 0 && highest < threshold && i128::from(used) * 100 >= budget * i128::from(threshold)
        };
        for threshold in limits::THRESHOLDS.into_iter().filter(|threshold| crossed(*threshold)) {
            self.highest = threshold;
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
}

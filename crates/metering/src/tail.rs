//! What is in the journal of this server and not in the database yet, so that reports need not wait for it.

use portico_engine::Ctx;
use portico_kernel::{AccountId, Day, Hour, Month, Problem};

use crate::batch::{AccountBatch, add_up};
use crate::block::Logged;
use crate::journal::{Journal, Record};
use crate::sql::{self, SpanRow};
use crate::{Metering, sql::Counts};

/// The calls of one account that the database does not have, as the transaction of a report sees it.
pub(crate) struct Tail<'a> {
    journal: &'a Journal,
    /// Each with its number.
    metrics: Vec<u64>,
    records: Vec<Option<Record<'static>>>,
}

impl Metering {
    /// The tail for `account`. It comes before anything else that a report reads: what is counted between the two looks
    /// is then seen by one of them, and the position tells by which.
    pub(crate) async fn tail(&self, ctx: &mut Ctx, account: AccountId) -> Result<Tail<'_>, Problem> {
        let journal = self.journal()?;
        let from = self.metrics.counted();
        let read = journal.read_of(from, usize::MAX, Some(account));
        let counted = sql::journal_position(ctx.tx().await?, journal.id()).await?;
        let counted = counted.unwrap_or(from);
        let own = (from..).zip(read).filter(|(number, record)| *number >= counted && record.is_some());
        let (metrics, records) = own.unzip();
        Ok(Tail { journal, metrics, records })
    }
}

impl Tail<'_> {
    /// What the calls come to.
    pub(crate) fn batch(&self) -> AccountBatch<'_> {
        let (_, mut accounts) = add_up(&self.records, usize::MAX);
        accounts.pop_first().map(|(_, batch)| batch).unwrap_or_default()
    }

    /// The name of an operation in the batch.
    pub(crate) fn operation(&self, number: u16) -> &str {
        self.journal.names().operation(number)
    }

    /// The calls as the log shows them.
    pub(crate) fn requests(&self) -> impl Iterator<Item = Logged<'_>> {
        let (id, names) = (self.journal.id(), self.journal.names());
        let records = self.metrics.iter().zip(self.records.iter().flatten());
        records.map(move |(number, record)| Logged::new(record, id, *number, names))
    }

    /// By hour.
    pub(crate) fn by_hour(&self, from: Hour, until: Hour) -> Vec<SpanRow> {
        let hours = self.batch().hours.into_iter().filter(|(hour, _)| (from..until).contains(hour));
        hours.map(|(hour, counts)| span(hour.number(), String::new(), counts)).collect()
    }

    /// By day.
    pub(crate) fn by_day(&self, from: Day, until: Day) -> Vec<SpanRow> {
        let hours = self.by_hour(from.first_hour(), until.first_hour());
        let day = |row: SpanRow| SpanRow { number: Hour::from_number(row.number).day().number(), ..row };
        hours.into_iter().map(day).collect()
    }

    /// By day and operation.
    pub(crate) fn by_rpc(&self, from: Day, until: Day) -> Vec<SpanRow> {
        let days = self.batch().days.into_iter().filter(|((day, ..), _)| (from..until).contains(day));
        days.map(|((day, _, rpc), counts)| span(day.number(), self.operation(rpc).to_owned(), counts))
            .collect()
    }

    /// By day and key, API token or person.
    pub(crate) fn by_subject(&self, from: Day, until: Day) -> Vec<SpanRow> {
        let days = self.batch().days.into_iter().filter(|((day, ..), _)| (from..until).contains(day));
        days.map(|((day, subject, _), counts)| span(day.number(), subject.to_string(), counts)).collect()
    }

    /// Units used in a month.
    pub(crate) fn used(&self, month: Month) -> i64 {
        self.batch().units.get(&month).map_or(0, |(used, _)| *used)
    }
}

fn span(number: i64, part: String, counts: Counts) -> SpanRow {
    let Counts { calls, units, client_errors, platform_errors } = counts;
    SpanRow { number, part, calls, units, client_errors, platform_errors }
}

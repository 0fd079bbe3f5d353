//! Records that are in the journal of this server and not in the database yet, so that reports include them.

use portico_engine::Ctx;
use portico_kernel::{AccountId, Day, Hour, Month, Problem};

use crate::batch::{AccountBatch, aggregate};
use crate::block::LogEntry;
use crate::journal::{Journal, Record};
use crate::metering::journal_failure;
use crate::sql::{self, SpanRow};
use crate::{Metering, sql::Counts};

/// The records of one account that are not in the snapshot of the database that a report reads.
pub(crate) struct PendingRecords<'a> {
    journal: &'a Journal,
    /// The number of each record.
    numbers: Vec<u64>,
    records: Vec<Option<Record<'static>>>,
}

impl Metering {
    /// The pending records of `account`. A report calls this before it reads anything else: a record that is counted
    /// between the two reads is then in exactly one of them, and the journal's position says in which.
    pub(crate) async fn pending(
        &self,
        ctx: &mut Ctx,
        account: AccountId,
    ) -> Result<PendingRecords<'_>, Problem> {
        let journal = self.journal()?;
        // What cannot be recorded now is counted later.
        let _ = self.record_refusals();
        let from = self.metrics.counted();
        let read = journal.read_of(from, usize::MAX, Some(account)).map_err(journal_failure)?;
        let counted = sql::journal_position(ctx.tx().await?, journal.id()).await?;
        let counted = counted.unwrap_or(from);
        let own = (from..).zip(read).filter(|(number, record)| *number >= counted && record.is_some());
        let (numbers, records) = own.unzip();
        Ok(PendingRecords { journal, numbers, records })
    }
}

impl PendingRecords<'_> {
    /// What the calls come to.
    pub(crate) fn batch(&self) -> AccountBatch<'_> {
        let (_, mut accounts) = aggregate(&self.records, usize::MAX);
        accounts.pop_first().map(|(_, batch)| batch).unwrap_or_default()
    }

    /// The name of an operation in the batch.
    pub(crate) fn operation(&self, number: u16) -> &str {
        self.journal.names().operation(number)
    }

    /// The calls as the log shows them.
    pub(crate) fn requests(&self) -> impl Iterator<Item = LogEntry<'_>> {
        let (id, names) = (self.journal.id(), self.journal.names());
        let records = self.numbers.iter().zip(self.records.iter().flatten());
        let single = records.filter(|(_, record)| record.is_single());
        single.map(move |(number, record)| LogEntry::new(record, id, *number, names))
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

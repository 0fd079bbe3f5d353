//! Records of the journal, aggregated for the database.

use std::collections::BTreeMap;

use portico_kernel::{AccountId, Day, Histogram, Hour, Month};

use crate::journal::{Record, SubjectId};
use crate::latency;
use crate::sql::Counts;

/// The sums of one account's records.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AccountBatch<'a> {
    /// Units by month: all that were used, and of these what was leased.
    pub(crate) units: BTreeMap<Month, (i64, i64)>,
    pub(crate) hours: BTreeMap<Hour, Counts>,
    /// By day, subject and the journal's number of the operation.
    pub(crate) days: BTreeMap<(Day, SubjectId, u16), Counts>,
    pub(crate) months: BTreeMap<(Month, SubjectId, u16), MonthCounts>,
    /// The records, each with its index among all that were aggregated.
    pub(crate) records: Vec<(usize, &'a Record<'static>)>,
}

/// The sums of one subject and operation in a month.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MonthCounts {
    pub(crate) counts: Counts,
    pub(crate) tokens: i64,
    pub(crate) latency: Histogram,
}

impl Counts {
    fn add(&mut self, record: &Record<'_>) {
        let calls = record.calls();
        self.calls += calls;
        self.units += i64::from(record.units);
        self.client_errors += if (400..500).contains(&record.status) { calls } else { 0 };
        self.platform_errors += if record.status >= 500 { calls } else { 0 };
    }
}

impl<'a> AccountBatch<'a> {
    fn add(&mut self, index: usize, record: &'a Record<'static>) {
        let (units, subject, operation) = (i64::from(record.units), record.subject, record.operation);
        let (used, leased) = self.units.entry(record.month).or_default();
        *used += units;
        *leased += if record.leased { units } else { 0 };
        self.hours.entry(Hour::of(record.at)).or_default().add(record);
        self.days.entry((Day::of(record.at), subject, operation)).or_default().add(record);
        let month = self.months.entry((record.month, subject, operation)).or_default();
        month.counts.add(record);
        month.tokens += i64::from(record.tokens);
        if record.is_single() {
            latency::count(&mut month.latency, record.micros);
        }
        self.records.push((index, record));
    }
}

/// Aggregates records up to the first of the account after `accounts_max`; returns how many those are, and the sums of
/// each account.
pub(crate) fn aggregate<'a>(
    records: &'a [Option<Record<'static>>],
    accounts_max: usize,
) -> (usize, BTreeMap<AccountId, AccountBatch<'a>>) {
    let mut accounts: BTreeMap<AccountId, AccountBatch<'a>> = BTreeMap::new();
    for (at, record) in records.iter().enumerate() {
        // A record that does not parse was damaged on the disk; the others count.
        let Some(record) = record else { continue };
        if accounts.len() == accounts_max && !accounts.contains_key(&record.account) {
            return (at, accounts);
        }
        accounts.entry(record.account).or_default().add(at, record);
    }
    (records.len(), accounts)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::journal::any_record;

    proptest! {
        /// However the records are cut into batches, the same comes out.
        #[test]
        fn batches_add_up_to_the_whole(records in vec(any_record(), 1..40), accounts_max in 1usize..5) {
            // Few accounts, so that they meet again.
            let records: Vec<_> = records
                .into_iter()
                .map(|record| {
                    let account = AccountId::from_u128(record.account.as_u128() % 5);
                    Some(Record { account, units: record.units % 400, repeats: record.repeats % 9, ..record })
                })
                .collect();
            let (count, whole) = aggregate(&records, usize::MAX);
            prop_assert_eq!(count, records.len());
            let mut used = BTreeMap::new();
            let (mut at, mut calls) = (0, 0);
            while at < records.len() {
                let (count, some) = aggregate(&records[at..], accounts_max);
                prop_assert!(count > 0 && some.len() <= accounts_max);
                at += count;
                for (account, batch) in some {
                    for (month, (units, leased)) in batch.units {
                        let sum: &mut (i64, i64) = used.entry((account, month)).or_default();
                        *sum = (sum.0 + units, sum.1 + leased);
                    }
                    calls += batch.hours.values().map(|counts| counts.calls).sum::<i64>();
                }
            }
            let expected: BTreeMap<_, _> = whole
                .iter()
                .flat_map(|(account, batch)| batch.units.iter().map(|(month, sum)| ((*account, *month), *sum)))
                .collect();
            prop_assert_eq!(used, expected);
            prop_assert_eq!(calls, records.iter().flatten().map(Record::calls).sum::<i64>());
        }
    }
}

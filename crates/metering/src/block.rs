//! Blocks of the log of requests: many requests in one row.

use std::borrow::Cow;
use std::collections::BTreeMap;

use portico_kernel::{Entropy, RequestId, Timestamp};
use portico_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::journal::{NameTable, Record, SubjectId};
use crate::limits;
use crate::metering::new_name;
use crate::sql::BlockRow;

/// One request in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogEntry<'a> {
    pub(crate) at: i64,
    /// The journal that recorded it, and its number there: together they are unique.
    pub(crate) journal: &'a str,
    pub(crate) number: u64,
    pub(crate) id: LogEntryId<'a>,
    pub(crate) rpc: &'a str,
    pub(crate) subject: SubjectId,
    pub(crate) status: u16,
    pub(crate) code: &'a str,
    pub(crate) micros: u32,
    pub(crate) units: u32,
}

/// The id of a request: one that the platform made is stored as a number, one that the caller chose as its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LogEntryId<'a> {
    /// Ours.
    Own(u128),
    /// The caller's.
    Other(#[serde(borrow)] Cow<'a, str>),
}

impl std::fmt::Display for LogEntryId<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own(id) => RequestId::from_u128(*id).fmt(f),
            Self::Other(id) => f.write_str(id),
        }
    }
}

impl<'a> LogEntry<'a> {
    /// The request behind record `number` of a journal.
    pub(crate) fn new(
        record: &'a Record<'static>,
        journal: &'a str,
        number: u64,
        names: &'a NameTable,
    ) -> Self {
        let own = record.request_id.parse::<RequestId>();
        Self {
            at: record.at.as_micros(),
            journal,
            number,
            id: own.map_or_else(
                |_| LogEntryId::Other(Cow::Borrowed(&record.request_id)),
                |id| LogEntryId::Own(id.as_u128()),
            ),
            rpc: names.operation(record.operation),
            subject: record.subject,
            status: record.status,
            code: names.code(record.code),
            micros: record.micros,
            units: record.units,
        }
    }
}

/// A block as it is stored: a text that repeats is in its dictionary once.
#[derive(Serialize, Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    dictionary: Vec<Cow<'a, str>>,
    first_at: i64,
    entries: Vec<BlockEntry<'a>>,
}

/// An entry in which texts are indices of the dictionary, and times are relative to the block's first.
#[derive(Serialize, Deserialize)]
struct BlockEntry<'a> {
    after: u64,
    journal: u16,
    number: u64,
    #[serde(borrow)]
    id: LogEntryId<'a>,
    rpc: u16,
    subject: u16,
    status: u16,
    code: u16,
    micros: u32,
    units: u32,
}

/// Encodes these requests of one account into blocks.
pub(crate) fn encode(
    mut requests: Vec<LogEntry<'_>>,
    entropy: &dyn Entropy,
) -> Result<Vec<BlockRow>, StoreError> {
    requests.sort_by_key(|request| request.at);
    let mut blocks = Vec::new();
    let mut rest = &requests[..];
    while let Some(first) = rest.first() {
        let until = (Timestamp::from_micros(first.at) + limits::BLOCK_SPAN_MAX).as_micros();
        let count =
            rest.iter().take(limits::BLOCK_REQUESTS_MAX).take_while(|request| request.at < until).count();
        // A time at the end of the range still makes a block of its own.
        let (some, after) = rest.split_at(count.max(1));
        blocks.push(encode_block(some, entropy)?);
        rest = after;
    }
    Ok(blocks)
}

/// The texts of a block, each once.
#[derive(Default)]
struct Dictionary<'a> {
    texts: Vec<Cow<'a, str>>,
    subjects: BTreeMap<SubjectId, u16>,
}

impl<'a> Dictionary<'a> {
    fn add(&mut self, text: Cow<'a, str>) -> u16 {
        self.texts.push(text);
        u16::try_from(self.texts.len() - 1).unwrap_or(u16::MAX)
    }

    fn index(&mut self, text: &'a str) -> u16 {
        // There are few, and the last ones come again soonest.
        match self.texts.iter().rposition(|known| *known == text) {
            Some(at) => u16::try_from(at).unwrap_or(u16::MAX),
            None => self.add(Cow::Borrowed(text)),
        }
    }

    fn subject(&mut self, subject: SubjectId) -> u16 {
        if let Some(index) = self.subjects.get(&subject) {
            return *index;
        }
        let index = self.add(subject.to_string().into());
        self.subjects.insert(subject, index);
        index
    }
}

fn encode_block(requests: &[LogEntry<'_>], entropy: &dyn Entropy) -> Result<BlockRow, StoreError> {
    let first_at = requests.iter().map(|request| request.at).min().unwrap_or(0);
    let last_at = requests.iter().map(|request| request.at).max().unwrap_or(0);
    let mut dictionary = Dictionary::default();
    let entries = requests.iter().map(|request| BlockEntry {
        after: request.at.abs_diff(first_at),
        journal: dictionary.index(request.journal),
        number: request.number,
        id: request.id.clone(),
        rpc: dictionary.index(request.rpc),
        subject: dictionary.subject(request.subject),
        status: request.status,
        code: dictionary.index(request.code),
        micros: request.micros,
        units: request.units,
    });
    let entries = entries.collect();
    let block = Block { dictionary: dictionary.texts, first_at, entries };
    Ok(BlockRow {
        id: new_name(entropy, Timestamp::from_micros(last_at)),
        first_at: Timestamp::from_micros(first_at),
        last_at: Timestamp::from_micros(last_at),
        requests: i64::try_from(requests.len()).unwrap_or(i64::MAX),
        worst_status: requests.iter().map(|request| i64::from(request.status)).max().unwrap_or(0),
        body: postcard::to_allocvec(&block).map_err(damaged)?,
    })
}

/// A block that was read from the database.
pub(crate) struct BlockReader<'a> {
    block: Block<'a>,
    /// The texts of its dictionary that are subjects.
    subjects: Vec<Option<SubjectId>>,
}

impl<'a> BlockReader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Result<Self, StoreError> {
        let block: Block<'a> = postcard::from_bytes(body).map_err(damaged)?;
        let subjects = block.dictionary.iter().map(|text| SubjectId::parse(text)).collect();
        Ok(Self { block, subjects })
    }

    /// How many requests it has.
    pub(crate) fn len(&self) -> usize {
        self.block.entries.len()
    }

    /// Its requests, oldest first; those whose subject does not parse are left out.
    pub(crate) fn requests(&self) -> impl Iterator<Item = LogEntry<'_>> {
        let text = |at: u16| self.block.dictionary.get(usize::from(at)).map_or("", AsRef::as_ref);
        self.block.entries.iter().filter_map(move |entry| {
            Some(LogEntry {
                at: self.block.first_at.saturating_add_unsigned(entry.after),
                journal: text(entry.journal),
                number: entry.number,
                id: entry.id.clone(),
                rpc: text(entry.rpc),
                subject: (*self.subjects.get(usize::from(entry.subject))?)?,
                status: entry.status,
                code: text(entry.code),
                micros: entry.micros,
                units: entry.units,
            })
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` passes it")]
fn damaged(error: postcard::Error) -> StoreError {
    StoreError::fault(format!("a block of the log of requests: {error}"))
}

#[cfg(test)]
mod tests {
    use portico_kernel::SystemEntropy;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::journal::any_record;

    proptest! {
        #[test]
        fn what_is_encoded_reads_the_same(records in vec(any_record(), 1..60), own in any::<bool>()) {
            let names = NameTable {
                operations: vec!["a".to_owned(), "b".to_owned()],
                codes: vec!["c".to_owned()],
                ..NameTable::default()
            };
            let close = |(at, record): (usize, Record<'static>)| {
                let offset = i64::try_from(at).unwrap() * 17_000_000;
                let request_id =
                    if own { RequestId::from_u128(at as u128).to_string().into() } else { record.request_id.clone() };
                Record { at: Timestamp::from_micros(1_800_000_000_000_000 + offset), request_id, ..record }
            };
            let records: Vec<_> = records.into_iter().enumerate().map(close).collect();
            let entries: Vec<_> =
                (7..).zip(&records).map(|(number, record)| LogEntry::new(record, "j", number, &names)).collect();
            let blocks = encode(entries.clone(), &SystemEntropy).unwrap();
            let mut at = 0;
            for block in &blocks {
                prop_assert!(block.last_at.since(block.first_at) < limits::BLOCK_SPAN_MAX);
                let reader = BlockReader::new(&block.body).unwrap();
                let requests: Vec<_> = reader.requests().collect();
                prop_assert_eq!(requests[0].at, block.first_at.as_micros());
                prop_assert_eq!(requests.last().unwrap().at, block.last_at.as_micros());
                prop_assert_eq!(&requests[..], &entries[at..at + requests.len()]);
                prop_assert_eq!(requests[0].id.to_string(), records[at].request_id.as_ref());
                at += requests.len();
            }
            prop_assert_eq!(at, records.len());
        }

        #[test]
        fn no_bytes_make_it_fail(bytes in vec(any::<u8>(), 0..200)) {
            let _ = BlockReader::new(&bytes).map(|block| block.requests().count());
        }
    }
}

//! LengthPrefixedHash of the log of requests: many requests in one row.

use std::borrow::Cow;
use std::collections::BTreeMap;

use portico_kernel::{Entropy, RequestId, Timestamp};
use portico_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::journal::{Names, Record, SubjectId};
use crate::limits;
use crate::metering::new_name;
use crate::sql::BlockRow;

/// A request as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Logged<'a> {
    pub(crate) at: i64,
    /// The journal that it was in, and its number there: no other request has both.
    pub(crate) journal: &'a str,
    pub(crate) number: u64,
    pub(crate) id: LoggedId<'a>,
    pub(crate) rpc: &'a str,
    pub(crate) subject: SubjectId,
    pub(crate) status: u16,
    pub(crate) code: &'a str,
    pub(crate) micros: u32,
    pub(crate) units: u32,
}

/// The id of a request: one of ours is a number, a caller's own is whatever it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LoggedId<'a> {
    /// Ours.
    Own(u128),
    /// The caller's.
    Other(#[serde(borrow)] Cow<'a, str>),
}

impl std::fmt::Display for LoggedId<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own(id) => RequestId::from_u128(*id).fmt(f),
            Self::Other(id) => f.write_str(id),
        }
    }
}

impl<'a> Logged<'a> {
    /// The request behind record `number` of a journal.
    pub(crate) fn new(record: &'a Record<'static>, journal: &'a str, number: u64, names: &'a Names) -> Self {
        let own = record.request_id.parse::<RequestId>();
        Self {
            at: record.at.as_micros(),
            journal,
            number,
            id: own.map_or_else(
                |_| LoggedId::Other(Cow::Borrowed(&record.request_id)),
                |id| LoggedId::Own(id.as_u128()),
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

/// A piece as it is kept: what repeats stands in it once.
#[derive(Serialize, Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    words: Vec<Cow<'a, str>>,
    first_at: i64,
    requests: Vec<Packed<'a>>,
}

/// A request in which words are metrics, and times are counted from the piece's first.
#[derive(Serialize, Deserialize)]
struct Packed<'a> {
    after: u64,
    journal: u16,
    number: u64,
    #[serde(borrow)]
    id: LoggedId<'a>,
    rpc: u16,
    subject: u16,
    status: u16,
    code: u16,
    micros: u32,
    units: u32,
}

/// LengthPrefixedHash of these requests of one account.
pub(crate) fn pack(
    mut requests: Vec<Logged<'_>>,
    entropy: &dyn Entropy,
) -> Result<Vec<BlockRow>, StoreError> {
    requests.sort_by_key(|request| request.at);
    let mut blocks = Vec::new();
    let mut rest = &requests[..];
    while let Some(first) = rest.first() {
        let until = (Timestamp::from_micros(first.at) + limits::BLOCK_SPAN_MAX).as_micros();
        let count =
            rest.iter().take(limits::BLOCK_REQUESTS_MAX).take_while(|request| request.at < until).count();
        // A time beyond all others still makes a piece of its own.
        let (some, after) = rest.split_at(count.max(1));
        blocks.push(pack_one(some, entropy)?);
        rest = after;
    }
    Ok(blocks)
}

/// The words of a piece, each once.
#[derive(Default)]
struct Words<'a> {
    words: Vec<Cow<'a, str>>,
    subjects: BTreeMap<SubjectId, u16>,
}

impl<'a> Words<'a> {
    fn add(&mut self, word: Cow<'a, str>) -> u16 {
        self.words.push(word);
        u16::try_from(self.words.len() - 1).unwrap_or(u16::MAX)
    }

    fn number(&mut self, word: &'a str) -> u16 {
        // There are few, and the last ones come again soonest.
        match self.words.iter().rposition(|known| *known == word) {
            Some(at) => u16::try_from(at).unwrap_or(u16::MAX),
            None => self.add(Cow::Borrowed(word)),
        }
    }

    fn subject(&mut self, subject: SubjectId) -> u16 {
        if let Some(number) = self.subjects.get(&subject) {
            return *number;
        }
        let number = self.add(subject.to_string().into());
        self.subjects.insert(subject, number);
        number
    }
}

fn pack_one(requests: &[Logged<'_>], entropy: &dyn Entropy) -> Result<BlockRow, StoreError> {
    let first_at = requests.iter().map(|request| request.at).min().unwrap_or(0);
    let last_at = requests.iter().map(|request| request.at).max().unwrap_or(0);
    let mut words = Words::default();
    let packed = requests.iter().map(|request| Packed {
        after: request.at.abs_diff(first_at),
        journal: words.number(request.journal),
        number: request.number,
        id: request.id.clone(),
        rpc: words.number(request.rpc),
        subject: words.subject(request.subject),
        status: request.status,
        code: words.number(request.code),
        micros: request.micros,
        units: request.units,
    });
    let packed = packed.collect();
    let block = Block { words: words.words, first_at, requests: packed };
    Ok(BlockRow {
        id: new_name(entropy, Timestamp::from_micros(last_at)),
        first_at: Timestamp::from_micros(first_at),
        last_at: Timestamp::from_micros(last_at),
        requests: i64::try_from(requests.len()).unwrap_or(i64::MAX),
        worst_status: requests.iter().map(|request| i64::from(request.status)).max().unwrap_or(0),
        body: postcard::to_allocvec(&block).map_err(damaged)?,
    })
}

/// A piece that was read.
pub(crate) struct Unpacked<'a> {
    block: Block<'a>,
    /// Those of its words that are subjects.
    subjects: Vec<Option<SubjectId>>,
}

impl<'a> Unpacked<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Result<Self, StoreError> {
        let block: Block<'a> = postcard::from_bytes(body).map_err(damaged)?;
        let subjects = block.words.iter().map(|word| SubjectId::parse(word)).collect();
        Ok(Self { block, subjects })
    }

    /// How many requests it has.
    pub(crate) fn len(&self) -> usize {
        self.block.requests.len()
    }

    /// Its requests, oldest first; those whose subject does not read are left out.
    pub(crate) fn requests(&self) -> impl Iterator<Item = Logged<'_>> {
        let word = |at: u16| self.block.words.get(usize::from(at)).map_or("", AsRef::as_ref);
        self.block.requests.iter().filter_map(move |packed| {
            Some(Logged {
                at: self.block.first_at.saturating_add_unsigned(packed.after),
                journal: word(packed.journal),
                number: packed.number,
                id: packed.id.clone(),
                rpc: word(packed.rpc),
                subject: (*self.subjects.get(usize::from(packed.subject))?)?,
                status: packed.status,
                code: word(packed.code),
                micros: packed.micros,
                units: packed.units,
            })
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` passes it")]
fn damaged(error: postcard::Error) -> StoreError {
    StoreError::fault(format!("a piece of the log of requests: {error}"))
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
        fn what_is_packed_unpacks_the_same(records in vec(any_record(), 1..60), own in any::<bool>()) {
            let names = Names {
                operations: vec!["a".to_owned(), "b".to_owned()],
                codes: vec!["c".to_owned()],
                database: String::new(),
            };
            let close = |(at, record): (usize, Record<'static>)| {
                let offset = i64::try_from(at).unwrap() * 17_000_000;
                let request_id =
                    if own { RequestId::from_u128(at as u128).to_string().into() } else { record.request_id.clone() };
                Record { at: Timestamp::from_micros(1_800_000_000_000_000 + offset), request_id, ..record }
            };
            let records: Vec<_> = records.into_iter().enumerate().map(close).collect();
            let logged: Vec<_> =
                (7..).zip(&records).map(|(number, record)| Logged::new(record, "j", number, &names)).collect();
            let blocks = pack(logged.clone(), &SystemEntropy).unwrap();
            let mut at = 0;
            for block in &blocks {
                prop_assert!(block.last_at.since(block.first_at) < limits::BLOCK_SPAN_MAX);
                let unpacked = Unpacked::new(&block.body).unwrap();
                let requests: Vec<_> = unpacked.requests().collect();
                prop_assert_eq!(requests[0].at, block.first_at.as_micros());
                prop_assert_eq!(requests.last().unwrap().at, block.last_at.as_micros());
                prop_assert_eq!(&requests[..], &logged[at..at + requests.len()]);
                prop_assert_eq!(requests[0].id.to_string(), records[at].request_id.as_ref());
                at += requests.len();
            }
            prop_assert_eq!(at, records.len());
        }

        #[test]
        fn no_bytes_make_it_fail(bytes in vec(any::<u8>(), 0..200)) {
            let _ = Unpacked::new(&bytes).map(|block| block.requests().count());
        }
    }
}

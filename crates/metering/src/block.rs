//! Pieces of the log of requests: many requests in one row.

use portico_kernel::{Entropy, RequestId, Timestamp};
use portico_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::journal::{Names, Record};
use crate::limits;
use crate::sql::NewBlock;

/// A request as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Logged {
    pub(crate) at: i64,
    pub(crate) request_id: String,
    pub(crate) rpc: String,
    pub(crate) subject: String,
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) micros: u32,
    pub(crate) units: u32,
}

/// A piece as it is kept: what repeats stands in it once.
#[derive(Serialize, Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    words: Vec<&'a str>,
    first_at: i64,
    requests: Vec<Packed<'a>>,
}

/// A request in which words are numbers, and times are counted from the piece's first.
#[derive(Serialize, Deserialize)]
struct Packed<'a> {
    after: u64,
    /// Our own ids are numbers too.
    own_id: Option<u128>,
    other_id: &'a str,
    rpc: u16,
    subject: u16,
    status: u16,
    code: u16,
    micros: u32,
    units: u32,
}

/// Pieces of these records of one account, oldest first.
pub(crate) fn pack(
    records: &[&Record<'static>],
    names: &Names,
    entropy: &dyn Entropy,
) -> Result<Vec<NewBlock>, StoreError> {
    let mut records = records.to_vec();
    records.sort_by_key(|record| record.at);
    let mut blocks = Vec::new();
    let mut rest = &records[..];
    while let Some(first) = rest.first() {
        let until = first.at + limits::BLOCK_SPAN_MAX;
        let count =
            rest.iter().take(limits::BLOCK_REQUESTS_MAX).take_while(|record| record.at < until).count();
        let (some, after) = rest.split_at(count);
        blocks.push(pack_one(some, names, entropy)?);
        rest = after;
    }
    Ok(blocks)
}

fn pack_one(
    records: &[&Record<'static>],
    names: &Names,
    entropy: &dyn Entropy,
) -> Result<NewBlock, StoreError> {
    let subjects: Vec<_> = records.iter().map(|record| record.subject.to_string()).collect();
    let times = records.iter().map(|record| record.at);
    let (first_at, last_at) = (times.clone().min(), times.max());
    let first_at = first_at.unwrap_or(Timestamp::from_micros(0));
    let mut words: Vec<&str> = Vec::new();
    let mut number = |word| {
        let at = words.iter().position(|known| *known == word).unwrap_or_else(|| {
            words.push(word);
            words.len() - 1
        });
        u16::try_from(at).unwrap_or(u16::MAX)
    };
    let requests = records.iter().zip(&subjects).map(|(record, subject)| {
        let own_id = record.request_id.parse::<RequestId>().ok().map(RequestId::as_u128);
        Packed {
            after: u64::try_from(record.at.since(first_at).as_micros()).unwrap_or(u64::MAX),
            other_id: if own_id.is_some() { "" } else { &record.request_id },
            own_id,
            rpc: number(names.operation(record.operation)),
            subject: number(subject),
            status: record.status,
            code: number(names.code(record.code)),
            micros: record.micros,
            units: record.units,
        }
    });
    let requests = requests.collect();
    let block = Block { words, first_at: first_at.as_micros(), requests };
    let last_at = last_at.unwrap_or(first_at);
    let id: RequestId = entropy.id(last_at);
    Ok(NewBlock {
        id: id.to_string().split_off(4),
        first_at,
        last_at,
        worst_status: records.iter().map(|record| i64::from(record.status)).max().unwrap_or(0),
        body: postcard::to_allocvec(&block).map_err(damaged)?,
    })
}

/// The requests of a piece, oldest first.
pub(crate) fn unpack(body: &[u8]) -> Result<Vec<Logged>, StoreError> {
    let block: Block<'_> = postcard::from_bytes(body).map_err(damaged)?;
    let word = |at: u16| block.words.get(usize::from(at)).copied().unwrap_or_default().to_owned();
    let request = |packed: &Packed<'_>| Logged {
        at: block.first_at.saturating_add_unsigned(packed.after),
        request_id: packed
            .own_id
            .map_or_else(|| packed.other_id.to_owned(), |id| RequestId::from_u128(id).to_string()),
        rpc: word(packed.rpc),
        subject: word(packed.subject),
        status: packed.status,
        code: word(packed.code),
        micros: packed.micros,
        units: packed.units,
    };
    Ok(block.requests.iter().map(request).collect())
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
            let names = Names { operations: vec!["a".to_owned(), "b".to_owned()], codes: vec!["c".to_owned()] };
            let close = |(at, record): (usize, Record<'static>)| {
                let offset = i64::try_from(at).unwrap() * 1_700_000;
                let request_id = if own {
                    RequestId::from_u128(at as u128).to_string().into()
                } else {
                    record.request_id.clone()
                };
                Record { at: Timestamp::from_micros(1_800_000_000_000_000 + offset), request_id, ..record }
            };
            let records: Vec<_> = records.into_iter().enumerate().map(close).collect();
            let refs: Vec<_> = records.iter().collect();
            let blocks = pack(&refs, &names, &SystemEntropy).unwrap();
            let mut unpacked = Vec::new();
            for block in &blocks {
                prop_assert!(block.last_at.since(block.first_at) < limits::BLOCK_SPAN_MAX);
                let requests = unpack(&block.body).unwrap();
                prop_assert_eq!(requests[0].at, block.first_at.as_micros());
                prop_assert_eq!(requests.last().unwrap().at, block.last_at.as_micros());
                unpacked.extend(requests);
            }
            prop_assert_eq!(unpacked.len(), records.len());
            for (logged, record) in unpacked.iter().zip(&records) {
                prop_assert_eq!(&logged.request_id, &record.request_id);
                prop_assert_eq!(&logged.subject, &record.subject.to_string());
                prop_assert_eq!(logged.rpc.as_str(), names.operation(record.operation));
                prop_assert_eq!((logged.at, logged.micros), (record.at.as_micros(), record.micros));
            }
        }
    }
}

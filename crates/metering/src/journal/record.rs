//! One call as the journal keeps it: 32 words, so that no record lies across two blocks of a disk.

use std::borrow::Cow;

use portico_engine::LengthPrefixedHash;
use portico_kernel::{AccountId, Id, KeyId, Month, PersonId, ServiceId, Timestamp, TokenId};

/// The words of a record.
pub(crate) const WORDS: usize = 32;
/// The word that the others add up to.
const SUM: usize = WORDS - 1;
/// Where the id of the request begins.
const REQUEST_ID: usize = 9;
/// How many refusals the record stands for, behind the longest id; 0 for one call.
const REPEATS: usize = 25;
/// The longest id of a request.
pub(crate) const REQUEST_ID_BYTES_MAX: usize = 128;

/// The key, API token or person that calls are counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SubjectId {
    /// An API key.
    Key(KeyId),
    /// An API token.
    Token(TokenId),
    /// A person, by themselves or through an app.
    Person(PersonId),
    /// A service: whatever it calls, and what it reports of an account without naming a key.
    Service(ServiceId),
}

impl SubjectId {
    /// The subject of a caller; `None` for the platform itself.
    pub(crate) fn parse(subject: &str) -> Option<Self> {
        match subject.get(..4)? {
            "key_" => subject.parse().ok().map(Self::Key),
            "tok_" => subject.parse().ok().map(Self::Token),
            "usr_" => subject.parse().ok().map(Self::Person),
            "svc_" => subject.parse().ok().map(Self::Service),
            _ => None,
        }
    }

    /// The service of that name, whose id is made of it.
    pub(crate) fn of_service(name: &str) -> Self {
        let mut hash = LengthPrefixedHash::default();
        hash.add(b's', name.as_bytes());
        let number = hash.finish().iter().take(16).fold(0, |all, byte| (all << 8) | u128::from(*byte));
        Self::Service(Id::from_u128(number))
    }

    /// Is it a service?
    pub(crate) fn is_service(self) -> bool {
        matches!(self, Self::Service(_))
    }

    /// Is it a person, and not a key or an API token?
    pub(crate) fn is_person(self) -> bool {
        matches!(self, Self::Person(_))
    }

    fn parts(self) -> (u8, u128) {
        match self {
            Self::Key(id) => (1, id.as_u128()),
            Self::Token(id) => (2, id.as_u128()),
            Self::Person(id) => (3, id.as_u128()),
            Self::Service(id) => (4, id.as_u128()),
        }
    }

    fn from_parts(kind: u8, id: u128) -> Option<Self> {
        match kind {
            1 => Some(Self::Key(Id::from_u128(id))),
            2 => Some(Self::Token(Id::from_u128(id))),
            3 => Some(Self::Person(Id::from_u128(id))),
            4 => Some(Self::Service(Id::from_u128(id))),
            _ => None,
        }
    }
}

impl std::fmt::Display for SubjectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(id) => id.fmt(f),
            Self::Token(id) => id.fmt(f),
            Self::Person(id) => id.fmt(f),
            Self::Service(id) => id.fmt(f),
        }
    }
}

/// One call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// When it came.
    pub(crate) at: Timestamp,
    /// The account it counts against.
    pub(crate) account: AccountId,
    /// Who made it.
    pub(crate) subject: SubjectId,
    /// The operation, as a number in the journal's list of names.
    pub(crate) operation: u16,
    /// The status of the answer.
    pub(crate) status: u16,
    /// The code of a refusal, as a number in the journal's list of names; 0 for none.
    pub(crate) code: u8,
    /// Were the units taken from the lease, and not beyond it?
    pub(crate) leased: bool,
    /// How long it took.
    pub(crate) micros: u32,
    /// What it cost.
    pub(crate) units: u32,
    /// The tokens of a model that it used.
    pub(crate) tokens: u32,
    /// The month whose units it used: the one in which it came.
    pub(crate) month: Month,
    /// How many refusals the record stands for, when these were not recorded by themselves; 0 for one call.
    pub(crate) repeats: u32,
    /// The id of the request.
    pub(crate) request_id: Cow<'a, str>,
}

fn halves(id: u128) -> [u64; 2] {
    let bytes = id.to_be_bytes();
    let (high, low) = bytes.split_at(8);
    [high, low].map(|half| half.iter().fold(0, |all, byte| (all << 8) | u64::from(*byte)))
}

fn whole(high: u64, low: u64) -> u128 {
    (u128::from(high) << 64) | u128::from(low)
}

/// A sum that tells a record from what a failing disk makes of one.
fn add(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

/// The `count` bytes of `word` from byte `from` on, as a number.
fn piece(word: u64, from: u32, count: u32) -> u64 {
    (word >> (from * 8)) & (u64::MAX >> (64 - count * 8))
}

impl Record<'_> {
    /// Writes the words of the record, all but the first, which says that it is whole.
    pub(crate) fn write(&self, mut into: impl FnMut(usize, u64)) {
        let mut sum = 0;
        let mut store = |at: usize, word: u64| {
            sum = add(sum, word);
            into(at, word);
        };
        let (kind, subject) = self.subject.parts();
        let ([account_high, account_low], [subject_high, subject_low]) =
            (halves(self.account.as_u128()), halves(subject));
        let id = self.request_id.as_bytes();
        let id = &id[..id.len().min(REQUEST_ID_BYTES_MAX)];
        let facts = u64::from(self.operation)
            | u64::from(self.status) << 16
            | u64::from(self.code) << 32
            | u64::from(kind) << 40
            | u64::from(self.leased) << 48
            | (id.len() as u64) << 56;
        let words = [
            self.at.as_micros().cast_unsigned(),
            account_high,
            account_low,
            subject_high,
            subject_low,
            facts,
            u64::from(self.micros) | u64::from(self.units) << 32,
            u64::from(self.tokens) | u64::from(self.month.number()) << 32,
        ];
        for (at, word) in (1..).zip(words) {
            store(at, word);
        }
        for (at, bytes) in (REQUEST_ID..).zip(id.chunks(8)) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            store(at, u64::from_le_bytes(word));
        }
        // Left out where it is 0, as in the records of programs that did not know it.
        if self.repeats > 0 {
            store(REPEATS, self.repeats.into());
        }
        into(SUM, sum);
    }

    /// How many calls it stands for.
    pub(crate) fn calls(&self) -> i64 {
        self.repeats.max(1).into()
    }

    /// Is it a call by itself, with an id and a time that it took?
    pub(crate) fn is_single(&self) -> bool {
        self.repeats == 0
    }
}

impl Record<'static> {
    /// The account of a record, without reading the rest.
    pub(crate) fn account(word: impl Fn(usize) -> u64) -> AccountId {
        Id::from_u128(whole(word(2), word(3)))
    }

    /// Reads the words of a record; `None` when they are not one.
    pub(crate) fn read(word: impl Fn(usize) -> u64) -> Option<Self> {
        let facts = word(6);
        let length = usize::try_from(piece(facts, 7, 1)).ok()?;
        if length > REQUEST_ID_BYTES_MAX {
            return None;
        }
        let repeats = word(REPEATS);
        let words = (1..REQUEST_ID + length.div_ceil(8)).chain((repeats > 0).then_some(REPEATS));
        let written = words.fold(0, |sum, at| add(sum, word(at)));
        if written != word(SUM) {
            return None;
        }
        let mut id: Vec<u8> =
            (0..length.div_ceil(8)).flat_map(|at| word(REQUEST_ID + at).to_le_bytes()).collect();
        id.truncate(length);
        let kind = u8::try_from(piece(facts, 5, 1)).ok()?;
        Some(Self {
            at: Timestamp::from_micros(word(1).cast_signed()),
            account: Self::account(&word),
            subject: SubjectId::from_parts(kind, whole(word(4), word(5)))?,
            operation: u16::try_from(piece(facts, 0, 2)).ok()?,
            status: u16::try_from(piece(facts, 2, 2)).ok()?,
            code: u8::try_from(piece(facts, 4, 1)).ok()?,
            leased: piece(facts, 6, 1) == 1,
            micros: u32::try_from(piece(word(7), 0, 4)).ok()?,
            units: u32::try_from(piece(word(7), 4, 4)).ok()?,
            tokens: u32::try_from(piece(word(8), 0, 4)).ok()?,
            month: Month::from_number(u32::try_from(piece(word(8), 4, 4)).ok()?)?,
            repeats: u32::try_from(repeats).ok()?,
            request_id: String::from_utf8(id).ok()?.into(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        pub(crate) fn any_record()(
            seconds in 0i64..4_000_000_000,
            account in 0u128..1 << 120,
            (kind, subject) in (1u8..=3, 0u128..1 << 120),
            (operation, status, code, leased) in (any::<u16>(), any::<u16>(), any::<u8>(), any::<bool>()),
            (micros, units, tokens) in (any::<u32>(), any::<u32>(), any::<u32>()),
            repeats in prop_oneof![Just(0), any::<u32>()],
            request_id in "[!-~]{1,128}",
        ) -> Record<'static> {
            let at = Timestamp::from_seconds(seconds);
            Record {
                at, operation, status, code, leased, micros, units, tokens, repeats,
                account: Id::from_u128(account),
                subject: SubjectId::from_parts(kind, subject).unwrap(),
                month: Month::of(at),
                request_id: request_id.into(),
            }
        }
    }

    proptest! {
        #[test]
        fn a_record_reads_as_it_was_written(record in any_record()) {
            let mut words = [0; WORDS];
            record.write(|at, word| words[at] = word);
            prop_assert_eq!(words[0], 0, "the first word is not the record's");
            prop_assert_eq!(Record::read(|at| words[at]), Some(record));
        }

        #[test]
        fn a_damaged_record_is_none(record in any_record(), at in 1usize..9, bit in 0u32..64) {
            let mut words = [0; WORDS];
            record.write(|at, word| words[at] = word);
            words[at] ^= 1 << bit;
            prop_assert_eq!(Record::read(|at| words[at]), None);
        }

        #[test]
        fn no_words_make_it_fail(words in any::<[u64; WORDS]>()) {
            let _ = Record::read(|at| words[at]);
        }
    }
}

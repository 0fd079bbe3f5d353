//! A segment of the journal: one file with a fixed number of records.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use portico_kernel::AccountId;

use super::mapping::Mapping;
use super::record::{Record, WORDS};

/// The records of a segment: 4 MiB.
pub(crate) const RECORDS: usize = 16_384;
const RECORD_BYTES: usize = WORDS * size_of::<u64>();

/// A segment that is written.
pub(crate) struct Segment {
    /// The number of its first record in the journal.
    pub(crate) first: u64,
    path: PathBuf,
    mapping: Mapping,
    /// The next free slot; it grows past the end when the segment is full.
    next: AtomicUsize,
}

impl Segment {
    /// Creates the file at its full size: a full disk must fail here.
    pub(crate) fn create(path: PathBuf, first: u64) -> io::Result<Self> {
        let create = || {
            // Somebody may have removed the folder.
            path.parent().map_or(Ok(()), super::make_folder)?;
            let mut file = super::private().read(true).write(true).create_new(true).open(&path)?;
            let zeros = vec![0; 64 * RECORD_BYTES];
            for _ in 0..RECORDS / 64 {
                file.write_all(&zeros)?;
            }
            Mapping::new(&file)
        };
        match create() {
            Ok(mapping) => Ok(Self { first, path, mapping, next: AtomicUsize::new(0) }),
            Err(error) => {
                // A partial file would be in the way of the next try.
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Appends the record; returns its number, `None` when the segment is full.
    pub(crate) fn append(&self, record: &Record<'_>) -> Option<u64> {
        let slot = self.next.fetch_add(1, Ordering::Relaxed);
        if slot >= RECORDS {
            return None;
        }
        let words = &self.mapping.words()[slot * WORDS..(slot + 1) * WORDS];
        record.write(|at, word| words[at].store(word, Ordering::Relaxed));
        let number = self.first + slot as u64;
        // The record exists from this store on: whole, for every thread and after a crash.
        words[0].store(number + 1, Ordering::Release);
        Some(number)
    }

    /// How many slots are free.
    pub(crate) fn free(&self) -> usize {
        RECORDS.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// The number after its last record, when it is full.
    pub(crate) fn end(&self) -> u64 {
        self.first + RECORDS as u64
    }

    /// Up to `limit` records from number `from` on, up to the first that is not written yet; `None` stands for a record
    /// of another account, if one is given, or one that does not parse.
    pub(crate) fn read(
        &self,
        from: u64,
        limit: usize,
        account: Option<AccountId>,
    ) -> Vec<Option<Record<'static>>> {
        let word = |at: usize| self.mapping.words()[at].load(Ordering::Acquire);
        let there = |slot: &usize| word(slot * WORDS) == self.first + *slot as u64 + 1;
        let slots = slots(from, self.first).take(limit).take_while(there);
        slots.map(|slot| read_if(account, |at| word(slot * WORDS + at))).collect()
    }

    pub(crate) fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, "Failed to remove a counted journal segment");
        }
    }
}

fn read_if(account: Option<AccountId>, word: impl Fn(usize) -> u64) -> Option<Record<'static>> {
    let wanted = account.is_none_or(|account| Record::account(&word) == account);
    wanted.then(|| Record::read(word)).flatten()
}

/// The slots of a dead process's segment, from number `from` on. A slot whose writer died is `None`, and those after it
/// may hold records.
pub(crate) fn read_file(path: &Path, first: u64, from: u64) -> io::Result<Vec<Option<Record<'static>>>> {
    let bytes = fs::read(path)?;
    let word = |at: usize| {
        let bytes = bytes.get(at * 8..at * 8 + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    let record = |slot: usize| {
        let there = word(slot * WORDS) == first + slot as u64 + 1;
        there.then(|| Record::read(|at| word(slot * WORDS + at))).flatten()
    };
    Ok(slots(from, first).map(record).collect())
}

/// The slots from number `from` on.
fn slots(from: u64, first: u64) -> std::ops::Range<usize> {
    usize::try_from(from.saturating_sub(first)).unwrap_or(RECORDS)..RECORDS
}

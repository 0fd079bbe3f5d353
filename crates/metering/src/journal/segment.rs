//! A piece of the journal: one file of so many records.

use std::fs::{self, File};
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
    /// The next free place; it runs past the end when the segment is full.
    next: AtomicUsize,
}

impl Segment {
    /// Makes the file, all of it: a disk that is full must say so here.
    pub(crate) fn create(path: PathBuf, first: u64) -> io::Result<Self> {
        let made = || {
            // Somebody may have removed the folder.
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
            let zeros = vec![0; 64 * RECORD_BYTES];
            for _ in 0..RECORDS / 64 {
                file.write_all(&zeros)?;
            }
            Mapping::new(&file)
        };
        match made() {
            Ok(mapping) => Ok(Self { first, path, mapping, next: AtomicUsize::new(0) }),
            Err(error) => {
                // What there was room for would be in the way of the next try.
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Keeps the record; answers its number, or nothing when the segment is full.
    pub(crate) fn append(&self, record: &Record<'_>) -> Option<u64> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        if place >= RECORDS {
            return None;
        }
        let words = &self.mapping.words()[place * WORDS..(place + 1) * WORDS];
        record.write(|at, word| words[at].store(word, Ordering::Relaxed));
        let number = self.first + place as u64;
        // With this word, and not before, the record is there; it is there whole, for every thread and after a crash.
        words[0].store(number + 1, Ordering::Release);
        Some(number)
    }

    /// How many records it still takes.
    pub(crate) fn left(&self) -> usize {
        RECORDS.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// The number after its last record, when it is full.
    pub(crate) fn end(&self) -> u64 {
        self.first + RECORDS as u64
    }

    /// The records from number `from` on, up to the first that is not there yet; those of other accounts than `of` are
    /// nothing.
    pub(crate) fn read(&self, from: u64, most: usize, of: Option<AccountId>) -> Vec<Option<Record<'static>>> {
        let word = |at: usize| self.mapping.words()[at].load(Ordering::Acquire);
        let there = |place: &usize| word(place * WORDS) == self.first + *place as u64 + 1;
        let places = places(from, self.first).take(most).take_while(there);
        places.map(|place| read_if(of, |at| word(place * WORDS + at))).collect()
    }

    pub(crate) fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, "A part of the journal that is counted could not be removed");
        }
    }
}

fn read_if(of: Option<AccountId>, word: impl Fn(usize) -> u64) -> Option<Record<'static>> {
    let wanted = of.is_none_or(|account| Record::account(&word) == account);
    wanted.then(|| Record::read(word)).flatten()
}

/// The places of a segment that nobody writes any more, from number `from` on. A place whose writer died is empty, and
/// others behind it may be filled.
pub(crate) fn read_file(path: &Path, first: u64, from: u64) -> io::Result<Vec<Option<Record<'static>>>> {
    let bytes = fs::read(path)?;
    let word = |at: usize| {
        let bytes = bytes.get(at * 8..at * 8 + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    let record = |place: usize| {
        let there = word(place * WORDS) == first + place as u64 + 1;
        there.then(|| Record::read(|at| word(place * WORDS + at))).flatten()
    };
    Ok(places(from, first).map(record).collect())
}

/// The places from number `from` on.
fn places(from: u64, first: u64) -> std::ops::Range<usize> {
    usize::try_from(from.saturating_sub(first)).unwrap_or(RECORDS)..RECORDS
}

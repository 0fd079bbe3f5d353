//! A segment of the journal: one file with a fixed number of records.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use portico_kernel::AccountId;

use super::record::{Record, WORDS};

/// The records of a segment: 4 MiB.
pub(crate) const RECORDS: usize = 16_384;
const RECORD_BYTES: usize = WORDS * size_of::<u64>();

/// A segment that is written.
pub(crate) struct Segment {
    /// The number of its first record in the journal.
    pub(crate) first: u64,
    path: PathBuf,
    file: File,
    /// The next free slot; it grows past the end when the segment is full.
    next: AtomicUsize,
    /// A bit for each slot whose writer is done with it. The file alone does not tell: what is read while it is written may
    /// be half of a record.
    done: [AtomicU64; RECORDS / 64],
}

impl Segment {
    /// Creates the file at its full size: a full disk must fail here.
    pub(crate) fn create(path: PathBuf, first: u64) -> io::Result<Self> {
        let create = || {
            // Somebody may have removed the folder.
            path.parent().map_or(Ok(()), super::make_folder)?;
            let mut file = super::create_file(&path)?;
            let zeros = vec![0; 64 * RECORD_BYTES];
            for _ in 0..RECORDS / 64 {
                file.write_all(&zeros)?;
            }
            Ok(file)
        };
        match create() {
            Ok(file) => {
                let done = [const { AtomicU64::new(0) }; RECORDS / 64];
                Ok(Self { first, path, file, next: AtomicUsize::new(0), done })
            }
            Err(error) => {
                // A partial file would be in the way of the next try.
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Appends the record; returns its number, `None` when the segment is full.
    pub(crate) fn append(&self, record: &Record<'_>) -> io::Result<Option<u64>> {
        let slot = self.next.fetch_add(1, Ordering::Relaxed);
        if slot >= RECORDS {
            return Ok(None);
        }
        let number = self.first + slot as u64;
        let mut bytes = [0; RECORD_BYTES];
        let mut put = |at: usize, word: u64| bytes[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
        record.write(&mut put);
        // Says that the record is there, and which it is.
        put(0, number + 1);
        // From this write on the kernel has it, whatever happens to the process.
        let written = self.file.write_all_at(&bytes, offset(slot));
        // Where it failed too: those behind it must not wait for it.
        self.done[slot / 64].fetch_or(1 << (slot % 64), Ordering::Release);
        written.map(|()| Some(number))
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
    /// of another account, if one is given, or one that is not there or does not parse.
    pub(crate) fn read(
        &self,
        from: u64,
        limit: usize,
        account: Option<AccountId>,
    ) -> io::Result<Vec<Option<Record<'static>>>> {
        let is_done = |slot: &usize| self.done[slot / 64].load(Ordering::Acquire) >> (slot % 64) & 1 == 1;
        let slots = slots(from, self.first);
        let (start, count) = (slots.start, slots.take(limit).take_while(is_done).count());
        let bytes = read_at(&self.file, offset(start), count * RECORD_BYTES)?;
        Ok(records(&bytes, self.first + start as u64, count, account))
    }

    pub(crate) fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, "Failed to remove a counted journal segment");
        }
    }
}

/// The slots of a dead process's segment, from number `from` on. A slot whose writer died is `None`, and those after it
/// may hold records.
pub(crate) fn read_file(path: &Path, first: u64, from: u64) -> io::Result<Vec<Option<Record<'static>>>> {
    let file = File::open(path)?;
    if file.metadata()?.len() < offset(RECORDS) {
        let segment = path.display();
        tracing::warn!(%segment, "Journal segment is shorter than it is made: its server died just then, or somebody cut it");
    }
    let slots = slots(from, first);
    let bytes = read_at(&file, offset(slots.start), slots.len() * RECORD_BYTES)?;
    Ok(records(&bytes, first + slots.start as u64, slots.len(), None))
}

/// The bytes from `offset` on: `length`, or as many as there are.
fn read_at(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let (mut bytes, mut read) = (vec![0; length], 0);
    while read < length {
        match file.read_at(&mut bytes[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

/// The records of `count` slots, the first of which has the number `first`; of that account alone, if one is given.
fn records(
    bytes: &[u8],
    first: u64,
    count: usize,
    account: Option<AccountId>,
) -> Vec<Option<Record<'static>>> {
    let word = |at: usize| {
        let bytes = bytes.get(at * 8..at * 8 + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    let record = |slot: usize| {
        let word = |at: usize| word(slot * WORDS + at);
        let wanted = account.is_none_or(|account| Record::account(word) == account);
        (wanted && word(0) == first + slot as u64 + 1).then(|| Record::read(word)).flatten()
    };
    (0..count).map(record).collect()
}

/// Where the slot begins in its file.
fn offset(slot: usize) -> u64 {
    (slot * RECORD_BYTES) as u64
}

/// The slots from number `from` on.
fn slots(from: u64, first: u64) -> std::ops::Range<usize> {
    usize::try_from(from.saturating_sub(first)).unwrap_or(RECORDS).min(RECORDS)..RECORDS
}

//! The journal: every call that was answered, in the order in which they ended, in files that survive the process.
//!
//! A call is in the journal before its answer leaves, by one write that the kernel keeps when the process dies. Within half
//! a second it is counted in the database, in one commit with the position in the journal: so a call is counted once,
//! whichever process dies when.
//!
//! A journal belongs to one process, which holds the lock of its head file as long as it lives. A process that starts
//! later takes over the journals of dead ones.

mod names;
mod record;
mod segment;

use std::collections::VecDeque;
use std::fs::{self, DirEntry, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

pub(crate) use names::NameTable;
use portico_kernel::AccountId;
#[cfg(test)]
pub(crate) use record::tests::any_record;
pub(crate) use record::{REQUEST_ID_BYTES_MAX, Record, SubjectId};
use segment::Segment;

use crate::limits;

/// Makes the folder for its owner alone, also where it was there before: records say who called what.
fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

/// Makes a file that its owner alone may read; there is none of that name yet.
fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Takes from everybody but its owner what was left open: by an older program, or by a copy that was put back.
fn close_to_others(entry: &DirEntry) -> io::Result<()> {
    if entry.file_type()?.is_file() {
        fs::set_permissions(entry.path(), Permissions::from_mode(0o600))?;
    }
    Ok(())
}

/// The paths of a journal's files.
#[derive(Debug, Clone)]
struct JournalPath {
    folder: PathBuf,
    id: String,
}

const HEAD: &str = "journal";
/// The extension of a head file that is not complete yet.
const NEW: &str = "new";

impl JournalPath {
    fn head(&self) -> PathBuf {
        self.folder.join(format!("{}.{HEAD}", self.id))
    }

    fn segment(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{}.{number:012}", self.id))
    }
}

/// The journal of this process.
pub(crate) struct Journal {
    path: JournalPath,
    names: NameTable,
    /// Held locked as long as the process lives. Names are added to it.
    head: Mutex<File>,
    current: RwLock<Arc<Segment>>,
    /// Every segment with a record that is not counted yet, the current one last.
    segments: Mutex<VecDeque<Arc<Segment>>>,
    /// The next segment, created before it is needed.
    next: Mutex<Option<Segment>>,
    segments_max: usize,
    /// Is the next segment there?
    prepared: AtomicBool,
    /// Could the next segment not be created? It is not tried again before [`Journal::prepare`].
    broken: AtomicBool,
}

impl Journal {
    /// Begins a journal of that id in `folder`.
    pub(crate) fn create(
        folder: &Path,
        id: String,
        names: NameTable,
        segments_max: usize,
    ) -> io::Result<Self> {
        make_folder(folder)?;
        let path = JournalPath { folder: folder.to_owned(), id };
        // Locked before it gets its name, so that no other server takes it for an orphan.
        let unnamed = folder.join(format!("{}.{NEW}", path.id));
        let head = loop {
            let mut head = create_file(&unnamed)?;
            head.lock()?;
            head.write_all(&serde_json::to_vec(&names)?)?;
            match fs::rename(&unnamed, path.head()) {
                // Another server that starts now saw it before it was locked, and removed it as an orphan's.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => break renamed.map(|()| head)?,
            }
        };
        let first = Arc::new(Segment::create(path.segment(0), 0)?);
        Ok(Self {
            names,
            head: Mutex::new(head),
            current: RwLock::new(first.clone()),
            segments: Mutex::new([first].into()),
            next: Mutex::new(None),
            segments_max,
            prepared: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            path,
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.path.id
    }

    pub(crate) fn names(&self) -> &NameTable {
        &self.names
    }

    /// The number of a call that the service serves under that name; `None` when there are too many names.
    pub(crate) fn number_of(&self, service: &str, name: &str) -> io::Result<Option<u16>> {
        self.names.number(&self.head, service, name)
    }

    /// Appends the record; returns its number.
    pub(crate) fn append(&self, record: &Record<'_>) -> io::Result<u64> {
        loop {
            let full = {
                let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
                if let Some(number) = current.append(record)? {
                    return Ok(number);
                }
                current.end()
            };
            self.switch_segment(full)?;
        }
    }

    /// Makes the next segment the current one, unless another thread did.
    fn switch_segment(&self, first: u64) -> io::Result<()> {
        // Locked always in this order: the next segment, then the current one.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.end() == first {
            self.prepared.store(false, Ordering::Relaxed);
            let segment = match next.take() {
                Some(prepared) => prepared,
                None => self.create_segment(first)?,
            };
            let segment = Arc::new(segment);
            self.segments.lock().unwrap_or_else(PoisonError::into_inner).push_back(segment.clone());
            *current = segment;
        }
        Ok(())
    }

    fn create_segment(&self, first: u64) -> io::Result<Segment> {
        if self.segments.lock().unwrap_or_else(PoisonError::into_inner).len() >= self.segments_max {
            return Err(io::Error::other("too many journal segments are not counted yet"));
        }
        Segment::create(self.path.segment(first), first)
    }

    /// Fails unless there is room for more than `reserve` records. Creates the next segment in time.
    pub(crate) fn make_room(&self, reserve: usize) -> io::Result<()> {
        let free = self.current.read().unwrap_or_else(PoisonError::into_inner).free();
        if free > reserve || self.prepared.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::Error::other("the next journal segment could not be created"));
        }
        self.create_next()
    }

    fn create_next(&self) -> io::Result<()> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_none() {
            let end = self.current.read().unwrap_or_else(PoisonError::into_inner).end();
            match self.create_segment(end) {
                Ok(segment) => *next = Some(segment),
                Err(error) => {
                    // Told once, and not to each caller who is refused for it.
                    if !self.broken.swap(true, Ordering::Relaxed) {
                        tracing::error!(%error, "Journal cannot grow; calls are refused once its last segment is full");
                    }
                    return Err(error);
                }
            }
        }
        self.broken.store(false, Ordering::Relaxed);
        self.prepared.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Can the journal not grow any more? It then takes what its last segment has room for.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Creates the next segment, if it is needed soon or could not be created before.
    pub(crate) fn prepare(&self) {
        // Whether it failed is noted, and told to those who call when there is no room.
        let _ = if self.is_broken() { self.create_next() } else { self.make_room(limits::CROWDED_MAX) };
    }

    /// Up to `limit` records from number `from` on; `None` stands for one that is not there or does not parse.
    pub(crate) fn read(&self, from: u64, limit: usize) -> io::Result<Vec<Option<Record<'static>>>> {
        self.read_of(from, limit, None)
    }

    /// The same for one account; `None` stands also for a record of another account, which costs little to skip.
    pub(crate) fn read_of(
        &self,
        from: u64,
        limit: usize,
        account: Option<AccountId>,
    ) -> io::Result<Vec<Option<Record<'static>>>> {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut records: Vec<Option<Record<'static>>> = Vec::new();
        for segment in segments {
            let at = from + records.len() as u64;
            if records.len() < limit && (segment.first..segment.end()).contains(&at) {
                records.extend(segment.read(at, limit - records.len(), account)?);
            }
        }
        Ok(records)
    }

    /// The number of the first record that is still there.
    pub(crate) fn first(&self) -> u64 {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        segments.front().map_or(0, |segment| segment.first)
    }

    /// Removes the segments whose records all have numbers below `counted`.
    pub(crate) fn release(&self, counted: u64) {
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        while segments.len() > 1 && segments.front().is_some_and(|segment| segment.end() <= counted) {
            segments.pop_front().inspect(|segment| segment.remove());
        }
    }

    /// Removes the files; everything in them is counted.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove(&self.path)
    }
}

/// The journal of a process that is dead.
pub(crate) struct OrphanedJournal {
    path: JournalPath,
    pub(crate) names: NameTable,
    _head: File,
}

impl OrphanedJournal {
    /// Every journal in `folder` whose process is dead. Each stays locked for this process as long as the value lives.
    pub(crate) fn find_all(folder: &Path) -> io::Result<Vec<Self>> {
        let mut orphans = Vec::new();
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(orphans),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let is = |end: &str| path.extension().is_some_and(|own| own == end);
            let found = close_to_others(&entry).and_then(|()| match (is(HEAD), is(NEW)) {
                (true, _) => Self::open(folder, &path),
                (_, true) => remove_unfinished(&path).map(|()| None),
                _ => Ok(None),
            });
            match found {
                Ok(found) => orphans.extend(found),
                // Its process stopped, or another one has taken it over.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => set_aside(&path, &error)?,
                Err(error) => return Err(error),
            }
        }
        Ok(orphans)
    }

    fn open(folder: &Path, path: &Path) -> io::Result<Option<Self>> {
        let id = path.file_stem().map(|id| id.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(head) = lock(path)? else { return Ok(None) };
        let names = NameTable::parse(&fs::read(path)?);
        let names = names.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Some(Self { path: JournalPath { folder: folder.to_owned(), id }, names, _head: head }))
    }

    pub(crate) fn id(&self) -> &str {
        &self.path.id
    }

    /// The slots from number `from` to the end of its segment; `None` after the last segment.
    pub(crate) fn read(&self, from: u64) -> io::Result<Option<Vec<Option<Record<'static>>>>> {
        let first = from - from % segment::RECORDS as u64;
        match segment::read_file(&self.path.segment(first), first, from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            slots => slots.map(Some),
        }
    }

    /// The number `from`, or the first after it whose segment exists. A database that was restored from a backup may ask
    /// for segments that were removed after it had counted them.
    pub(crate) fn skip_missing(&self, from: u64) -> io::Result<u64> {
        let own = format!("{}.", self.path.id);
        let mut firsts = Vec::new();
        for entry in fs::read_dir(&self.path.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            firsts.extend(name.strip_prefix(&own).and_then(|number| number.parse::<u64>().ok()));
        }
        let segment = from - from % segment::RECORDS as u64;
        if firsts.contains(&segment) {
            return Ok(from);
        }
        Ok(firsts.into_iter().filter(|first| *first > from).min().unwrap_or(from))
    }

    /// Removes the files; everything in them is counted.
    pub(crate) fn remove(self) -> io::Result<()> {
        remove(&self.path)
    }
}

/// Opens and locks the file; `None` when its process is alive.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let head = File::open(path)?;
    match head.try_lock() {
        Ok(()) => Ok(Some(head)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes the head file of a process that died before its journal began.
fn remove_unfinished(path: &Path) -> io::Result<()> {
    if lock(path)?.is_some() { fs::remove_file(path) } else { Ok(()) }
}

/// Renames a head file that does not parse; the segments stay for a person to look at.
fn set_aside(head: &Path, error: &io::Error) -> io::Result<()> {
    let aside = head.with_extension("damaged");
    tracing::error!(%error, file = %aside.display(), "Journal head file is damaged; renamed it, its calls are not counted");
    fs::rename(head, aside)
}

/// Removes the head file last: as long as it exists, a later start removes the rest.
fn remove(journal: &JournalPath) -> io::Result<()> {
    let own = format!("{}.", journal.id);
    for entry in fs::read_dir(&journal.folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(&own) && path != journal.head() {
            fs::remove_file(path)?;
        }
    }
    fs::remove_file(journal.head())
}

#[cfg(test)]
mod tests;

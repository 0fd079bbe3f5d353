//! The journal: every call that was answered, in the order in which they ended, in files that outlive the process.
//!
//! A call is in the journal before its answer leaves, with one store of memory and no call of the kernel. The database
//! learns of it within half a second, together with how far it has read: so a call is counted once, whatever dies when.
//!
//! A journal belongs to one process, which holds the lock of its head file for as long as it lives. Whoever starts on
//! the folder later takes over what a dead process left.

mod mapping;
mod record;
mod segment;

use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use portico_kernel::AccountId;
use serde::{Deserialize, Serialize};

#[cfg(test)]
pub(crate) use record::tests::any_record;
pub(crate) use record::{REQUEST_ID_BYTES_MAX, Record, SubjectId};
use segment::Segment;

/// The names behind the metrics in the records; another version of the program may have others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Names {
    /// Of operations.
    pub(crate) operations: Vec<String>,
    /// Of codes; the number 0 is none.
    pub(crate) codes: Vec<String>,
    /// The database that its calls belong to.
    pub(crate) database: String,
}

impl Names {
    /// The name of an operation.
    pub(crate) fn operation(&self, number: u16) -> &str {
        self.operations.get(usize::from(number)).map_or("", String::as_str)
    }

    /// The name of a code.
    pub(crate) fn code(&self, number: u8) -> &str {
        usize::from(number).checked_sub(1).and_then(|at| self.codes.get(at)).map_or("", String::as_str)
    }
}

/// Where the segments of a journal are.
#[derive(Debug, Clone)]
struct Place {
    folder: PathBuf,
    id: String,
}

const HEAD: &str = "journal";
/// A head that is not whole yet.
const NEW: &str = "new";

impl Place {
    fn head(&self) -> PathBuf {
        self.folder.join(format!("{}.{HEAD}", self.id))
    }

    fn segment(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{}.{number:012}", self.id))
    }
}

/// The journal of this process.
pub(crate) struct Journal {
    place: Place,
    names: Names,
    /// Held locked as long as the process lives.
    _head: File,
    current: RwLock<Arc<Segment>>,
    /// Every segment with a record that is not counted yet, the current one last.
    segments: Mutex<VecDeque<Arc<Segment>>>,
    /// The next segment, made before it is needed.
    next: Mutex<Option<Segment>>,
    segments_max: usize,
    /// Is the next segment there?
    prepared: AtomicBool,
    /// Could the next segment not be made? It is not tried again before [`Journal::mend`].
    broken: AtomicBool,
}

impl Journal {
    /// Begins a journal of that id in `folder`.
    pub(crate) fn create(folder: &Path, id: String, names: Names, segments_max: usize) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let place = Place { folder: folder.to_owned(), id };
        // Locked before it has its name, so that nobody takes it for one that was left behind.
        let unnamed = folder.join(format!("{}.{NEW}", place.id));
        let head = loop {
            let mut head = File::create(&unnamed)?;
            head.lock()?;
            head.write_all(&serde_json::to_vec(&names)?)?;
            match fs::rename(&unnamed, place.head()) {
                // Another server that starts now came before the lock, and took it for a dead one's.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => break renamed.map(|()| head)?,
            }
        };
        let first = Arc::new(Segment::create(place.segment(0), 0)?);
        Ok(Self {
            names,
            _head: head,
            current: RwLock::new(first.clone()),
            segments: Mutex::new([first].into()),
            next: Mutex::new(None),
            segments_max,
            prepared: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            place,
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.place.id
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Keeps the record; answers its number.
    pub(crate) fn append(&self, record: &Record<'_>) -> io::Result<u64> {
        loop {
            let full = {
                let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
                if let Some(number) = current.append(record) {
                    return Ok(number);
                }
                current.end()
            };
            self.turn_over(full)?;
        }
    }

    /// Goes on in the next segment, unless another thread did so.
    fn turn_over(&self, first: u64) -> io::Result<()> {
        // Always in this order: the next segment, then the current one.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.end() == first {
            self.prepared.store(false, Ordering::Relaxed);
            let segment = match next.take() {
                Some(prepared) => prepared,
                None => self.segment(first)?,
            };
            let segment = Arc::new(segment);
            self.segments.lock().unwrap_or_else(PoisonError::into_inner).push_back(segment.clone());
            *current = segment;
        }
        Ok(())
    }

    fn segment(&self, first: u64) -> io::Result<Segment> {
        if self.segments.lock().unwrap_or_else(PoisonError::into_inner).len() >= self.segments_max {
            return Err(io::Error::other("the database has fallen too far behind"));
        }
        Segment::create(self.place.segment(first), first)
    }

    /// Is there room for the calls under way and `more` beside them? Makes the next segment if need be.
    pub(crate) fn make_room(&self, more: usize) -> io::Result<()> {
        let left = self.current.read().unwrap_or_else(PoisonError::into_inner).left();
        if left > more || self.prepared.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::Error::other("the next part of the journal could not be made"));
        }
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_none() {
            let end = self.current.read().unwrap_or_else(PoisonError::into_inner).end();
            let made = self.segment(end);
            self.broken.store(made.is_err(), Ordering::Relaxed);
            *next = Some(made?);
        }
        self.prepared.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Lets it try again what could not be done.
    pub(crate) fn mend(&self) {
        self.broken.store(false, Ordering::Relaxed);
    }

    /// The records from number `from` on, up to `most` of them; those that do not read are nothing.
    pub(crate) fn read(&self, from: u64, most: usize) -> Vec<Option<Record<'static>>> {
        self.read_of(from, most, None)
    }

    /// The same; those of other accounts than `of` are nothing, and cost little.
    pub(crate) fn read_of(
        &self,
        from: u64,
        most: usize,
        of: Option<AccountId>,
    ) -> Vec<Option<Record<'static>>> {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut records: Vec<Option<Record<'static>>> = Vec::new();
        for segment in segments {
            let at = from + records.len() as u64;
            if records.len() < most && (segment.first..segment.end()).contains(&at) {
                records.extend(segment.read(at, most - records.len(), of));
            }
        }
        records
    }

    /// The number of the first record that is still there.
    pub(crate) fn first(&self) -> u64 {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        segments.front().map_or(0, |segment| segment.first)
    }

    /// Lets go of the segments whose every record has a number below `counted`.
    pub(crate) fn release(&self, counted: u64) {
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        while segments.len() > 1 && segments.front().is_some_and(|segment| segment.end() <= counted) {
            segments.pop_front().inspect(|segment| segment.remove());
        }
    }

    /// Removes the files; everything in them is counted.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove(&self.place)
    }
}

/// A journal that a dead process left.
pub(crate) struct Left {
    place: Place,
    pub(crate) names: Names,
    _head: File,
}

impl Left {
    /// Every journal in `folder` whose process is dead. They are ours as long as they are held.
    pub(crate) fn find(folder: &Path) -> io::Result<Vec<Self>> {
        let mut left = Vec::new();
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(left),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let is = |end: &str| path.extension().is_some_and(|own| own == end);
            let found = match (is(HEAD), is(NEW)) {
                (true, _) => Self::open(folder, &path),
                (_, true) => remove_unfinished(&path).map(|()| None),
                _ => continue,
            };
            match found {
                Ok(found) => left.extend(found),
                // Its process ended in order, or another one took it over.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => set_aside(&path, &error)?,
                Err(error) => return Err(error),
            }
        }
        Ok(left)
    }

    fn open(folder: &Path, path: &Path) -> io::Result<Option<Self>> {
        let id = path.file_stem().map(|id| id.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(head) = lock(path)? else { return Ok(None) };
        let names = serde_json::from_slice(&fs::read(path)?);
        let names = names.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Some(Self { place: Place { folder: folder.to_owned(), id }, names, _head: head }))
    }

    pub(crate) fn id(&self) -> &str {
        &self.place.id
    }

    /// The places from number `from` to the end of its segment; nothing behind the last one.
    pub(crate) fn read(&self, from: u64) -> io::Result<Option<Vec<Option<Record<'static>>>>> {
        let first = from - from % segment::RECORDS as u64;
        match segment::read_file(&self.place.segment(first), first, from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            places => places.map(Some),
        }
    }

    /// The number `from`, or the first behind it whose segment is there: the database may have gone back behind what was
    /// removed because it had it.
    pub(crate) fn skip_missing(&self, from: u64) -> io::Result<u64> {
        let own = format!("{}.", self.place.id);
        let mut firsts = Vec::new();
        for entry in fs::read_dir(&self.place.folder)? {
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
        remove(&self.place)
    }
}

/// The locked file; nothing when its process lives.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let head = File::open(path)?;
    match head.try_lock() {
        Ok(()) => Ok(Some(head)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes the head of a process that died before it had a journal.
fn remove_unfinished(path: &Path) -> io::Result<()> {
    if lock(path)?.is_some() { fs::remove_file(path) } else { Ok(()) }
}

/// A head that does not read says nothing about the records behind it; they stay for whoever can make something of them.
fn set_aside(head: &Path, error: &io::Error) -> io::Result<()> {
    let aside = head.with_extension("damaged");
    tracing::error!(%error, file = %aside.display(), "A journal does not read; it is set aside, its calls are not counted");
    fs::rename(head, aside)
}

/// The head goes last: as long as it is there, somebody will come for the rest.
fn remove(place: &Place) -> io::Result<()> {
    let own = format!("{}.", place.id);
    for entry in fs::read_dir(&place.folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(&own) && path != place.head() {
            fs::remove_file(path)?;
        }
    }
    fs::remove_file(place.head())
}

#[cfg(test)]
mod tests;

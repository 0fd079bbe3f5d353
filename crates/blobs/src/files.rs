//! Objects as files in the data folder.
//!
//! A file is written in its folder, under a name that ends in `.part`, and gets its own name once it is on the disk.
//! Keys begin with the time, so folders are made of their first characters: one holds what began within 17 minutes.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};

use crate::limits::FILE_CHUNK;
use crate::store::{BlobStore, BoxFuture, ByteStream, Object};
use crate::{BlobError, limits};

const OWNER_ONLY_FILE: u32 = 0o600;
const OWNER_ONLY_FOLDER: u32 = 0o700;
const PART: &str = ".part";
/// How much of the end of a key is in no folder's name, and the longest key.
const NAME_REST: usize = 20;
const SUBFOLDER: usize = 2;
const KEY_MAX: usize = 64;
/// A folder may be removed, because it was empty, between being made and being used.
const FOLDER_TRIES: usize = 5;

/// Keeps objects as files.
pub struct FileStore {
    root: PathBuf,
}

/// Runs what may block beside the threads that serve.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, BlobError> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|error| BlobError::Unavailable(error.to_string()))??)
}

fn is_key(key: &str) -> bool {
    (NAME_REST + SUBFOLDER + 1..=KEY_MAX).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The names of the two folders of a key.
fn folders(key: &str) -> (&str, &str) {
    let (front, _) = key.split_at(key.len() - NAME_REST);
    front.split_at(front.len() - SUBFOLDER)
}

impl FileStore {
    /// Keeps files in the folder `root`, which is made with the first of them.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn path(&self, key: &str) -> Result<PathBuf, BlobError> {
        if !is_key(key) {
            return Err(BlobError::Refused(format!("{key:?} cannot be the name of a file")));
        }
        let (folder, subfolder) = folders(key);
        Ok(self.root.join(folder).join(subfolder).join(key))
    }
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(PART);
    name.into()
}

/// A file that is being written. Dropped before it is finished, it is removed.
struct PartFile {
    file: File,
    path: PathBuf,
    target: PathBuf,
    finished: bool,
}

impl PartFile {
    fn create(target: PathBuf) -> io::Result<Self> {
        let path = part_of(&target);
        let mut tries = 1;
        loop {
            let folder = target.parent().unwrap_or(&target);
            DirBuilder::new().recursive(true).mode(OWNER_ONLY_FOLDER).create(folder)?;
            match OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY_FILE).open(&path) {
                Ok(file) => return Ok(Self { file, path, target, finished: false }),
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < FOLDER_TRIES => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn write(mut self, bytes: &[u8]) -> io::Result<Self> {
        self.file.write_all(bytes)?;
        Ok(self)
    }

    /// Gives the file its name, and returns once both are on the disk.
    fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target)?;
        self.finished = true;
        // The folders above may be new as well: the two that are made of the key, and the root.
        self.target.ancestors().skip(1).take(3).try_for_each(|folder| File::open(folder)?.sync_all())
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.finished {
            // What cannot be removed here is removed by the sweep.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn absent_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    absent_is_none(fs::remove_file(path))?;
    absent_is_none(fs::remove_file(part_of(path)))?;
    // Only empty folders can be removed; the others stay.
    for folder in path.ancestors().skip(1).take(2) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}

/// The names in a folder, in order. None when it is not there, or not a folder.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let names: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.file_name().into_string().ok())).collect();
    let mut names: Vec<_> = names?.into_iter().flatten().collect();
    names.sort();
    Ok(names)
}

fn list(root: &Path, after: &str, limit: usize) -> io::Result<Vec<Object>> {
    let mut found: Vec<Object> = Vec::new();
    let (from, subfrom) = if is_key(after) { folders(after) } else { ("", "") };
    for folder in names(root)?.iter().filter(|name| name.as_str() >= from) {
        for subfolder in names(&root.join(folder))? {
            if folder.as_str() == from && subfolder.as_str() < subfrom {
                continue;
            }
            let path = root.join(folder).join(&subfolder);
            for name in names(&path)? {
                let key = name.strip_suffix(PART).unwrap_or(&name);
                let is_listed = found.last().is_some_and(|last| last.key == key);
                if key <= after || is_listed || !is_key(key) || folders(key) != (folder, &subfolder) {
                    continue;
                }
                // It may have been removed, or have got its name, in between.
                let Some(metadata) = absent_is_none(fs::metadata(path.join(&name)))? else { continue };
                found.push(Object { key: key.to_owned(), size: metadata.len() });
                if found.len() == limit {
                    return Ok(found);
                }
            }
        }
    }
    Ok(found)
}

/// Reads the next piece of `range`.
fn read_piece(file: &File, range: &Range<u64>) -> io::Result<Bytes> {
    let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(FILE_CHUNK);
    let mut piece = vec![0; length];
    file.read_exact_at(&mut piece, range.start)?;
    Ok(piece.into())
}

impl BlobStore for FileStore {
    fn put<'a>(&'a self, key: &'a str, mut body: ByteStream) -> BoxFuture<'a, u64> {
        Box::pin(async move {
            let target = self.path(key)?;
            let mut part = blocking(move || PartFile::create(target)).await?;
            let (mut size, mut buffer) = (0, Vec::with_capacity(limits::SEALED_CHUNK));
            while let Some(piece) = body.try_next().await? {
                size += piece.len() as u64;
                buffer.extend_from_slice(&piece);
                if buffer.len() >= FILE_CHUNK {
                    (part, buffer) = blocking(move || Ok((part.write(&buffer)?, buffer))).await?;
                    buffer.clear();
                }
            }
            blocking(move || part.write(&buffer)?.finish()).await?;
            Ok(size)
        })
    }

    fn get<'a>(&'a self, key: &'a str, range: Range<u64>) -> BoxFuture<'a, ByteStream> {
        Box::pin(async move {
            let path = self.path(key)?;
            let file = blocking(move || absent_is_none(File::open(path))).await?;
            let file = Arc::new(file.ok_or_else(|| BlobError::Missing(key.to_owned()))?);
            let body = stream::try_unfold(range, move |range| {
                let file = file.clone();
                async move {
                    if range.is_empty() {
                        return Ok(None);
                    }
                    let read = blocking(move || match read_piece(&file, &range) {
                        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
                        piece => Ok(Some((piece?, range))),
                    });
                    let cut_off = || BlobError::Damaged("a file is shorter than it was".to_owned());
                    let (piece, range) = read.await?.ok_or_else(cut_off)?;
                    let rest = range.start + piece.len() as u64..range.end;
                    Ok(Some((piece, rest)))
                }
            });
            Ok(Box::pin(body) as ByteStream)
        })
    }

    fn head<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Option<u64>> {
        Box::pin(async move {
            let path = self.path(key)?;
            Ok(blocking(move || absent_is_none(fs::metadata(path))).await?.map(|metadata| metadata.len()))
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let path = self.path(key)?;
            blocking(move || remove(&path)).await
        })
    }

    fn list<'a>(&'a self, after: &'a str, limit: usize) -> BoxFuture<'a, Vec<Object>> {
        let (root, after) = (self.root.clone(), after.to_owned());
        Box::pin(blocking(move || list(&root, &after, limit)))
    }
}

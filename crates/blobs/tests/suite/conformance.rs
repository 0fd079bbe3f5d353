//! What every blob store must do, whatever it is. The tests ask it of files, `check/judges/blobs` of a service.

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use portico_blobs::{BlobError, BlobStore, ByteStream};
use portico_kernel::{BlobId, Code, Entropy, Problem, SystemEntropy, Timestamp};

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

pub(crate) fn ensure(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// A key of our own kind; later ones have later seconds.
pub(crate) fn key(second: i64) -> String {
    let entropy: &dyn Entropy = &SystemEntropy;
    let id: BlobId = entropy.id(Timestamp::from_seconds(1_700_000_000 + second));
    id.to_string()
}

/// Bytes that do not repeat soon.
pub(crate) fn content(size: usize) -> Bytes {
    (0..size).map(|at| (at ^ (at >> 8) ^ (at >> 16)).to_le_bytes()[0]).collect()
}

pub(crate) fn body(content: &Bytes, piece: usize) -> ByteStream {
    let content = content.clone();
    let pieces = (0..content.len()).step_by(piece.max(1));
    let slice = move |at: usize| content.slice(at..content.len().min(at + piece));
    stream::iter(pieces.map(move |at| Ok(slice(at)))).boxed()
}

/// A body that breaks off after `content`.
pub(crate) fn broken(content: &Bytes, piece: usize) -> ByteStream {
    let error = BlobError::Body(Problem::new(Code::BadRequest, "The caller hung up."));
    body(content, piece).chain(stream::iter([Err(error)])).boxed()
}

pub(crate) async fn read(body: ByteStream) -> Result<Vec<u8>, BlobError> {
    Ok(body.try_collect::<Vec<_>>().await?.concat())
}

async fn get(store: &dyn BlobStore, key: &str, range: Range<u64>) -> Result<Vec<u8>, BlobError> {
    read(store.get(key, range).await?).await
}

/// An object of `size` bytes goes in, comes back whole and in ranges, and goes.
pub(crate) async fn round_trip(store: &dyn BlobStore, size: usize) -> Outcome {
    let (key, content) = (key(0), content(size));
    ensure(store.put(&key, body(&content, 100_000)).await? == size as u64, "put returns the size")?;
    ensure(store.head(&key).await? == Some(size as u64), "head returns the size")?;
    let whole = size as u64;
    for range in [0..whole, 0..1, whole - 1..whole, whole / 3..whole / 2 + 1] {
        let read = get(store, &key, range.clone()).await?;
        let (from, to) = (usize::try_from(range.start)?, usize::try_from(range.end)?);
        ensure(read == content[from..to], &format!("bytes {from} to {to} of {size}"))?;
    }
    let beyond = get(store, &key, whole - 1..whole + 1).await;
    ensure(matches!(beyond, Err(BlobError::Damaged(_))), "a range beyond the end fails")?;
    store.delete(&key).await?;
    store.delete(&key).await?;
    ensure(store.head(&key).await?.is_none(), "what was deleted is gone")?;
    let gone = get(store, &key, 0..1).await;
    ensure(matches!(gone, Err(BlobError::Missing(_))), "what was deleted cannot be read")
}

/// An upload that breaks off leaves nothing.
pub(crate) async fn broken_upload(store: &dyn BlobStore, size: usize) -> Outcome {
    let key = key(1);
    let put = store.put(&key, broken(&content(size), 100_000)).await;
    ensure(matches!(put, Err(BlobError::Body(_))), "the caller's own error comes back")?;
    ensure(store.head(&key).await?.is_none(), "no object is left")?;
    ensure(store.list("", 10).await?.is_empty(), "nothing is listed")
}

/// Objects are listed in order, page by page.
pub(crate) async fn listing(store: &dyn BlobStore) -> Outcome {
    // Some in one folder, others weeks apart.
    let keys: Vec<String> = [0, 1, 2, 4_000, 8_000, 3_000_000, 3_000_001].map(key).into();
    for (at, key) in keys.iter().enumerate().rev() {
        store.put(key, body(&content(at), 10)).await?;
    }
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let page = store.list(&after, 3).await?;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.key);
        listed.extend(page);
    }
    let sizes = listed.iter().map(|object| object.size);
    ensure(sizes.eq(0..keys.len() as u64), "sizes are listed")?;
    ensure(listed.iter().map(|object| &object.key).eq(&keys), "keys are listed in order")?;
    for key in &keys {
        store.delete(key).await?;
    }
    ensure(store.list("", 10).await?.is_empty(), "all are gone")
}

/// Many at once do not meet.
pub(crate) async fn many_at_once(store: &Arc<dyn BlobStore>) -> Outcome {
    let content = content(300_000);
    let tasks = (0..16).map(|_| {
        let (store, content, key) = (store.clone(), content.clone(), key(2));
        tokio::spawn(async move {
            store.put(&key, body(&content, 7_000)).await?;
            let read = get(&*store, &key, 0..300_000).await?;
            store.delete(&key).await?;
            Ok::<_, BlobError>(read == content)
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        ensure(task.await??, "each reads what it wrote")?;
    }
    Ok(())
}

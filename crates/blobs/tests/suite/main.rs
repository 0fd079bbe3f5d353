//! Blobs on files, and the files themselves.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod conformance;
mod place;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use portico_blobs::{BlobError, BlobReport, BlobStore, ERASE, FileStore, PROBE};
use portico_kernel::{Code, Problem, seconds};
use portico_store::args;

use conformance::{body, broken, content, key, read};
use place::{Place, options};

const DAY: std::time::Duration = seconds(24 * 60 * 60);

/// Makes of each story a test on SQLite and a test on PostgreSQL.
macro_rules! on_both_databases {
    ($($story:ident)+) => {
        mod sqlite {
            use super::Place;
            $(#[tokio::test]
            async fn $story() {
                super::$story(Place::on_sqlite().await).await;
            })+
        }

        mod postgres {
            use super::Place;
            $(#[tokio::test]
            async fn $story() {
                super::$story(Place::on_postgres().await).await;
            })+
        }
    };
}

on_both_databases! {
    equal_content_of_an_account_is_one_blob
    the_sweep_takes_what_has_no_row_and_reports_what_has_no_object
    an_account_is_erased_with_its_blobs
}

fn file_store() -> (tempfile::TempDir, Arc<dyn BlobStore>) {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::new(folder.path().join("blobs"));
    (folder, Arc::new(store))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn files_do_what_every_store_does() {
    let (_folder, store) = file_store();
    for size in [1, 65_536, 262_144, 1_000_003] {
        conformance::round_trip(&*store, size).await.unwrap();
    }
    conformance::broken_upload(&*store, 600_000).await.unwrap();
    conformance::listing(&*store).await.unwrap();
    conformance::many_at_once(&store).await.unwrap();
}

#[tokio::test]
async fn files_are_the_owners_alone_and_empty_folders_go() {
    let (folder, store) = file_store();
    let (root, key) = (folder.path().join("blobs"), key(0));
    store.put(&key, body(&content(10), 10)).await.unwrap();
    let file = files(&root).pop().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap()), mode(&root)), (0o600, 0o700, 0o700));
    store.delete(&key).await.unwrap();
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "no folder is left");
}

#[tokio::test]
async fn an_upload_that_is_dropped_leaves_nothing_and_a_killed_one_is_swept() {
    let (folder, store) = file_store();
    let root = folder.path().join("blobs");
    let (sender, is_waiting) = tokio::sync::oneshot::channel();
    let silence = stream::once(async move {
        sender.send(()).unwrap();
        std::future::pending().await
    });
    let endless = body(&content(400_000), 400_000).chain(silence).boxed();
    let (key, other) = (key(0), key(1));
    let mut put = store.put(&key, endless);
    tokio::select! {
        _ = &mut put => panic!("it waits for more"),
        _ = is_waiting => assert_eq!(files(&root).len(), 1),
    }
    drop(put);
    assert_eq!(files(&root), Vec::<PathBuf>::new());
    // What `kill -9` leaves behind.
    store.put(&other, body(&content(10), 10)).await.unwrap();
    let file = files(&root).pop().unwrap();
    fs::rename(&file, file.with_extension("part")).unwrap();
    assert!(store.head(&other).await.unwrap().is_none(), "it is no object");
    assert_eq!(store.list("", 10).await.unwrap()[0].key, other, "but it is listed");
    store.delete(&other).await.unwrap();
    assert_eq!(files(&root), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn no_key_leads_out_of_the_folder() {
    let (_folder, store) = file_store();
    for bad in [
        "../../../../../../../../etc/passwd",
        "/etc/passwd",
        "",
        "short",
        "blob_0000000000/00000000000000000",
    ] {
        let put = store.put(bad, body(&content(1), 1)).await;
        assert!(matches!(put, Err(BlobError::Refused(_))), "{bad}");
        assert!(store.delete(bad).await.is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("blobs"), "a file").unwrap();
    let store = FileStore::new(folder.path().join("blobs"));
    let put = store.put(&key(0), body(&content(1), 1)).await.unwrap_err();
    assert_eq!(Problem::from(put).code(), Code::Unavailable);
}

async fn content_comes_back(sealed: bool) {
    let place = Place::on_sqlite().await;
    let content = content(300_000);
    let blob = place.store(&content, sealed).await;
    assert_eq!((blob.size, blob.is_sealed(), blob.hash.len()), (300_000, sealed, 64));
    let found = place.find(&blob).await.unwrap();
    assert_eq!(read(place.blobs.open(&found, None).await.unwrap()).await.unwrap(), content);
    for range in [0..1, 65_535..65_537, 131_072..131_072, 299_999..300_000, 10..290_000] {
        let (from, to) = (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
        let part = place.blobs.open(&found, Some(range)).await.unwrap();
        assert_eq!(read(part).await.unwrap(), &content[from..to], "{from} to {to}");
    }
    for range in [0..300_001, std::ops::Range { start: 2, end: 1 }] {
        assert!(matches!(place.blobs.open(&found, Some(range)).await, Err(BlobError::Refused(_))));
    }
    let stored = fs::read(files(&place.root()).pop().unwrap()).unwrap();
    let readable = stored.windows(32).any(|window| window == &content[1_000..1_032]);
    assert_eq!(readable, !sealed, "the disk shows it only if it is not sealed");
    let metrics = place.blobs.metrics();
    assert_eq!((metrics.bytes_in(), metrics.bytes_out(), metrics.failures()), (300_000, 589_994, 0));
    let empty = place.store(&conformance::content(0), sealed).await;
    assert_eq!(read(place.blobs.open(&empty, None).await.unwrap()).await.unwrap(), b"");
}

#[tokio::test]
async fn plain_content_comes_back() {
    content_comes_back(false).await;
}

#[tokio::test]
async fn sealed_content_comes_back() {
    content_comes_back(true).await;
}

#[tokio::test]
async fn what_was_changed_on_the_disk_is_refused() {
    for sealed in [false, true] {
        let place = Place::on_sqlite().await;
        let blob = place.store(&content(200_000), sealed).await;
        let file = files(&place.root()).pop().unwrap();
        let stored = fs::read(&file).unwrap();
        let mut tampered = stored.clone();
        tampered[150_000] ^= 1;
        for bad in [&tampered[..], &stored[..stored.len() - 1], &stored[..65_552], b""] {
            fs::write(&file, bad).unwrap();
            let read = read(place.blobs.open(&blob, None).await.unwrap()).await;
            assert!(matches!(read, Err(BlobError::Damaged(_))), "sealed {sealed}, {} bytes", bad.len());
        }
        assert_eq!(place.blobs.metrics().failures(), 4);
        fs::remove_file(&file).unwrap();
        assert!(matches!(place.blobs.open(&blob, None).await, Err(BlobError::Missing(_))));
    }
}

#[tokio::test]
async fn a_limit_holds_while_the_bytes_come() {
    let place = Place::on_sqlite().await;
    let upload = |size, declared_size| {
        let options = portico_blobs::UploadOptions { limit: 1_000, declared_size, ..options(false) };
        place.blobs.upload(place.account, options, body(&content(size), 300))
    };
    assert_eq!(upload(1_000, Some(1_000)).await.unwrap().size, 1_000);
    for refused in [upload(1_001, None).await, upload(10_000, None).await, upload(10, Some(1_001)).await] {
        assert!(matches!(refused, Err(BlobError::TooLarge { limit: 1_000 })));
    }
    let body = broken(&content(500), 100);
    let problem = Problem::from(place.blobs.upload(place.account, options(true), body).await.unwrap_err());
    assert_eq!((problem.code(), problem.error()), (Code::BadRequest, "The caller hung up."));
    assert_eq!(files(&place.root()).len(), 1, "what was refused is gone");
    assert_eq!(place.blobs.metrics().failures(), 0, "none of it is a failure of ours");
}

async fn equal_content_of_an_account_is_one_blob(place: Place) {
    let content = content(100_000);
    let upload = || place.blobs.upload(place.account, options(true), body(&content, 9_000));
    let (one, two, three) = tokio::join!(upload(), upload(), upload());
    let mut blobs = Vec::new();
    for upload in [one, two, three] {
        blobs.push(place.record(upload.unwrap()).await);
    }
    assert!(blobs.iter().all(|blob| blob.id == blobs[0].id));
    let plain = place.store(&content, false).await;
    assert_ne!(plain.id, blobs[0].id, "what is sealed stays apart");
    assert_eq!(files(&place.root()).len(), 4);
    place.clock.advance(DAY + DAY);
    assert_eq!(place.sweep().await, (2, 0), "the duplicates go");
    assert_eq!(read(place.blobs.open(&blobs[2], None).await.unwrap()).await.unwrap(), content);
    for (uses_left, blob) in [2, 1, 0].into_iter().zip(&blobs) {
        assert!(place.release(blob).await);
        assert_eq!(place.find(blob).await.is_some(), uses_left > 0);
    }
    assert!(!place.release(&blobs[0]).await);
    assert_eq!(place.sweep().await, (1, 0));
    assert_eq!(place.sweep().await, (0, 0));
}

async fn the_sweep_takes_what_has_no_row_and_reports_what_has_no_object(place: Place) {
    let kept = place.store(&content(10), false).await;
    let lost = place.store(&content(20), false).await;
    let lost_file = files(&place.root()).into_iter().find(|file| file.ends_with(lost.id.to_string()));
    fs::remove_file(lost_file.unwrap()).unwrap();
    // The server died between the upload and the commit.
    let orphan = place.blobs.upload(place.account, options(false), body(&content(30), 10)).await.unwrap();
    fs::write(place.root().join("README"), "put here by somebody").unwrap();
    let report = |orphans, missing| BlobReport { blobs: 2, bytes: 30, orphans, missing };
    assert_eq!(place.sweep().await, (0, 0), "it is too young");
    assert_eq!(place.blobs.check(&place.db).await.unwrap(), report(0, 0));
    place.clock.advance(DAY + seconds(1));
    assert_eq!(place.blobs.check(&place.db).await.unwrap(), report(1, 1));
    let mut tx = place.db.write().await.unwrap();
    let late = place.blobs.record(&mut tx, orphan).await;
    assert!(matches!(late, Err(BlobError::Expired)), "it may be swept at any time");
    drop(tx);
    assert_eq!(place.sweep().await, (1, 1));
    assert_eq!(place.blobs.check(&place.db).await.unwrap(), report(0, 1));
    assert_eq!(read(place.blobs.open(&kept, None).await.unwrap()).await.unwrap(), &content(10)[..]);
}

async fn an_account_is_erased_with_its_blobs(place: Place) {
    for size in 1..=5 {
        place.store(&content(size), size % 2 == 0).await;
    }
    let mut tx = place.db.write().await.unwrap();
    tx.execute(PROBE, args![]).await.unwrap();
    for rows in [2, 2, 1, 0] {
        assert_eq!(tx.execute(ERASE[0], args![place.account, 2_i64]).await.unwrap(), rows);
    }
    tx.commit().await.unwrap();
    place.clock.advance(DAY + DAY);
    assert_eq!(place.sweep().await, (5, 0));
    assert_eq!(files(&place.root()), Vec::<PathBuf>::new());
}

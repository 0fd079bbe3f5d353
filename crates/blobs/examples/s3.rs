//! Lets an S3 service be judged by what every blob store must do: `s3 ENDPOINT REGION BUCKET KEY_ID SECRET`. The bucket
//! must be empty. `check/judges/blobs` runs it.

#[path = "../tests/suite/conformance.rs"]
mod conformance;

use std::env;
use std::error::Error;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use portico_blobs::{
    BlobError, BlobReport, BlobStore, Blobs, ByteStream, S3Settings, S3Store, UploadOptions,
};
use portico_egress::TrustedRoots;
use portico_kernel::{AccountId, Clock, Entropy, Secret, Sleep, SystemEntropy, Timestamp};
use portico_store::{Db, Keyring};

use conformance::{Outcome, body, content, ensure, read};

const MIB: u64 = 1 << 20;
const LARGE: u64 = 200 * MIB;
/// What a large upload and a large download may add to the memory of the process.
const MEMORY_MAX: u64 = 64 * MIB;

struct MachineClock;

impl Clock for MachineClock {
    #[expect(clippy::disallowed_methods, reason = "the service compares signatures with its own clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn sleep(&self, _: Duration) -> Sleep {
        Box::pin(std::future::ready(()))
    }
}

/// The most memory that the process has had since `reset_peak`.
fn peak_memory() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1024)
}

fn reset_peak() -> Outcome {
    Ok(fs::write("/proc/self/clear_refs", "5")?)
}

/// 200 MiB that are nowhere in memory at once: each MiB begins with its number.
fn large() -> ByteStream {
    let piece = |number: u64| {
        let mut piece = vec![7; usize::try_from(MIB).unwrap_or_default()];
        piece[..8].copy_from_slice(&number.to_be_bytes());
        Ok(Bytes::from(piece))
    };
    stream::iter((0..LARGE / MIB).map(piece)).boxed()
}

async fn large_blob(blobs: &Blobs, db: &Db, sealed: bool) -> Outcome {
    reset_peak()?;
    let before = peak_memory()?;
    let account = (&SystemEntropy as &dyn Entropy).id(Timestamp::from_seconds(0)) as AccountId;
    let media_type = "application/octet-stream".to_owned();
    let options = UploadOptions { media_type, sealed, limit: LARGE, declared_size: None };
    let upload = blobs.upload(account, options, large()).await?;
    let mut tx = db.write().await?;
    let blob = blobs.record(&mut tx, upload).await?;
    tx.commit().await?;
    let mut whole = blobs.open(&blob, None).await?;
    let mut size = 0;
    while let Some(piece) = whole.try_next().await? {
        size += piece.len() as u64;
    }
    ensure(size == LARGE, "the whole blob comes back")?;
    let range = blobs.open(&blob, Some(150 * MIB..150 * MIB + 9)).await?;
    ensure(read(range).await? == [0, 0, 0, 0, 0, 0, 0, 150, 7], "a range comes back")?;
    let added = peak_memory()? - before;
    ensure(added < MEMORY_MAX, &format!("{} MiB more memory", added / MIB))?;
    println!("ok      200 MiB, sealed: {sealed}, went and came with {} MiB more memory", added / MIB);
    Ok(())
}

async fn wrong_settings(settings: &S3Settings) -> Outcome {
    let secret_access_key = Secret::new("wrong".to_owned());
    let wrong = S3Store::new(
        S3Settings { secret_access_key, ..settings.clone() },
        &TrustedRoots::default(),
        Arc::new(MachineClock),
    )?;
    let key = conformance::key(9);
    let refused = wrong.put(&key, body(&content(1), 1)).await.err().map(|error| error.to_string());
    let refused = refused.ok_or("a wrong secret is taken")?;
    ensure(refused.contains("403") && refused.contains("SignatureDoesNotMatch"), &refused)?;
    let settings = S3Settings { endpoint: "http://127.0.0.1:1".to_owned(), ..settings.clone() };
    let gone = S3Store::new(settings, &TrustedRoots::default(), Arc::new(MachineClock))?.head(&key).await;
    ensure(matches!(gone, Err(BlobError::Unavailable(_))), "an endpoint that is down is told")
}

#[tokio::main]
async fn main() -> Outcome {
    let words: Vec<String> = env::args().skip(1).collect();
    let [endpoint, region, bucket, key_id, secret] = words.try_into().map_err(|_| "five words")?;
    let secret_access_key = Secret::new(secret);
    let settings =
        S3Settings { endpoint, region, bucket, access_key_id: key_id, secret_access_key, path_style: true };
    let store: Arc<dyn BlobStore> =
        Arc::new(S3Store::new(settings.clone(), &TrustedRoots::default(), Arc::new(MachineClock))?);
    let part = usize::try_from(8 * MIB)?;
    for size in [1, 300_000, part - 1, part, part + 1, 2 * part + 5] {
        conformance::round_trip(&*store, size).await?;
        println!("ok      {size} bytes go, come back whole and in ranges, and are deleted");
    }
    for size in [100_000, 2 * part + 5] {
        conformance::broken_upload(&*store, size).await?;
        println!("ok      an upload that breaks off after {size} bytes leaves nothing");
    }
    conformance::listing(&*store).await?;
    println!("ok      objects are listed in order, page by page");
    conformance::many_at_once(&store).await?;
    println!("ok      16 uploads at once");
    wrong_settings(&settings).await?;
    println!("ok      a wrong secret and a service that is down are told apart");
    let folder = tempfile::tempdir()?;
    let db = Db::open(&format!("sqlite:{}", folder.path().join("portico.db").display())).await?;
    db.migrate(MachineClock.now()).await?;
    let keyring = Keyring::open_for(&db, &folder.path().join("keyring"), &SystemEntropy).await?;
    let blobs = Blobs::new(store, keyring, Arc::new(MachineClock), Arc::new(SystemEntropy));
    for sealed in [false, true] {
        large_blob(&blobs, &db, sealed).await?;
    }
    let expected = BlobReport { blobs: 2, bytes: 2 * LARGE, orphans: 0, missing: 0 };
    ensure(blobs.check(&db).await? == expected, "the doctor's report")?;
    println!("ok      the doctor finds both, and nothing else");
    Ok(())
}

//! Every bound of the crate.

use std::time::Duration;

use portico_kernel::seconds;

/// How often the store is compared with the table.
pub const SWEEP_EVERY: Duration = seconds(6 * 60 * 60);
/// Objects that are compared with the table at once; S3 lists no more.
pub(crate) const SWEEP_PAGE: usize = 1_000;
/// An object that has no row this long after its upload began never gets one.
pub(crate) const ORPHAN_GRACE: Duration = seconds(24 * 60 * 60);
/// How long after its beginning an upload can still be recorded. Less than the grace, so that the sweep never meets it.
pub(crate) const UPLOAD_LIFE: Duration = seconds(12 * 60 * 60);

/// What is read from or written to a file at once.
pub(crate) const FILE_CHUNK: usize = 256 << 10;
/// What is sealed at once. It must never change: what is stored is read by it.
pub(crate) const SEALED_CHUNK: usize = 64 << 10;

/// A part of an upload to S3, which is held in memory while it is sent. S3 takes no smaller ones than 5 MiB.
pub(crate) const S3_PART: usize = 8 << 20;
/// Parts of one upload: S3 takes no more.
pub(crate) const S3_PARTS_MAX: u16 = 10_000;
/// From the lookup of the endpoint's name to the head of its answer, the upload of a part included.
pub(crate) const S3_CALL_TIME: Duration = seconds(60);
/// How long S3 may keep silent in the middle of an answer.
pub(crate) const S3_IDLE_TIME: Duration = seconds(30);
/// An answer that is read whole: a list of objects, or an error.
pub(crate) const S3_ANSWER_BYTES: usize = 2 << 20;
/// How long a signature is good for.
pub(crate) const S3_SIGNATURE_LIFE: Duration = seconds(15 * 60);
/// How long to wait before each repetition of a call that failed.
pub(crate) const S3_BACKOFF: [Duration; 3] = [Duration::from_millis(200), seconds(1), seconds(3)];

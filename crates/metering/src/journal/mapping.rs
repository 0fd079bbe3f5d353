//! A file as memory that outlives the process.
//!
//! This is the one module of the project with unsafe code. What is stored in a shared mapping belongs to the kernel the
//! moment it is stored: the process may be killed at any instruction, and the file has it.

#![expect(
    unsafe_code,
    clippy::cast_ptr_alignment,
    reason = "mapping a file and seeing it as words is unsafe by nature; a mapping is aligned to a page"
)]

use std::fs::File;
use std::io;
use std::slice;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// A file, mapped whole.
pub(crate) struct Mapping(MmapRaw);

impl Mapping {
    /// Maps `file`, which nobody makes shorter while it is mapped, and whose blocks are all there: a block that the disk
    /// has no room for would end the process when it is touched.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        MmapOptions::new().map_raw(file).map(Self)
    }

    /// The file as words. They are atomic because many threads share them, and because whoever else has the file open
    /// may change them at any time.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let words = self.0.len() / size_of::<AtomicU64>();
        // SAFETY: the mapping is aligned to a page, readable and writable, at least this long, and lives as long as
        // `self`; every bit pattern is a valid word.
        unsafe { slice::from_raw_parts(self.0.as_ptr().cast::<AtomicU64>(), words) }
    }
}

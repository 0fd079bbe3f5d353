//! The files of the management console, as they were built into this binary.
//!
//! `npm run build` in `console/` makes them and compresses each once; cargo takes what it finds in `console/dist`, and
//! never calls npm. In a binary that was built without them, [`files`] is empty.
//!
//! Invariant: this crate is data. What is answered with it is decided by the gateway.

/// One file of the console.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// Its path at the console's address, such as `/assets/index-4f2a.js`.
    pub path: &'static str,
    /// Its bytes.
    pub bytes: &'static [u8],
    /// The same, compressed with Brotli, where that is shorter.
    pub brotli: Option<&'static [u8]>,
    /// The same, compressed with gzip, where that is shorter.
    pub gzip: Option<&'static [u8]>,
}

static FILES: &[File] = &include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Every file; none where the console was not built.
pub fn files() -> &'static [File] {
    FILES
}

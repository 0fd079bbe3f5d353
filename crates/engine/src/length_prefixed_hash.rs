//! A hash over pieces, each told apart from the next.

use aws_lc_rs::digest::{Context, SHA256};

/// Feeds a hash with a tag, a length and the bytes of each piece, so that no two sequences of pieces hash alike.
pub struct LengthPrefixedHash(Context);

impl Default for LengthPrefixedHash {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl LengthPrefixedHash {
    /// Adds a piece.
    pub fn add(&mut self, tag: u8, bytes: &[u8]) {
        self.0.update(&[tag]);
        self.0.update(&bytes.len().to_be_bytes());
        self.0.update(bytes);
    }

    /// The SHA-256 of all of them.
    pub fn finish(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.finish().as_ref());
        bytes
    }
}

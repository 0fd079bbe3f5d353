//! Encryption in chunks, so that a blob of any size is sealed and opened as a stream, and a range without the rest.
//!
//! It is the STREAM construction on `XChaCha20-Poly1305`: each blob has a key of its own, and the nonce of a chunk is its
//! number and whether it is the last. So chunks cannot be swapped, left out or moved to another blob, and a blob cannot
//! be cut off. All chunks but the last have [`SEALED_CHUNK`] bytes; an empty blob is one empty chunk.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use futures_util::{StreamExt, TryStreamExt, stream};
use portico_kernel::{Entropy, Secret};

use crate::limits::SEALED_CHUNK;
use crate::{BlobError, ByteStream};

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
const CHUNK: u64 = SEALED_CHUNK as u64;
const STORED_CHUNK: u64 = CHUNK + TAG_BYTES as u64;

/// The key of one blob. It must not be used for another.
#[derive(Clone)]
pub(crate) struct DataKey(Secret<[u8; KEY_BYTES]>);

impl DataKey {
    pub(crate) fn generate(entropy: &dyn Entropy) -> Self {
        Self(Secret::new(entropy.bytes()))
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(Secret::new(bytes)))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.expose()
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(self.0.expose().into())
    }
}

fn nonce(number: u64, is_last: bool) -> XNonce {
    let mut nonce = [0; NONCE_BYTES];
    nonce[NONCE_BYTES - 9..NONCE_BYTES - 1].copy_from_slice(&number.to_be_bytes());
    nonce[NONCE_BYTES - 1] = u8::from(is_last);
    XNonce::from(nonce)
}

fn chunks(size: u64) -> u64 {
    size.div_ceil(CHUNK).max(1)
}

struct Sealer {
    body: ByteStream,
    cipher: XChaCha20Poly1305,
    /// What has come and is not sealed yet.
    waiting: BytesMut,
    number: u64,
}

impl Sealer {
    /// The next sealed chunk. A full one waits until more has come, because only then it is known not to be the last.
    async fn next(&mut self) -> Result<(Bytes, bool), BlobError> {
        while self.waiting.len() <= SEALED_CHUNK {
            match self.body.try_next().await? {
                Some(piece) => self.waiting.extend_from_slice(&piece),
                None => break,
            }
        }
        let is_last = self.waiting.len() <= SEALED_CHUNK;
        let plain = self.waiting.split_to(self.waiting.len().min(SEALED_CHUNK));
        let sealed = self.cipher.encrypt(&nonce(self.number, is_last), &plain[..]);
        self.number += 1;
        let sealed = sealed.map_err(|_| BlobError::Refused("a chunk cannot be sealed".to_owned()))?;
        Ok((sealed.into(), is_last))
    }
}

/// Seals what `body` yields.
pub(crate) fn seal(key: &DataKey, body: ByteStream) -> ByteStream {
    let start = Sealer { body, cipher: key.cipher(), waiting: BytesMut::new(), number: 0 };
    Box::pin(stream::try_unfold(Some(start), |state| async move {
        let Some(mut state) = state else { return Ok(None) };
        let (chunk, is_last) = state.next().await?;
        Ok(Some((chunk, (!is_last).then_some(state))))
    }))
}

/// Which bytes of the object hold the chunks that `range` of a blob of `size` bytes touches. `range` is not empty.
pub(crate) fn stored_range(size: u64, range: &Range<u64>) -> Range<u64> {
    let (first, end) = (range.start / CHUNK, range.end.div_ceil(CHUNK));
    first * STORED_CHUNK..(end * STORED_CHUNK).min(size + chunks(size) * TAG_BYTES as u64)
}

struct Opener {
    stored: ByteStream,
    cipher: XChaCha20Poly1305,
    waiting: BytesMut,
    size: u64,
    range: Range<u64>,
    number: u64,
}

impl Opener {
    /// The next chunk, as much of it as is asked for.
    async fn next(&mut self) -> Result<Bytes, BlobError> {
        let starts_at = self.number * CHUNK;
        let length = (self.size - starts_at).min(CHUNK);
        let stored_length = usize::try_from(length).unwrap_or(usize::MAX) + TAG_BYTES;
        while self.waiting.len() < stored_length {
            let piece = self.stored.try_next().await?;
            let piece = piece.ok_or_else(|| BlobError::Damaged("a sealed chunk is cut off".to_owned()))?;
            self.waiting.extend_from_slice(&piece);
        }
        let sealed = self.waiting.split_to(stored_length);
        let nonce = nonce(self.number, self.number + 1 == chunks(self.size));
        let opened = self.cipher.decrypt(&nonce, &sealed[..]);
        let opened = opened.map_err(|_| BlobError::Damaged("a sealed chunk does not open".to_owned()))?;
        self.number += 1;
        let within =
            |at: u64| usize::try_from(at.clamp(starts_at, starts_at + length) - starts_at).unwrap_or(0);
        Ok(Bytes::from(opened).slice(within(self.range.start)..within(self.range.end)))
    }
}

/// Opens `range` of a blob of `size` bytes; `stored` yields what [`stored_range`] named.
pub(crate) fn open(key: &DataKey, size: u64, range: Range<u64>, stored: ByteStream) -> ByteStream {
    let (cipher, number) = (key.cipher(), range.start / CHUNK);
    let opener = Opener { stored, cipher, waiting: BytesMut::new(), size, range, number };
    stream::try_unfold(opener, |mut opener| async move {
        if opener.number * CHUNK >= opener.range.end {
            return Ok(None);
        }
        let piece = opener.next().await?;
        Ok(Some((piece, opener)))
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use portico_kernel::SystemEntropy;
    use proptest::prelude::*;

    use super::*;

    fn pieces(content: &[u8], length: usize) -> ByteStream {
        let pieces: Vec<_> = content.chunks(length).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        stream::iter(pieces).boxed()
    }

    fn collect(body: ByteStream) -> Result<Vec<u8>, BlobError> {
        let pieces = body.try_collect::<Vec<_>>().now_or_never();
        Ok(pieces.expect("nothing is waited for")?.concat())
    }

    fn read(key: &DataKey, size: usize, range: Range<u64>, stored: &[u8]) -> Result<Vec<u8>, BlobError> {
        let within = stored_range(size as u64, &range);
        let end = usize::try_from(within.end).unwrap().min(stored.len());
        let stored = &stored[usize::try_from(within.start).unwrap().min(end)..end];
        collect(open(key, size as u64, range, pieces(stored, 10_000)))
    }

    fn content(size: usize) -> Vec<u8> {
        (0..size).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn any_range_opens_to_what_was_sealed(
            size in prop_oneof![0..4usize, 65_530..65_542usize, 131_070..131_075usize, 0..300_000usize],
            piece in 1..150_000usize,
            from in any::<prop::sample::Index>(),
            to in any::<prop::sample::Index>(),
        ) {
            let key = DataKey::generate(&SystemEntropy);
            let plain = content(size);
            let stored = collect(seal(&key, pieces(&plain, piece))).unwrap();
            prop_assert_eq!(stored.len() as u64, stored_range(size as u64, &(0..size.max(1) as u64)).end);
            let (a, b) = (from.index(size + 1), to.index(size + 1));
            let (a, b) = (a.min(b), a.max(b));
            if a < b {
                prop_assert_eq!(read(&key, size, a as u64..b as u64, &stored).unwrap(), &plain[a..b]);
            }
        }

        #[test]
        fn one_changed_byte_is_refused(at in any::<prop::sample::Index>(), flip in 1u8..) {
            let key = DataKey::generate(&SystemEntropy);
            let size = 100_000;
            let mut stored = collect(seal(&key, pieces(&content(size), 9_000))).unwrap();
            let at = at.index(stored.len());
            stored[at] ^= flip;
            prop_assert!(matches!(read(&key, size, 0..size as u64, &stored), Err(BlobError::Damaged(_))));
        }
    }

    #[test]
    fn chunks_cannot_be_cut_off_swapped_or_moved() {
        let (key, other) = (DataKey::generate(&SystemEntropy), DataKey::generate(&SystemEntropy));
        let size = 3 * SEALED_CHUNK;
        let stored = collect(seal(&key, pieces(&content(size), 50_000))).unwrap();
        let chunk = usize::try_from(STORED_CHUNK).unwrap();
        let refused = |key: &DataKey, size: usize, stored: &[u8]| {
            matches!(read(key, size, 0..size as u64, stored), Err(BlobError::Damaged(_)))
        };
        assert!(!refused(&key, size, &stored));
        assert!(refused(&other, size, &stored), "another blob's key");
        assert!(refused(&key, size, &stored[..2 * chunk]), "the last chunk is missing");
        assert!(refused(&key, 2 * SEALED_CHUNK, &stored[..2 * chunk]), "and the row was changed to fit");
        assert!(refused(&key, size, &stored[..stored.len() - 1]), "cut off");
        let swapped = [&stored[chunk..2 * chunk], &stored[..chunk], &stored[2 * chunk..]].concat();
        assert!(refused(&key, size, &swapped), "swapped");
        let longer = [&stored[..], &stored[2 * chunk..]].concat();
        assert!(refused(&key, size + SEALED_CHUNK, &longer), "a chunk is there twice");
    }
}

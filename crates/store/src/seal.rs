//! Sealing: what must not be readable in a copy of the database.

use std::fmt;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use portico_kernel::{Entropy, Secret, Timestamp};

use crate::Keyring;
use crate::keyring::{KEY_BYTES, KEY_ID_BYTES, Key};

const VERSION: u8 = 1;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
const HEAD_BYTES: usize = 1 + KEY_ID_BYTES + NONCE_BYTES + KEY_BYTES + TAG_BYTES + NONCE_BYTES;

/// What a sealed value belongs to. It opens for the same account, row and purpose only, so that a value moved to
/// another row stays shut.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The account that owns it; empty for the platform's own.
    pub account: &'a str,
    /// The row it stands in.
    pub row: &'a str,
    /// What it is for.
    pub purpose: &'static str,
}

impl Context<'_> {
    /// The parts, each behind its length, so that no two contexts read alike.
    fn bytes(&self) -> Vec<u8> {
        let parts = [self.account, self.row, self.purpose];
        parts
            .iter()
            .flat_map(|part| (part.len() as u64).to_be_bytes().into_iter().chain(part.bytes()))
            .collect()
    }
}

/// A sealed value that does not open: made with another key, for another row, or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealError;

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sealed value does not open with this keyring")
    }
}

impl std::error::Error for SealError {}

fn encrypt(key: &[u8; KEY_BYTES], nonce: &[u8; NONCE_BYTES], aad: &[u8], msg: &[u8]) -> Vec<u8> {
    // The cipher refuses only messages of 256 GiB and more, which no column holds.
    XChaCha20Poly1305::new(key.into())
        .encrypt(&XNonce::from(*nonce), Payload { msg, aad })
        .unwrap_or_default()
}

fn decrypt(
    key: &[u8; KEY_BYTES],
    nonce: &[u8; NONCE_BYTES],
    aad: &[u8],
    msg: &[u8],
) -> Result<Vec<u8>, SealError> {
    let cipher = XChaCha20Poly1305::new(key.into());
    cipher.decrypt(&XNonce::from(*nonce), Payload { msg, aad }).map_err(|_| SealError)
}

/// A sealed value whose key was opened.
struct Unwrapped<'s> {
    data_key: [u8; KEY_BYTES],
    nonce: [u8; NONCE_BYTES],
    ciphertext: &'s [u8],
}

impl Keyring {
    /// Seals `plain` under a data key of its own, which the keyring's first key wraps.
    pub fn seal(&self, entropy: &dyn Entropy, context: Context<'_>, plain: &[u8]) -> Vec<u8> {
        let aad = context.bytes();
        let data_key: [u8; KEY_BYTES] = entropy.bytes();
        let (wrap_nonce, nonce) = (entropy.bytes(), entropy.bytes());
        let mut sealed = self.wrap(&wrap_nonce, &aad, &data_key);
        sealed.extend_from_slice(&nonce);
        sealed.extend(encrypt(&data_key, &nonce, &aad, plain));
        sealed
    }

    /// The head of a sealed value, up to its own nonce: a data key, wrapped by the first key.
    fn wrap(&self, wrap_nonce: &[u8; NONCE_BYTES], aad: &[u8], data_key: &[u8; KEY_BYTES]) -> Vec<u8> {
        let key = self.active();
        let mut head = vec![VERSION];
        head.extend_from_slice(&key.id);
        head.extend_from_slice(wrap_nonce);
        head.extend(encrypt(key.bytes.expose(), wrap_nonce, aad, data_key));
        head
    }

    /// The same value with its data key wrapped by the first key, whichever key of the ring wrapped it before. What the data
    /// key encrypts is left as it is.
    pub fn wrap_anew(
        &self,
        entropy: &dyn Entropy,
        context: Context<'_>,
        sealed: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        let aad = context.bytes();
        let Unwrapped { data_key, nonce, ciphertext } = self.unwrapped(&aad, sealed)?;
        let mut anew = self.wrap(&entropy.bytes(), &aad, &data_key);
        anew.extend_from_slice(&nonce);
        anew.extend_from_slice(ciphertext);
        Ok(anew)
    }

    /// Opens what [`Keyring::seal`] made for the same context.
    pub fn open(&self, context: Context<'_>, sealed: &[u8]) -> Result<Secret<Vec<u8>>, SealError> {
        let aad = context.bytes();
        let Unwrapped { data_key, nonce, ciphertext } = self.unwrapped(&aad, sealed)?;
        decrypt(&data_key, &nonce, &aad, ciphertext).map(Secret::new)
    }

    /// A sealed value with the key that encrypts it.
    fn unwrapped<'s>(&self, aad: &[u8], sealed: &'s [u8]) -> Result<Unwrapped<'s>, SealError> {
        let (head, ciphertext) = sealed.split_at_checked(HEAD_BYTES).ok_or(SealError)?;
        let mut head = Reader(head);
        if head.take::<1>()? != [VERSION] {
            return Err(SealError);
        }
        let key = self.find(head.take()?).ok_or(SealError)?;
        let wrap_nonce = head.take()?;
        let wrapped: [u8; KEY_BYTES + TAG_BYTES] = head.take()?;
        let nonce = head.take()?;
        let data_key = decrypt(key.bytes.expose(), &wrap_nonce, aad, &wrapped)?;
        let data_key: [u8; KEY_BYTES] = data_key.try_into().map_err(|_| SealError)?;
        Ok(Unwrapped { data_key, nonce, ciphertext })
    }

    /// Seals a short value into text that a caller holds for us `until` then, such as a page token.
    pub fn seal_token(
        &self,
        entropy: &dyn Entropy,
        context: Context<'_>,
        until: Timestamp,
        value: &[u8],
    ) -> String {
        let nonce = entropy.bytes();
        let plain = [&until.as_micros().to_be_bytes()[..], value].concat();
        let mut sealed = Vec::from(nonce);
        sealed.extend(encrypt(&token_key(self.active()), &nonce, &context.bytes(), &plain));
        BASE64_URL_SAFE_NO_PAD.encode(sealed)
    }

    /// Opens what [`Keyring::seal_token`] made, with any key of the ring, while its time lasts.
    pub fn open_token(
        &self,
        context: Context<'_>,
        now: Timestamp,
        token: &str,
    ) -> Result<Vec<u8>, SealError> {
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(token).map_err(|_| SealError)?;
        let aad = context.bytes();
        let (nonce, ciphertext) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(SealError)?;
        let opened =
            self.keys().iter().find_map(|key| decrypt(&token_key(key), nonce, &aad, ciphertext).ok());
        let plain = opened.ok_or(SealError)?;
        let (until, value) = plain.split_first_chunk::<8>().ok_or(SealError)?;
        if now.as_micros() < i64::from_be_bytes(*until) { Ok(value.to_vec()) } else { Err(SealError) }
    }
}

/// Tokens go out to callers by the million, so they never touch the key that wraps secrets.
fn token_key(key: &Key) -> [u8; KEY_BYTES] {
    let tag =
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.bytes.expose()), b"portico tokens held by callers");
    let mut derived = [0; KEY_BYTES];
    derived.copy_from_slice(tag.as_ref());
    derived
}

/// Takes fixed pieces off the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], SealError> {
        let (piece, rest) = self.0.split_first_chunk().ok_or(SealError)?;
        self.0 = rest;
        Ok(*piece)
    }
}

#[cfg(test)]
mod tests {
    use portico_kernel::SystemEntropy;
    use proptest::prelude::*;

    use super::*;

    const HERE: Context<'_> = Context { account: "acc_1", row: "whe_1", purpose: "secret" };

    #[test]
    fn a_sealed_value_opens_in_its_own_place_only() {
        let ring = Keyring::generate(&SystemEntropy);
        let sealed = ring.seal(&SystemEntropy, HERE, b"whsec");
        assert_eq!(ring.open(HERE, &sealed).map(|plain| plain.expose().clone()), Ok(b"whsec".to_vec()));
        for elsewhere in [
            Context { account: "acc_2", ..HERE },
            Context { row: "whe_2", ..HERE },
            Context { purpose: "answer", ..HERE },
            Context { account: "acc_1whe_1", row: "", ..HERE },
        ] {
            assert!(ring.open(elsewhere, &sealed).is_err(), "{elsewhere:?}");
        }
        assert!(Keyring::generate(&SystemEntropy).open(HERE, &sealed).is_err(), "another ring");
    }

    #[test]
    fn an_older_key_of_the_ring_still_opens() {
        let old = Keyring::generate(&SystemEntropy);
        let sealed = old.seal(&SystemEntropy, HERE, b"x");
        let (now, until) = (Timestamp::from_seconds(9), Timestamp::from_seconds(10));
        let token = old.seal_token(&SystemEntropy, HERE, until, b"y");
        let rotated = old.with_new_key(&SystemEntropy);
        assert!(rotated.open(HERE, &sealed).is_ok());
        assert_eq!(rotated.open_token(HERE, now, &token).ok().as_deref(), Some(&b"y"[..]));
        assert!(rotated.open_token(HERE, until, &token).is_err(), "its time is over");
        assert!(old.open(HERE, &rotated.seal(&SystemEntropy, HERE, b"x")).is_err(), "the new key is active");
    }

    #[test]
    fn wrapped_anew_a_value_opens_without_the_older_key() {
        let old = Keyring::generate(&SystemEntropy);
        let rotated = old.with_new_key(&SystemEntropy);
        let sealed = old.seal(&SystemEntropy, HERE, b"x");
        let anew = rotated.wrap_anew(&SystemEntropy, HERE, &sealed).unwrap();
        assert_eq!(anew.len(), sealed.len());
        assert!(old.open(HERE, &anew).is_err(), "the new key wraps it");
        assert_eq!(rotated.open(HERE, &anew).map(|plain| plain.expose().clone()), Ok(b"x".to_vec()));
        let ids: Vec<_> = rotated.key_ids().collect();
        assert_eq!((&sealed[1..9], &anew[1..9]), (&ids[1][..], &ids[0][..]), "where statements look for it");
        let elsewhere = Context { row: "whe_2", ..HERE };
        assert!(
            rotated.wrap_anew(&SystemEntropy, elsewhere, &sealed).is_err(),
            "it stays bound to its place"
        );
        assert!(rotated.wrap_anew(&SystemEntropy, HERE, &sealed[..40]).is_err());
    }

    proptest! {
        #[test]
        fn one_changed_byte_shuts_it(plain in proptest::collection::vec(any::<u8>(), 0..64), at in any::<prop::sample::Index>(), flip in 1u8..) {
            let ring = Keyring::generate(&SystemEntropy);
            let mut sealed = ring.seal(&SystemEntropy, HERE, &plain);
            let at = at.index(sealed.len());
            sealed[at] ^= flip;
            prop_assert!(ring.open(HERE, &sealed).is_err());
        }
    }
}

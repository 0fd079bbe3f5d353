//! The secret of a key: made, hinted at, hashed.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use portico_kernel::{Entropy, Secret};

const PREFIX: &str = "pcs_";
const RANDOM_BYTES: usize = 32;
const HINT_CHARACTERS: usize = 4;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A new secret: a prefix that scanners know, 256 random bits, and a checksum that tells a mistyped one.
pub(crate) fn generate(entropy: &dyn Entropy) -> Secret<String> {
    let random = random(entropy);
    Secret::new(format!("{PREFIX}{random}{}", checksum(&random)))
}

/// 256 random bits as text that fits into an address: a session's name, what is in a link, a code.
pub(crate) fn random(entropy: &dyn Entropy) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(entropy.bytes::<RANDOM_BYTES>())
}

fn checksum(text: &str) -> String {
    let mut rest = crc32fast::hash(text.as_bytes());
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(rest % 62) as usize];
        rest /= 62;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

/// The end of the secret, by which a person tells keys apart.
pub(crate) fn hint(secret: &Secret<String>) -> String {
    secret.expose()[secret.expose().len() - HINT_CHARACTERS..].to_owned()
}

/// What is kept. A plain hash is enough for 256 random bits, and lets a core check hundreds of thousands a second.
pub(crate) fn hash(secret: &str) -> Vec<u8> {
    digest(&SHA256, secret.as_bytes()).as_ref().to_vec()
}

/// Is this the secret? Takes as long for any answer, and as long when there is nothing to compare with.
pub(crate) fn matches(given: &str, kept: Option<&[u8]>) -> bool {
    let equal = verify_slices_are_equal(&hash(given), kept.unwrap_or(&[0; 32])).is_ok();
    equal && kept.is_some()
}

#[cfg(test)]
mod tests {
    use portico_kernel::SystemEntropy;

    use super::*;

    #[test]
    fn a_secret_has_its_form_and_matches_only_itself() {
        let secret = generate(&SystemEntropy);
        assert_eq!(secret.expose().len(), 4 + 43 + 6);
        let kept = hash(secret.expose());
        assert!(matches(secret.expose(), Some(&kept)));
        assert!(!matches("pcs_other", Some(&kept)));
        assert!(!matches(secret.expose(), None));
        assert!(secret.expose().ends_with(&hint(&secret)));
    }
}

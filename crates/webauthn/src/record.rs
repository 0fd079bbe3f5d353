//! Passkeys as they are stored: the credential record (section 4) and its key.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents, VerificationAlgorithm,
};
use serde::{Deserialize, Serialize};

use crate::{Base64Url, Refusal};

/// The sizes of RSA keys, in bytes, that its signatures may be of.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// A passkey. Its JSON has the names that the crate `webauthn-rs` gave it, which wrote the first ones; what else it wrote is not read.
#[derive(Debug, Serialize, Deserialize)]
pub struct Passkey {
    pub(crate) cred: CredentialRecord,
}

impl Passkey {
    /// The id that the authenticator gave it.
    pub fn credential_id(&self) -> &[u8] {
        &self.cred.id.0
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CredentialRecord {
    #[serde(rename = "cred_id")]
    pub(crate) id: Base64Url,
    #[serde(rename = "cred")]
    pub(crate) public_key: PublicKey,
    #[serde(rename = "counter")]
    pub(crate) sign_count: u32,
    pub(crate) backup_eligible: bool,
    pub(crate) backup_state: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PublicKey {
    #[serde(rename = "type_")]
    pub(crate) algorithm: Algorithm,
    pub(crate) key: KeyMaterial,
}

/// A signature algorithm, by its names in COSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Algorithm {
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "ES384")]
    Es384,
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "EDDSA")]
    EdDsa,
}

impl Algorithm {
    /// What is offered to authenticators, the most welcome first.
    pub(crate) const OFFERED: [Self; 4] = [Self::Es256, Self::Es384, Self::Rs256, Self::EdDsa];

    /// Its number in COSE.
    pub(crate) fn cose(self) -> i64 {
        match self {
            Self::Es256 => -7,
            Self::Es384 => -35,
            Self::Rs256 => -257,
            Self::EdDsa => -8,
        }
    }

    /// The number of its curve in COSE; RSA has none.
    pub(crate) fn curve(self) -> Option<i64> {
        match self {
            Self::Es256 => Some(1),
            Self::Es384 => Some(2),
            Self::EdDsa => Some(6),
            Self::Rs256 => None,
        }
    }

    /// The algorithm of a number in COSE.
    pub(crate) fn offered(number: i64) -> Result<Self, Refusal> {
        Self::OFFERED.into_iter().find(|each| each.cose() == number).ok_or(Refusal::Algorithm)
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum KeyMaterial {
    #[serde(rename = "EC_EC2")]
    Ec2 { x: Base64Url, y: Base64Url },
    #[serde(rename = "EC_OKP")]
    Okp { x: Base64Url },
    #[serde(rename = "RSA")]
    Rsa { n: Base64Url, e: Vec<u8> },
}

impl PublicKey {
    /// Checks that it is a key of its algorithm.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        self.parse().map(drop)
    }

    /// Verifies a signature of `message`.
    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), Refusal> {
        self.parse()?.verify_sig(message, signature).map_err(|_| Refusal::Signature)
    }

    fn parse(&self) -> Result<ParsedPublicKey, Refusal> {
        let refused = |_| Refusal::PublicKey;
        let parse = |algorithm: &'static dyn VerificationAlgorithm, bytes: &[u8]| {
            ParsedPublicKey::new(algorithm, bytes).map_err(refused)
        };
        match (self.algorithm, &self.key) {
            (Algorithm::Es256, KeyMaterial::Ec2 { x, y }) => {
                parse(&ECDSA_P256_SHA256_ASN1, &point(x, y, 32)?)
            }
            (Algorithm::Es384, KeyMaterial::Ec2 { x, y }) => {
                parse(&ECDSA_P384_SHA384_ASN1, &point(x, y, 48)?)
            }
            (Algorithm::EdDsa, KeyMaterial::Okp { x }) if x.0.len() == 32 => parse(&ED25519, &x.0),
            // Every authenticator uses this exponent; another could be of any length, and would be stored.
            (Algorithm::Rs256, KeyMaterial::Rsa { n, e })
                if RSA_BYTES.contains(&n.0.len()) && *e == [1, 0, 1] =>
            {
                let components = RsaPublicKeyComponents { n: &n.0, e };
                components.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256).map_err(refused)
            }
            _ => Err(Refusal::PublicKey),
        }
    }
}

/// An uncompressed point, as SEC 1 writes it.
fn point(x: &Base64Url, y: &Base64Url, length: usize) -> Result<Vec<u8>, Refusal> {
    if x.0.len() != length || y.0.len() != length {
        return Err(Refusal::PublicKey);
    }
    Ok([&[4], x.0.as_slice(), &y.0].concat())
}

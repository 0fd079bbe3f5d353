//! An authenticator in a browser, whose every word can be spoilt.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use minicbor::Encoder;

use crate::*;

pub(super) const CHALLENGE: &str = "Y2hhbGxlbmdl";
pub(super) const PRESENT: u8 = 0b1;
pub(super) const VERIFIED: u8 = 0b100;
pub(super) const ELIGIBLE: u8 = 0b1000;
pub(super) const BACKED_UP: u8 = 0b1_0000;
pub(super) const CREDENTIAL: u8 = 0b100_0000;
pub(super) const EXTENSIONS: u8 = 0b1000_0000;

pub(super) enum Key {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

pub(super) fn map(entries: u64) -> Encoder<Vec<u8>> {
    let mut encoder = Encoder::new(Vec::new());
    encoder.map(entries).unwrap();
    encoder
}

pub(super) fn curve_key(kind: i64, algorithm: i64, curve: i64, coordinates: &[&[u8]]) -> Vec<u8> {
    let mut cose = map(3 + coordinates.len() as u64);
    cose.i64(1).unwrap().i64(kind).unwrap().i64(3).unwrap().i64(algorithm).unwrap();
    cose.i64(-1).unwrap().i64(curve).unwrap();
    for (label, coordinate) in [-2, -3].into_iter().zip(coordinates) {
        cose.i64(label).unwrap().bytes(coordinate).unwrap();
    }
    cose.into_writer()
}

pub(super) fn rsa_key(n: &[u8], e: &[u8]) -> Vec<u8> {
    let mut cose = map(4);
    cose.i64(1).unwrap().i64(3).unwrap().i64(3).unwrap().i64(-257).unwrap();
    cose.i64(-1).unwrap().bytes(n).unwrap().i64(-2).unwrap().bytes(e).unwrap();
    cose.into_writer()
}

impl Key {
    pub(super) fn p256() -> Self {
        Self::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap())
    }

    fn cose(&self) -> Vec<u8> {
        match self {
            Self::P256(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                curve_key(2, -7, 1, &[x, y])
            }
            Self::P384(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(48);
                curve_key(2, -35, 2, &[x, y])
            }
            Self::Ed25519(key) => curve_key(1, -8, 6, &[key.public_key().as_ref()]),
            Self::Rsa(key) => {
                let public = key.public_key();
                rsa_key(public.modulus().big_endian_without_leading_zero(), &[1, 0, 1])
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::P256(key) | Self::P384(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
        }
    }
}

/// A device with one passkey, in a browser. Whatever it says can be spoilt.
pub(super) struct Device {
    pub(super) key: Key,
    pub(super) cose: Vec<u8>,
    pub(super) id: Vec<u8>,
    pub(super) client_data: Value,
    pub(super) relying_party: &'static str,
    pub(super) flags: u8,
    pub(super) sign_count: u32,
    pub(super) extensions: Vec<u8>,
    pub(super) format: &'static str,
    pub(super) statement: Vec<u8>,
}

impl Device {
    pub(super) fn new(key: Key) -> Self {
        Self {
            cose: key.cose(),
            key,
            id: b"a credential".to_vec(),
            client_data: json!({ "challenge": CHALLENGE, "origin": "https://auth.test", "crossOrigin": false, "more": [1] }),
            relying_party: "auth.test",
            flags: PRESENT | VERIFIED,
            sign_count: 0,
            extensions: Vec::new(),
            format: "none",
            statement: map(0).into_writer(),
        }
    }

    fn client_data(&self, kind: &str) -> Vec<u8> {
        let mut data = self.client_data.clone();
        if let Some(data) = data.as_object_mut() {
            data.entry("type").or_insert_with(|| json!(kind));
        }
        data.to_string().into_bytes()
    }

    pub(super) fn data(&self, flags: u8, credential: &[u8]) -> Vec<u8> {
        let hash = digest(&SHA256, self.relying_party.as_bytes());
        let count = self.sign_count.to_be_bytes();
        [hash.as_ref(), &[self.flags | flags], &count, credential, &self.extensions].concat()
    }

    pub(super) fn create(&self) -> RegistrationResponse {
        let length = u16::try_from(self.id.len()).unwrap().to_be_bytes();
        let credential = [&[0; 16][..], &length, &self.id, &self.cose].concat();
        let mut object = map(3);
        object.str("fmt").unwrap().str(self.format).unwrap();
        object.str("authData").unwrap().bytes(&self.data(CREDENTIAL, &credential)).unwrap();
        object.str("attStmt").unwrap();
        let object = [object.into_writer(), self.statement.clone()].concat();
        let response = AttestationResponse {
            client_data: Base64Url(self.client_data("webauthn.create")),
            attestation_object: Base64Url(object),
        };
        RegistrationResponse { response }
    }

    pub(super) fn get(&self) -> AuthenticationResponse {
        let (client_data, data) = (self.client_data("webauthn.get"), self.data(0, &[]));
        let signed = [data.as_slice(), digest(&SHA256, &client_data).as_ref()].concat();
        let response = AssertionResponse {
            client_data: Base64Url(client_data),
            authenticator_data: Base64Url(data),
            signature: Base64Url(self.key.sign(&signed)),
            user_handle: Some(Base64Url(vec![0; 16])),
        };
        AuthenticationResponse { raw_id: Base64Url(self.id.clone()), response }
    }
}

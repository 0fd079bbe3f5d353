//! What authenticators write, in CBOR and in the fixed layout of the authenticator data (sections 6.1 and 6.5).

use std::collections::BTreeMap;

use minicbor::Decoder;
use minicbor::data::Type;
use minicbor::decode::Error;

use crate::Base64Url;
use crate::Refusal;
use crate::record::{Algorithm, KeyMaterial, PublicKey};

const RP_ID_HASH_BYTES: usize = 32;
const AAGUID_BYTES: usize = 16;

impl From<Error> for Refusal {
    fn from(_: Error) -> Self {
        Self::Malformed
    }
}

/// The flags of the authenticator data.
#[derive(Clone, Copy)]
pub(crate) struct Flags(u8);

impl Flags {
    pub(crate) fn user_present(self) -> bool {
        self.0 & 0b1 != 0
    }

    pub(crate) fn user_verified(self) -> bool {
        self.0 & 0b100 != 0
    }

    pub(crate) fn backup_eligible(self) -> bool {
        self.0 & 0b1000 != 0
    }

    pub(crate) fn backup_state(self) -> bool {
        self.0 & 0b1_0000 != 0
    }

    fn has_credential(self) -> bool {
        self.0 & 0b100_0000 != 0
    }

    fn has_extensions(self) -> bool {
        self.0 & 0b1000_0000 != 0
    }
}

/// The attestation object, without its statement.
pub(crate) struct AttestationObject<'a> {
    pub(crate) authenticator_data: &'a [u8],
}

impl<'a> AttestationObject<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let mut decoder = Decoder::new(bytes);
        let (mut format, mut statement, mut data) = (None, None, None);
        for _ in 0..decoder.map()?.ok_or(Refusal::Malformed)? {
            match decoder.str()? {
                "fmt" => format = Some(decoder.str()?),
                "attStmt" => {
                    statement = decoder.probe().map()?;
                    decoder.skip()?;
                }
                "authData" => data = Some(decoder.bytes()?),
                _ => decoder.skip()?,
            }
        }
        let (Some(format), Some(entries), Some(authenticator_data)) = (format, statement, data) else {
            return Err(Refusal::Malformed);
        };
        // The format "none" has an empty statement (8.7).
        if decoder.position() != bytes.len() || (format == "none" && entries != 0) {
            return Err(Refusal::Malformed);
        }
        Ok(Self { authenticator_data })
    }
}

/// The authenticator data.
pub(crate) struct AuthenticatorData<'a> {
    pub(crate) rp_id_hash: &'a [u8],
    pub(crate) flags: Flags,
    pub(crate) sign_count: u32,
    pub(crate) credential: Option<AttestedCredential<'a>>,
}

/// A credential that was just made.
pub(crate) struct AttestedCredential<'a> {
    pub(crate) id: &'a [u8],
    pub(crate) public_key: PublicKey,
}

impl<'a> AuthenticatorData<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let mut rest = bytes;
        let rp_id_hash = take(&mut rest, RP_ID_HASH_BYTES)?;
        let flags = Flags(take_array::<1>(&mut rest)?[0]);
        let sign_count = u32::from_be_bytes(take_array(&mut rest)?);
        let credential =
            if flags.has_credential() { Some(AttestedCredential::parse(&mut rest)?) } else { None };
        if flags.has_extensions() {
            let mut decoder = Decoder::new(rest);
            decoder.probe().map()?;
            decoder.skip()?;
            take(&mut rest, decoder.position())?;
        }
        if rest.is_empty() {
            Ok(Self { rp_id_hash, flags, sign_count, credential })
        } else {
            Err(Refusal::Malformed)
        }
    }
}

impl<'a> AttestedCredential<'a> {
    fn parse(rest: &mut &'a [u8]) -> Result<Self, Refusal> {
        take(rest, AAGUID_BYTES)?;
        let length = u16::from_be_bytes(take_array(rest)?);
        let id = take(rest, length.into())?;
        let mut decoder = Decoder::new(rest);
        let public_key = public_key(&mut decoder)?;
        take(rest, decoder.position())?;
        Ok(Self { id, public_key })
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Refusal> {
    let (taken, after) = rest.split_at_checked(length).ok_or(Refusal::Malformed)?;
    *rest = after;
    Ok(taken)
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Refusal> {
    take(rest, N)?.try_into().map_err(|_| Refusal::Malformed)
}

/// One parameter of a COSE key.
#[derive(Clone, Copy)]
enum Parameter<'a> {
    Integer(i64),
    Bytes(&'a [u8]),
}

/// Reads a COSE key (RFC 9052, section 7). Its algorithm must be one that was offered, and its type and curve those of its algorithm.
fn public_key(decoder: &mut Decoder<'_>) -> Result<PublicKey, Refusal> {
    let mut parameters = BTreeMap::new();
    for _ in 0..decoder.map()?.ok_or(Refusal::Malformed)? {
        let label = decoder.i64()?;
        let value = match decoder.datatype()? {
            Type::Bytes => Parameter::Bytes(decoder.bytes()?),
            _ => Parameter::Integer(decoder.i64()?),
        };
        if parameters.insert(label, value).is_some() {
            return Err(Refusal::Malformed);
        }
    }
    let integer = |label: i64| match parameters.get(&label) {
        Some(Parameter::Integer(value)) => Ok(*value),
        _ => Err(Refusal::Malformed),
    };
    let bytes = |label: i64| match parameters.get(&label) {
        Some(Parameter::Bytes(value)) => Ok(Base64Url(value.to_vec())),
        _ => Err(Refusal::Malformed),
    };
    let (key_type, algorithm) = (integer(1)?, Algorithm::offered(integer(3)?)?);
    let key = match algorithm {
        Algorithm::Rs256 if key_type == 3 => KeyMaterial::Rsa { n: bytes(-1)?, e: bytes(-2)?.0 },
        Algorithm::Es256 | Algorithm::Es384 if key_type == 2 && Some(integer(-1)?) == algorithm.curve() => {
            KeyMaterial::Ec2 { x: bytes(-2)?, y: bytes(-3)? }
        }
        Algorithm::EdDsa if key_type == 1 && Some(integer(-1)?) == algorithm.curve() => {
            KeyMaterial::Okp { x: bytes(-2)? }
        }
        _ => return Err(Refusal::PublicKey),
    };
    Ok(PublicKey { algorithm, key })
}

//! A relying party of `WebAuthn` Level 3, as far as passkeys need one: it makes the options of both ceremonies, and verifies what a
//! browser returns. The comments number the steps of section 7.1 (a registration) and of section 7.2 (an authentication). Why it is our own,
//! and why it does not look at attestations: `docs/decisions/0024-a-relying-party-of-our-own.md`.
//!
//! Invariant: this crate knows nothing of the platform, draws no random numbers and keeps nothing.

mod authenticator;
mod record;
#[cfg(test)]
mod tests;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};
use url::Url;

use authenticator::{AttestationObject, AuthenticatorData};
pub use record::Passkey;
use record::{Algorithm, CredentialRecord};

/// How long a browser lets the person take.
const TIMEOUT_MS: u32 = 300_000;
/// The longest credential id that the specification allows.
const CREDENTIAL_ID_MAX: usize = 1023;

/// Why a ceremony was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not parse.
    Malformed,
    /// The client data are of the other ceremony.
    Type,
    /// It answers another challenge.
    Challenge,
    /// It was made at another origin.
    Origin,
    /// It was made in a frame of another site.
    CrossOrigin,
    /// The authenticator made it for another relying party.
    RelyingParty,
    /// Nobody touched the authenticator.
    UserNotPresent,
    /// The authenticator did not verify the person.
    UserNotVerified,
    /// It is backed up, but says that it cannot be, or that changed since it was registered.
    Backup,
    /// The key is of an algorithm that was not offered.
    Algorithm,
    /// The key is not a key of its algorithm.
    PublicKey,
    /// The credential id is empty or too long, or is that of another credential.
    CredentialId,
    /// The signature is wrong.
    Signature,
    /// The signature counter did not rise: somebody may have cloned the authenticator.
    SignCount,
}

/// Bytes that travel as unpadded base64url text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Base64Url(Vec<u8>);

impl Serialize for Base64Url {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_URL_SAFE_NO_PAD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64Url {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_URL_SAFE_NO_PAD.decode(text).map(Self).map_err(de::Error::custom)
    }
}

/// What a browser sends after `navigator.credentials.create`.
#[derive(Debug, Deserialize)]
pub struct RegistrationResponse {
    response: AttestationResponse,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttestationResponse {
    #[serde(rename = "clientDataJSON")]
    client_data: Base64Url,
    attestation_object: Base64Url,
}

/// What a browser sends after `navigator.credentials.get`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthenticationResponse {
    raw_id: Base64Url,
    response: AssertionResponse,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AssertionResponse {
    #[serde(rename = "clientDataJSON")]
    client_data: Base64Url,
    authenticator_data: Base64Url,
    signature: Base64Url,
    user_handle: Option<Base64Url>,
}

impl AuthenticationResponse {
    /// The id of the credential that it claims to be of.
    pub fn credential_id(&self) -> &[u8] {
        &self.raw_id.0
    }

    /// The user handle, if it has the length of ours.
    pub fn user_handle(&self) -> Option<u128> {
        let handle = self.response.user_handle.as_ref()?;
        handle.0.as_slice().try_into().ok().map(u128::from_be_bytes)
    }
}

/// Whom a passkey is for.
#[derive(Debug)]
pub struct User<'a> {
    /// The user handle. A passkey names them by it, so it should not tell who they are.
    pub id: u128,
    /// What tells their accounts apart, such as an address.
    pub name: &'a str,
    /// What they are called.
    pub display_name: &'a str,
}

/// The client data: what the browser says of the ceremony.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    cross_origin: Option<bool>,
    top_origin: Option<String>,
}

/// The site, as browsers and authenticators know it.
#[derive(Debug)]
pub struct RelyingParty {
    id: String,
    origin: String,
    name: String,
}

impl RelyingParty {
    /// The relying party at `address`, which `name` tells people; `None` at an address without a domain, such as `127.0.0.1`.
    pub fn new(name: &str, address: &str) -> Option<Self> {
        let url = Url::parse(address).ok()?;
        Some(Self {
            id: url.domain()?.to_owned(),
            origin: url.origin().ascii_serialization(),
            name: name.to_owned(),
        })
    }

    /// The options of `navigator.credentials.create`. `challenge` is unpadded base64url text of at least 16 random bytes. The passkey must
    /// be discoverable, so that nobody types an address later.
    pub fn creation_options<'a>(
        &self,
        user: &User<'_>,
        challenge: &str,
        registered: impl Iterator<Item = &'a Passkey>,
    ) -> Value {
        let exclude: Vec<_> =
            registered.map(|passkey| json!({ "type": "public-key", "id": passkey.cred.id })).collect();
        let offered = Algorithm::OFFERED.map(|each| json!({ "type": "public-key", "alg": each.cose() }));
        json!({ "publicKey": {
            "rp": { "name": self.name, "id": self.id },
            "user": {
                "id": Base64Url(user.id.to_be_bytes().to_vec()), "name": user.name, "displayName": user.display_name,
            },
            "challenge": challenge,
            "pubKeyCredParams": offered,
            "timeout": TIMEOUT_MS,
            "excludeCredentials": exclude,
            "authenticatorSelection": {
                "residentKey": "required", "requireResidentKey": true, "userVerification": "required",
            },
            "attestation": "none",
            "extensions": {
                "credentialProtectionPolicy": "userVerificationRequired",
                "enforceCredentialProtectionPolicy": false,
                "uvm": true,
                "credProps": true,
            },
        } })
    }

    /// The options of `navigator.credentials.get`. No credential is named: the browser finds the person's passkey.
    pub fn request_options(&self, challenge: &str) -> Value {
        json!({ "publicKey": {
            "challenge": challenge,
            "timeout": TIMEOUT_MS,
            "rpId": self.id,
            "allowCredentials": [],
            "userVerification": "required",
            "extensions": { "uvm": true },
        } })
    }

    /// Verifies a registration (7.1) and returns the new passkey. The caller refuses a credential that somebody registered already
    /// (step 26).
    pub fn register(&self, answer: &RegistrationResponse, challenge: &str) -> Result<Passkey, Refusal> {
        let answer = &answer.response;
        self.check_client_data(&answer.client_data.0, "webauthn.create", challenge)?;
        // Steps 13 and 22 to 24: no attestation is asked for, and a statement that comes anyway is not evaluated.
        let object = AttestationObject::parse(&answer.attestation_object.0)?;
        let data = AuthenticatorData::parse(object.authenticator_data)?;
        self.check_authenticator_data(&data)?;
        let credential = data.credential.ok_or(Refusal::Malformed)?;
        // Step 20, and that the key is one.
        let public_key = credential.public_key;
        public_key.check()?;
        // Step 25.
        if credential.id.is_empty() || credential.id.len() > CREDENTIAL_ID_MAX {
            return Err(Refusal::CredentialId);
        }
        let cred = CredentialRecord {
            id: Base64Url(credential.id.to_vec()),
            public_key,
            sign_count: data.sign_count,
            backup_eligible: data.flags.backup_eligible(),
            backup_state: data.flags.backup_state(),
        };
        Ok(Passkey { cred })
    }

    /// Verifies an authentication with `passkey` (7.2), and updates it. The caller has found it as one of the person whom the user handle
    /// names (step 6).
    pub fn authenticate(
        &self,
        answer: &AuthenticationResponse,
        challenge: &str,
        passkey: &mut Passkey,
    ) -> Result<(), Refusal> {
        let record = &mut passkey.cred;
        if answer.raw_id != record.id {
            return Err(Refusal::CredentialId);
        }
        let answer = &answer.response;
        self.check_client_data(&answer.client_data.0, "webauthn.get", challenge)?;
        let data = AuthenticatorData::parse(&answer.authenticator_data.0)?;
        self.check_authenticator_data(&data)?;
        // Step 19.
        if data.flags.backup_eligible() != record.backup_eligible {
            return Err(Refusal::Backup);
        }
        // Steps 21 and 22.
        let hash = digest(&SHA256, &answer.client_data.0);
        let signed = [answer.authenticator_data.0.as_slice(), hash.as_ref()].concat();
        record.public_key.verify(&signed, &answer.signature.0)?;
        // Step 23. An authenticator without a counter says 0 each time.
        if (data.sign_count, record.sign_count) != (0, 0) && data.sign_count <= record.sign_count {
            return Err(Refusal::SignCount);
        }
        // Step 24.
        record.sign_count = data.sign_count;
        record.backup_state = data.flags.backup_state();
        Ok(())
    }

    /// What both ceremonies check of the client data: 7.1, steps 5 to 11, and 7.2, steps 8 to 14.
    fn check_client_data(&self, bytes: &[u8], kind: &str, challenge: &str) -> Result<(), Refusal> {
        let data: ClientData = serde_json::from_slice(bytes).map_err(|_| Refusal::Malformed)?;
        if data.kind != kind {
            return Err(Refusal::Type);
        }
        if data.challenge != challenge {
            return Err(Refusal::Challenge);
        }
        if data.origin != self.origin {
            return Err(Refusal::Origin);
        }
        if data.cross_origin == Some(true) || data.top_origin.is_some() {
            return Err(Refusal::CrossOrigin);
        }
        Ok(())
    }

    /// What both ceremonies check of the authenticator data: 7.1, steps 14 to 17, and 7.2, steps 15 to 18.
    fn check_authenticator_data(&self, data: &AuthenticatorData<'_>) -> Result<(), Refusal> {
        if data.rp_id_hash != digest(&SHA256, self.id.as_bytes()).as_ref() {
            return Err(Refusal::RelyingParty);
        }
        if !data.flags.user_present() {
            return Err(Refusal::UserNotPresent);
        }
        if !data.flags.user_verified() {
            return Err(Refusal::UserNotVerified);
        }
        if data.flags.backup_state() && !data.flags.backup_eligible() {
            return Err(Refusal::Backup);
        }
        Ok(())
    }
}

//! Signatures as the Standard Webhooks specification has them.

use std::ops::RangeInclusive;
use std::str::FromStr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portico_kernel::{Entropy, Secret, Timestamp, text_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{SECRET_BYTES, TIMESTAMP_TOLERANCE};

/// The headers of a delivery.
pub(crate) const WEBHOOK_ID: &str = "webhook-id";
pub(crate) const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
pub(crate) const WEBHOOK_SIGNATURE: &str = "webhook-signature";
/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// What a signature with a secret that both sides know begins with.
const VERSION: &str = "v1,";
/// A SHA-256 in base64.
const SIGNATURE_CHARACTERS: usize = 44;
/// Bytes that the specification asks of a secret, which may be another's than ours.
const SECRET_BYTES_ALLOWED: RangeInclusive<usize> = 24..=64;

text_enum! {
    /// What the inbox found out about a signature.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Verdict {
        /// An endpoint of the account that points here signed it.
        Valid = "valid",
        /// It is signed, and not by such an endpoint.
        Invalid = "invalid",
        /// It is not signed.
        Unsigned = "unsigned",
        /// It is signed, and no endpoint of the account points here.
        NoEndpoint = "no_endpoint",
    }
}

/// The key of an endpoint's signatures.
pub struct SigningKey(Secret<Vec<u8>>);

impl SigningKey {
    pub(crate) fn new(key: Secret<Vec<u8>>) -> Self {
        Self(key)
    }

    /// A new one.
    pub fn generate(entropy: &dyn Entropy) -> Self {
        Self(Secret::new(entropy.bytes::<SECRET_BYTES>().to_vec()))
    }

    pub(crate) fn expose(&self) -> &[u8] {
        self.0.expose()
    }

    /// The secret as its owner knows it.
    pub fn text(&self) -> String {
        format!("{PREFIX}{}", BASE64_STANDARD.encode(self.0.expose()))
    }

    /// An entry of `webhook-signature`.
    fn sign(&self, content: &[u8]) -> String {
        let tag = hmac::sign(&self.hmac(), content);
        format!("{VERSION}{}", BASE64_STANDARD.encode(tag))
    }

    /// Returns whether one of these signatures was made with this key. The content is signed once, however many there are.
    fn made_one_of(&self, content: &[u8], signatures: &[Vec<u8>]) -> bool {
        let ours = hmac::sign(&self.hmac(), content);
        signatures.iter().any(|each| verify_slices_are_equal(ours.as_ref(), each).is_ok())
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.0.expose())
    }
}

impl FromStr for SigningKey {
    type Err = &'static str;

    /// From the secret as its owner knows it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let key = text.strip_prefix(PREFIX).and_then(|rest| BASE64_STANDARD.decode(rest).ok());
        let key = key.filter(|key| SECRET_BYTES_ALLOWED.contains(&key.len()));
        key.map(|key| Self(Secret::new(key))).ok_or("must be whsec_ and the base64 of 24 to 64 bytes")
    }
}

/// The headers that make `body` a delivery of the event `id`, signed at `at` with each of `keys`.
pub fn signed(keys: &[SigningKey], id: String, at: Timestamp, body: &[u8]) -> [(&'static str, String); 3] {
    let timestamp = at.as_seconds().to_string();
    let content = Webhook { id: &id, timestamp: &timestamp, body }.content();
    let signature = keys.iter().map(|key| key.sign(&content)).collect::<Vec<_>>().join(" ");
    [(WEBHOOK_ID, id), (WEBHOOK_TIMESTAMP, timestamp), (WEBHOOK_SIGNATURE, signature)]
}

/// What is signed: id, time and body. A header that is missing is empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Webhook<'a> {
    pub(crate) id: &'a str,
    pub(crate) timestamp: &'a str,
    pub(crate) body: &'a [u8],
}

impl Webhook<'_> {
    fn content(&self) -> Vec<u8> {
        [self.id.as_bytes(), b".", self.timestamp.as_bytes(), b".", self.body].concat()
    }

    /// Returns whether the timestamp is there and near enough.
    fn is_timely(&self, now: Timestamp) -> bool {
        // Verifiers write the number anew before they sign it, so another spelling of it is another text.
        let Some(seconds) = self.timestamp.parse::<i64>().ok() else { return false };
        if seconds.to_string() != self.timestamp {
            return false;
        }
        now.as_seconds().abs_diff(seconds) <= TIMESTAMP_TOLERANCE.as_secs()
    }
}

/// Judges a request with this `webhook-signature`, which any of these keys may have signed.
pub(crate) fn verdict(webhook: Webhook<'_>, signature: &str, keys: &[SigningKey], now: Timestamp) -> Verdict {
    if signature.is_empty() {
        return Verdict::Unsigned;
    }
    if keys.is_empty() {
        return Verdict::NoEndpoint;
    }
    let content = webhook.content();
    let entries = signature.split(' ').filter_map(|entry| entry.strip_prefix(VERSION));
    // What is not as long as a signature is none, and need not be looked at.
    let entries = entries.filter(|entry| entry.len() == SIGNATURE_CHARACTERS);
    let signatures: Vec<_> = entries.filter_map(|entry| BASE64_STANDARD.decode(entry).ok()).collect();
    let signed = || keys.iter().any(|key| key.made_one_of(&content, &signatures));
    if !webhook.id.is_empty() && webhook.is_timely(now) && !signatures.is_empty() && signed() {
        Verdict::Valid
    } else {
        Verdict::Invalid
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::Ed25519KeyPair;

    use super::*;

    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const TIME: i64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn key(base64: &str) -> SigningKey {
        SigningKey::new(Secret::new(BASE64_STANDARD.decode(base64).unwrap()))
    }

    fn message() -> Webhook<'static> {
        Webhook { id: ID, timestamp: "1614265330", body: BODY }
    }

    fn of(webhook: Webhook<'_>, signature: &str) -> Verdict {
        verdict(webhook, signature, &[key(SECRET)], Timestamp::from_seconds(TIME))
    }

    /// Published with the Standard Webhooks libraries.
    #[test]
    fn known_signatures_come_out() {
        assert_eq!(key(SECRET).sign(&message().content()), SIGNATURE);
        assert_eq!(key(SECRET).text(), format!("whsec_{SECRET}"));
        let other = Webhook {
            id: "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            timestamp: "1649367553",
            body: br#"{"email":"test@example.com","username":"test_user"}"#,
        };
        let signature = key("C2FVsBQIhrscChlQIMV+b5sSYspob7oD").sign(&other.content());
        assert_eq!(signature, "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=");
    }

    /// The other scheme of the specification signs the same content. We neither make such entries nor take them for
    /// ours.
    #[test]
    fn the_content_is_what_the_other_scheme_signs_too() {
        let seed = "VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=";
        let whole =
            "6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
        for (private, signature) in [
            (
                seed,
                "tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag==",
            ),
            (
                whole,
                "hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==",
            ),
        ] {
            let private = BASE64_STANDARD.decode(private).unwrap();
            let pair = Ed25519KeyPair::from_seed_unchecked(&private[..32]).unwrap();
            assert_eq!(BASE64_STANDARD.encode(pair.sign(&message().content())), signature);
            assert_eq!(of(message(), &format!("v1a,{signature}")), Verdict::Invalid);
            assert_eq!(of(message(), &format!("v1a,{signature} {SIGNATURE}")), Verdict::Valid);
        }
    }

    #[test]
    fn a_delivery_is_signed_with_every_key() {
        let other = "C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        let headers = signed(&[key(other), key(SECRET)], ID.to_owned(), Timestamp::from_seconds(TIME), BODY);
        let [(_, id), (_, timestamp), (_, signature)] = &headers;
        assert_eq!(
            headers.each_ref().map(|(name, _)| *name),
            ["webhook-id", "webhook-timestamp", "webhook-signature"]
        );
        assert_eq!((id.as_str(), timestamp.as_str()), (ID, "1614265330"));
        assert_eq!(signature.split(' ').nth(1), Some(SIGNATURE));
        for one in [other, SECRET] {
            let verdict = verdict(message(), signature, &[key(one)], Timestamp::from_seconds(TIME));
            assert_eq!(verdict, Verdict::Valid, "{one}");
        }
    }

    #[test]
    fn a_secret_is_read_as_it_is_written() {
        let secret = format!("whsec_{SECRET}");
        assert_eq!(secret.parse::<SigningKey>().map(|key| key.text()), Ok(secret));
        let of = |bytes: usize| format!("whsec_{}", BASE64_STANDARD.encode(vec![7; bytes]));
        assert!(of(24).parse::<SigningKey>().is_ok() && of(64).parse::<SigningKey>().is_ok());
        for bad in ["", "whsec_", SECRET, "whsec_not base64", &of(23), &of(65)] {
            assert!(bad.parse::<SigningKey>().is_err(), "{bad}");
        }
    }

    #[test]
    fn one_good_entry_is_enough() {
        assert_eq!(of(message(), SIGNATURE), Verdict::Valid);
        let bad = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=";
        assert_eq!(of(message(), &format!("{bad} v2,{} {SIGNATURE} {bad}", &bad[3..])), Verdict::Valid);
        assert_eq!(of(message(), bad), Verdict::Invalid);
        assert_eq!(of(message(), "v1,"), Verdict::Invalid);
        assert_eq!(of(message(), &SIGNATURE[..11]), Verdict::Invalid);
        assert_eq!(
            of(message(), &SIGNATURE.replace("v1,", "v2,")),
            Verdict::Invalid,
            "right, and of another kind"
        );
        assert_eq!(of(message(), ""), Verdict::Unsigned);
    }

    #[test]
    fn id_time_and_body_must_be_those_that_were_signed() {
        for webhook in [
            Webhook { id: "", ..message() },
            Webhook { id: "msg_other", ..message() },
            Webhook { timestamp: "", ..message() },
            Webhook { timestamp: "1614265331", ..message() },
            Webhook { timestamp: "now", ..message() },
            Webhook { timestamp: "+1614265330", ..message() },
            Webhook { timestamp: "01614265330", ..message() },
            Webhook { body: b"{}", ..message() },
        ] {
            assert_eq!(of(webhook, SIGNATURE), Verdict::Invalid, "{webhook:?}");
        }
    }

    #[test]
    fn five_minutes_are_near_enough_and_no_more() {
        let at =
            |off: i64| verdict(message(), SIGNATURE, &[key(SECRET)], Timestamp::from_seconds(TIME + off));
        for near in [-300, -299, 0, 300] {
            assert_eq!(at(near), Verdict::Valid, "{near}");
        }
        for far in [-301, 301, 86_400] {
            assert_eq!(at(far), Verdict::Invalid, "{far}");
        }
    }

    #[test]
    fn either_of_two_secrets_will_do_and_none_is_said_so() {
        let now = Timestamp::from_seconds(TIME);
        let other = "C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        assert_eq!(verdict(message(), SIGNATURE, &[key(other), key(SECRET)], now), Verdict::Valid);
        assert_eq!(verdict(message(), SIGNATURE, &[key(other)], now), Verdict::Invalid);
        assert_eq!(verdict(message(), SIGNATURE, &[], now), Verdict::NoEndpoint);
    }
}

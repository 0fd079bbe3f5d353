//! Each step of both ceremonies, with an authenticator of the test's own.

mod device;

use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair,
};

use super::*;
use device::{
    BACKED_UP, CHALLENGE, CREDENTIAL, Device, ELIGIBLE, EXTENSIONS, Key, PRESENT, VERIFIED, curve_key, map,
    rsa_key,
};

fn relying_party() -> RelyingParty {
    RelyingParty::new("Portico", "https://auth.test/").unwrap()
}

fn register(device: &Device) -> Result<Passkey, Refusal> {
    relying_party().register(&device.create(), CHALLENGE)
}

fn authenticate(device: &Device, passkey: &mut Passkey) -> Result<(), Refusal> {
    relying_party().authenticate(&device.get(), CHALLENGE, passkey)
}

type Spoil = fn(&mut Device);

/// What both ceremonies refuse.
const SPOILT: [(Refusal, Spoil); 14] = [
    (Refusal::Malformed, |device| device.client_data = json!("no object")),
    (Refusal::Malformed, |device| device.client_data["challenge"] = json!(1)),
    (Refusal::Type, |device| device.client_data["type"] = json!("payment.get")),
    (Refusal::Challenge, |device| device.client_data["challenge"] = json!("YW5vdGhlcg")),
    (Refusal::Origin, |device| device.client_data["origin"] = json!("https://auth.test.evil.test")),
    (Refusal::Origin, |device| device.client_data["origin"] = json!("http://auth.test")),
    (Refusal::Origin, |device| device.client_data["origin"] = json!("https://auth.test:8443")),
    (Refusal::CrossOrigin, |device| device.client_data["crossOrigin"] = json!(true)),
    (Refusal::CrossOrigin, |device| device.client_data["topOrigin"] = json!("https://evil.test")),
    (Refusal::RelyingParty, |device| device.relying_party = "evil.test"),
    (Refusal::UserNotPresent, |device| device.flags = VERIFIED),
    (Refusal::UserNotVerified, |device| device.flags = PRESENT),
    (Refusal::Backup, |device| device.flags |= BACKED_UP),
    (Refusal::Malformed, |device| device.extensions = vec![0]),
];

#[test]
fn every_algorithm_registers_and_signs_in() {
    let keys = [
        Key::p256(),
        Key::P384(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_ASN1_SIGNING).unwrap()),
        Key::Ed25519(Ed25519KeyPair::generate().unwrap()),
        Key::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())),
    ];
    for key in keys {
        let device = Device::new(key);
        let passkey = register(&device).unwrap();
        let stored = serde_json::to_string(&passkey).unwrap();
        let mut passkey: Passkey = serde_json::from_str(&stored).unwrap();
        assert_eq!(passkey.credential_id(), b"a credential");
        assert_eq!(authenticate(&device, &mut passkey), Ok(()), "{stored}");
        let mut forged = device.get();
        forged.response.signature.0[20] ^= 1;
        assert_eq!(
            relying_party().authenticate(&forged, CHALLENGE, &mut passkey),
            Err(Refusal::Signature),
            "{stored}"
        );
    }
}

#[test]
fn both_ceremonies_refuse_what_is_not_in_order() {
    for (number, (refusal, spoil)) in SPOILT.into_iter().enumerate() {
        let mut device = Device::new(Key::p256());
        let mut passkey = register(&device).unwrap();
        spoil(&mut device);
        assert_eq!(register(&device).unwrap_err(), refusal, "registration {number}");
        assert_eq!(authenticate(&device, &mut passkey), Err(refusal), "authentication {number}");
    }
}

#[test]
fn a_ceremony_is_not_the_other_one() {
    let mut device = Device::new(Key::p256());
    let mut passkey = register(&device).unwrap();
    device.client_data["type"] = json!("webauthn.get");
    assert_eq!(register(&device).unwrap_err(), Refusal::Type);
    device.client_data["type"] = json!("webauthn.create");
    assert_eq!(authenticate(&device, &mut passkey), Err(Refusal::Type));
}

#[test]
fn a_registration_refuses_keys_that_are_none() {
    let coordinate = [1; 32];
    let Key::P256(other) = Key::p256() else { unreachable!() };
    let (x, y) = other.public_key().as_ref()[1..].split_at(32);
    for (refusal, cose) in [
        // An algorithm that was not offered: ES256K, PS256.
        (Refusal::Algorithm, curve_key(2, -47, 8, &[x, y])),
        (Refusal::Algorithm, curve_key(3, -37, 1, &[x, y])),
        // A type or a curve of another algorithm.
        (Refusal::PublicKey, curve_key(1, -7, 1, &[x, y])),
        (Refusal::PublicKey, curve_key(2, -7, 2, &[x, y])),
        (Refusal::PublicKey, curve_key(2, -35, 2, &[x, y])),
        (Refusal::PublicKey, curve_key(1, -8, 4, &[x])),
        // Not on the curve, too short, a part missing.
        (Refusal::PublicKey, curve_key(2, -7, 1, &[&coordinate, &coordinate])),
        (Refusal::PublicKey, curve_key(2, -7, 1, &[&x[1..], y])),
        (Refusal::PublicKey, curve_key(1, -8, 6, &[&x[1..]])),
        (Refusal::Malformed, curve_key(2, -7, 1, &[x])),
        (Refusal::PublicKey, rsa_key(&[0xc1; 128], &[1, 0, 1])),
        (Refusal::PublicKey, rsa_key(&[0xc1; 256], &[])),
        (Refusal::Malformed, map(0).into_writer()),
        (Refusal::Malformed, Vec::new()),
    ] {
        let device = Device { cose, ..Device::new(Key::p256()) };
        assert_eq!(register(&device).unwrap_err(), refusal, "{:?}", device.cose);
    }
}

#[test]
fn a_parameter_that_comes_twice_is_refused() {
    let mut cose = map(2);
    cose.i64(1).unwrap().i64(2).unwrap().i64(1).unwrap().i64(2).unwrap();
    let device = Device { cose: cose.into_writer(), ..Device::new(Key::p256()) };
    assert_eq!(register(&device).unwrap_err(), Refusal::Malformed);
}

#[test]
fn a_registration_refuses_ids_of_a_wrong_length() {
    for (length, refused) in
        [(0, true), (1, false), (CREDENTIAL_ID_MAX, false), (CREDENTIAL_ID_MAX + 1, true)]
    {
        let device = Device { id: vec![7; length], ..Device::new(Key::p256()) };
        assert_eq!(register(&device).err(), refused.then_some(Refusal::CredentialId), "{length}");
    }
}

#[test]
fn attestations_are_not_evaluated_but_parse() {
    let mut statement = map(1);
    statement.str("alg").unwrap().i64(-7).unwrap();
    let statement = statement.into_writer();
    let packed = Device { format: "packed", statement: statement.clone(), ..Device::new(Key::p256()) };
    assert!(register(&packed).is_ok());
    let none = Device { statement, ..Device::new(Key::p256()) };
    assert_eq!(register(&none).unwrap_err(), Refusal::Malformed, "none has an empty statement");
    let text = Device { format: "packed", statement: vec![0x60], ..Device::new(Key::p256()) };
    assert_eq!(register(&text).unwrap_err(), Refusal::Malformed, "a statement is a map");
    let mut more = Device::new(Key::p256()).create();
    more.response.attestation_object.0.push(0);
    assert_eq!(relying_party().register(&more, CHALLENGE).unwrap_err(), Refusal::Malformed);
}

#[test]
fn what_is_cut_off_anywhere_is_refused() {
    let device = Device::new(Key::p256());
    let whole = device.create().response.attestation_object.0;
    for length in 0..whole.len() {
        let mut answer = device.create();
        answer.response.attestation_object.0.truncate(length);
        assert_eq!(relying_party().register(&answer, CHALLENGE).unwrap_err(), Refusal::Malformed, "{length}");
    }
    let data = device.data(CREDENTIAL, &[]);
    for length in 0..=data.len() {
        assert_eq!(AuthenticatorData::parse(&data[..length]).err(), Some(Refusal::Malformed), "{length}");
    }
}

#[test]
fn extensions_are_read_over() {
    let mut extensions = map(1);
    extensions.str("credProtect").unwrap().u8(3).unwrap();
    let mut device = Device::new(Key::p256());
    (device.flags, device.extensions) = (device.flags | EXTENSIONS, extensions.into_writer());
    let mut passkey = register(&device).unwrap();
    assert_eq!(authenticate(&device, &mut passkey), Ok(()));
    device.extensions = vec![0x00];
    assert_eq!(authenticate(&device, &mut passkey), Err(Refusal::Malformed), "they are a map");
}

#[test]
fn an_authentication_refuses_another_credential() {
    let mut device = Device::new(Key::p256());
    let mut passkey = register(&device).unwrap();
    device.id = b"another".to_vec();
    assert_eq!(authenticate(&device, &mut passkey), Err(Refusal::CredentialId));
    let other = Device::new(Key::p256());
    assert_eq!(authenticate(&other, &mut passkey), Err(Refusal::Signature), "another key");
}

#[test]
fn the_counter_must_rise_where_there_is_one() {
    let mut device = Device::new(Key::p256());
    device.sign_count = 5;
    let mut passkey = register(&device).unwrap();
    for (count, expected) in [
        (5, Err(Refusal::SignCount)),
        (0, Err(Refusal::SignCount)),
        (6, Ok(())),
        (6, Err(Refusal::SignCount)),
        (u32::MAX, Ok(())),
    ] {
        device.sign_count = count;
        assert_eq!(authenticate(&device, &mut passkey), expected, "{count}");
    }
    device.sign_count = 0;
    let mut without = register(&device).unwrap();
    assert_eq!(authenticate(&device, &mut without), Ok(()));
    assert_eq!(authenticate(&device, &mut without), Ok(()));
}

#[test]
fn backups_may_begin_and_end_but_eligibility_stays() {
    let mut device = Device::new(Key::p256());
    device.flags |= ELIGIBLE;
    let mut passkey = register(&device).unwrap();
    device.flags |= BACKED_UP;
    assert_eq!(authenticate(&device, &mut passkey), Ok(()));
    assert!(passkey.cred.backup_state);
    device.flags = PRESENT | VERIFIED;
    assert_eq!(authenticate(&device, &mut passkey), Err(Refusal::Backup));
}

#[test]
fn a_refusal_changes_nothing() {
    let mut device = Device::new(Key::p256());
    let mut passkey = register(&device).unwrap();
    let before = serde_json::to_string(&passkey).unwrap();
    device.sign_count = 9;
    let mut forged = device.get();
    forged.response.signature.0.clear();
    assert_eq!(relying_party().authenticate(&forged, CHALLENGE, &mut passkey), Err(Refusal::Signature));
    assert_eq!(serde_json::to_string(&passkey).unwrap(), before);
}

#[test]
fn a_user_handle_is_ours_or_none() {
    let mut answer = Device::new(Key::p256()).get();
    assert_eq!(answer.user_handle(), Some(0));
    answer.response.user_handle = Some(Base64Url(vec![0; 15]));
    assert_eq!(answer.user_handle(), None);
    answer.response.user_handle = None;
    assert_eq!(answer.user_handle(), None);
}

#[test]
fn an_address_without_a_name_has_no_passkeys() {
    assert!(RelyingParty::new("Portico", "http://127.0.0.1:8080").is_none());
    assert!(RelyingParty::new("Portico", "http://[::1]").is_none());
    let local = RelyingParty::new("Portico", "http://localhost:8080/path").unwrap();
    assert_eq!((local.id.as_str(), local.origin.as_str()), ("localhost", "http://localhost:8080"));
}

#[test]
fn passkeys_that_webauthn_rs_stored_keep_working() {
    let device = Device::new(Key::p256());
    let Key::P256(key) = &device.key else { unreachable!() };
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let stored = json!({ "cred": {
        "cred_id": encode(&device.id),
        "cred": { "type_": "ES256", "key": { "EC_EC2": { "curve": "SECP256R1", "x": encode(x), "y": encode(y) } } },
        "counter": 0, "transports": null, "user_verified": true, "backup_eligible": false, "backup_state": false,
        "registration_policy": "required",
        "extensions": {
            "cred_protect": "Ignored", "hmac_create_secret": "NotRequested", "appid": "NotRequested", "cred_props": "Ignored",
        },
        "attestation": { "data": "None", "metadata": "None" }, "attestation_format": "none",
    } });
    let mut passkey: Passkey = serde_json::from_value(stored).unwrap();
    assert_eq!(authenticate(&device, &mut passkey), Ok(()));
    let rsa = json!({ "cred": {
        "cred_id": "AA",
        "cred": { "type_": "RS256", "key": { "RSA": { "n": encode(&[0xc1; 256]), "e": [1, 0, 1] } } },
        "counter": 1, "backup_eligible": true, "backup_state": true,
    } });
    let rsa: Passkey = serde_json::from_value(rsa).unwrap();
    assert_eq!(rsa.cred.public_key.check(), Ok(()));
}

//! Passkeys, with an authenticator of the test's own. A real browser's is asked by `check/judges/browser`.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use portico_testkit::{Answer, Browser, TestApp, TestRequest, on_both_databases};
use serde_json::{Value, json};

use crate::signin::PASSWORD;

const PRESENT_AND_VERIFIED: u8 = 0b101;
const WITH_CREDENTIAL: u8 = 0b100_0000;

fn data(flags: u8, more: &[u8]) -> Vec<u8> {
    [digest(&SHA256, b"auth.test").as_ref(), &[flags], &[0, 0, 0, 0], more].concat()
}

/// A device that keeps one passkey.
struct Authenticator {
    key: EcdsaKeyPair,
    id: Vec<u8>,
    /// The person that it is for, as the site named them.
    handle: String,
    origin: &'static str,
    flags: u8,
}

fn bytes_of(text: &[u8]) -> Vec<u8> {
    // A CBOR byte string of less than 65,536 bytes.
    let length = u16::try_from(text.len()).unwrap().to_be_bytes();
    [&[0x59, length[0], length[1]], text].concat()
}

impl Authenticator {
    fn new(id: &[u8]) -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        Self {
            key,
            id: id.to_vec(),
            handle: String::new(),
            origin: "http://auth.test",
            flags: PRESENT_AND_VERIFIED,
        }
    }

    fn client_data(&self, kind: &str, challenge: &Value) -> String {
        json!({ "type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": false })
            .to_string()
    }

    /// Makes the passkey that the site asks for.
    fn create(&mut self, options: &Value) -> Value {
        let options = &options["publicKey"];
        assert_eq!(options["authenticatorSelection"]["residentKey"], "required");
        options["user"]["id"].as_str().unwrap().clone_into(&mut self.handle);
        let point = self.key.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        let cose = [&[0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21][..], &bytes_of(x), &[0x22], &bytes_of(y)].concat();
        let length = u16::try_from(self.id.len()).unwrap().to_be_bytes();
        let credential = [&[0; 16][..], &length, &self.id, &cose].concat();
        let data = data(self.flags | WITH_CREDENTIAL, &credential);
        // {"fmt": "none", "attStmt": {}, "authData": …}
        let attestation = [&b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData"[..], &bytes_of(&data)].concat();
        let id = BASE64.encode(&self.id);
        json!({
            "id": id, "rawId": id, "type": "public-key", "extensions": {},
            "response": {
                "attestationObject": BASE64.encode(attestation), "transports": ["internal"],
                "clientDataJSON": BASE64.encode(self.client_data("webauthn.create", &options["challenge"])),
            },
        })
    }

    /// Proves that it has the passkey.
    fn get(&self, options: &Value) -> Value {
        let options = &options["publicKey"];
        assert_eq!(
            options["allowCredentials"].as_array().map_or(0, Vec::len),
            0,
            "nobody is named beforehand"
        );
        let client_data = self.client_data("webauthn.get", &options["challenge"]);
        let data = data(self.flags, &[]);
        let signed = [&data[..], digest(&SHA256, client_data.as_bytes()).as_ref()].concat();
        let signature = self.key.sign(&SystemRandom::new(), &signed).unwrap();
        let id = BASE64.encode(&self.id);
        json!({
            "id": id, "rawId": id, "type": "public-key", "extensions": {},
            "response": {
                "authenticatorData": BASE64.encode(&data), "clientDataJSON": BASE64.encode(client_data),
                "signature": BASE64.encode(signature), "userHandle": self.handle,
            },
        })
    }
}

/// What the page's script reads out of the page.
fn csrf(page: &Answer) -> String {
    page.text().split("data-csrf=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

async fn post(browser: &mut Browser<'_>, path: &str, body: &Value) -> Answer {
    browser.send(TestRequest::new("POST", path).json(body)).await
}

async fn add(browser: &mut Browser<'_>, device: &mut Authenticator, password: &str) -> Answer {
    let csrf = csrf(&browser.get("/settings").await);
    let begun =
        browser.post("/settings/passkeys/begin", &[("csrf", &csrf), ("current_password", password)]).await;
    if begun.status != 200 {
        return begun;
    }
    let begun = begun.json();
    let credential = device.create(&begun["options"]);
    let body = json!({ "csrf": csrf, "state": begun["state"], "credential": credential, "name": "Laptop" });
    post(browser, "/settings/passkeys", &body).await
}

/// Begins a sign-in; returns what to send at its end.
async fn begin(browser: &mut Browser<'_>, device: &Authenticator) -> Value {
    let csrf = csrf(&browser.get("/signin").await);
    let begun = post(browser, "/signin/passkey/begin", &json!({ "csrf": csrf })).await.ok();
    json!({ "csrf": csrf, "state": begun["state"], "credential": device.get(&begun["options"]) })
}

async fn sign_in(browser: &mut Browser<'_>, device: &Authenticator) -> u16 {
    let body = begin(browser, device).await;
    post(browser, "/signin/passkey", &body).await.status
}

on_both_databases! {
    a_passkey_is_added_used_and_removed,
    what_is_not_in_order_signs_nobody_in,
}

async fn a_passkey_is_added_used_and_removed(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let (mut browser, mut device) = (Browser::new(&app), Authenticator::new(b"a passkey"));
    browser.sign_in("ada@example.com", PASSWORD).await;
    assert_eq!(add(&mut browser, &mut device, "wrong").await.status, 401, "it is asked again who they are");
    assert_eq!(add(&mut browser, &mut device, PASSWORD).await.status, 200);
    assert!(browser.get("/settings").await.text().contains("Laptop"));
    let mut other = Browser::new(&app);
    assert_eq!(sign_in(&mut other, &device).await, 200);
    assert!(other.get("/settings").await.text().contains("ada@example.com"));
    let page = browser.get("/settings").await;
    assert_eq!(
        browser.submit(&page, "/settings/passkeys/remove", &[("current_password", PASSWORD)]).await.status,
        303
    );
    assert_eq!(sign_in(&mut Browser::new(&app), &device).await, 401);
}

async fn what_is_not_in_order_signs_nobody_in(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    app.new_person("eve@example.com", Some(PASSWORD)).await;
    let (mut browser, mut device) = (Browser::new(&app), Authenticator::new(b"a passkey"));
    browser.sign_in("ada@example.com", PASSWORD).await;
    add(&mut browser, &mut device, PASSWORD).await.ok();
    // What was sent once does not work again, nor from another browser.
    let mut other = Browser::new(&app);
    let body = begin(&mut other, &device).await;
    let mut stranger = Browser::new(&app);
    let mut stolen = begin(&mut stranger, &device).await;
    (stolen["state"], stolen["credential"]) = (body["state"].clone(), body["credential"].clone());
    assert_eq!(post(&mut stranger, "/signin/passkey", &stolen).await.status, 401, "another browser's");
    let cookies = other.cookies.clone();
    assert_eq!(post(&mut other, "/signin/passkey", &body).await.status, 200);
    other.cookies = cookies;
    assert_eq!(post(&mut other, "/signin/passkey", &body).await.status, 401, "once");
    // Another site, nobody who touched it, another key, another person.
    for spoil in [
        |device: &mut Authenticator| device.origin = "http://evil.test",
        |device: &mut Authenticator| device.flags = 0,
        |device: &mut Authenticator| device.flags = 1,
        |device: &mut Authenticator| {
            device.key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        },
        |device: &mut Authenticator| device.id = b"another".to_vec(),
        |device: &mut Authenticator| device.handle = BASE64.encode([0; 16]),
    ] {
        let key = device.key.to_pkcs8v1().unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.as_ref()).unwrap();
        let (id, handle) = (device.id.clone(), device.handle.clone());
        let mut spoilt = Authenticator { key, id, handle, ..Authenticator::new(b"") };
        spoil(&mut spoilt);
        assert_eq!(sign_in(&mut Browser::new(&app), &spoilt).await, 401);
    }
    assert_eq!(sign_in(&mut Browser::new(&app), &device).await, 200);
    // A passkey is one person's.
    let mut eve = Browser::new(&app);
    eve.sign_in("eve@example.com", PASSWORD).await;
    assert_eq!(add(&mut eve, &mut device, PASSWORD).await.status, 409);
}

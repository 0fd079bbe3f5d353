//! Whatever a manifest or an answer holds, reading it ends, and nothing breaks.

use http::HeaderMap;
use portico_connectors::{Answer, MANIFEST_BYTES_MAX, Manifest, Scrubber, Values, builtins, endpoint};
use portico_kernel::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{credentials, faults, headers, put, strings, with};

/// Values as somebody might write them into a field.
fn odd() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        "\\{(params|auth|config)\\.[a-z]{0,3}\\}".prop_map(Value::from),
        "/[a-z~0/{}.]{0,8}".prop_map(Value::from),
        "https://[a-z.:@{}/%]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{0,6}", inner, 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Every pointer into a value.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let place = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                found.push(place.clone());
                pointers(field, &place, found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let place = format!("{at}/{index}");
                found.push(place.clone());
                pointers(item, &place, found);
            }
        }
        _ => {}
    }
}

/// Makes every request of a manifest and reads every answer, whatever comes of it.
fn exercise(manifest: &Manifest, answer: &Answer<'_>) {
    let config = strings(&json!({ "host": "a.example", "site": "a", "region": "b.example" }));
    let auth = credentials(
        &json!({ "api_key": "k", "access_token": "t", "jwt": "j", "email": "e", "token": "x", "app_id": "1" }),
    );
    for mode in manifest.modes() {
        let _ = manifest.check_config(mode, &config);
        let _ = manifest.destinations(mode, &config);
        let values = Values { mode, config: &config, auth: &auth, base_url: None };
        let scrubber = manifest.scrubber(mode, &auth);
        let _ = manifest.test_request(&values);
        let _ = manifest.read_test(&values, answer, &scrubber);
        for action in manifest.actions() {
            let given: Map<String, Value> =
                action.params().into_iter().map(|param| (param.name, json!("x"))).collect();
            let params = action.check_params(&given).unwrap_or(given);
            let _ = action.request(&values, &params);
            let _ = action.read(answer, &scrubber);
            let _ = action.definition();
        }
    }
    if let Some(oauth) = manifest.oauth() {
        let _ = oauth.read(answer, Timestamp::from_seconds(0));
        let _ = oauth.is_revoked(answer);
    }
    let _ = manifest.check_credentials(None, &config);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn a_manifest_with_anything_anywhere_is_read_or_refused(which in 0_usize..10, place in any::<prop::sample::Index>(), value in odd()) {
        let mut source = builtins()[which].to_json().clone();
        let mut places = Vec::new();
        pointers(&source, "", &mut places);
        put(&mut source, place.get::<String>(&places), value);
        let empty = HeaderMap::new();
        match Manifest::from_json(&source) {
            Ok(manifest) => {
                prop_assert_eq!(manifest.to_json(), &source);
                exercise(&manifest, &Answer { status: 200, headers: &empty, body: b"{\"data\":[{\"id\":1}]}" });
                // What is read once is read again, from TOML too where it can be written so.
                if let Ok(text) = toml::to_string(&source) {
                    prop_assert_eq!(Manifest::from_toml(&text).unwrap().kind(), manifest.kind());
                }
            }
            Err(found) => prop_assert!(!found.is_empty() && found.len() <= 1_000),
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z\\[\\]{}=\"'.,\\n ]{0,60}") {
        let _ = Manifest::from_toml(&text);
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let _ = Manifest::from_json(&value);
        }
    }

    #[test]
    fn any_answer_is_read_or_refused(
        which in 0_usize..10,
        status in any::<u16>(),
        media_type in "(application/json|text/plain|image/png|)",
        body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            odd().prop_map(|value| value.to_string().into_bytes()),
            "[\\[\\]{}\",:0-9a-z\\\\u -]{0,40}".prop_map(String::into_bytes),
        ],
    ) {
        let head = headers(&json!({ "content-type": media_type, "retry-after": "x", "x-next-page": "2" }));
        let answer = Answer { status, headers: &head, body: &body };
        exercise(&builtins()[which], &answer);
        if let Ok(reading) = endpoint::read(&answer, &Scrubber::default()) {
            let result: Value = serde_json::from_str(&reading.result).unwrap_or_default();
            // A number can be too large for a reader; all else is an object of three fields.
            prop_assert!(result.is_null() || result.as_object().unwrap().len() == 3, "{}", reading.result);
        }
    }

    #[test]
    fn no_secret_is_left_in_what_is_read(secret in "[a-z\"\\\\/ü%+ =&]{4,12}", before in "\\PC{0,5}", after in "\\PC{0,5}") {
        let scrubber = Scrubber::new([secret.as_str()]);
        let said = format!("{before}{secret}{after}");
        let body = json!({ "data": { &said: [&said] }, "text": said }).to_string();
        // The same with every character escaped.
        let escape = |unit: u16| format!("\\u{unit:04x}");
        let escaped: String = said.encode_utf16().map(escape).collect();
        let odd = format!("{{\"{escaped}\":\"{escaped}\"}}");
        let head = headers(&json!({ "content-type": "application/json" }));
        for body in [body, odd] {
            let answer = Answer { status: 200, headers: &head, body: body.as_bytes() };
            let reading = endpoint::read(&answer, &scrubber).unwrap();
            let result: Value = serde_json::from_str(&reading.result).unwrap();
            let mut places = Vec::new();
            let result = &result["body"];
            pointers(result, "", &mut places);
            for place in places {
                let name = place.rsplit('/').next().unwrap().replace("~1", "/").replace("~0", "~");
                prop_assert!(!name.contains(&secret), "{name}");
                let text = result.pointer(&place).and_then(Value::as_str).unwrap_or_default();
                prop_assert!(!text.contains(&secret), "{text}");
            }
        }
    }
}

#[test]
fn the_largest_manifests_are_read_at_once() {
    let params: Vec<_> = (0..50).map(|n| json!({ "name": format!("p{n}"), "type": "string" })).collect();
    let query: Map<_, _> =
        (0..100).map(|n| (format!("k{n}"), json!("{params.p1}{params.p49}{config.x}"))).collect();
    let actions: Vec<_> = (0..100)
        .map(|n| {
            let mut action = crate::action(&format!("a{n}"));
            if n < 15 {
                action["params"] = json!(params);
                action["path"] = json!("/x");
                action["query"] = json!(query);
            }
            action
        })
        .collect();
    let source = with("/actions", json!(actions));
    assert!(source.to_string().len() > MANIFEST_BYTES_MAX * 3 / 4);
    // Every `{config.x}` is wrong, and said once for its place.
    assert_eq!(faults(&source).len(), 15);
    for text in [
        "{".repeat(100_000),
        "{params.".repeat(10_000),
        "/a".repeat(50_000),
        "[[".repeat(50_000),
        "{\"a\":".repeat(20_000),
    ] {
        for place in
            ["/actions/0/path", "/request/base_url", "/title", "/actions/0/json", "/auth/api_key/header"]
        {
            assert!(!faults(&with(place, json!(text))).is_empty());
        }
        assert!(Manifest::from_toml(&text).is_err());
    }
}

#[test]
fn the_largest_answers_are_read_at_once() {
    let head = headers(&json!({ "content-type": "application/json" }));
    let mega = 1024 * 1024;
    let bodies = [
        "[".repeat(mega),
        format!("{}{}", "[".repeat(mega / 2), "]".repeat(mega / 2)),
        format!("[{}]", vec!["1"; mega / 2].join(",")),
        format!("[{}{{}}]", "{},".repeat(mega / 3 - 2)),
        format!("{{{}\"a\":1}}", "\"a\":1,".repeat(mega / 6)),
        format!("\"{}\"", "\\u0061".repeat(mega / 6)),
        format!("\"{}\"", "\\ud800".repeat(mega / 6)),
        "9".repeat(mega),
        "secret".repeat(mega / 6),
    ];
    for body in bodies {
        let answer = Answer { status: 200, headers: &head, body: body.as_bytes() };
        for manifest in builtins() {
            let (config, auth) = (
                strings(&json!({})),
                credentials(&json!({ "api_key": "secret", "access_token": "a", "token": "1" })),
            );
            for mode in manifest.modes().take(1) {
                let values = Values { mode, config: &config, auth: &auth, base_url: None };
                let scrubber = manifest.scrubber(mode, &auth);
                let _ = manifest.read_test(&values, &answer, &scrubber);
                if let Some(action) = manifest.actions().next() {
                    let _ = action.read(&answer, &scrubber);
                }
            }
        }
    }
}

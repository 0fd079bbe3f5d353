//! No value leaves its place.

use std::collections::BTreeMap;

use portico_connectors::{Manifest, Mode, Values};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{credentials, object, put, read, strings, with};

/// An action with a value in every place there is.
fn manifest() -> Manifest {
    let mut source = with("/actions/0/method", json!("POST"));
    put(&mut source, "/actions/0/path", json!("/a/{params.one}/b-{params.two}.json/{params.path}/end"));
    put(
        &mut source,
        "/actions/0/query",
        json!({ "q": "{params.q}", "mixed": "x:{params.q}", "fixed": true, "list": "{params.list}" }),
    );
    put(&mut source, "/actions/0/headers", json!({ "x-value": "v {params.h}" }));
    put(
        &mut source,
        "/actions/0/json",
        json!({ "v": "{params.any}", "in": { "s": "{params.q}", "c": "{config.c}" }, "l": ["{params.q}", 1] }),
    );
    put(&mut source, "/config", json!([{ "name": "c", "type": "string" }]));
    let param =
        |name: &str, kind: &str, required: bool| json!({ "name": name, "type": kind, "required": required });
    put(
        &mut source,
        "/actions/0/params",
        json!([
            param("one", "string", true),
            param("two", "string", true),
            param("path", "path", true),
            param("q", "string", false),
            param("list", "array", false),
            param("h", "string", false),
            param("any", "object", false),
        ]),
    );
    read(&source)
}

fn request(
    manifest: &Manifest,
    params: &Value,
    config: &BTreeMap<String, String>,
) -> Result<portico_connectors::HttpRequest, String> {
    let auth = credentials(&json!({ "api_key": "k" }));
    let values = Values { mode: Mode::ApiKey, config, auth: &auth, base_url: None };
    let action = manifest.action("get_thing").unwrap();
    let params = action.check_params(&object(params)).unwrap();
    action.request(&values, &params).map_err(|fault| fault.path)
}

#[test]
fn values_are_encoded_for_their_place() {
    let params = json!({
        "one": "ä/b?c#d%2F;e", "two": "x y", "path": "docs/a b/c%2e", "q": "a&b=c+d", "list": ["x", 1, true],
        "h": "1;2\"", "any": { "a": "\"}", "n": 1.5 },
    });
    let made = request(&manifest(), &params, &strings(&json!({ "c": "}\"" }))).unwrap();
    assert_eq!(
        made.url.as_str(),
        "https://api.acme.example/v1/a/%C3%A4%2Fb%3Fc%23d%252F%3Be/b-x%20y.json/docs/a%20b/c%252e/end\
         ?fixed=true&list=x&list=1&list=true&mixed=x%3Aa%26b%3Dc%2Bd&q=a%26b%3Dc%2Bd"
    );
    assert_eq!(made.headers["x-value"], "v 1;2\"");
    let body: Value = serde_json::from_slice(&made.body).unwrap();
    assert_eq!(
        body,
        json!({ "v": { "a": "\"}", "n": 1.5 }, "in": { "s": "a&b=c+d", "c": "}\"" }, "l": ["a&b=c+d", 1] })
    );
}

#[test]
fn what_is_not_given_leaves_its_key_out() {
    let made =
        request(&manifest(), &json!({ "one": "1", "two": "2", "path": "3" }), &BTreeMap::new()).unwrap();
    assert_eq!(made.url.as_str(), "https://api.acme.example/v1/a/1/b-2.json/3/end?fixed=true");
    assert!(!made.headers.contains_key("x-value"));
    assert_eq!(serde_json::from_slice::<Value>(&made.body).unwrap(), json!({ "in": {}, "l": [1] }));
}

#[test]
fn what_cannot_stand_in_its_place_is_refused() {
    let with = |name: &str, value: Value| {
        let mut params = json!({ "one": "1", "two": "2", "path": "3" });
        params[name] = value;
        request(&manifest(), &params, &BTreeMap::new()).err().unwrap_or_default()
    };
    for bad in ["", ".", "..", "a\nb", "a\u{0}", "\u{7f}", "\u{85}"] {
        assert_eq!(with("one", json!(bad)), "params.one", "{bad:?}");
        assert_eq!(with("two", json!(bad)), "params.two", "{bad:?}");
        assert_eq!(with("path", json!(bad)), "params.path", "{bad:?}");
    }
    for bad in ["/a", "a/", "a//b", "a/../b", "./a", "a/.."] {
        assert_eq!(with("path", json!(bad)), "params.path", "{bad:?}");
        assert_eq!(with("one", json!(bad)), "", "{bad:?}");
    }
    for bad in ["a\r\nx: y", "\u{0}", "ä", "\t"] {
        assert_eq!(with("h", json!(bad)), "params.h", "{bad:?}");
    }
    assert_eq!(with("list", json!([[1]])), "params.list");
    assert_eq!(with("list", json!([null])), "params.list");
}

#[test]
fn no_manifest_makes_a_small_call_large() {
    let body: Vec<_> = (0..2_000).map(|_| "{params.q}").collect();
    let mut source = with("/actions/0/method", json!("POST"));
    put(&mut source, "/actions/0/json", json!(body));
    put(&mut source, "/actions/0/params/-", json!({ "name": "q", "type": "string" }));
    let params = |length: usize| json!({ "id": "1", "q": "x".repeat(length) });
    assert_eq!(request(&read(&source), &params(250_000), &BTreeMap::new()).unwrap_err(), "params.q");
    assert!(request(&read(&source), &params(100), &BTreeMap::new()).is_ok());
    for field in ["query", "headers", "form"] {
        let mut source = with("/actions/0/method", json!("POST"));
        put(&mut source, &format!("/actions/0/{field}"), json!({ "x": "{params.q}".repeat(150) }));
        put(&mut source, "/actions/0/params/-", json!({ "name": "q", "type": "string" }));
        assert_eq!(
            request(&read(&source), &params(250_000), &BTreeMap::new()).unwrap_err(),
            "params.q",
            "{field}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_value_leaves_its_place(
        one in "\\PC{1,6}", two in "\\PC{1,6}", path in "([a-z.%/\\\\ü ]|%2e){1,8}", q in any::<String>(),
        h in "[ -~]{0,8}", c in any::<String>(), any in any::<String>(),
    ) {
        let params = json!({ "one": one, "two": two, "path": path, "q": q, "h": h, "any": { "x": any } });
        let config = strings(&json!({ "c": c }));
        let Ok(made) = request(&manifest(), &params, &config) else { return Ok(()) };
        // It goes where the manifest says, and whoever parses the address again reads the same.
        prop_assert_eq!(made.url.host_str(), Some("api.acme.example"));
        let again = url::Url::parse(made.url.as_str()).unwrap();
        prop_assert_eq!(&again, &made.url);
        prop_assert!(again.fragment().is_none() && again.username().is_empty() && again.port().is_none());
        // Each segment is what it was.
        let decode = |segment: &str| percent_encoding::percent_decode_str(segment).decode_utf8().unwrap().into_owned();
        let segments: Vec<String> = again.path_segments().unwrap().map(decode).collect();
        let mut expected = vec!["v1".to_owned(), "a".to_owned(), one, format!("b-{two}.json")];
        expected.extend(path.split('/').map(str::to_owned));
        expected.push("end".to_owned());
        prop_assert_eq!(segments, expected);
        // So is each key of the query.
        let pairs: Vec<(String, String)> = again.query_pairs().into_owned().collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        prop_assert_eq!(pairs, vec![pair("fixed", "true"), pair("mixed", &format!("x:{q}")), pair("q", &q)]);
        prop_assert_eq!(made.headers.len(), 4);
        prop_assert_eq!(made.headers["x-value"].to_str().unwrap(), format!("v {h}"));
        let mut inside = json!({ "s": q, "c": c });
        if c.is_empty() {
            inside.as_object_mut().unwrap().remove("c");
        }
        let body: Value = serde_json::from_slice(&made.body).unwrap();
        prop_assert_eq!(body, json!({ "v": { "x": any }, "in": inside, "l": [q, 1] }));
    }

    #[test]
    fn no_host_of_a_configuration_is_anything_else(value in "([a-z0-9.:/@#?%\\\\ \\[\\]-]|ü|127\\.0\\.0\\.1|。){0,20}") {
        let gitlab = portico_connectors::builtin("gitlab").unwrap();
        let (config, auth) = (strings(&json!({ "host": value })), credentials(&json!({ "api_key": "k" })));
        let values = Values { mode: Mode::ApiKey, config: &config, auth: &auth, base_url: None };
        if let Ok(request) = gitlab.test_request(&values) {
            prop_assert_eq!(request.url.path(), "/api/v4/user");
            prop_assert!(matches!(request.url.host(), Some(url::Host::Domain(_))));
            prop_assert!(request.url.port().is_none() && request.url.query().is_none());
            // What is checked when a connection is made is what is called later.
            prop_assert!(gitlab.check_config(Mode::ApiKey, &config).is_ok());
            let found = gitlab.destinations(Mode::ApiKey, &config).unwrap();
            prop_assert_eq!(found, vec![(request.host().to_owned(), request.destination)]);
        } else {
            prop_assert!(gitlab.check_config(Mode::ApiKey, &config).is_err());
        }
    }
}

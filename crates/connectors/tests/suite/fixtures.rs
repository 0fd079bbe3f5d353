//! Every request and answer that is recorded beside a manifest, replayed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use http::HeaderMap;
use portico_connectors::{
    Answer, Destination, Failure, HttpRequest, Manifest, Mode, Scrubber, TestFailure, Values, builtins,
};
use serde_json::{Map, Value, json};

use crate::{credentials, headers, object, strings};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The names of files in a folder, without their endings.
fn names(folder: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn every_manifest_in_the_folder_is_built_in_and_has_the_name_of_its_file() {
    let built_in: Vec<_> = builtins().iter().map(|manifest| manifest.id().to_owned()).collect();
    assert_eq!(built_in, names(&folder("manifests")).into_iter().collect::<Vec<_>>());
    assert_eq!(built_in, names(&folder("fixtures")).into_iter().collect::<Vec<_>>());
}

#[test]
fn every_action_and_the_test_of_every_mode_is_recorded() {
    for manifest in builtins() {
        let recorded = names(&folder("fixtures").join(manifest.id()));
        let mut wanted: BTreeSet<String> = manifest.actions().map(|action| action.name.clone()).collect();
        wanted.insert("test".to_owned());
        let missing: Vec<_> = wanted.difference(&recorded).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", manifest.id());
        let unknown = recorded.iter().filter(|name| !wanted.contains(name.split('.').next().unwrap()));
        assert_eq!(unknown.count(), 0, "{}", manifest.id());
        let tested = recorded.iter().filter(|name| name.starts_with("test"));
        let modes: BTreeSet<_> = tested.map(|name| mode(&fixture(manifest, name))).collect();
        assert_eq!(modes, manifest.modes().collect(), "{}", manifest.id());
    }
}

#[test]
fn every_recorded_request_is_made_and_every_recorded_answer_read() {
    for manifest in builtins() {
        for name in names(&folder("fixtures").join(manifest.id())) {
            replay(manifest, &name, &fixture(manifest, &name));
        }
    }
}

fn fixture(manifest: &Manifest, name: &str) -> Value {
    let file = folder("fixtures").join(manifest.id()).join(format!("{name}.json"));
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn mode(fixture: &Value) -> Mode {
    Mode::parse(fixture["mode"].as_str().unwrap()).unwrap()
}

fn replay(manifest: &Manifest, name: &str, fixture: &Value) {
    let place = format!("{}/{name}", manifest.id());
    let (config, auth) = (strings(&fixture["config"]), credentials(&fixture["auth"]));
    let values = Values { mode: mode(fixture), config: &config, auth: &auth, base_url: None };
    assert_eq!(manifest.check_config(values.mode, &config), Ok(()), "{place}");
    let scrubber = manifest.scrubber(values.mode, &auth);
    let action = name.split('.').next().unwrap();
    let answer_headers = headers(&fixture["answer"]["headers"]);
    let body = match &fixture["answer"]["text"] {
        Value::String(text) => text.clone(),
        _ => serde_json::to_string_pretty(&fixture["answer"]["json"]).unwrap(),
    };
    let status = u16::try_from(fixture["answer"]["status"].as_u64().unwrap()).unwrap();
    let answer = Answer { status, headers: &answer_headers, body: body.as_bytes() };
    if action == "test" {
        compare(&place, &manifest.test_request(&values).unwrap(), &fixture["request"]);
        check_test(&place, manifest, &values, &answer, &scrubber, fixture);
        return;
    }
    let action = manifest.action(action).unwrap();
    let params = action.check_params(&object(&fixture["params"])).unwrap();
    compare(&place, &action.request(&values, &params).unwrap(), &fixture["request"]);
    match action.read(&answer, &scrubber) {
        Ok(reading) => {
            assert_eq!(fixture.get("failure"), None, "{place}");
            let result: Value = serde_json::from_str(&reading.result).unwrap();
            assert_eq!(result, fixture["result"], "{place}");
            assert_eq!(reading.next_cursor, fixture["next_cursor"].as_str().unwrap_or_default(), "{place}");
            let tokens = [u64::from(reading.input_tokens), u64::from(reading.output_tokens)];
            let wanted =
                ["input_tokens", "output_tokens"].map(|name| fixture[name].as_u64().unwrap_or_default());
            assert_eq!(tokens, wanted, "{place}");
        }
        Err(failure) => assert_eq!(written(&failure), fixture["failure"], "{place}"),
    }
}

fn check_test(
    place: &str,
    manifest: &Manifest,
    values: &Values<'_>,
    answer: &Answer<'_>,
    scrubber: &Scrubber,
    fixture: &Value,
) {
    match manifest.read_test(values, answer, scrubber) {
        Ok(reading) => {
            assert_eq!(fixture.get("failure"), None, "{place}");
            assert_eq!(reading.label, fixture["label"], "{place}");
            assert_eq!(reading.external_id, fixture["external_id"], "{place}");
            assert_eq!(json!(reading.scopes), fixture["scopes"], "{place}");
            let keep: Map<_, _> =
                reading.keep.into_iter().map(|(name, value)| (name, value.into())).collect();
            assert_eq!(Value::Object(keep), fixture["keep"], "{place}");
        }
        Err(TestFailure::ChooseSite) => assert_eq!(fixture["failure"], "choose_site", "{place}"),
        Err(TestFailure::Refused(failure)) => assert_eq!(written(&failure), fixture["failure"], "{place}"),
    }
}

fn written(failure: &Failure) -> Value {
    json!({
        "class": failure.class.name(),
        "provider_message": failure.provider_message,
        "expired": failure.expired,
    })
}

fn compare(place: &str, request: &HttpRequest, recorded: &Value) {
    assert_eq!(request.method, recorded["method"].as_str().unwrap(), "{place}");
    assert_eq!(request.url.as_str(), recorded["url"], "{place}");
    assert_eq!(request.headers, headers(&recorded["headers"]), "{place}");
    assert!(!request.is_plain(), "{place}");
    let is_own = request.host().ends_with("acme.example");
    assert_eq!(
        request.destination,
        if is_own { Destination::Chosen } else { Destination::Listed },
        "{place}"
    );
    if let Some(form) = recorded["form"].as_str() {
        assert_eq!(String::from_utf8_lossy(&request.body), form, "{place}");
    } else if recorded["json"].is_null() {
        assert!(request.body.is_empty(), "{place}");
    } else {
        assert_eq!(serde_json::from_slice::<Value>(&request.body).unwrap(), recorded["json"], "{place}");
    }
    no_secret_is_shown(request);
}

/// Every header that a value stands in is marked, and `Debug` says neither path nor header nor body.
fn no_secret_is_shown(request: &HttpRequest) {
    let shown = |headers: &HeaderMap| format!("{headers:?}");
    for name in ["authorization", "private-token", "x-api-key"] {
        if let Some(value) = request.headers.get(name) {
            assert!(value.is_sensitive() && !shown(&request.headers).contains(value.to_str().unwrap()));
        }
    }
    assert_eq!(format!("{request:?}"), format!("{} to {}", request.method, request.host()));
}

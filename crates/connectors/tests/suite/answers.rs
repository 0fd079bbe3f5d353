//! What answers are read as.

use portico_connectors::{
    Answer, ErrorClass, Failure, Manifest, Mode, Reading, Scrubber, TestFailure, Values,
};
use serde_json::{Value, json};

use crate::{credentials, headers, put, read, strings, with};

/// A manifest whose action has a page, tokens and every rule.
fn manifest() -> Manifest {
    let mut source = with("/request/error_at", json!(["/error/message", "/error", "header:x-error"]));
    put(&mut source, "/request/ok_when", json!({ "at": "/ok", "equals": true }));
    put(
        &mut source,
        "/request/expired_when",
        json!([{ "status": [200], "at": "/error", "values": ["expired"] }]),
    );
    put(&mut source, "/actions/0/result", json!(["/data", "/more/0"]));
    put(&mut source, "/actions/0/next", json!(["/next", "header:x-next"]));
    put(&mut source, "/actions/0/params/-", json!({ "name": "cursor", "type": "string" }));
    put(&mut source, "/actions/0/tokens", json!({ "input": "/in", "output": "/out" }));
    read(&source)
}

fn answer(
    manifest: &Manifest,
    status: u16,
    head: &Value,
    body: &[u8],
    secrets: &[&str],
) -> Result<Reading, Failure> {
    let head = headers(head);
    let scrubber = Scrubber::new(secrets.iter().copied());
    manifest.action("get_thing").unwrap().read(&Answer { status, headers: &head, body }, &scrubber)
}

fn json_answer(status: u16, body: &str) -> Result<Reading, Failure> {
    answer(&manifest(), status, &json!({ "content-type": "application/json" }), body.as_bytes(), &[])
}

#[test]
fn numbers_and_all_else_stay_as_the_provider_wrote_them() {
    let body = r#"{ "ok": true, "data": { "big": 9007199254740993, "huge": 123456789012345678901234567890,
        "float": 1.10, "exp": 1E400, "zero": -0, "text": "\u00e4\/", "b": 1, "a": 2 } }"#;
    let reading = json_answer(200, body).unwrap();
    let expected = r#"{"big":9007199254740993,"huge":123456789012345678901234567890,"float":1.10,"exp":1E400,"zero":-0,"text":"\u00e4\/","b":1,"a":2}"#;
    assert_eq!(reading.result, expected);
}

#[test]
fn text_of_json_in_an_answer_stays_text() {
    let body = r#"{"ok":true,"data":{"$serde_json::private::RawValue":"{\"a\":1}"}}"#;
    assert_eq!(json_answer(200, body).unwrap().result, r#"{"$serde_json::private::RawValue":"{\"a\":1}"}"#);
}

#[test]
fn the_first_pointer_that_finds_something_counts() {
    let of = |body: &str| {
        let reading = json_answer(200, body).unwrap();
        (reading.result, reading.next_cursor, reading.input_tokens, reading.output_tokens)
    };
    let text = |text: &str| text.to_owned();
    assert_eq!(of(r#"{"ok":true,"data":null,"more":[[1]],"next":""}"#), (text("[1]"), text(""), 0, 0));
    assert_eq!(
        of(r#"{"ok":true,"data":false,"next":12345678901234567890}"#),
        (text("false"), text("12345678901234567890"), 0, 0)
    );
    assert_eq!(of(r#"{"ok":true,"in":3,"out":99999999999}"#), (text("null"), text(""), 3, u32::MAX));
    assert_eq!(of(r#"{"ok":true,"in":-3,"out":"4"}"#), (text("null"), text(""), 0, 4));
    // Of a name that is given twice, the last one counts.
    assert_eq!(of(r#"{"ok":false,"ok":true,"data":1,"data":2}"#), (text("2"), text(""), 0, 0));
    let head = json!({ "content-type": "application/json", "x-next": "7" });
    assert_eq!(answer(&manifest(), 200, &head, br#"{"ok":true}"#, &[]).unwrap().next_cursor, "7");
}

#[test]
fn text_is_a_string_and_other_bytes_are_base64() {
    let whole = read(&crate::minimal());
    let of = |content_type: &str, body: &[u8]| {
        let head = if content_type.is_empty() { json!({}) } else { json!({ "content-type": content_type }) };
        answer(&whole, 200, &head, body, &["s3cret"]).unwrap().result
    };
    assert_eq!(of("application/json", b" {\"a\" : 1} "), r#"{"a":1}"#);
    assert_eq!(of("application/vnd.x+json; charset=utf-8", b"[1]"), "[1]");
    assert_eq!(of("APPLICATION/JSON", b"\xef\xbb\xbf[1]"), "[1]");
    assert_eq!(of("", b"[1]"), "[1]");
    assert_eq!(of("", b"hello s3cret"), r#""hello ***""#);
    assert_eq!(of("application/json", b"not json"), r#""not json""#);
    assert_eq!(of("application/json", b""), "null");
    assert_eq!(of("application/json", b" \n"), "null");
    assert_eq!(of("text/html; charset=utf-8", b"<p>\"s3cret\"</p>"), r#""<p>\"***\"</p>""#);
    assert_eq!(of("image/svg+xml", b"<svg/>"), r#""<svg/>""#);
    assert_eq!(
        of("application/octet-stream", b"a s3cret"),
        r#"{"base64":"YSAqKio=","content_type":"application/octet-stream"}"#
    );
    assert_eq!(of("text/plain", b"\xff s3cret"), r#"{"base64":"/yAqKio=","content_type":"text/plain"}"#);
    assert_eq!(of("s3cret/x", b"x"), r#"{"base64":"eA==","content_type":"***/x"}"#);
    // What nests too deep for its readers is text.
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert_eq!(of("application/json", deep.as_bytes()), format!("\"{deep}\""));
}

#[test]
fn failures_have_their_classes() {
    for (status, body, class, message, expired) in [
        (401, "", ErrorClass::Auth, "", true),
        (401, r#"{"error":{"message":"no"}}"#, ErrorClass::Auth, "no", true),
        (200, r#"{"ok":false,"error":"expired"}"#, ErrorClass::Auth, "expired", true),
        (400, r#"{"ok":false,"error":"expired"}"#, ErrorClass::Provider4xx, "expired", false),
        (200, r#"{"ok":false,"error":"other"}"#, ErrorClass::Provider4xx, "other", false),
        (200, r#"{"ok":"true"}"#, ErrorClass::Provider4xx, "", false),
        (204, "", ErrorClass::Provider4xx, "", false),
        (301, "", ErrorClass::Redirect, "", false),
        (304, "", ErrorClass::Redirect, "", false),
        (403, r#"{"error":{"code":7}}"#, ErrorClass::Permission, r#"{"code":7}"#, false),
        (404, "<html>", ErrorClass::NotFound, "", false),
        (409, "", ErrorClass::Provider4xx, "", false),
        (429, "", ErrorClass::RateLimited, "", false),
        (500, r#"{"ok":true}"#, ErrorClass::Provider5xx, "", false),
        (503, "", ErrorClass::Provider5xx, "", false),
        (101, "", ErrorClass::Provider5xx, "", false),
        (999, "", ErrorClass::Provider5xx, "", false),
    ] {
        let failure = json_answer(status, body).unwrap_err();
        assert_eq!(
            (failure.class, failure.provider_message.as_str(), failure.expired),
            (class, message, expired),
            "{status} {body}"
        );
        assert_eq!(failure.status_code, status);
    }
}

#[test]
fn a_message_of_a_provider_is_short_plain_and_without_secrets() {
    let body =
        json!({ "error": { "message": format!("\u{1b}[31m s3cret\r\n{}", "ä".repeat(400)) } }).to_string();
    let head = json!({ "content-type": "application/json" });
    let failure = answer(&manifest(), 400, &head, body.as_bytes(), &["s3cret"]).unwrap_err();
    assert!(failure.provider_message.starts_with("[31m ***  ää"), "{}", failure.provider_message);
    assert_eq!(failure.provider_message.chars().count(), 300);
    let head = json!({ "x-error": "bad s3cret" });
    assert_eq!(answer(&manifest(), 400, &head, b"", &["s3cret"]).unwrap_err().provider_message, "bad ***");
}

#[test]
fn how_long_to_wait_is_between_a_second_and_an_hour() {
    let wait = |head: Value| answer(&manifest(), 429, &head, b"", &[]).unwrap_err().retry_after;
    for (text, expected) in [
        ("30", Some(30)),
        ("0", Some(1)),
        ("-5", Some(1)),
        ("0.2", Some(1)),
        ("1.5", Some(2)),
        ("99999999999999999999", Some(3600)),
        ("soon", None),
        ("", None),
        ("inf", None),
        ("NaN", None),
        ("Wed, 18 Nov 2026 00:01:00 GMT", None),
    ] {
        assert_eq!(wait(json!({ "retry-after": text })), expected, "{text}");
    }
    let dated =
        json!({ "retry-after": "Wed, 18 Nov 2026 00:01:00 GMT", "date": "Wed, 18 Nov 2026 00:00:00 GMT" });
    assert_eq!(wait(dated), Some(60));
    assert_eq!(wait(json!({})), None);
    let mut source = crate::minimal();
    put(&mut source, "/request/rate", json!({ "retry_after": "x-wait" }));
    let head = json!({ "x-wait": "9", "retry-after": "1" });
    assert_eq!(answer(&read(&source), 429, &head, b"", &[]).unwrap_err().retry_after, Some(9));
}

#[test]
fn a_test_names_the_account() {
    let manifest = read(&with("/test/scopes_header", json!("x-scopes")));
    let (config, auth) = (strings(&json!({})), credentials(&json!({ "api_key": "s3cret-s3cret" })));
    let values = Values { mode: Mode::ApiKey, config: &config, auth: &auth, base_url: None };
    let scrubber = manifest.scrubber(Mode::ApiKey, &auth);
    let test = |status, head: Value, body: &str| {
        let head = headers(&head);
        manifest.read_test(&values, &Answer { status, headers: &head, body: body.as_bytes() }, &scrubber)
    };
    let json_head = json!({ "content-type": "application/json", "x-scopes": " a, b c,,s3cret-s3cret" });
    let reading =
        test(200, json_head, r#"{"name":" A\nB s3cret-s3cret ","id":18446744073709551616}"#).unwrap();
    assert_eq!((reading.label.as_str(), reading.external_id.as_str()), ("A B ***", "18446744073709551616"));
    assert_eq!(reading.scopes.unwrap(), ["a", "b", "c", "***"]);
    let reading = test(200, json!({}), r#"{"name":{},"id":7}"#).unwrap();
    assert_eq!((reading.label.as_str(), reading.external_id.as_str(), reading.scopes), ("Acme", "7", None));
    // What does not say whose account it is may be anybody's answer.
    for body in [r#"{"name":"A","id":null}"#, r#"{"name":"A","id":{}}"#, "{}", "null", "<html>", ""] {
        let Err(TestFailure::Refused(failure)) = test(200, json!({}), body) else { panic!("{body}") };
        assert_eq!((failure.class, failure.expired), (ErrorClass::Provider4xx, false), "{body}");
    }
    let long = json!({ "name": "ä".repeat(1000), "id": "x".repeat(1000) }).to_string();
    let reading = test(200, json!({}), &long).unwrap();
    assert_eq!((reading.label.chars().count(), reading.external_id.len()), (200, 200));
    let Err(TestFailure::Refused(failure)) = test(401, json!({}), "") else { panic!() };
    assert_eq!(failure.class, ErrorClass::Auth);
}

#[test]
fn what_is_scrubbed_are_secrets_and_no_names() {
    let jira = portico_connectors::builtin("jira").unwrap();
    let auth = credentials(&json!({ "email": "ann@acme.example", "token": "t0ken-1", "cloud_id": "cl-1" }));
    let scrubber = jira.scrubber(Mode::Basic, &auth);
    // The third is the token as Basic authentication sends it.
    let said = "ann@acme.example t0ken-1 YW5uQGFjbWUuZXhhbXBsZTp0MGtlbi0x cl-1";
    assert_eq!(scrubber.text(said), "ann@acme.example *** *** cl-1");
    let auth = credentials(&json!({ "access_token": "at-1", "refresh_token": "rt-1", "cloud_id": "cl-1" }));
    assert_eq!(jira.scrubber(Mode::OAuth2, &auth).text("at-1 rt-1 cl-1"), "*** *** cl-1");
    let github = portico_connectors::builtin("github").unwrap();
    let auth = credentials(
        &json!({ "app_id": "12", "installation_id": "34", "private_key": "-----", "jwt": "j.w.t", "access_token": "ghs" }),
    );
    assert_eq!(github.scrubber(Mode::App, &auth).text("12 34 ----- j.w.t ghs"), "12 34 *** *** ***");
    assert_eq!(format!("{auth:?}"), r#"{"access_token", "app_id", "installation_id", "jwt", "private_key"}"#);
}

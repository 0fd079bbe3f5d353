//! An account's own service.

use portico_connectors::endpoint::{self, Endpoint};
use portico_connectors::{Answer, Destination, ErrorClass, Executor};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{headers, object, paths, strings};

fn service(config: &Value) -> Endpoint {
    Endpoint::new(&strings(config), Executor::Cloud).unwrap()
}

fn refused(config: &Value, executor: Executor) -> String {
    paths(&Endpoint::new(&strings(config), executor).err().unwrap_or_default()).join(" ")
}

#[test]
fn a_base_url_is_an_address_and_nothing_more() {
    let base = |url: &str| refused(&json!({ "base_url": url }), Executor::Cloud);
    for good in [
        "https://api.acme.example",
        "http://api.acme.test:9000/own/",
        "HTTPS://API.acme.example/%20",
        "https://bücher.example/x",
    ] {
        assert_eq!(base(good), "", "{good}");
    }
    for bad in [
        "",
        "api.acme.example",
        "ftp://api.acme.example",
        "https://",
        "https:///x",
        "https:api.acme.example",
        "https:\\\\api.acme.example",
        "https://user@api.acme.example",
        "https://@api.acme.example",
        "https://u:p@api.acme.example",
        "https://api.acme.example?x",
        "https://api.acme.example#x",
        "https://api.acme.example/?",
        "https://127.0.0.1",
        "https://127.1",
        "https://0x7f.1",
        "https://2130706433",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://localhost",
        "https://api.acme.example/a/../b",
        "https://api.acme.example/%2e%2e/",
        "https://api.acme.example/a//b",
        "https://api.acme.example:0/",
        "https://api.acme.example:99999/",
        "https://api.acme.example\\@evil.example",
        "https://api.acme.example/a b",
        " https://api.acme.example",
        "https://api.ac\nme.example",
        "https://api..example",
        "https://api.acme.example./x",
        "https://ａpi.1",
    ] {
        assert_eq!(base(bad), "config.base_url", "{bad}");
    }
    assert_eq!(base(&format!("https://api.acme.example/{}", "x".repeat(2_048))), "config.base_url");
    // An agent stands in a network of its own.
    for good in ["http://127.0.0.1:9000/own", "http://[::1]/", "http://localhost:1", "http://db/x"] {
        assert_eq!(refused(&json!({ "base_url": good }), Executor::Agent), "", "{good}");
    }
    assert_eq!(refused(&json!({ "base_url": "http://u@127.0.0.1/" }), Executor::Agent), "config.base_url");
}

#[test]
fn the_rest_of_a_configuration_is_checked_too() {
    let with = |more: Value| {
        let mut config = json!({ "base_url": "https://api.acme.example" });
        config.as_object_mut().unwrap().extend(object(&more));
        refused(&config, Executor::Cloud)
    };
    assert_eq!(refused(&json!({}), Executor::Cloud), "config.base_url");
    assert_eq!(with(json!({ "nope": "" })), "config.nope");
    assert_eq!(with(json!({ "auth": "digest" })), "config.auth");
    assert_eq!(with(json!({ "auth": "header" })), "config.header_name");
    assert_eq!(with(json!({ "auth": "header", "header_name": "Host" })), "config.header_name");
    assert_eq!(with(json!({ "auth": "header", "header_name": "a b" })), "config.header_name");
    assert_eq!(with(json!({ "auth": "header", "header_name": "X-Key" })), "");
    assert_eq!(with(json!({ "test_path": "/../x" })), "config.test_path");
    assert_eq!(with(json!({ "test_path": "x" })), "config.test_path");
    assert_eq!(with(json!({ "test_path": "", "auth": "", "header_name": "" })), "");
}

#[test]
fn the_secret_goes_as_the_configuration_says() {
    let header = |auth: &str, name: &str, secret: &str| {
        let config = json!({ "base_url": "https://api.acme.example", "auth": auth, "header_name": "X-Key" });
        let request = service(&config).test_request(Some(secret));
        request.map(|request| request.headers.get(name).map(|value| value.to_str().unwrap().to_owned()))
    };
    assert_eq!(header("bearer", "authorization", "s").unwrap().unwrap(), "Bearer s");
    assert_eq!(header("header", "x-key", "s").unwrap().unwrap(), "s");
    assert_eq!(header("basic", "authorization", "user:pa:ss").unwrap().unwrap(), "Basic dXNlcjpwYTpzcw==");
    assert_eq!(header("none", "authorization", "s").unwrap(), None);
    assert_eq!(header("basic", "authorization", "no colon").unwrap_err().path, "secret");
    assert_eq!(header("bearer", "authorization", "a\r\nx: y").unwrap_err().path, "secret");
    // Whoever has the secret puts it in later.
    let own = service(&json!({ "base_url": "https://api.acme.example" }));
    assert!(!own.test_request(None).unwrap().headers.contains_key("authorization"));
    assert_eq!(own.injection().name(), "bearer");
    assert_eq!(endpoint::scrubber("user:pass").text("user:pass dXNlcjpwYXNz pass"), "*** *** pass");
}

#[test]
fn a_request_is_appended_to_the_address() {
    let own = service(&json!({ "base_url": "http://api.acme.test:9000/own/", "test_path": "/health" }));
    assert_eq!(own.host(), "api.acme.test");
    let request = |action: &str, params: Value| {
        let spec = endpoint::actions().iter().find(|spec| spec.name == action).unwrap();
        own.request(action, &spec.check_params(&object(&params)).unwrap(), Some("s"))
    };
    let get = request("get", json!({ "path": "/x", "query": { "q": "1" } })).unwrap();
    assert_eq!((get.method.as_str(), get.url.as_str()), ("GET", "http://api.acme.test:9000/own/x?q=1"));
    assert_eq!(get.destination, Destination::Chosen);
    let query = json!({ "a b": ["x&y", 1, true], "n": null, "e": "" });
    let get = request("get", json!({ "path": "/a b/ü/x%2Fy/", "query": query })).unwrap();
    assert_eq!(
        get.url.as_str(),
        "http://api.acme.test:9000/own/a%20b/%C3%BC/x%2Fy/?a%20b=x%26y&a%20b=1&a%20b=true&e="
    );
    let send =
        request("send", json!({ "method": "PATCH", "path": "/x", "body": [1, { "a": null }] })).unwrap();
    assert_eq!((send.method.as_str(), send.body.as_slice()), ("PATCH", br#"[1,{"a":null}]"#.as_slice()));
    assert_eq!(send.headers["content-type"], "application/json");
    assert!(request("send", json!({ "method": "DELETE", "path": "/x" })).unwrap().body.is_empty());
    assert_eq!(own.test_request(None).unwrap().url.as_str(), "http://api.acme.test:9000/own/health");
    assert_eq!(
        request("get", json!({ "path": "/x", "query": { "a": {} } })).unwrap_err().path,
        "params.query"
    );
    assert_eq!(
        request("get", json!({ "path": "/x", "query": { "a": "x".repeat(30_000) } })).unwrap_err().path,
        "params.query"
    );
    let spec = &endpoint::actions()[1];
    assert_eq!(
        paths(&spec.check_params(&object(&json!({ "method": "GET", "path": "/x" }))).unwrap_err()),
        ["params.method"]
    );
}

#[test]
fn a_path_stays_below_the_address() {
    let own = service(&json!({ "base_url": "https://api.acme.example/own" }));
    let path = |path: &str| own.request("get", &object(&json!({ "path": path })), None);
    for bad in [
        "",
        "x",
        "//x",
        "/..",
        "/../x",
        "/a/../../x",
        "/a/..",
        "/./x",
        "/a//b",
        "/a\\b",
        "/\\evil.example",
        "/%2e%2e/x",
        "/%2E./x",
        "/.%2e",
        "/%252e%252e/x",
        "/%25252e%25252e",
        "/a%2f..%2fb",
        "/a%2F%2Fb",
        "/%2f",
        "/a%5cb",
        "/a%255cb",
        "/a?b",
        "/a#b",
        "/%",
        "/%zz",
        "/%2",
        "/a\nb",
        "/a%00b",
        "/a%0d%0ab",
        "/\u{0}",
    ] {
        assert_eq!(path(bad).unwrap_err().path, "params.path", "{bad}");
    }
    assert_eq!(path(&format!("/{}", "x".repeat(10_000))).unwrap_err().path, "params.path");
    assert!(path(&format!("/{}", "%25".repeat(2_000))).is_ok());
    assert_eq!(path("/").unwrap().url.as_str(), "https://api.acme.example/own/");
    assert_eq!(path("/...").unwrap().url.as_str(), "https://api.acme.example/own/...");
}

#[test]
fn an_answer_is_its_status_its_type_and_its_body() {
    let read = |status: u16, head: Value, body: &[u8]| {
        let head = headers(&head);
        endpoint::read(&Answer { status, headers: &head, body }, &endpoint::scrubber("s3cret"))
    };
    let result = |status: u16, head: Value, body: &[u8]| read(status, head, body).unwrap().result;
    assert_eq!(
        result(201, json!({ "content-type": "application/json" }), br#"{"big": 1.0e5, "k": "s3cret"}"#),
        r#"{"status":201,"content_type":"application/json","body":{"big":1.0e5,"k":"***"}}"#
    );
    assert_eq!(result(204, json!({}), b""), r#"{"status":204,"content_type":"","body":null}"#);
    assert_eq!(
        result(200, json!({ "content-type": "text/plain" }), b"hi"),
        r#"{"status":200,"content_type":"text/plain","body":"hi"}"#
    );
    let failure = read(404, json!({}), b"secret page").unwrap_err();
    assert_eq!((failure.class, failure.provider_message.as_str()), (ErrorClass::NotFound, ""));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_path_the_request_goes_to_the_service(
        path in "(/|\\.|%2e|%2F|%5c|\\\\|%25|@|:|\\?|#|[a-z]|ü| ){0,12}",
        name in "\\PC{0,5}",
        value in "\\PC{0,5}",
    ) {
        let own = service(&json!({ "base_url": "https://api.acme.example/own" }));
        let params = object(&json!({ "path": format!("/{path}"), "query": { &name: &value } }));
        if let Ok(request) = own.request("get", &params, Some("s")) {
            prop_assert_eq!(request.url.host_str(), Some("api.acme.example"));
            prop_assert!(request.url.path().starts_with("/own/"));
            // Whoever parses it again reads the same.
            let again = url::Url::parse(request.url.as_str()).unwrap();
            prop_assert_eq!(&again, &request.url);
            prop_assert!(again.path_segments().unwrap().all(|segment| !matches!(segment, "." | "..")));
            let pairs: Vec<_> = again.query_pairs().into_owned().collect();
            prop_assert_eq!(pairs, vec![(name, value)]);
        }
    }
}

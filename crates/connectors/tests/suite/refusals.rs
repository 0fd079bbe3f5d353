//! Which manifests are refused, and where they are wrong.

use portico_connectors::Manifest;
use serde_json::{Value, json};

use crate::{action, faults, minimal, paths, put, with};

/// The smallest manifest with one thing wrong, and where that is.
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn wrong() -> Vec<(&'static str, Value, &'static str)> {
    let field = |more: Value| {
        let mut field = json!({ "name": "x", "type": "string" });
        field.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([field])
    };
    vec![
        ("/id", json!("A"), "id"),
        ("/id", json!("a"), "id"),
        ("/id", json!(7), "id"),
        ("/id", json!(null), "id"),
        ("/title", json!(""), "title"),
        ("/title", json!("a\u{0}b"), "title"),
        ("/title", json!("x".repeat(81)), "title"),
        ("/title", json!("a\nb"), "title"),
        ("/title", json!("a\u{202e}b"), "title"),
        ("/docs", json!("javascript:alert(1)"), "docs"),
        ("/docs", json!("http://acme.example"), "docs"),
        ("/nope", json!(1), "nope"),
        ("/hosts", json!([]), "hosts"),
        ("/hosts", json!("api.acme.example"), "hosts"),
        ("/hosts/0", json!("127.0.0.1"), "hosts[0]"),
        ("/hosts/0", json!("[::1]"), "hosts[0]"),
        ("/hosts/0", json!("localhost"), "hosts[0]"),
        ("/hosts/0", json!(".example"), "hosts[0]"),
        ("/hosts/0", json!("API.acme.example"), "hosts[0]"),
        ("/hosts/0", json!("*.acme.example"), "hosts[0]"),
        ("/hosts/0", json!("https://api.acme.example"), "hosts[0]"),
        ("/config", json!([{ "name": "x", "type": "object" }]), "config[0].type"),
        ("/config", json!([{ "name": "X", "type": "string" }]), "config[0].name"),
        ("/config", json!([{ "name": "x", "type": "string" }, { "name": "x", "type": "string" }]), "config"),
        ("/config", field(json!({ "min": "a" })), "config[0].min"),
        ("/config", field(json!({ "min": 1 })), "config[0].min"),
        ("/config", field(json!({ "min": "2", "max": "1" })), "config[0].min"),
        ("/config", field(json!({ "choices": ["a"], "default_value": "b" })), "config[0].default_value"),
        ("/config", field(json!({ "choices": ["long"], "max": "2" })), "config[0].choices"),
        ("/config", field(json!({ "type": "integer", "default_value": "1.5" })), "config[0].default_value"),
        ("/config", field(json!({ "type": "boolean", "choices": ["true"] })), "config[0].choices"),
        ("/config", field(json!({ "secret": true })), "config[0].secret"),
        ("/auth", json!({}), "auth"),
        ("/auth", json!({ "magic": {} }), "auth.magic"),
        ("/default_mode", json!("basic"), "default_mode"),
        ("/auth/api_key/fields", json!([]), "auth.api_key.fields"),
        ("/auth/api_key/fields", json!([{ "name": "jwt" }]), "auth.api_key.fields[0].name"),
        (
            "/auth/api_key/fields",
            json!([{ "name": "api_key" }, { "name": "api_key" }]),
            "auth.api_key.fields",
        ),
        ("/auth/api_key/fields", json!([{ "name": "other" }]), "auth.api_key.header"),
        (
            "/auth/api_key/fields",
            json!([{ "name": "api_key", "pattern": "(" }]),
            "auth.api_key.fields[0].pattern",
        ),
        (
            "/auth/api_key/fields",
            json!([{ "name": "api_key", "pattern": "(a{999}){999}" }]),
            "auth.api_key.fields[0].pattern",
        ),
        ("/auth/api_key/header", json!("Bearer {auth.access_token}"), "auth.api_key.header"),
        ("/auth/api_key/header", json!("Bearer\n{auth.api_key}"), "auth.api_key.header"),
        ("/auth/api_key/header_name", json!("Cookie"), "auth.api_key.header_name"),
        ("/auth/api_key/header_name", json!("host"), "auth.api_key.header_name"),
        ("/auth/api_key/base_url", json!("https://other.example"), "auth.api_key.base_url"),
        ("/auth/basic", json!({ "user": "{config.x}" }), "auth.basic.user"),
        ("/auth/app", json!({ "token_url": "https://api.acme.example/t" }), "auth.app.fields"),
        (
            "/auth/app",
            json!({ "fields": [{ "name": "app_id" }], "token_url": "https://api.acme.example/t" }),
            "auth.app.private_key",
        ),
        (
            "/auth/app",
            json!({ "fields": [{ "name": "private_key" }], "token_url": "https://api.acme.example/t" }),
            "auth.app.issuer",
        ),
        (
            "/auth/app",
            json!({ "fields": [{ "name": "app_id" }, { "name": "private_key" }] }),
            "auth.app.token_url",
        ),
        ("/request/base_url", json!("ftp://api.acme.example"), "request.base_url"),
        ("/request/base_url", json!("//api.acme.example"), "request.base_url"),
        ("/request/base_url", json!("https://other.example"), "request.base_url"),
        ("/request/base_url", json!("https://user@api.acme.example"), "request.base_url"),
        ("/request/base_url", json!("https://api.acme.example:0/"), "request.base_url"),
        ("/request/base_url", json!("https://api.acme.example:+1/"), "request.base_url"),
        ("/request/base_url", json!("https://api.acme.example?x=1"), "request.base_url"),
        ("/request/base_url", json!("https://api.acme.example/#x"), "request.base_url"),
        ("/request/base_url", json!("https://api.acme.example\\x"), "request.base_url"),
        ("/request/base_url", json!("https://api.acme.example/a/../b"), "request.base_url"),
        ("/request/base_url", json!("https://127.0.0.1/"), "request.base_url"),
        ("/request/base_url", json!("https://2130706433/"), "request.base_url"),
        ("/request/base_url", json!("https://[::1]/"), "request.base_url"),
        ("/request/base_url", json!("https://{config.host}/"), "request.base_url"),
        ("/request/base_url", json!("https://{auth.api_key}/"), "request.base_url"),
        ("/request/base_url", json!("https://{params.id}/"), "request.base_url"),
        ("/request/base_url", json!("https://a{config.host}/"), "request.base_url"),
        ("/request/headers", json!({ "Host": "x" }), "request.headers.Host"),
        ("/request/headers", json!({ "transfer-encoding": "chunked" }), "request.headers.transfer-encoding"),
        ("/request/headers", json!({ "x": "a\r\nb: c" }), "request.headers.x"),
        ("/request/headers", json!({ "authorization": "x" }), "request.headers.authorization"),
        ("/request/headers", json!({ "x": "{params.id}" }), "request.headers"),
        ("/request/ok_when", json!({ "at": "/ok" }), "request.ok_when.equals"),
        ("/request/ok_when", json!({ "at": "/ok", "absent": true, "equals": 1 }), "request.ok_when.equals"),
        ("/request/ok_when", json!({ "at": "", "absent": true }), "request.ok_when.at"),
        ("/request/ok_when", json!({ "at": "/ok", "equals": {} }), "request.ok_when.equals"),
        ("/request/error_at", json!("message"), "request.error_at"),
        ("/request/error_at", json!("/a~2b"), "request.error_at"),
        ("/request/error_at", json!("header:a b"), "request.error_at"),
        ("/request/error_at", json!([1]), "request.error_at[0]"),
        ("/request/expired_when", json!([{}]), "request.expired_when[0].status"),
        ("/request/expired_when", json!([{ "status": [999] }]), "request.expired_when[0].status[0]"),
        ("/request/expired_when", json!([{ "at": "/x" }]), "request.expired_when[0].values"),
        ("/request/rate", json!({ "remaining": "x" }), "request.rate.remaining"),
        ("/test", json!(null), "test"),
        ("/test/path", json!("me"), "test.path"),
        ("/test/path", json!("/{params.id}"), "test.path"),
        ("/test/headers", json!({ "authorization": "Bearer {auth.jwt}" }), "test.headers"),
        ("/test/keep", json!({ "access_token": "/id" }), "test.keep.access_token"),
        ("/test/choose", json!({ "equals": "x" }), "test.choose.by"),
        ("/actions", json!([]), "actions"),
        ("/actions", json!([action("a"), action("a")]), "actions"),
        ("/actions/0/name", json!("Get"), "actions[0].name"),
        ("/actions/0/class", json!("delete"), "actions[0].class"),
        ("/actions/0/class", json!(null), "actions[0].class"),
        ("/actions/0/reads_private", json!(null), "actions[0].reads_private"),
        ("/actions/0/reads_untrusted", json!("no"), "actions[0].reads_untrusted"),
        ("/actions/0/sends_out", json!(null), "actions[0].sends_out"),
        ("/actions/0/result", json!(null), "actions[0].result"),
        ("/actions/0/method", json!("TRACE"), "actions[0].method"),
        ("/actions/0/method", json!("get"), "actions[0].method"),
        ("/actions/0/path", json!(null), "actions[0].path"),
        ("/actions/0/path", json!("https://other.example/"), "actions[0].path"),
        ("/actions/0/path", json!("/a//b"), "actions[0].path"),
        ("/actions/0/path", json!("/a/../b"), "actions[0].path"),
        ("/actions/0/path", json!("/a/%2E%2e/b"), "actions[0].path"),
        ("/actions/0/path", json!("/a b"), "actions[0].path"),
        ("/actions/0/path", json!("/a?b"), "actions[0].path"),
        ("/actions/0/path", json!("/a\\b"), "actions[0].path"),
        ("/actions/0/path", json!("/a%2"), "actions[0].path"),
        ("/actions/0/path", json!("/{id}"), "actions[0].path"),
        ("/actions/0/path", json!("/{params.nope}"), "actions[0].path"),
        ("/actions/0/path", json!("/{config.nope}"), "actions[0].path"),
        ("/actions/0/path", json!("/{auth.nope}"), "actions[0].path"),
        ("/actions/0/params", json!([{ "name": "id", "type": "string" }]), "actions[0].path"),
        (
            "/actions/0/params",
            json!([{ "name": "id", "type": "object", "required": true }]),
            "actions[0].path",
        ),
        (
            "/actions/0/params",
            json!([{ "name": "id", "type": "any", "required": true }]),
            "actions[0].params[0].type",
        ),
        ("/actions/0/params/-", json!({ "name": "id", "type": "string" }), "actions[0].params"),
        ("/actions/0/query", json!({ "q": {} }), "actions[0].query.q"),
        ("/actions/0/query", json!({ "{params.id}": "x" }), "actions[0].query.{params.id}"),
        ("/actions/0/json", json!({ "a": "{params.id}" }), "actions[0].method"),
        ("/actions/0/next", json!("/next"), "actions[0].next"),
        ("/actions/0/headers", json!({ "Authorization": "x" }), "actions[0].headers.authorization"),
        ("/actions/0/headers", json!({ "X-A": "1", "x-a": "2" }), "actions[0].headers.x-a"),
        ("/actions/0/tokens", json!({ "total": "/x" }), "actions[0].tokens.total"),
        ("/actions/0/executors", json!(["agent"]), "actions[0].executors"),
    ]
}

#[test]
fn what_is_wrong_is_named_by_its_place() {
    for (pointer, value, path) in wrong() {
        let source = with(pointer, value);
        let found = faults(&source);
        assert!(paths(&found).contains(&path), "{pointer} {source}: {found:?}");
        assert!(found.iter().all(|fault| !fault.message.is_empty()), "{found:?}");
    }
}

#[test]
fn every_fault_is_found_at_once() {
    let source = json!({
        "id": "!", "hosts": ["api.acme.example"], "auth": { "api_key": { "nope": 1 } },
        "request": { "base_url": "gopher://x" }, "test": { "path": "me" },
        "actions": [{ "name": "x", "class": "y" }, 7],
    });
    let found = faults(&source);
    for path in [
        "id",
        "title",
        "auth.api_key.nope",
        "request.base_url",
        "test.path",
        "actions[0].class",
        "actions[0].reads_private",
        "actions[0].reads_untrusted",
        "actions[0].sends_out",
        "actions[0].result",
        "actions[0].path",
        "actions[1]",
    ] {
        assert!(paths(&found).contains(&path), "{path}: {found:?}");
    }
}

#[test]
fn a_body_has_its_values_whole() {
    let body = |json: Value| {
        let mut source = with("/actions/0/method", json!("POST"));
        put(&mut source, "/actions/0/json", json);
        faults(&source)
    };
    assert_eq!(body(json!({ "a": "{params.id}", "b": ["{params.id}", "{organization{id}}"] })), []);
    for bad in [
        json!({ "a": "x {params.id}" }),
        json!("{params.id}{params.id}"),
        json!({ "{params.id}": 1 }),
        json!("{params.nope}"),
        json!("{param.id}"),
    ] {
        assert_eq!(paths(&body(bad.clone())), ["actions[0].json"], "{bad}");
    }
    let mut deep = json!("{params.id}");
    for _ in 0..33 {
        deep = json!([deep]);
    }
    assert_eq!(paths(&body(deep)), ["actions[0].json"]);
    let mut both = with("/actions/0/method", json!("POST"));
    put(&mut both, "/actions/0/json", json!({}));
    put(&mut both, "/actions/0/form", json!({}));
    assert_eq!(paths(&faults(&both)), ["actions[0].form"]);
}

#[test]
fn a_list_stands_alone_in_a_query_or_a_form_and_an_object_in_neither() {
    let query = |param: &str, template: &str| {
        let mut source = with("/actions/0/query", json!({ "q": template }));
        put(&mut source, "/actions/0/params/-", json!({ "name": "more", "type": param }));
        paths(&faults(&source)).join(" ")
    };
    assert_eq!(query("array", "{params.more}"), "");
    assert_eq!(query("array", "x{params.more}"), "actions[0].query");
    assert_eq!(query("object", "{params.more}"), "actions[0].query");
    assert_eq!(query("boolean", "x{params.more}"), "");
}

#[test]
fn a_path_type_stands_alone_in_its_segment() {
    let path = |path: &str| {
        let mut source = with("/actions/0/path", json!(path));
        put(&mut source, "/actions/0/params/0/type", json!("path"));
        paths(&faults(&source)).join(" ")
    };
    assert_eq!(path("/a/{params.id}/b"), "");
    assert_eq!(path("/a/{params.id}.txt"), "actions[0].path");
}

#[test]
fn the_host_is_a_field_that_names_one() {
    let host = |field: Value, base_url: &str, hosts: Value| {
        let mut source = with("/config", json!([field]));
        put(&mut source, "/request/base_url", json!(base_url));
        put(&mut source, "/hosts", hosts);
        paths(&faults(&source)).join(" ")
    };
    let field = |more: Value| {
        let mut field = json!({ "name": "host", "type": "string", "host": true });
        field.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        field
    };
    let acme = || json!(["acme.example"]);
    assert_eq!(host(field(json!({})), "https://{config.host}/api", acme()), "");
    assert_eq!(host(field(json!({ "default_value": "acme.example" })), "https://{config.host}", acme()), "");
    assert_eq!(host(field(json!({ "host": false })), "https://{config.host}", acme()), "request.base_url");
    assert_eq!(
        host(field(json!({ "type": "integer" })), "https://{config.host}", acme()),
        "request.base_url"
    );
    assert_eq!(
        host(field(json!({ "default_value": "other.example" })), "https://{config.host}", acme()),
        "config[0]"
    );
    assert_eq!(
        host(field(json!({ "choices": ["acme.example", "10.0.0.1"] })), "https://{config.host}", acme()),
        "config[0]"
    );
    let below = || json!([".acme.example"]);
    assert_eq!(
        host(field(json!({ "choices": ["us", "eu"] })), "https://{config.host}.acme.example", below()),
        ""
    );
    assert_eq!(host(field(json!({})), "https://{config.host}.acme.example", acme()), "request.base_url");
    assert_eq!(host(field(json!({})), "https://{config.host}.other.example", below()), "request.base_url");
    assert_eq!(host(field(json!({})), "https://{config.host}acme.example", below()), "request.base_url");
    assert_eq!(host(field(json!({})), "https://{config.host}.1", below()), "request.base_url");
}

#[test]
fn a_sign_in_is_checked_as_a_whole() {
    let sign_in = |more: Value| {
        let mut oauth = json!({ "authorize_url": "https://api.acme.example/a", "token_url": "https://api.acme.example/t" });
        oauth.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        faults(&with("/auth/oauth2", oauth))
    };
    assert_eq!(sign_in(json!({ "authorize_params": { "prompt": "consent" }, "revoke_url": "" })), []);
    for (more, path) in [
        (json!({ "authorize_params": { "state": "x" } }), "auth.oauth2.authorize_params.state"),
        (json!({ "scopes": ["a b"] }), "auth.oauth2.scopes[0]"),
        (json!({ "client_auth": "query" }), "auth.oauth2.client_auth"),
        (json!({ "body": "xml" }), "auth.oauth2.body"),
        (json!({ "token_url": "https://evil.example/t" }), "auth.oauth2.token_url"),
        (json!({ "authorize_url": "https://evil.example/t" }), "auth.oauth2.authorize_url"),
        (json!({ "revoke_url": "https://evil.example/t" }), "auth.oauth2.revoke_url"),
        (json!({ "token_url": "https://api.acme.example/{auth.access_token}" }), "auth.oauth2.token_url"),
        (json!({ "token_url": null }), "auth.oauth2.token_url"),
        (json!({ "fields": [] }), "auth.oauth2.fields"),
        (json!({ "token": { "id": "/x" } }), "auth.oauth2.token.id"),
        (json!({ "dead": [{ "status": [1] }] }), "auth.oauth2.dead[0].status[0]"),
    ] {
        assert!(paths(&sign_in(more.clone())).contains(&path), "{more}: {:?}", sign_in(more.clone()));
    }
}

#[test]
fn an_action_uses_of_a_credential_only_what_every_mode_has() {
    let mut source = minimal();
    put(&mut source, "/auth/basic", json!({}));
    put(&mut source, "/actions/0/query", json!({ "key": "{auth.api_key}" }));
    assert_eq!(paths(&faults(&source)), ["actions[0].query"]);
    put(
        &mut source,
        "/auth/basic/fields",
        json!([{ "name": "username" }, { "name": "password" }, { "name": "api_key" }]),
    );
    assert_eq!(faults(&source), []);
}

#[test]
fn what_a_test_brings_is_not_there_before_it() {
    let mut source = with("/test/keep", json!({ "site_id": "/id" }));
    put(&mut source, "/actions/0/path", json!("/{auth.site_id}/things"));
    assert_eq!(faults(&source), []);
    put(&mut source, "/request/base_url", json!("https://api.acme.example/{auth.site_id}"));
    assert_eq!(paths(&faults(&source)), ["test.base_url"]);
    put(&mut source, "/test/base_url", json!("https://api.acme.example"));
    assert_eq!(faults(&source), []);
}

#[test]
fn what_is_no_table_is_no_manifest() {
    for source in [json!(null), json!([]), json!("x"), json!(1)] {
        assert_eq!(Manifest::from_json(&source).unwrap_err().len(), 1, "{source}");
    }
}

//! The protocol of assistants: who comes in, which revision they speak, and what they are told when something is wrong.

use portico_kernel::{Code, ScopeSet};
use portico_testkit::{
    Answer, BASE_URL, Browser, Database, NEWEST, TestApp, TestRequest, old_rpc, on_both_databases, rpc,
};
use serde_json::{Value, json};

use crate::apps::{App, Tokens, allow};
use crate::settings::change;
use crate::signin::PASSWORD;

const METADATA: &str = "http://api.test/.well-known/oauth-protected-resource/mcp";

/// An assistant that Ada lets in, with these scopes.
pub(crate) async fn assistant(app: &TestApp, browser: &mut Browser<'_>, scopes: &str) -> (App, Tokens) {
    let client = App::register(app).await;
    browser.sign_in("ada@example.com", PASSWORD).await;
    let request = client.request(&[("scope", scopes), ("resource", "http://api.test/mcp")]);
    let back = allow(browser, &request).await;
    let tokens = Tokens::read(&client.exchange(app, &back.parameter("code").unwrap()).await);
    (client, tokens)
}

fn set(scopes: &[&str]) -> ScopeSet {
    scopes.iter().copied().collect()
}

/// An error of the protocol, which holds the platform's own.
#[track_caller]
fn fault(answer: &Answer, status: u16, code: i64) -> Value {
    let body = answer.json();
    assert_eq!((answer.status, &body["error"]["code"]), (status, &json!(code)), "{body}");
    assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!(1)), "{body}");
    let data = &body["error"]["data"];
    assert_eq!(data["request_id"], answer.header("x-request-id"), "{body}");
    assert_eq!(data["error"], body["error"]["message"], "{body}");
    assert!(data["details"].is_array() && data["code"].is_string(), "{body}");
    body["error"].clone()
}

on_both_databases! {
    whoever_has_no_token_is_told_where_to_get_one,
    a_token_without_a_scope_of_tools_is_told_what_to_ask_for,
    an_assistant_comes_in_is_let_in_calls_and_is_sent_away,
}

async fn whoever_has_no_token_is_told_where_to_get_one(app: TestApp) {
    let asking = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let bare = app.send(TestRequest::new("POST", "/mcp").json(&asking)).await;
    bare.refused(Code::Unauthenticated);
    let scopes = "scope=\"mcp:read mcp:write\"";
    assert_eq!(bare.header("www-authenticate"), format!("Bearer resource_metadata=\"{METADATA}\", {scopes}"));
    let wrong = app.send(TestRequest::new("POST", "/mcp").bearer("abc").json(&asking)).await;
    wrong.refused(Code::Unauthenticated);
    let challenge = format!("Bearer error=\"invalid_token\", resource_metadata=\"{METADATA}\", {scopes}");
    assert_eq!(wrong.header("www-authenticate"), challenge);
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let found =
            app.send(TestRequest::new("GET", path).header("origin", "https://somewhere.example")).await;
        assert_eq!(found.header("access-control-allow-origin"), "*");
        let found = found.ok();
        assert_eq!(found["resource"], format!("{BASE_URL}/mcp"));
        assert_eq!(found["authorization_servers"], json!([portico_testkit::AUTH_URL]));
        assert_eq!(found["bearer_methods_supported"], json!(["header"]));
        assert!(!found["scopes_supported"].as_array().unwrap().contains(&json!("offline_access")));
        let asks = TestRequest::new("OPTIONS", path)
            .header("origin", "https://somewhere.example")
            .header("access-control-request-method", "GET");
        assert_eq!(app.send(asks).await.status, 204);
    }
}

async fn a_token_without_a_scope_of_tools_is_told_what_to_ask_for(app: TestApp) {
    let narrow = app.token_with(app.account, set(&["identity:read"])).await;
    let refused = app.send(rpc(&narrow, "tools/list", json!({}))).await;
    refused.refused(Code::Forbidden);
    let challenge = refused.header("www-authenticate").to_owned();
    assert!(
        challenge.starts_with("Bearer error=\"insufficient_scope\", scope=\"identity:read mcp:read\", "),
        "{challenge}"
    );
    assert!(challenge.contains(&format!("resource_metadata=\"{METADATA}\"")), "{challenge}");
    let reader = app.token_with(app.account, set(&["mcp:read"])).await;
    let params = json!({ "name": "webhooks_create_inbox", "arguments": {} });
    for sent in [rpc(&reader, "tools/call", params.clone()), old_rpc(&reader, "tools/call", &params)] {
        let refused = app.send(sent).await;
        let error = fault(&refused, 403, -32600);
        assert_eq!(error["data"]["code"], "forbidden");
        assert_eq!(error["data"]["details"][0]["metadata"]["scope"], "mcp:write");
        assert!(
            refused
                .header("www-authenticate")
                .contains("error=\"insufficient_scope\", scope=\"mcp:read mcp:write\"")
        );
    }
}

async fn an_assistant_comes_in_is_let_in_calls_and_is_sent_away(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let mut browser = Browser::new(&app);
    let (client, tokens) = assistant(&app, &mut browser, "mcp:read mcp:write").await;
    let me = app.tool(&tokens.access, "identity_get_me", json!({})).await;
    assert_eq!(me["structuredContent"]["kind"], "person");
    app.tool(&tokens.access, "webhooks_create_inbox", json!({})).await;
    app.get("/v1/me").await.ok();
    app.send(TestRequest::new("GET", "/v1/me").bearer(&tokens.access)).await.refused(Code::Unauthenticated);
    let refreshed =
        client.token(&app, &[("grant_type", "refresh_token"), ("refresh_token", &tokens.refresh)]).await;
    let refreshed = Tokens::read(&refreshed);
    app.tool(&refreshed.access, "identity_get_me", json!({})).await;
    assert_eq!(change(&mut browser, "/settings/apps/end", &[]).await.status, 303);
    app.catch_up().await;
    for token in [&tokens.access, &refreshed.access] {
        let refused = app.send(rpc(token, "tools/list", json!({}))).await;
        refused.refused(Code::Unauthenticated);
        assert!(refused.header("www-authenticate").contains("invalid_token"));
    }
    client
        .refused(
            &app,
            &[("grant_type", "refresh_token"), ("refresh_token", &refreshed.refresh)],
            "invalid_grant",
        )
        .await;
    // In time: it lasts a quarter of an hour, and no longer.
    let (_, tokens) = assistant(&app, &mut Browser::new(&app), "mcp:read").await;
    app.advance(std::time::Duration::from_secs(899)).await;
    app.tool(&tokens.access, "identity_get_me", json!({})).await;
    app.advance(std::time::Duration::from_secs(1)).await;
    app.send(rpc(&tokens.access, "tools/list", json!({}))).await.refused(Code::Unauthenticated);
}

#[tokio::test]
async fn every_revision_is_spoken() {
    let app = TestApp::new(Database::Sqlite).await;
    for (asked, given) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2025-03-26", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let client = json!({ "name": "a", "version": "1" });
        let params = json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": client });
        let shaken = app.send(old_rpc(&app.token, "initialize", &params)).await;
        assert_eq!(shaken.header("mcp-session-id"), "", "nothing needs to be remembered");
        let shaken = shaken.ok();
        assert_eq!(shaken["result"]["protocolVersion"], given);
        assert_eq!(shaken["result"]["serverInfo"]["name"], "portico");
        assert_eq!(shaken["result"]["capabilities"], json!({ "tools": {} }));
    }
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let accepted = app.send(TestRequest::new("POST", "/mcp").bearer(&app.token).json(&told)).await;
    assert_eq!((accepted.status, accepted.body.len()), (202, 0));
    assert_eq!(app.send(old_rpc(&app.token, "ping", &json!({}))).await.ok()["result"], json!({}));
    let listed = app.send(old_rpc(&app.token, "tools/list", &json!({}))).await.ok();
    assert!(listed["result"].get("resultType").is_none() && listed["result"].get("ttlMs").is_none());
    let found = app.asked(&app.token, "server/discover", json!({})).await;
    assert_eq!(found["supportedVersions"], json!(["2025-06-18", "2025-11-25", NEWEST]));
    assert_eq!((&found["resultType"], &found["cacheScope"]), (&json!("complete"), &json!("private")));
    let listed = app.asked(&app.token, "tools/list", json!({})).await;
    assert_eq!((&listed["resultType"], &listed["cacheScope"]), (&json!("complete"), &json!("private")));
    assert!(listed["ttlMs"].as_u64().is_some() && listed.get("nextCursor").is_none());
    assert_eq!(app.tools(&app.token).await, *listed["tools"].as_array().unwrap(), "always in the same order");
}

/// A request of the newest revision, with these headers instead of its own, and this body.
fn bent(app: &TestApp, headers: &[(&str, &str)], body: &Value) -> TestRequest {
    let mut sent = TestRequest::new("POST", "/mcp").bearer(&app.token);
    for (name, value) in headers {
        sent = sent.header(name, value);
    }
    sent.json(body)
}

#[tokio::test]
async fn headers_and_body_must_say_the_same() {
    let app = TestApp::new(Database::Sqlite).await;
    let version = ("mcp-protocol-version", NEWEST);
    let meta = |version: &str| {
        json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        })
    };
    let ask = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let list = ask("tools/list", json!({ "_meta": meta(NEWEST) }));
    let call = ask("tools/call", json!({ "_meta": meta(NEWEST), "name": "identity_get_me" }));
    let method = |name| ("mcp-method", name);
    let mismatched: &[(&[(&str, &str)], &Value)] = &[
        (&[version], &list),
        (&[version, method("tools/call")], &list),
        (&[version, method("TOOLS/LIST")], &list),
        (&[version, method("tools/list"), method("tools/list")], &list),
        (&[version, version, method("tools/list")], &list),
        (&[method("tools/list")], &list),
        (&[("mcp-protocol-version", "2025-11-25"), method("tools/list")], &list),
        (&[version, method("tools/call")], &call),
        (&[version, method("tools/call"), ("mcp-name", "identity_get_you")], &call),
        (&[version, method("tools/call"), ("mcp-name", "=?base64?aWRlbnRpdHlfZ2V0X3lvdQ==?=")], &call),
        (&[version, method("tools/call"), ("mcp-name", "=?base64?!!!?=")], &call),
    ];
    for (headers, body) in mismatched {
        fault(&app.send(bent(&app, headers, body)).await, 400, -32020);
    }
    let fitting: &[(&[(&str, &str)], &Value)] = &[
        (&[version, method("tools/list")], &list),
        (&[version, method("tools/call"), ("mcp-name", "identity_get_me")], &call),
        (&[version, method("tools/call"), ("mcp-name", "=?base64?aWRlbnRpdHlfZ2V0X21l?=")], &call),
    ];
    for (headers, body) in fitting {
        assert!(app.send(bent(&app, headers, body)).await.ok()["result"].is_object());
    }
    for params in [
        json!({}),
        json!({ "_meta": {} }),
        json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": NEWEST } }),
    ] {
        let bare = ask("server/discover", params);
        fault(&app.send(bent(&app, &[version, method("server/discover")], &bare)).await, 400, -32602);
    }
    for unknown in ["v999.0.0", "2025-03-26"] {
        let body = ask("tools/list", json!({ "_meta": meta(unknown) }));
        let headers = [("mcp-protocol-version", unknown), method("tools/list")];
        let error = fault(&app.send(bent(&app, &headers, &body)).await, 400, -32022);
        assert_eq!(
            (&error["data"]["requested"], error["data"]["supported"].as_array().unwrap().len()),
            (&json!(unknown), 3)
        );
        let old = ask("tools/list", json!({}));
        fault(&app.send(bent(&app, &headers[..1], &old)).await, 400, -32022);
    }
    for gone in
        ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/list", "unknown/method"]
    {
        fault(&app.send(rpc(&app.token, gone, json!({}))).await, 404, -32601);
    }
    // Clients that shook hands read such an error only with status 200.
    fault(&app.send(old_rpc(&app.token, "resources/list", &json!({}))).await, 200, -32601);
    fault(&app.send(old_rpc(&app.token, "tools/list", &json!({ "cursor": "x" }))).await, 200, -32602);
    fault(&app.send(rpc(&app.token, "tools/call", json!({ "name": "no_such_tool" }))).await, 200, -32602);
    fault(&app.send(rpc(&app.token, "tools/call", json!({ "arguments": {} }))).await, 400, -32602);
}

#[tokio::test]
async fn what_is_no_message_is_a_problem() {
    let app = TestApp::new(Database::Sqlite).await;
    let post = |body: &str| TestRequest::new("POST", "/mcp").bearer(&app.token).text(body);
    for body in [
        "{",
        "[]",
        "null",
        "",
        "\"a\"",
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        "{}",
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","method":"tools/list"}"#,
    ] {
        app.send(post(body)).await.refused(Code::BadRequest);
    }
    app.send(post(&json!({ "jsonrpc": "2.0", "id": "x".repeat(257), "method": "ping" }).to_string()))
        .await
        .refused(Code::BadRequest);
    // Where at least the id reads, it is answered to.
    for body in [
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\u0000"}}"#,
    ] {
        fault(&app.send(post(body)).await, 400, -32600);
    }
    // What is no id is not looked at, however large it is.
    let vast = format!(r#"{{"jsonrpc":"2.0","method":"ping","id":[{}0]}}"#, "{\"\":0},".repeat(200_000));
    app.send(post(&vast)).await.refused_field("body");
    let of_no_revision = post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    app.send(of_no_revision.header("mcp-protocol-version", "1999-01-01")).await.refused(Code::BadRequest);
    let plain = TestRequest::new("POST", "/mcp")
        .bearer(&app.token)
        .header("content-type", "text/plain")
        .bytes(b"{}".to_vec());
    app.send(plain).await.refused(Code::UnsupportedMediaType);
    for method in ["GET", "DELETE", "PUT"] {
        let refused = app.send(TestRequest::new(method, "/mcp").bearer(&app.token)).await;
        refused.refused(Code::MethodNotAllowed);
        assert_eq!(refused.header("allow"), "POST");
    }
    app.send(post(&format!("{{\"a\":\"{}\"}}", "x".repeat(2 << 20)))).await.refused(Code::PayloadTooLarge);
    app.send(post(r#"{"jsonrpc":"2.0","id":"nobody asked","result":{}}"#)).await.refused(Code::NotFound);
    for (origin, status) in
        [("http://api.test", 200), ("https://evil.example", 403), ("null", 403), ("", 403)]
    {
        let answer = app.send(rpc(&app.token, "tools/list", json!({})).header("origin", origin)).await;
        assert_eq!(answer.status, status, "{origin}");
    }
}

//! What the provider says about itself.

use portico_testkit::{AUTH_URL, Database, TestApp, TestRequest};
use serde_json::json;

#[tokio::test]
async fn the_metadata_is_one_document_at_two_paths() {
    let app = TestApp::new(Database::Sqlite).await;
    let document =
        app.send_auth(TestRequest::new("GET", "/.well-known/oauth-authorization-server")).await.ok();
    assert_eq!(
        app.send_auth(TestRequest::new("GET", "/.well-known/openid-configuration")).await.ok(),
        document
    );
    assert_eq!(document["issuer"], AUTH_URL);
    assert_eq!(document["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(document["response_types_supported"], json!(["code"]));
    assert_eq!(document["authorization_response_iss_parameter_supported"], true);
    assert_eq!(document["client_id_metadata_document_supported"], true);
    let scopes = document["scopes_supported"].as_array().unwrap();
    assert!(scopes.contains(&json!("mcp:read")) && scopes.contains(&json!("offline_access")));
    assert!(!scopes.contains(&json!("public")) && !scopes.contains(&json!("rfc:read")), "{scopes:?}");
    for (name, path) in [
        ("authorization_endpoint", "/oauth2/auth"),
        ("token_endpoint", "/oauth2/token"),
        ("registration_endpoint", "/oauth2/register"),
        ("revocation_endpoint", "/oauth2/revoke"),
        ("introspection_endpoint", "/oauth2/introspect"),
        ("jwks_uri", "/.well-known/jwks.json"),
    ] {
        assert_eq!(document[name], format!("{AUTH_URL}{path}"));
        let answer = app.send_auth(TestRequest::new("PUT", path)).await;
        assert_eq!(answer.status, 405, "{path} is served");
    }
}

#[tokio::test]
async fn programs_in_any_page_may_ask_and_people_are_asked_by_ours_alone() {
    let app = TestApp::new(Database::Sqlite).await;
    let origin = "https://inspector.example";
    for path in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/jwks.json",
        "/oauth2/token",
        "/oauth2/register",
        "/oauth2/revoke",
    ] {
        let asked = TestRequest::new("OPTIONS", path)
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "mcp-protocol-version");
        let answer = app.send_auth(asked).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, "*"), "{path}");
        assert!(answer.header("access-control-allow-headers").contains("mcp-protocol-version"));
        assert_eq!(answer.header("access-control-allow-credentials"), "");
        let answer = app.send_auth(TestRequest::new("GET", path).header("origin", origin)).await;
        assert_eq!(answer.header("access-control-allow-origin"), "*", "{path}");
    }
    for path in ["/oauth2/auth", "/signin", "/consent", "/settings", "/oauth2/introspect"] {
        let asked = TestRequest::new("OPTIONS", path)
            .header("origin", origin)
            .header("access-control-request-method", "POST");
        let answer = app.send_auth(asked).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (405, ""), "{path}");
    }
}

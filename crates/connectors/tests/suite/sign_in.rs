//! Sign-ins, tokens and apps.

use std::collections::BTreeMap;

use http::HeaderMap;
use portico_connectors::{
    Answer, Client, Destination, HttpRequest, Mode, OAuthCall, Overrides, SignIn, TokenFailure, Tokens,
    Values, builtin, provider_error,
};
use portico_kernel::{Secret, Timestamp};
use serde_json::{Value, json};

use crate::{credentials, put, read, strings, with};

/// The example of RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const CALLBACK: &str = "https://console.example/connections/callback";

fn sign_in<'a>(config: &'a BTreeMap<String, String>, scopes: &'a [String]) -> SignIn<'a> {
    SignIn {
        client_id: "app 1",
        redirect_uri: CALLBACK,
        state: "st&te",
        verifier: VERIFIER,
        scopes,
        config,
        base_url: None,
    }
}

fn client() -> Client {
    Client { id: "app 1".to_owned(), secret: Secret::new("s3:cret".to_owned()) }
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

#[test]
fn the_address_of_a_sign_in_has_what_it_must() {
    let (config, none) = (strings(&json!({})), Vec::new());
    let jira = builtin("jira").unwrap().oauth().unwrap();
    let (url, destination) = jira.authorize_url(&sign_in(&config, &none)).unwrap();
    assert_eq!(
        (url.origin().ascii_serialization().as_str(), url.path()),
        ("https://auth.atlassian.com", "/authorize")
    );
    assert_eq!(destination, Destination::Listed);
    assert_eq!(
        pairs(url.query().unwrap()),
        strings(&json!({
            "response_type": "code", "client_id": "app 1", "redirect_uri": CALLBACK, "state": "st&te",
            "scope": "read:jira-work write:jira-work read:jira-user offline_access",
            "code_challenge": CHALLENGE, "code_challenge_method": "S256",
            "audience": "api.atlassian.com", "prompt": "consent",
        }))
    );
    let some = ["read".to_owned()];
    let linear = builtin("linear").unwrap().oauth().unwrap();
    let (url, _) = linear.authorize_url(&sign_in(&config, &some)).unwrap();
    assert_eq!(pairs(url.query().unwrap())["scope"], "read");
    let (url, _) = linear.authorize_url(&sign_in(&config, &none)).unwrap();
    assert!(url.as_str().contains("scope=read%2Cwrite"), "{url}");
    // A provider without scopes is asked for none.
    let (url, _) =
        builtin("notion").unwrap().oauth().unwrap().authorize_url(&sign_in(&config, &none)).unwrap();
    assert!(!url.as_str().contains("scope="), "{url}");
}

#[test]
fn the_operator_and_the_configuration_say_where_a_sign_in_goes() {
    let gitlab = builtin("gitlab").unwrap().oauth().unwrap();
    let none = Vec::new();
    let config = strings(&json!({ "host": "gl.acme.example" }));
    let (url, destination) = gitlab.authorize_url(&sign_in(&config, &none)).unwrap();
    assert!(url.as_str().starts_with("https://gl.acme.example/oauth/authorize?"), "{url}");
    assert_eq!(destination, Destination::Chosen);
    let overrides = Overrides::parse("gitlab=http://127.0.0.1:9000/gl").unwrap();
    let moved = SignIn { base_url: overrides.get("gitlab"), ..sign_in(&config, &none) };
    let (url, destination) = gitlab.authorize_url(&moved).unwrap();
    assert!(
        url.as_str().starts_with("http://127.0.0.1:9000/gl/oauth/authorize?response_type=code&"),
        "{url}"
    );
    assert_eq!(destination, Destination::Operator);
    let bad = strings(&json!({ "host": "127.0.0.1" }));
    assert_eq!(gitlab.authorize_url(&sign_in(&bad, &none)).unwrap_err().path, "config.host");
}

fn form(request: &HttpRequest) -> BTreeMap<String, String> {
    assert_eq!(request.headers["content-type"], "application/x-www-form-urlencoded");
    assert_eq!(
        (request.method.as_str(), &request.headers["accept"]),
        ("POST", &"application/json".parse().unwrap())
    );
    pairs(std::str::from_utf8(&request.body).unwrap())
}

#[test]
fn tokens_are_asked_for_as_the_provider_wants_it() {
    let (config, client) = (strings(&json!({})), client());
    let call = OAuthCall { client: &client, config: &config, base_url: None };
    let github = builtin("github").unwrap().oauth().unwrap();
    let request = github.exchange(&call, "c&de", VERIFIER, CALLBACK).unwrap();
    assert_eq!(request.url.as_str(), "https://github.com/login/oauth/access_token");
    assert_eq!(
        form(&request),
        strings(&json!({
            "grant_type": "authorization_code", "code": "c&de", "redirect_uri": CALLBACK, "code_verifier": VERIFIER,
            "client_id": "app 1", "client_secret": "s3:cret",
        }))
    );
    assert!(!request.headers.contains_key("authorization"));
    let refresh = github.refresh(&call, "rt").unwrap();
    assert_eq!(
        form(&refresh),
        strings(
            &json!({ "grant_type": "refresh_token", "refresh_token": "rt", "client_id": "app 1", "client_secret": "s3:cret" })
        )
    );
    assert!(github.revoke(&call, "at").unwrap().is_none());
    // By Basic and JSON.
    let notion = builtin("notion").unwrap().oauth().unwrap();
    let request = notion.exchange(&call, "code", VERIFIER, CALLBACK).unwrap();
    assert_eq!(request.headers["authorization"], "Basic YXBwJTIwMTpzMyUzQWNyZXQ=");
    assert!(request.headers["authorization"].is_sensitive());
    assert_eq!(request.headers["content-type"], "application/json");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(
        body,
        json!({ "grant_type": "authorization_code", "code": "code", "redirect_uri": CALLBACK, "code_verifier": VERIFIER })
    );
    let revoke = notion.revoke(&call, "at").unwrap().unwrap();
    assert_eq!(
        (revoke.url.path(), serde_json::from_slice::<Value>(&revoke.body).unwrap()),
        ("/v1/oauth/revoke", json!({ "token": "at" }))
    );
    // A client without a secret is public.
    let public = Client { id: "app".to_owned(), secret: Secret::new(String::new()) };
    let call = OAuthCall { client: &public, ..call };
    assert_eq!(form(&github.refresh(&call, "rt").unwrap()).get("client_secret"), None);
}

fn token(manifest: &portico_connectors::Manifest, status: u16, body: &str) -> Result<Tokens, TokenFailure> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/json".parse().unwrap());
    headers.insert("retry-after", "7".parse().unwrap());
    let answer = Answer { status, headers: &headers, body: body.as_bytes() };
    manifest.oauth().unwrap().read(&answer, Timestamp::from_seconds(1_000))
}

#[test]
fn tokens_are_read_wherever_they_stand() {
    let linear = builtin("linear").unwrap();
    let read_of = |body: &str| {
        let tokens = token(linear, 200, body).unwrap();
        let refresh = tokens.refresh_token.map(|token| token.expose().clone());
        (
            tokens.access_token.expose().clone(),
            refresh,
            tokens.expires_at.map(Timestamp::as_seconds),
            tokens.scopes,
        )
    };
    let text = |text: &str| text.to_owned();
    assert_eq!(
        read_of(r#"{"access_token":"at","refresh_token":"rt","expires_in":3600,"scope":"a,b c"}"#),
        (text("at"), Some(text("rt")), Some(4_600), Some(vec![text("a"), text("b"), text("c")]))
    );
    assert_eq!(
        read_of(r#"{"access_token":"at","expires_in":"60","scope":["a","b"]}"#),
        (text("at"), None, Some(1_060), Some(vec![text("a"), text("b")]))
    );
    assert_eq!(
        read_of(r#"{"access_token":"at","expires_in":0,"refresh_token":""}"#),
        (text("at"), None, None, None)
    );
    assert_eq!(
        read_of(r#"{"access_token":"at","expires_in":-1,"scope":{}}"#),
        (text("at"), None, None, None)
    );
    // No life that is told ends the world.
    assert_eq!(read_of(r#"{"access_token":"at","expires_in":1e300}"#).2, Some(1_000 + 315_360_000));
    let mut source = with(
        "/auth/oauth2",
        json!({ "authorize_url": "https://api.acme.example/a", "token_url": "https://api.acme.example/t" }),
    );
    put(
        &mut source,
        "/auth/oauth2/token",
        json!({ "access_token": ["/user/token", "/token"], "expires_in": "", "expires_at": "/until" }),
    );
    let nested = read(&source);
    let tokens =
        token(&nested, 200, r#"{"user":{"token":"nested"},"until":"1970-01-01T01:00:00Z"}"#).unwrap();
    assert_eq!(
        (tokens.access_token.expose().as_str(), tokens.expires_at.map(Timestamp::as_seconds)),
        ("nested", Some(3_600))
    );
    let tokens = token(&nested, 201, r#"{"token":"flat","until":5000}"#).unwrap();
    assert_eq!(
        (tokens.access_token.expose().as_str(), tokens.expires_at.map(Timestamp::as_seconds)),
        ("flat", Some(5_000))
    );
}

#[test]
fn what_holds_no_token_says_why() {
    let linear = builtin("linear").unwrap();
    let of = |status: u16, body: &str| token(linear, status, body).unwrap_err();
    let dead = |error: &str| TokenFailure::Dead { error: error.to_owned() };
    let refused = |error: &str| TokenFailure::Refused { error: error.to_owned() };
    assert_eq!(of(400, r#"{"error":"invalid_grant"}"#), dead("invalid_grant"));
    assert_eq!(of(401, r#"{"error":"invalid_grant","access_token":"at"}"#), dead("invalid_grant"));
    assert_eq!(of(403, r#"{"error":"invalid_grant"}"#), refused("invalid_grant"));
    assert_eq!(of(400, r#"{"error":"invalid_client"}"#), refused("invalid_client"));
    assert_eq!(of(400, r#"{"error":"<script>"}"#), refused("provider_error"));
    assert_eq!(of(400, ""), refused("provider_error"));
    assert_eq!(of(302, ""), refused("provider_error"));
    assert_eq!(of(200, "{}"), refused("provider_error"));
    for bad in ["a b", "a\\nb", "", "ä", &"x".repeat(20_000)] {
        assert_eq!(of(200, &format!(r#"{{"access_token":"{bad}"}}"#)), refused("provider_error"), "{bad}");
    }
    for status in [429, 500, 503, 100] {
        assert_eq!(
            of(status, r#"{"error":"invalid_grant"}"#),
            TokenFailure::Failed { status_code: status, retry_after: Some(7) }
        );
    }
    // Slack and GitHub answer errors with 200.
    assert_eq!(
        token(builtin("slack").unwrap(), 200, r#"{"ok":false,"error":"invalid_refresh_token"}"#).unwrap_err(),
        dead("invalid_refresh_token")
    );
    assert_eq!(
        token(builtin("github").unwrap(), 200, r#"{"error":"bad_verification_code"}"#).unwrap_err(),
        refused("bad_verification_code")
    );
    assert_eq!(
        token(builtin("jira").unwrap(), 403, r#"{"error":"unauthorized_client"}"#).unwrap_err(),
        dead("unauthorized_client")
    );
}

#[test]
fn an_error_is_passed_on_only_where_it_is_a_word() {
    for word in ["access_denied", "a.b-c", "1"] {
        assert_eq!(provider_error(word), word);
    }
    for text in ["", "Access Denied", "a b", "é", &"a".repeat(65)] {
        assert_eq!(provider_error(text), "provider_error");
    }
}

#[test]
fn a_token_is_revoked_when_the_provider_says_so() {
    let of = |id: &str, status: u16, body: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        builtin(id).unwrap().oauth().unwrap().is_revoked(&Answer {
            status,
            headers: &headers,
            body: body.as_bytes(),
        })
    };
    assert!(of("gitlab", 200, "{}") && of("gitlab", 200, "") && !of("gitlab", 403, "{}"));
    assert!(of("slack", 200, r#"{"ok":true,"revoked":true}"#) && !of("slack", 200, r#"{"ok":false}"#));
}

#[test]
fn an_app_proves_itself_and_gets_a_token() {
    let github = builtin("github").unwrap();
    let app = github.app().unwrap();
    let mut auth = credentials(&json!({ "app_id": "12345", "installation_id": "678", "private_key": "pem" }));
    assert_eq!(app.private_key_field(), "private_key");
    let claims = app.claims(&auth, Timestamp::from_seconds(10_000)).unwrap();
    assert_eq!(
        serde_json::to_value(&claims).unwrap(),
        json!({ "iss": "12345", "iat": 9_940, "exp": 10_540 })
    );
    assert!(claims.exp - claims.iat <= 600);
    let config = strings(&json!({}));
    assert!(github.test_needs_jwt(Mode::App) && !github.test_needs_jwt(Mode::ApiKey));
    let without = Values { mode: Mode::App, config: &config, auth: &auth, base_url: None };
    assert_eq!(app.token_request(&without).unwrap_err().path, "credentials.jwt");
    auth.insert("jwt", "j.w.t");
    let values = Values { mode: Mode::App, config: &config, auth: &auth, base_url: None };
    let request = app.token_request(&values).unwrap();
    assert_eq!(request.url.as_str(), "https://api.github.com/app/installations/678/access_tokens");
    assert_eq!(
        (request.method.as_str(), request.headers["authorization"].to_str().unwrap()),
        ("POST", "Bearer j.w.t")
    );
    assert_eq!(request.headers["x-github-api-version"], "2022-11-28");
    let headers = HeaderMap::new();
    let body = br#"{"token":"ghs_1","expires_at":"1970-01-01T03:46:40Z","permissions":{"checks":"read"}}"#;
    let tokens =
        app.read(&Answer { status: 201, headers: &headers, body }, Timestamp::from_seconds(10_000)).unwrap();
    assert_eq!(
        (tokens.access_token.expose().as_str(), tokens.expires_at.map(Timestamp::as_seconds)),
        ("ghs_1", Some(13_600))
    );
    assert!(tokens.refresh_token.is_none() && tokens.scopes.is_none());
    auth.remove("jwt");
    auth.insert("access_token", "ghs_1");
    let values = Values { mode: Mode::App, config: &config, auth: &auth, base_url: None };
    let params = crate::object(&json!({ "owner": "a", "repo": "b" }));
    let request = github.action("get_repository").unwrap().request(&values, &params).unwrap();
    assert_eq!(request.headers["authorization"], "Bearer ghs_1");
}

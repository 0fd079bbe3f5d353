//! Apps that make themselves known: by registration, or by a document at their own address.

use std::time::Duration;

use portico::Environment;
use portico_testkit::{Browser, Database, TestApp, TestAppOptions, TestRequest, on_both_databases};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::apps::{App, Tokens, allow};
use crate::signin::PASSWORD;

async fn register(app: &TestApp, body: &Value) -> portico_testkit::Answer {
    app.send_auth(TestRequest::new("POST", "/oauth2/register").json(body)).await
}

on_both_databases! {
    an_assistant_registers_itself,
    an_assistant_asks_for_more_than_it_named,
    bad_registrations_are_refused,
    an_app_that_never_got_a_token_is_forgotten_after_a_day,
    twenty_an_hour_from_one_address,
}

async fn an_assistant_registers_itself(app: TestApp) {
    let body = json!({
        "client_name": "An assistant", "unknown_member": { "a": [1] }, "resource": "x",
        "scope": "mcp:read mcp:write webhooks:write openid",
        "redirect_uris": [
            "cursor://anysphere.cursor-mcp/oauth/callback", "https://app.example/cb", "http://localhost:8787/cb",
        ],
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    let answer = register(&app, &body).await;
    assert_eq!((answer.status, answer.header("cache-control")), (201, "no-store"));
    let made = answer.json();
    assert_eq!(made["redirect_uris"], body["redirect_uris"]);
    assert_eq!(made["scope"], "mcp:read mcp:write", "capped to what assistants have");
    assert_eq!(made["token_endpoint_auth_method"], "none");
    assert_eq!(made.get("client_secret"), None);
    let with_secret = register(
        &app,
        &json!({
            "redirect_uris": ["https://app.example/cb"], "token_endpoint_auth_method": "client_secret_post",
        }),
    )
    .await
    .json();
    assert_eq!(with_secret["token_endpoint_auth_method"], "client_secret_basic");
    assert!(with_secret["client_secret"].as_str().unwrap().starts_with("pcs_"));
    assert_eq!(with_secret["scope"], "connections:use mcp:generate mcp:read mcp:write");
}

async fn an_assistant_asks_for_more_than_it_named(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let body = json!({ "redirect_uris": ["http://127.0.0.1/cb"], "scope": "mcp:read" });
    let id = register(&app, &body).await.json()["client_id"].as_str().unwrap().to_owned();
    let client = App { id, secret: None };
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    for (asked, got) in [
        ("", "mcp:read"),
        // A tool told it what it lacks.
        ("mcp:read connections:use", "connections:use mcp:read"),
        ("mcp:read webhooks:write", "mcp:read"),
    ] {
        let back = allow(&mut browser, &client.request(&[("scope", asked)])).await;
        let tokens = Tokens::read(&client.exchange(&app, &back.parameter("code").unwrap()).await);
        assert_eq!(tokens.scope, got, "{asked}");
    }
}

async fn bad_registrations_are_refused(app: TestApp) {
    for (body, error) in [
        (json!({ "redirect_uris": ["javascript:alert(1)"] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": ["https://ok.example/cb", "data:text/html,x"] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": ["http://ok.example/cb"] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": ["https://ok.example/cb#x"] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": [] }), "invalid_redirect_uri"),
        (json!({}), "invalid_redirect_uri"),
        (json!({ "redirect_uris": vec!["https://ok.example/cb"; 11] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": "https://ok.example/cb" }), "invalid_client_metadata"),
        (json!([1]), "invalid_client_metadata"),
        (
            json!({ "redirect_uris": ["https://ok.example/cb"], "client_name": "a\u{202e}b" }),
            "invalid_client_metadata",
        ),
        (
            json!({ "redirect_uris": ["https://ok.example/cb"], "grant_types": ["client_credentials"] }),
            "invalid_client_metadata",
        ),
        (
            json!({ "redirect_uris": ["https://ok.example/cb"], "client_name": "x".repeat(17 << 10) }),
            "invalid_client_metadata",
        ),
    ] {
        let answer = register(&app, &body).await;
        assert_eq!((answer.status, &answer.json()["error"]), (400, &json!(error)), "{body}");
    }
}

async fn an_app_that_never_got_a_token_is_forgotten_after_a_day(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let (unused, used) = (App::register(&app).await, App::register(&app).await);
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    let code = allow(&mut browser, &used.request(&[])).await.parameter("code").unwrap();
    Tokens::read(&used.exchange(&app, &code).await);
    app.clock.advance(Duration::from_hours(25));
    while portico_testkit::turn(&app, "identity.prune").await == portico_engine::JobOutcome::MoreWork {}
    assert_eq!(browser.get(&unused.request(&[])).await.status, 400);
    assert_eq!(browser.get(&used.request(&[])).await.status, 303);
}

async fn twenty_an_hour_from_one_address(app: TestApp) {
    let body = json!({ "redirect_uris": ["https://app.example/cb"] });
    for _ in 0..20 {
        assert_eq!(register(&app, &body).await.status, 201);
    }
    let refused = register(&app, &body).await;
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    app.clock.advance(Duration::from_secs(wait));
    assert_eq!(register(&app, &body).await.status, 201);
}

/// Makes an answer from the server's own address.
type Make = Box<dyn Fn(&str) -> String + Send>;

/// A web server that answers every request with this text.
async fn document_server(make: impl Fn(&str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let own = origin.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(make(&own).as_bytes()).await;
        }
    });
    origin
}

fn answer(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

async fn app_that_reaches_this_machine() -> TestApp {
    let environment = Environment { egress_allow: "127.0.0.1".parse().unwrap(), ..Environment::default() };
    TestApp::with(Database::Sqlite, TestAppOptions { environment, ..TestAppOptions::default() }).await
}

#[tokio::test]
async fn an_app_is_what_its_own_document_says() {
    let app = app_that_reaches_this_machine().await;
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let origin = document_server(|own| {
        let document = json!({
            "client_id": format!("{own}/client.json"), "client_name": "Document <App>",
            "redirect_uris": ["http://127.0.0.1/cb"], "jwks_uri": "http://10.0.0.1/",
        });
        answer("200 OK", &document.to_string())
    })
    .await;
    let client = App { id: format!("{origin}/client.json"), secret: None };
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    let page = browser.get(&client.request(&[])).await;
    let page = browser.follow(page).await;
    assert!(
        page.text().contains("Let Document &lt;App&gt; in?")
            && page.text().contains("Nobody here has checked")
    );
    let back = allow(&mut browser, &client.request(&[("scope", "mcp:read")])).await;
    let tokens = Tokens::read(&client.exchange(&app, &back.parameter("code").unwrap()).await);
    assert_eq!(tokens.scope, "mcp:read");
    let elsewhere = browser.get(&client.request(&[("redirect_uri", "https://evil.example/cb")])).await;
    assert_eq!(elsewhere.status, 400);
}

#[tokio::test]
async fn documents_that_lie_are_refused() {
    let app = app_that_reaches_this_machine().await;
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let good = |own: &str| {
        let (id, redirects) = (format!("{own}/c"), ["http://127.0.0.1/cb"]);
        json!({ "client_id": id, "client_name": "A", "redirect_uris": redirects })
    };
    let lies: Vec<(&str, Make)> = vec![
        (
            "another id",
            Box::new(move |own| {
                let mut d = good(own);
                d["client_id"] = json!(format!("{own}/other"));
                answer("200 OK", &d.to_string())
            }),
        ),
        (
            "no name",
            Box::new(move |own| {
                let mut d = good(own);
                d["client_name"] = json!("");
                answer("200 OK", &d.to_string())
            }),
        ),
        (
            "no address",
            Box::new(move |own| {
                let mut d = good(own);
                d["redirect_uris"] = json!([]);
                answer("200 OK", &d.to_string())
            }),
        ),
        (
            "bad address",
            Box::new(move |own| {
                let mut d = good(own);
                d["redirect_uris"] = json!(["javascript:x"]);
                answer("200 OK", &d.to_string())
            }),
        ),
        ("not JSON", Box::new(|_| answer("200 OK", "<html>"))),
        (
            "a secret",
            Box::new(move |own| {
                let mut d = good(own);
                d["token_endpoint_auth_method"] = json!("client_secret_basic");
                answer("200 OK", &d.to_string())
            }),
        ),
        ("an error", Box::new(move |own| answer("404 Not Found", &good(own).to_string()))),
        (
            "a redirect",
            Box::new(|own| format!("HTTP/1.1 302 Found\r\nlocation: {own}/c\r\ncontent-length: 0\r\n\r\n")),
        ),
        ("too long", Box::new(move |own| answer("200 OK", &format!("{}{}", good(own), " ".repeat(70_000))))),
    ];
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    for (what, make) in lies {
        let origin = document_server(make).await;
        let client = App { id: format!("{origin}/c"), secret: None };
        let answer = browser.get(&client.request(&[])).await;
        assert_eq!((answer.status, answer.header("location")), (400, ""), "{what}");
    }
}

#[tokio::test]
async fn an_address_inside_is_never_asked() {
    let app = TestApp::new(Database::Sqlite).await;
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    let origin = document_server(|_| panic!("nobody may come here")).await;
    let port = origin.rsplit(':').next().unwrap();
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "169.254.169.254"] {
        for scheme in ["http", "https"] {
            let client = App { id: format!("{scheme}://{host}:{port}/c"), secret: None };
            let answer = browser.get(&client.request(&[])).await;
            assert_eq!(answer.status, 400, "{}", client.id);
            let signed_out = Browser::new(&app).get(&client.request(&[])).await;
            assert_ne!(signed_out.status, 200, "nothing is fetched for a stranger");
        }
    }
}

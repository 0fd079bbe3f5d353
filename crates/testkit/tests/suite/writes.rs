//! What people and addresses may change in a minute at `{auth_url}`.

use std::time::Duration;

use portico_testkit::{Answer, Browser, CONSOLE_URL, TestApp, TestRequest, form, on_both_databases};
use serde_json::json;

use crate::apps::{App, VERIFIER, sign_in_and_authorize};
use crate::settings::change;
use crate::signin::PASSWORD;

on_both_databases! {
    a_person_changes_thirty_things_a_minute,
    letting_an_app_in_without_a_question_counts_too,
    signing_in_counts_too_wherever_it_is,
    an_address_writes_a_hundred_and_twenty_times_a_minute,
    strangers_at_an_address_keep_nobody_out_who_was_here_before,
    programs_are_told_in_oauths_own_shape,
    a_network_of_ipv6_registers_eighty_apps_an_hour,
    a_refresh_token_is_used_a_hundred_and_twenty_times_a_minute,
    what_writes_nothing_is_not_counted,
}

/// Asserts a refusal until later, and returns the seconds to wait.
#[track_caller]
fn wait(answer: &Answer) -> u64 {
    assert_eq!(answer.status, 429, "{}", answer.text());
    let seconds = answer.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    seconds
}

/// A browser of a stranger, and the CSRF token of its forms.
async fn stranger<'a>(app: &'a TestApp, address: &str) -> (Browser<'a>, String) {
    let mut browser = Browser::at(app, address);
    let csrf = browser.get("/signin").await.hidden("/signin")[0].1.clone();
    (browser, csrf)
}

async fn a_person_changes_thirty_things_a_minute(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    app.new_person("eve@example.com", Some(PASSWORD)).await;
    let (mut ada, mut eve) = (Browser::new(&app), Browser::new(&app));
    ada.sign_in("ada@example.com", PASSWORD).await;
    eve.sign_in("eve@example.com", PASSWORD).await;
    // The sign-in was the first of thirty.
    for number in 1..30 {
        let name = format!("Ada {number}");
        let changed = change(&mut ada, "/settings/name", &[("name", &name)]).await;
        assert_eq!(changed.status, 303, "change {number}");
    }
    let before = app.count("audit_entries").await;
    let refused = change(&mut ada, "/settings/name", &[("name", "Countess")]).await;
    let seconds = wait(&refused);
    assert!(refused.header("content-type").starts_with("text/html"));
    assert!(refused.alert().contains("30"), "the page says how many: {}", refused.alert());
    // From another address it is the same person.
    ada.address = "198.51.100.1".parse().unwrap();
    wait(&change(&mut ada, "/settings/name", &[("name", "Countess")]).await);
    assert_eq!(app.count("audit_entries").await, before, "a refusal leaves nothing behind");
    assert_eq!(change(&mut eve, "/settings/name", &[("name", "Eve")]).await.status, 303, "someone else");
    app.clock.advance(Duration::from_secs(seconds));
    assert_eq!(change(&mut ada, "/settings/name", &[("name", "Countess")]).await.status, 303);
}

async fn letting_an_app_in_without_a_question_counts_too(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let console = App { id: "console".to_owned(), secret: None };
    let request = console.request(&[("redirect_uri", &*format!("{CONSOLE_URL}/callback"))]);
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    // The console asks whenever its page is loaded, so it may more often than anything is changed.
    let mut codes = Vec::new();
    for number in 0..120 {
        let back = browser.get(&request).await;
        codes.push(back.parameter("code").unwrap_or_else(|| panic!("request {number}: {}", back.status)));
    }
    for _ in 0..5 {
        let refused = browser.get(&request).await;
        wait(&refused);
        assert_eq!(refused.header("location"), "");
    }
    // Whoever is not signed in is not counted, however often they ask.
    for _ in 0..130 {
        assert_eq!(Browser::new(&app).get(&request).await.status, 303);
    }
    // Nothing is written before the app takes it up.
    assert_eq!((app.count("authorizations").await, app.count("codes").await), (0, 0));
    let exchange = [
        ("grant_type", "authorization_code"),
        ("code", &*codes[119]),
        ("redirect_uri", &*format!("{CONSOLE_URL}/callback")),
        ("code_verifier", VERIFIER),
    ];
    assert_eq!(console.token(&app, &exchange).await.status, 200);
    assert_eq!((app.count("authorizations").await, app.count("codes").await), (1, 0));
}

async fn signing_in_counts_too_wherever_it_is(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    for number in 0..30 {
        let mut browser = Browser::at(&app, &format!("198.51.100.{number}"));
        assert_eq!(browser.sign_in("ada@example.com", PASSWORD).await.status, 303, "sign-in {number}");
    }
    let refused = Browser::at(&app, "198.51.100.30").sign_in("ada@example.com", PASSWORD).await;
    wait(&refused);
    assert_eq!(app.count("sessions").await, 30);
}

async fn an_address_writes_a_hundred_and_twenty_times_a_minute(app: TestApp) {
    let (browser, csrf) = stranger(&app, "198.51.100.1").await;
    let post = async |address: &str| {
        let mut there = Browser::at(&app, address);
        there.cookies.clone_from(&browser.cookies);
        there.post("/email", &[("csrf", &csrf), ("link", "x")]).await
    };
    for number in 0..120 {
        assert_eq!(post("198.51.100.1").await.status, 404, "request {number}");
    }
    let refused = post("198.51.100.1").await;
    let seconds = wait(&refused);
    assert!(refused.alert().contains("120"), "{}", refused.alert());
    assert_eq!(post("198.51.100.2").await.status, 404, "another address");
    app.clock.advance(Duration::from_secs(seconds));
    assert_eq!(post("198.51.100.1").await.status, 404);
    // A household's network is one address, and the networks of one customer have four times as much together.
    let mut served = 0;
    for number in 0..500 {
        served += u32::from(post(&format!("2001:db8:7:{:x}::{number:x}", number % 10)).await.status == 404);
    }
    assert_eq!(served, 480);
}

async fn strangers_at_an_address_keep_nobody_out_who_was_here_before(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    app.new_person("eve@example.com", Some(PASSWORD)).await;
    let (mut ada, mut eve) = (Browser::new(&app), Browser::new(&app));
    ada.sign_in("ada@example.com", PASSWORD).await;
    eve.sign_in("eve@example.com", PASSWORD).await;
    let page = eve.get("/signout").await;
    eve.submit(&page, "/signout", &[]).await;
    app.clock.advance(Duration::from_mins(1));
    let (mut other, csrf) = stranger(&app, "127.0.0.1").await;
    let used = [("csrf", &*csrf), ("link", "x")];
    for number in 0..120 {
        assert_eq!(other.post("/email", &used).await.status, 404, "request {number}");
    }
    wait(&Browser::new(&app).sign_in("ada@example.com", PASSWORD).await);
    assert_eq!(eve.sign_in("eve@example.com", PASSWORD).await.status, 303, "a known browser");
    for number in 0..30 {
        let changed = change(&mut ada, "/settings/name", &[("name", "Ada")]).await;
        assert_eq!(changed.status, 303, "change {number}");
    }
    wait(&change(&mut ada, "/settings/name", &[("name", "Ada")]).await);
    let page = ada.get("/signout").await;
    let out = ada.submit(&page, "/signout", &[]).await;
    assert_eq!((out.status, out.header("location")), (303, "/signin"), "nobody is kept from signing out");
    // What the known browsers of a person have without signing in is bounded too.
    let csrf = ada.get("/signin").await.hidden("/signin")[0].1.clone();
    let used = [("csrf", &*csrf), ("link", "x")];
    for number in 0..30 {
        assert_eq!(ada.post("/email", &used).await.status, 404, "request {number}");
    }
    wait(&ada.post("/email", &used).await);
}

async fn programs_are_told_in_oauths_own_shape(app: TestApp) {
    let post = async || app.send_auth(TestRequest::new("POST", "/oauth2/register").form("x=y")).await;
    for number in 0..120 {
        assert_eq!(post().await.status, 400, "request {number}");
    }
    let refused = post().await;
    wait(&refused);
    assert_eq!(refused.json()["error"], "temporarily_unavailable");
    assert!(refused.json()["error_description"].as_str().unwrap().contains("120"));
    assert_eq!(refused.header("cache-control"), "no-store");
    app.clock.advance(Duration::from_mins(1));
    let (mut browser, csrf) = stranger(&app, "127.0.0.1").await;
    for _ in 0..120 {
        browser.post("/email", &[("csrf", &csrf), ("link", "x")]).await;
    }
    let begin = TestRequest::new("POST", "/signin/passkey/begin").json(&json!({ "csrf": csrf }));
    let refused = browser.send(begin).await;
    wait(&refused);
    assert!(refused.json()["error"].as_str().unwrap().contains("120"), "a script is told in JSON");
}

async fn a_network_of_ipv6_registers_eighty_apps_an_hour(app: TestApp) {
    let body = json!({ "client_name": "An assistant", "redirect_uris": ["http://127.0.0.1/cb"] });
    let register = async |address: String| {
        let sent = TestRequest::new("POST", "/oauth2/register").json(&body).at(address.parse().unwrap());
        app.send_auth(sent).await
    };
    for number in 0..80 {
        assert_eq!(register(format!("2001:db8:7:{number:x}::1")).await.status, 201, "app {number}");
    }
    let refused = register("2001:db8:7:ffff::1".to_owned()).await;
    assert_eq!((refused.status, &refused.json()["error"]), (429, &json!("temporarily_unavailable")));
    assert_eq!(register("2001:db8:8::1".to_owned()).await.status, 201, "another network");
}

async fn a_refresh_token_is_used_a_hundred_and_twenty_times_a_minute(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::create(&app, "identity:read", false).await;
    let tokens = sign_in_and_authorize(&app, &mut Browser::new(&app), &client, "identity:read").await;
    let fields = [("grant_type", "refresh_token"), ("refresh_token", &*tokens.refresh)];
    for number in 0..120 {
        assert_eq!(client.token(&app, &fields).await.status, 200, "use {number}");
    }
    let refused = client.token(&app, &fields).await;
    wait(&refused);
    assert_eq!(refused.json()["error"], "temporarily_unavailable");
    // An app's server refreshes for all its people from one address.
    app.new_person("eve@example.com", Some(PASSWORD)).await;
    let mut eve = Browser::new(&app);
    eve.sign_in("eve@example.com", PASSWORD).await;
    let back = crate::apps::allow(&mut eve, &client.request(&[("scope", "identity:read")])).await;
    let others = crate::apps::Tokens::read(&client.exchange(&app, &back.parameter("code").unwrap()).await);
    let fields = [("grant_type", "refresh_token"), ("refresh_token", &*others.refresh)];
    assert_eq!(client.token(&app, &fields).await.status, 200);
}

async fn what_writes_nothing_is_not_counted(app: TestApp) {
    let key = app.new_key(app.account, app.all_scopes()).await;
    for _ in 0..130 {
        app.exchange(&key).await;
        let introspected =
            app.send_auth(TestRequest::new("POST", "/oauth2/introspect").form(&form(&[]))).await;
        assert_eq!(introspected.status, 401);
        assert_eq!(app.send_auth(TestRequest::new("GET", "/signin")).await.status, 200);
        // What has no CSRF token, or a wrong one, is refused before anything is written.
        assert_eq!(app.send_auth(TestRequest::new("POST", "/signin")).await.status, 400);
        let forged = TestRequest::new("POST", "/signin").form("email=a&password=b&csrf=x");
        assert_eq!(app.send_auth(forged).await.status, 403);
        let forged = TestRequest::new("POST", "/signin/passkey/begin").json(&json!({ "csrf": "x" }));
        assert_eq!(app.send_auth(forged).await.status, 403);
    }
}

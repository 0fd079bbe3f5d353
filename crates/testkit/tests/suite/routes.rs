//! The route table of `{auth_url}`: what it lists is served, and nothing else is.

use std::collections::BTreeSet;

use portico_identity::ROUTES;
use portico_kernel::Code;
use portico_testkit::{Browser, TestApp, TestRequest, on_both_databases};

use crate::apps::{App, sign_in_and_authorize};
use crate::signin::PASSWORD;

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// The value that proves that a page of ours was seen.
async fn csrf(browser: &mut Browser<'_>) -> String {
    let page = browser.get("/settings").await;
    let mut hidden = page.hidden("/settings/name").into_iter();
    hidden.find(|(name, _)| name == "csrf").unwrap().1
}

#[test]
fn every_method_of_a_path_is_listed_once() {
    let mut seen = BTreeSet::new();
    for route in ROUTES {
        for method in route.methods.split(", ") {
            assert!(METHODS.contains(&method), "{method}");
            assert!(seen.insert((route.path, method)), "{method} {} is listed twice", route.path);
        }
    }
}

on_both_databases! {
    what_is_listed_is_served_and_no_other_method,
    what_is_not_listed_changes_nothing,
    the_password_is_asked_again_where_the_table_says_so,
}

async fn what_is_listed_is_served_and_no_other_method(app: TestApp) {
    for path in ROUTES.iter().map(|route| route.path).collect::<BTreeSet<_>>() {
        let listed: Vec<_> =
            ROUTES.iter().filter(|route| route.path == path).map(|route| route.methods).collect();
        let allow = listed.join(", ");
        for method in METHODS {
            let answer = app.send_auth(TestRequest::new(method, path)).await;
            if allow.split(", ").any(|listed| listed == method) {
                assert_ne!(answer.status, 405, "{method} {path}");
                assert!(!answer.text().contains("There is nothing at this path."), "{method} {path}");
            } else {
                assert_eq!((answer.status, answer.header("allow")), (405, &*allow), "{method} {path}");
            }
        }
    }
}

async fn what_is_not_listed_changes_nothing(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::create(&app, "identity:read account:read", false).await;
    let mut browser = Browser::new(&app);
    sign_in_and_authorize(&app, &mut browser, &client, "identity:read").await;
    let csrf = csrf(&mut browser).await;
    let before = browser.get("/settings").await.text();
    assert!(before.contains("Test App"));
    let fields = [("csrf", &*csrf), ("client", &client.id), ("name", "Eve"), ("current_password", PASSWORD)];
    for path in [
        "/settings/apps",
        "/settings/apps/ended",
        "/settings/apps/end/",
        "/settings/other",
        "/settings//name",
    ] {
        browser.post(path, &fields).await.refused(Code::NotFound);
        browser.get(path).await.refused(Code::NotFound);
    }
    assert_eq!(browser.get("/settings").await.text(), before);
}

async fn the_password_is_asked_again_where_the_table_says_so(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    let csrf = csrf(&mut browser).await;
    let mut asked = 0;
    for route in ROUTES.iter().filter(|route| route.methods == "POST" && route.path.starts_with("/settings/"))
    {
        let answer = browser.post(route.path, &[("csrf", &csrf), ("current_password", "wrong")]).await;
        if route.asks_password && route.path == "/settings/totp" {
            // Without the secret that was shown there is nothing to refuse.
            assert_eq!((answer.status, answer.header("location")), (303, "/settings/totp"));
        } else {
            assert_eq!(answer.status == 401, route.asks_password, "{} answers {}", route.path, answer.status);
        }
        asked += usize::from(route.asks_password);
        let unproven = browser.post(route.path, &[("csrf", "forged"), ("current_password", PASSWORD)]).await;
        assert!([400, 403].contains(&unproven.status), "{} answers {}", route.path, unproven.status);
        let stranger = Browser::new(&app).post(route.path, &[("csrf", &csrf)]).await;
        assert!([303, 401].contains(&stranger.status), "{} answers {}", route.path, stranger.status);
    }
    assert_eq!(asked, 6);
}

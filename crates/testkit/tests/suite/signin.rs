//! Signing in.

use std::time::Duration;

use portico_kernel::Code;
use portico_testkit::{Answer, Browser, Database, TestApp, TestRequest, on_both_databases, until};

pub(crate) const PASSWORD: &str = "violet anchor 94 teapot";
const WRONG: &str = "The e-mail address or the password is wrong.";

fn signed_in(answer: &Answer) -> bool {
    answer.status == 303 && answer.header("location") == "/settings"
}

/// The actions in the audit log of the account.
async fn actions(app: &TestApp, token: &str, account: &str) -> Vec<String> {
    let path = format!("/v1/accounts/orgs/{account}/audit");
    let entries = app.send(TestRequest::new("GET", &path).bearer(token)).await.ok()["entries"].clone();
    entries.as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap().to_owned()).collect()
}

on_both_databases! {
    a_person_signs_in_and_out,
    an_unknown_address_and_a_wrong_password_are_told_alike,
    ten_wrong_passwords_are_enough_in_every_spelling,
    one_address_has_fifty_tries,
    a_password_that_could_not_be_checked_was_no_try,
    tries_side_by_side_do_not_pass_the_limit,
    one_address_is_slowed_down_and_goes_on,
    wrong_passwords_from_one_address_refuse_nobody_at_another,
    a_browser_that_signed_in_before_goes_on_among_strangers,
    a_known_browser_has_ten_tries_too,
    known_browsers_have_twenty_tries_together,
    guesses_from_many_addresses_are_slowed_down,
    forms_from_elsewhere_are_refused,
    pages_keep_to_themselves,
    a_session_ends_when_it_is_not_used_and_in_any_case,
}

async fn a_person_signs_in_and_out(app: TestApp) {
    let ada = app.new_person("ada@example.com", Some(PASSWORD)).await;
    let mut browser = Browser::new(&app);
    let to_signin = browser.get("/settings").await;
    assert_eq!((to_signin.status, to_signin.header("location")), (303, "/signin?return_to=%2Fsettings"));
    assert!(signed_in(&browser.sign_in(" Ada@Example.COM ", PASSWORD).await));
    let settings = browser.get("/settings").await;
    assert_eq!(settings.status, 200);
    assert!(settings.text().contains("ada@example.com"));
    let page = browser.get("/signout").await;
    let kept = browser.cookies.clone();
    assert_eq!(browser.submit(&page, "/signout", &[]).await.header("location"), "/signin");
    let left: Vec<_> = browser.cookies.keys().collect();
    assert_eq!(left, ["__Host-portico-known"], "all that says that the person was here before");
    browser.cookies = kept;
    assert_eq!(browser.get("/settings").await.status, 303, "the session is over, whoever kept its cookie");
    let log = actions(&app, &app.person_token(ada.id).await, &ada.account_id.to_string()).await;
    assert!(
        log.contains(&"person.signed_in".to_owned()) && log.contains(&"person.signed_out".to_owned()),
        "{log:?}"
    );
}

async fn an_unknown_address_and_a_wrong_password_are_told_alike(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    app.new_person("nopassword@example.com", None).await;
    for (email, password) in [
        ("ada@example.com", "wrong"),
        ("nobody@example.com", PASSWORD),
        ("nopassword@example.com", ""),
        ("", ""),
        ("not an address", "x"),
    ] {
        let answer = Browser::new(&app).sign_in(email, password).await;
        assert_eq!((answer.status, answer.alert().as_str()), (401, WRONG), "{email}");
        assert!(!answer.text().contains(PASSWORD), "the form does not repeat the password");
    }
}

async fn ten_wrong_passwords_are_enough_in_every_spelling(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let spellings =
        ["ada@example.com", "ADA@example.com", " ada@EXAMPLE.com", "ａda@example.com", "Ada@Example.Com"];
    for number in 0..10 {
        let answer = Browser::new(&app).sign_in(spellings[number % 5], "wrong").await;
        assert_eq!(answer.status, 401, "try {number}");
    }
    let refused = Browser::new(&app).sign_in("ada@example.com", PASSWORD).await;
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=15 * 60 + 1).contains(&wait), "{wait}");
    app.clock.advance(Duration::from_secs(wait));
    assert!(signed_in(&Browser::new(&app).sign_in("ada@example.com", PASSWORD).await), "after {wait} s");
}

async fn one_address_has_fifty_tries(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    // Straight at the limits: fifty wrong passwords would only heat the machine.
    for number in 0..50 {
        let mut browser = Browser::new(&app);
        let page = browser.get("/signin").await;
        let sent = [("email", &*format!("nobody{number}@example.com")), ("password", "x")];
        let answer = browser.submit(&page, "/signin", &sent).await;
        assert_eq!(answer.status, 401, "try {number}");
    }
    assert_eq!(Browser::new(&app).sign_in("ada@example.com", PASSWORD).await.status, 429);
    // A header that no proxy of ours sent is nobody's word.
    let mut browser = Browser::new(&app);
    let page = browser.get("/signin").await;
    let csrf = &page.hidden("/signin")[0].1;
    let form = portico_testkit::form(&[("csrf", csrf), ("email", "ada@example.com"), ("password", PASSWORD)]);
    let sent = TestRequest::new("POST", "/signin").header("x-forwarded-for", "9.9.9.9").form(&form);
    assert_eq!(browser.send(sent).await.status, 429);
}

async fn a_password_that_could_not_be_checked_was_no_try(app: TestApp) {
    let sign_in = async |number: u32| {
        Browser::new(&app).sign_in(&format!("nobody{number}@example.com"), "wrong").await.status
    };
    // More at once than may wait to be checked, on a machine of a few cores.
    let statuses = futures_util::future::join_all((0..40).map(sign_in)).await;
    assert!(statuses.iter().all(|status| [401, 503].contains(status)), "{statuses:?}");
    let mut wrong = statuses.iter().filter(|status| **status == 401).count();
    for number in 40..=90 {
        match sign_in(number).await {
            429 => break,
            status => assert_eq!(status, 401),
        }
        wrong += 1;
    }
    assert_eq!(wrong, 50, "of the address");
}

async fn tries_side_by_side_do_not_pass_the_limit(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let tries =
        (0..25).map(|_| async { Browser::new(&app).sign_in("ada@example.com", "wrong").await.status });
    let statuses = futures_util::future::join_all(tries).await;
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 10, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 15, "{statuses:?}");
}

async fn one_address_is_slowed_down_and_goes_on(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let sign_in = async |password: &str| Browser::new(&app).sign_in("ada@example.com", password).await;
    for number in 0..10 {
        assert_eq!(sign_in("wrong").await.status, 401, "try {number}");
    }
    for wait in [15, 30, 60] {
        let slowed = sign_in(PASSWORD).await;
        assert_eq!((slowed.status, slowed.header("retry-after")), (429, &*wait.to_string()));
        app.clock.advance(Duration::from_secs(wait));
        assert_eq!(sign_in("wrong").await.status, 401, "after {wait} s");
    }
    app.clock.advance(Duration::from_mins(2));
    assert!(signed_in(&sign_in(PASSWORD).await));
    assert_eq!(sign_in("wrong").await.status, 401, "what they mistyped before is forgotten");
}

async fn wrong_passwords_from_one_address_refuse_nobody_at_another(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    for number in 0..10 {
        let answer = Browser::at(&app, "198.51.100.1").sign_in("ada@example.com", "wrong").await;
        assert_eq!(answer.status, 401, "try {number}");
    }
    let there = Browser::at(&app, "198.51.100.1").sign_in("ada@example.com", PASSWORD).await;
    assert_eq!(there.status, 429);
    let here = Browser::at(&app, "198.51.100.2").sign_in("ada@example.com", PASSWORD).await;
    assert!(signed_in(&here), "{}", here.alert());
}

async fn a_browser_that_signed_in_before_goes_on_among_strangers(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    app.new_person("eve@example.com", Some(PASSWORD)).await;
    let mut known = Browser::new(&app);
    known.sign_in("ada@example.com", PASSWORD).await;
    let page = known.get("/signout").await;
    known.submit(&page, "/signout", &[]).await;
    app.clock.advance(Duration::from_hours(100 * 24));
    // Someone at the same address uses up what the address has, and what the person has there.
    for number in 0..50 {
        let email =
            if number < 10 { "ada@example.com".to_owned() } else { format!("nobody{number}@x.example") };
        assert_eq!(Browser::new(&app).sign_in(&email, "wrong").await.status, 401, "try {number}");
    }
    assert_eq!(Browser::new(&app).sign_in("ada@example.com", PASSWORD).await.status, 429);
    assert_eq!(known.sign_in("eve@example.com", PASSWORD).await.status, 429, "nobody else was here before");
    assert!(signed_in(&known.sign_in("ada@example.com", PASSWORD).await));
    let page = known.get("/signout").await;
    known.submit(&page, "/signout", &[]).await;
    let cookie = known.cookies["__Host-portico-known"].clone();
    let mut forged = Browser::new(&app);
    forged.cookies.insert("__Host-portico-known".to_owned(), format!("{cookie}x"));
    assert_eq!(forged.sign_in("ada@example.com", PASSWORD).await.status, 429);
}

async fn a_known_browser_has_ten_tries_too(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let mut known = Browser::new(&app);
    known.sign_in("ada@example.com", PASSWORD).await;
    let page = known.get("/signout").await;
    known.submit(&page, "/signout", &[]).await;
    for number in 0..10 {
        assert_eq!(known.sign_in("ada@example.com", "wrong").await.status, 401, "try {number}");
    }
    assert_eq!(known.sign_in("ada@example.com", PASSWORD).await.status, 429);
    assert!(
        signed_in(&Browser::new(&app).sign_in("ada@example.com", PASSWORD).await),
        "it counts for itself"
    );
}

async fn known_browsers_have_twenty_tries_together(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let mut browsers = Vec::new();
    for _ in 0..3 {
        let mut known = Browser::new(&app);
        known.sign_in("ada@example.com", PASSWORD).await;
        let page = known.get("/signout").await;
        known.submit(&page, "/signout", &[]).await;
        browsers.push(known);
    }
    for number in 0..20 {
        let answer = browsers[number / 10].sign_in("ada@example.com", "wrong").await;
        assert_eq!(answer.status, 401, "try {number}");
    }
    // Whoever had the password once, and made many such browsers, keeps the person out of none of them.
    assert!(signed_in(&browsers[2].sign_in("ada@example.com", PASSWORD).await), "as in any other");
    let page = browsers[2].get("/signout").await;
    browsers[2].submit(&page, "/signout", &[]).await;
    // Nor do they have more tries than anybody at their address.
    for number in 0..10 {
        let answer = browsers[number % 3].sign_in("ada@example.com", "wrong").await;
        assert_eq!(answer.status, 401, "try {number} of the address");
    }
    for known in &mut browsers {
        assert_eq!(known.sign_in("ada@example.com", PASSWORD).await.status, 429);
    }
    assert_eq!(Browser::new(&app).sign_in("ada@example.com", PASSWORD).await.status, 429);
    app.clock.advance(Duration::from_mins(15));
    assert!(signed_in(&browsers[2].sign_in("ada@example.com", PASSWORD).await));
}

async fn guesses_from_many_addresses_are_slowed_down(app: TestApp) {
    let ada = app.new_person("ada@example.com", Some(PASSWORD)).await;
    let from = async |last: u8, password: &str| {
        Browser::at(&app, &format!("198.51.100.{last}")).sign_in("ada@example.com", password).await
    };
    for last in 0..20 {
        assert_eq!(from(last, "wrong").await.status, 401, "address {last}");
    }
    assert_eq!(from(100, "wrong").await.status, 401, "a first try is never refused");
    for wait in [15, 30, 60] {
        let slowed = from(100, PASSWORD).await;
        assert_eq!((slowed.status, slowed.header("retry-after")), (429, &*wait.to_string()));
        app.advance(Duration::from_secs(wait)).await;
        assert_eq!(from(100, "wrong").await.status, 401, "after {wait} s");
    }
    assert!(signed_in(&from(101, PASSWORD).await), "the person gets in all the same");
    // What many addresses do fills nobody's audit log.
    let (token, account) = (app.person_token(ada.id).await, ada.account_id.to_string());
    let failures = async || {
        let actions = actions(&app, &token, &account).await;
        actions.iter().filter(|action| *action == "person.signin_failed").count()
    };
    Box::pin(until("twenty failures in the log", async || failures().await >= 20)).await;
    assert_eq!(failures().await, 20);
}

/// On one database alone: two hundred passwords take long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_of_ipv6_has_two_hundred_tries() {
    let app = TestApp::new(Database::Sqlite).await;
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let from = async |number: u16| {
        // The limit of a minute is not what is tested here.
        app.clock.advance(Duration::from_secs(1));
        let email = format!("nobody{number}@example.com");
        Browser::at(&app, &format!("2001:db8:1:{number:x}::1")).sign_in(&email, "wrong").await.status
    };
    for number in 0..200 {
        assert_eq!(from(number).await, 401, "try {number}");
    }
    assert_eq!(from(200).await, 429);
    assert!(signed_in(&Browser::at(&app, "2001:db8:2::1").sign_in("ada@example.com", PASSWORD).await));
}

async fn forms_from_elsewhere_are_refused(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let good = [("email", "ada@example.com"), ("password", PASSWORD)];
    let mut browser = Browser::new(&app);
    assert_eq!(browser.post("/signin", &good).await.status, 403, "no proof, no cookie");
    let page = browser.get("/signin").await;
    let csrf = page.hidden("/signin")[0].1.clone();
    let mut other = Browser::new(&app);
    other.get("/signin").await;
    let with = |csrf: &str| portico_testkit::form(&[("csrf", csrf), good[0], good[1]]);
    let sent = TestRequest::new("POST", "/signin").form(&with(&csrf));
    assert_eq!(other.send(sent).await.status, 403, "another browser's proof");
    for (header, value) in [
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let sent = TestRequest::new("POST", "/signin").header(header, value).form(&with(&csrf));
        assert_eq!(browser.send(sent).await.status, 403, "{header}: {value}");
    }
    let sent = TestRequest::new("POST", "/signin")
        .header("origin", "null")
        .header("sec-fetch-site", "same-origin")
        .form(&with(&csrf));
    assert!(signed_in(&browser.send(sent).await));
}

async fn pages_keep_to_themselves(app: TestApp) {
    let mut browser = Browser::new(&app);
    for path in [
        "/signin",
        "/signup?setup=x",
        "/settings",
        "/oauth2/auth?client_id=x",
        "/password?link=x",
        "/nowhere",
    ] {
        let answer = browser.get(path).await;
        if path == "/nowhere" {
            answer.refused(Code::NotFound);
            continue;
        }
        let policy = answer.header("content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), "", "{path}");
        assert!(!answer.text().contains("://"), "{path} names nothing elsewhere");
    }
}

async fn a_session_ends_when_it_is_not_used_and_in_any_case(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    for _ in 0..4 {
        app.clock.advance(Duration::from_hours(6 * 24));
        assert_eq!(browser.get("/settings").await.status, 200, "used every six days");
    }
    app.clock.advance(Duration::from_hours(6 * 24));
    assert_eq!(browser.get("/settings").await.status, 303, "30 days are over");
    browser.sign_in("ada@example.com", PASSWORD).await;
    app.clock.advance(Duration::from_hours(7 * 24));
    assert_eq!(browser.get("/settings").await.status, 303, "a week unused");
}

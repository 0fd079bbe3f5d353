//! Settings: what a person changes about themselves, and what ends with it.

use std::time::Duration;

use portico::admin::{Admin, PersonCommand};
use portico_kernel::Clock;
use portico_testkit::{Answer, Browser, TestApp, on_both_databases};
use totp_rs::{Builder, Secret};

use crate::apps::{App, Tokens, claims, sign_in_and_authorize};
use crate::signin::PASSWORD;

const OTHER: &str = "seven marble 58 lantern";

async fn signed_in(app: &TestApp) -> Browser<'_> {
    let mut browser = Browser::new(app);
    assert_eq!(browser.sign_in("ada@example.com", PASSWORD).await.status, 303);
    browser
}

pub(crate) async fn change(browser: &mut Browser<'_>, action: &str, fields: &[(&str, &str)]) -> Answer {
    let page = browser.get("/settings").await;
    browser.submit(&page, action, fields).await
}

fn code(app: &TestApp, page: &Answer) -> String {
    let text = page.text();
    let secret = text.split("id=\"totp-secret\">").nth(1).unwrap().split('<').next().unwrap();
    let totp = Builder::new()
        .with_secret(Secret::try_from_base32(secret).unwrap())
        .with_account_name("a")
        .build()
        .unwrap();
    totp.generate(app.clock.now().as_seconds().unsigned_abs()).to_string()
}

on_both_databases! {
    name_and_address_change,
    a_new_password_ends_the_other_sessions,
    sessions_are_listed_and_ended_one_by_one_and_all,
    codes_are_asked_for_once_they_are_on,
    guessing_codes_is_limited_like_guessing_passwords,
    a_right_password_gives_no_new_tries_at_codes,
    strangers_do_not_lock_a_signed_in_person_out_of_their_settings,
    a_link_to_choose_a_password_ends_with_the_password,
    a_sign_in_half_way_ends_with_the_password,
    an_app_that_is_disconnected_is_refused,
    a_password_by_a_link_disconnects_the_apps,
    an_address_that_is_not_confirmed_is_marked,
}

async fn name_and_address_change(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    app.new_person("eve@example.com", None).await;
    let mut browser = signed_in(&app).await;
    assert_eq!(change(&mut browser, "/settings/name", &[("name", "Countess")]).await.status, 303);
    assert!(browser.get("/settings").await.text().contains("Countess"));
    let wrong =
        change(&mut browser, "/settings/email", &[("email", "a@b.de"), ("current_password", "wrong")]).await;
    assert_eq!((wrong.status, wrong.alert().as_str()), (401, "Your password is wrong."));
    let taken = change(
        &mut browser,
        "/settings/email",
        &[("email", "EVE@example.com"), ("current_password", PASSWORD)],
    )
    .await;
    assert_eq!((taken.status, taken.alert().as_str()), (400, "Someone else has this address."));
    let moved = [("email", "Countess@Example.com"), ("current_password", PASSWORD)];
    assert_eq!(change(&mut browser, "/settings/email", &moved).await.status, 303);
    assert_eq!(Browser::new(&app).sign_in("ada@example.com", PASSWORD).await.status, 401);
    assert_eq!(Browser::new(&app).sign_in("countess@example.com", PASSWORD).await.status, 303);
}

async fn a_new_password_ends_the_other_sessions(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let (mut here, mut there) = (signed_in(&app).await, signed_in(&app).await);
    let easy = [("current_password", PASSWORD), ("new_password", "ada@example.com1")];
    assert_eq!(change(&mut here, "/settings/password", &easy).await.status, 400);
    let new = [("current_password", PASSWORD), ("new_password", OTHER)];
    assert_eq!(change(&mut here, "/settings/password", &new).await.status, 303);
    assert_eq!(here.get("/settings").await.status, 200);
    assert_eq!(there.get("/settings").await.status, 303);
    assert_eq!(Browser::new(&app).sign_in("ada@example.com", PASSWORD).await.status, 401);
    assert_eq!(Browser::new(&app).sign_in("ada@example.com", OTHER).await.status, 303);
}

async fn sessions_are_listed_and_ended_one_by_one_and_all(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let (mut here, mut there, mut yonder) =
        (signed_in(&app).await, signed_in(&app).await, signed_in(&app).await);
    let page = here.get("/settings").await;
    assert_eq!(page.text().matches("action=\"/settings/sessions/end\"").count(), 2);
    assert_eq!(here.submit(&page, "/settings/sessions/end", &[]).await.status, 303);
    let alive = [there.get("/settings").await.status, yonder.get("/settings").await.status];
    assert_eq!(alive.iter().filter(|status| **status == 200).count(), 1, "{alive:?}");
    assert_eq!(change(&mut here, "/settings/sessions/end-others", &[]).await.status, 303);
    let alive = [there.get("/settings").await.status, yonder.get("/settings").await.status];
    assert_eq!(alive, [303, 303]);
    assert_eq!(here.get("/settings").await.status, 200);
}

async fn codes_are_asked_for_once_they_are_on(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let mut browser = signed_in(&app).await;
    let page = browser.get("/settings/totp").await;
    let first = code(&app, &page);
    let wrong =
        browser.submit(&page, "/settings/totp", &[("code", "000000"), ("current_password", PASSWORD)]).await;
    assert_eq!(wrong.status, 400);
    let unproven =
        browser.submit(&page, "/settings/totp", &[("code", &first), ("current_password", "x")]).await;
    assert_eq!(unproven.status, 401);
    let done =
        browser.submit(&page, "/settings/totp", &[("code", &first), ("current_password", PASSWORD)]).await;
    assert_eq!(done.status, 200, "{}", done.alert());
    let text = done.text();
    let recovery: Vec<_> =
        text.split("<li><code>").skip(1).map(|code| code.split('<').next().unwrap()).collect();
    assert_eq!(recovery.len(), 10);

    let mut other = Browser::new(&app);
    let step = other.sign_in("ada@example.com", PASSWORD).await;
    assert_eq!(step.header("location"), "/signin/code");
    assert_eq!(other.get("/settings").await.status, 303, "not in yet");
    let form = other.get("/signin/code").await;
    let reused = other.submit(&form, "/signin/code", &[("code", &first)]).await;
    assert_eq!((reused.status, reused.alert().as_str()), (401, "The code is wrong or was used already."));
    app.clock.advance(Duration::from_secs(30));
    let next = code(&app, &page);
    assert_eq!(other.submit(&form, "/signin/code", &[("code", &next)]).await.header("location"), "/settings");
    assert_eq!(other.get("/settings").await.status, 200);

    let typed = recovery[0].to_uppercase().replace('-', " ");
    for expected in [303, 401] {
        let mut third = Browser::new(&app);
        third.sign_in("ada@example.com", PASSWORD).await;
        let form = third.get("/signin/code").await;
        let answer = third.submit(&form, "/signin/code", &[("code", &typed)]).await;
        assert_eq!(answer.status, expected, "a recovery code works once");
    }
    assert_eq!(
        change(&mut browser, "/settings/totp/remove", &[("current_password", PASSWORD)]).await.status,
        303
    );
    assert_eq!(Browser::new(&app).sign_in("ada@example.com", PASSWORD).await.header("location"), "/settings");
}

async fn guessing_codes_is_limited_like_guessing_passwords(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let mut browser = signed_in(&app).await;
    let page = browser.get("/settings/totp").await;
    let right = code(&app, &page);
    browser.submit(&page, "/settings/totp", &[("code", &right), ("current_password", PASSWORD)]).await;
    let mut other = Browser::new(&app);
    other.sign_in("ada@example.com", PASSWORD).await;
    let form = other.get("/signin/code").await;
    for _ in 0..10 {
        assert_eq!(other.submit(&form, "/signin/code", &[("code", "123456")]).await.status, 401);
    }
    app.clock.advance(Duration::from_mins(1));
    let next = code(&app, &page);
    assert_eq!(other.submit(&form, "/signin/code", &[("code", &next)]).await.status, 429);
    app.clock.advance(Duration::from_mins(5));
    assert_eq!(
        other.get("/signin/code").await.header("location"),
        "/signin?return_to=%2Fsettings",
        "the step is over"
    );
}

async fn a_right_password_gives_no_new_tries_at_codes(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let mut browser = signed_in(&app).await;
    let page = browser.get("/settings/totp").await;
    let right = code(&app, &page);
    browser.submit(&page, "/settings/totp", &[("code", &right), ("current_password", PASSWORD)]).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let mut other = Browser::new(&app);
        if other.sign_in("ada@example.com", PASSWORD).await.status != 303 {
            break;
        }
        let form = other.get("/signin/code").await;
        for _ in 0..4 {
            statuses.push(other.submit(&form, "/signin/code", &[("code", "123456")]).await.status);
        }
    }
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 10, "{statuses:?}");
}

async fn strangers_do_not_lock_a_signed_in_person_out_of_their_settings(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let mut browser = signed_in(&app).await;
    for _ in 0..11 {
        Browser::new(&app).sign_in("ada@example.com", "wrong").await;
    }
    let new = [("current_password", PASSWORD), ("new_password", OTHER)];
    assert_eq!(change(&mut browser, "/settings/password", &new).await.status, 303);
}

async fn a_link_to_choose_a_password_ends_with_the_password(app: TestApp) {
    let person = app.new_person("ada@example.com", Some(PASSWORD)).await.id;
    let made = app.admin(Admin::Person(PersonCommand::PasswordLink { person })).await;
    let path = made["link"].as_str().unwrap().split("auth.test").nth(1).unwrap().to_owned();
    assert_eq!(Browser::new(&app).get(&path).await.status, 200);
    let mut browser = signed_in(&app).await;
    let new = [("current_password", PASSWORD), ("new_password", OTHER)];
    assert_eq!(change(&mut browser, "/settings/password", &new).await.status, 303);
    assert_eq!(Browser::new(&app).get(&path).await.status, 404);
}

async fn a_sign_in_half_way_ends_with_the_password(app: TestApp) {
    let person = app.new_person("ada@example.com", Some(PASSWORD)).await.id;
    let mut browser = signed_in(&app).await;
    let page = browser.get("/settings/totp").await;
    let right = code(&app, &page);
    browser.submit(&page, "/settings/totp", &[("code", &right), ("current_password", PASSWORD)]).await;
    let mut half = Browser::new(&app);
    half.sign_in("ada@example.com", PASSWORD).await;
    let form = half.get("/signin/code").await;
    app.clock.advance(Duration::from_secs(30));
    let made = app.admin(Admin::Person(PersonCommand::PasswordLink { person })).await;
    let path = made["link"].as_str().unwrap().split("auth.test").nth(1).unwrap().to_owned();
    let mut chooser = Browser::new(&app);
    let choose = chooser.get(&path).await;
    assert_eq!(chooser.submit(&choose, "/password", &[("password", OTHER)]).await.status, 303);
    let next = code(&app, &page);
    assert_eq!(half.submit(&form, "/signin/code", &[("code", &next)]).await.status, 401);
    assert_eq!(half.get("/settings").await.status, 303);
}

async fn an_app_that_is_disconnected_is_refused(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::create(&app, "identity:read account:read", false).await;
    let mut browser = Browser::new(&app);
    let tokens = sign_in_and_authorize(&app, &mut browser, &client, "identity:read").await;
    let me = portico_testkit::TestRequest::new("GET", "/v1/me").bearer(&tokens.access);
    app.send(me).await.ok();
    assert!(browser.get("/settings").await.text().contains("Test App"));
    assert_eq!(change(&mut browser, "/settings/apps/end", &[]).await.status, 303);
    assert!(!browser.get("/settings").await.text().contains("Test App"));
    app.catch_up().await;
    let me = portico_testkit::TestRequest::new("GET", "/v1/me").bearer(&tokens.access);
    app.send(me).await.refused(portico_kernel::Code::Unauthenticated);
    client
        .refused(
            &app,
            &[("grant_type", "refresh_token"), ("refresh_token", &tokens.refresh)],
            "invalid_grant",
        )
        .await;
}

async fn a_password_by_a_link_disconnects_the_apps(app: TestApp) {
    let person = app.new_person("ada@example.com", Some(PASSWORD)).await.id;
    let client = App::create(&app, "identity:read account:read", false).await;
    let mut browser = Browser::new(&app);
    let tokens = sign_in_and_authorize(&app, &mut browser, &client, "identity:read").await;
    let me = || portico_testkit::TestRequest::new("GET", "/v1/me").bearer(&tokens.access);
    let changed = [("current_password", PASSWORD), ("new_password", OTHER)];
    assert_eq!(change(&mut browser, "/settings/password", &changed).await.status, 303);
    app.catch_up().await;
    app.send(me()).await.ok();
    let made = app.admin(Admin::Person(PersonCommand::PasswordLink { person })).await;
    let path = made["link"].as_str().unwrap().split("auth.test").nth(1).unwrap().to_owned();
    let mut chooser = Browser::new(&app);
    let page = chooser.get(&path).await;
    assert!(page.text().contains("the apps that you let in are disconnected"), "{}", page.text());
    assert_eq!(chooser.submit(&page, "/password", &[("password", PASSWORD)]).await.status, 303);
    app.catch_up().await;
    app.send(me()).await.refused(portico_kernel::Code::Unauthenticated);
    let refresh = [("grant_type", "refresh_token"), ("refresh_token", &*tokens.refresh)];
    client.refused(&app, &refresh, "invalid_grant").await;
    chooser.sign_in("ada@example.com", PASSWORD).await;
    assert!(!chooser.get("/settings").await.text().contains("Test App"));
}

async fn an_address_that_is_not_confirmed_is_marked(app: TestApp) {
    const MARK: &str = "not confirmed";
    let ada = app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::create(&app, "identity:read account:read", false).await;
    let mut browser = Browser::new(&app);
    let tokens = sign_in_and_authorize(&app, &mut browser, &client, "identity:read").await;
    assert_eq!(claims(&tokens.access)["email_verified"], true);
    for path in ["/settings", "/signout"] {
        assert!(!browser.get(path).await.text().contains(MARK), "{path}");
    }
    let moved = [("email", "countess@example.com"), ("current_password", PASSWORD)];
    assert_eq!(change(&mut browser, "/settings/email", &moved).await.status, 303, "no mail is sent here");
    for path in ["/settings", "/signout"] {
        assert!(browser.get(path).await.text().contains(MARK), "{path}");
    }
    let answer = browser.get(&client.request(&[("scope", "account:read")])).await;
    let consent = browser.follow(answer).await;
    assert!(consent.text().contains(MARK));
    let refresh = [("grant_type", "refresh_token"), ("refresh_token", &*tokens.refresh)];
    let next = Tokens::read(&client.token(&app, &refresh).await);
    assert_eq!(claims(&next.access)["email_verified"], false);
    let console = app.person_token(ada.id).await;
    assert_eq!(claims(&console)["email_verified"], false);
    let members = format!("/v1/accounts/orgs/{}/members", ada.account_id);
    let listed = app.send(portico_testkit::TestRequest::new("GET", &members).bearer(&console)).await.ok();
    assert_eq!(listed["members"][0]["email_verified"], false, "{listed}");
    assert!(claims(&app.token).get("email_verified").is_none(), "a key has no address");
}

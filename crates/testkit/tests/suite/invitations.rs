//! Invitations: bound to an address, once, for seven days.

use std::time::Duration;

use portico::Environment;
use portico_kernel::{Code, Role};
use portico_mail::Smtp;
use portico_store::{Select, args};
use portico_testkit::{Answer, Browser, Database, TestApp, TestAppOptions, TestRequest, on_both_databases};
use serde_json::{Value, json};

use crate::signin::PASSWORD;

async fn owner(app: &TestApp) -> String {
    let person = app.new_person("owner@example.com", None).await;
    app.join(app.account, person.id, Role::Owner).await;
    app.person_token(person.id).await
}

async fn call(app: &TestApp, token: &str, method: &str, path: &str, body: &Value) -> Answer {
    let sent = TestRequest::new(method, path).bearer(token);
    app.send(if method == "POST" { sent.json(body) } else { sent }).await
}

async fn invite(app: &TestApp, token: &str, body: &Value) -> Answer {
    call(app, token, "POST", &format!("/v1/accounts/orgs/{}/invitations", app.account), body).await
}

async fn accept(app: &TestApp, token: &str, invitation: &str) -> Answer {
    call(app, token, "POST", "/v1/accounts/invitations/accept", &json!({ "token": invitation })).await
}

fn secret(made: &Value) -> String {
    made["link"].as_str().unwrap().split("invitation=").nth(1).unwrap().to_owned()
}

async fn event(app: &TestApp, event_type: &str) -> Value {
    let path = format!("/v1/accounts/orgs/{}/events?type={event_type}&page_size=1", app.account);
    app.get(&path).await.ok()["events"][0]["data"].clone()
}

on_both_databases! {
    someone_with_an_account_takes_one_up_once,
    one_ends_after_seven_days_or_when_it_is_taken_back,
    a_member_is_not_invited_and_whoever_is_removed_stays_out,
    whom_a_removed_member_invited_is_invited_no_more,
    a_newcomer_signs_up_with_one,
    someone_known_is_asked_to_sign_in_first,
    a_personal_account_invites_nobody,
}

async fn someone_with_an_account_takes_one_up_once(app: TestApp) {
    let owner = owner(&app).await;
    let made = invite(&app, &owner, &json!({ "email": "Ada@Example.com", "role": "admin" })).await.ok();
    assert_eq!(
        (&made["invitation"]["email"], &made["invitation"]["role"]),
        (&json!("ada@example.com"), &json!("admin"))
    );
    let invited = event(&app, "member.invited").await;
    assert_eq!(invited["invitation_id"], made["invitation"]["id"]);
    assert_eq!(invited.as_object().unwrap().len(), 2, "ids alone: {invited}");
    invite(&app, &owner, &json!({ "email": "ADA@example.com" })).await.refused(Code::AlreadyExists);
    let path = format!("/v1/accounts/orgs/{}/invitations", app.account);
    let listed = call(&app, &owner, "GET", &path, &json!(null)).await.ok();
    assert_eq!(listed["invitations"], json!([made["invitation"]]));
    assert!(!listed.to_string().contains(&secret(&made)), "the link is shown once");
    let (ada, eve) =
        (app.new_person("ada@example.com", None).await, app.new_person("eve@example.com", None).await);
    let (token, other) = (app.person_token(ada.id).await, app.person_token(eve.id).await);
    let refused = accept(&app, &other, &secret(&made)).await.refused(Code::Forbidden);
    assert_eq!(refused["details"][0]["reason"], "OTHER_ADDRESS");
    let invitation = secret(&made);
    let again = (0..3).map(|_| accept(&app, &token, &invitation));
    let mut statuses: Vec<_> =
        futures_util::future::join_all(again).await.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 404, 404]);
    assert_eq!(event(&app, "member.joined").await, json!({ "user_id": ada.id, "actor": ada.id }));
    invite(&app, &token, &json!({ "email": "x@example.com", "role": "owner" })).await.refused_field("role");
}

async fn one_ends_after_seven_days_or_when_it_is_taken_back(app: TestApp) {
    let owner = owner(&app).await;
    let ada = app.new_person("ada@example.com", None).await;
    let made = invite(&app, &owner, &json!({ "email": "ada@example.com" })).await.ok();
    app.advance(Duration::from_hours(7 * 24)).await;
    let token = app.person_token(ada.id).await;
    accept(&app, &token, &secret(&made)).await.refused(Code::NotFound);
    assert_eq!(Browser::new(&app).get(&format!("/signup?invitation={}", secret(&made))).await.status, 404);
    let person = app.new_person("second@example.com", None).await;
    app.join(app.account, person.id, Role::Owner).await;
    let owner = app.person_token(person.id).await;
    let made = invite(&app, &owner, &json!({ "email": "ada@example.com" })).await.ok();
    let path = format!(
        "/v1/accounts/orgs/{}/invitations/{}",
        app.account,
        made["invitation"]["id"].as_str().unwrap()
    );
    call(&app, &owner, "DELETE", &path, &json!(null)).await.ok();
    call(&app, &owner, "DELETE", &path, &json!(null)).await.refused(Code::NotFound);
    accept(&app, &token, &secret(&made)).await.refused(Code::NotFound);
}

async fn a_member_is_not_invited_and_whoever_is_removed_stays_out(app: TestApp) {
    let owner = owner(&app).await;
    let made = invite(&app, &owner, &json!({ "email": "ada@example.com", "role": "owner" })).await.ok();
    let ada = app.new_person("ada@example.com", None).await;
    app.join(app.account, ada.id, Role::Member).await;
    invite(&app, &owner, &json!({ "email": "owner@example.com" })).await.refused(Code::AlreadyExists);
    let path = format!("/v1/accounts/orgs/{}/members/{}", app.account, ada.id);
    call(&app, &owner, "DELETE", &path, &json!(null)).await.ok();
    accept(&app, &app.person_token(ada.id).await, &secret(&made)).await.refused(Code::NotFound);
}

async fn whom_a_removed_member_invited_is_invited_no_more(app: TestApp) {
    let owner = owner(&app).await;
    let mal = app.new_person("mal@example.com", None).await;
    app.join(app.account, mal.id, Role::Owner).await;
    let invite_as_mal = || async {
        invite(
            &app,
            &app.person_token(mal.id).await,
            &json!({ "email": "mal2@example.com", "role": "owner" }),
        )
        .await
        .ok()
    };
    let path = format!("/v1/accounts/orgs/{}/members/{}", app.account, mal.id);
    let made = invite_as_mal().await;
    app.send(TestRequest::new("PATCH", &path).bearer(&owner).json(&json!({ "role": "admin" }))).await.ok();
    assert_eq!(Browser::new(&app).get(&format!("/signup?invitation={}", secret(&made))).await.status, 404);
    app.send(TestRequest::new("PATCH", &path).bearer(&owner).json(&json!({ "role": "owner" }))).await.ok();
    let made = invite_as_mal().await;
    call(&app, &owner, "DELETE", &path, &json!(null)).await.ok();
    assert_eq!(Browser::new(&app).get(&format!("/signup?invitation={}", secret(&made))).await.status, 404);
}

async fn a_newcomer_signs_up_with_one(app: TestApp) {
    let owner = owner(&app).await;
    let made = invite(&app, &owner, &json!({ "email": "ada@example.com" })).await.ok();
    let path = format!("/signup?invitation={}", secret(&made));
    let mut browser = Browser::new(&app);
    let page = browser.get(&path).await;
    app.clock.advance(Duration::from_millis(1));
    assert!(page.text().contains("Acme") && page.text().contains("ada@example.com"));
    // The address is the invitation's, whatever the form says.
    let fields = [("email", "eve@example.com"), ("name", "Ada"), ("password", PASSWORD)];
    assert_eq!(browser.submit(&page, "/signup", &fields).await.header("location"), "http://console.test/");
    assert!(browser.get("/settings").await.text().contains("ada@example.com"));
    assert_eq!(Browser::new(&app).get(&path).await.status, 404, "used up");
    let members =
        call(&app, &owner, "GET", &format!("/v1/accounts/orgs/{}/members", app.account), &json!(null))
            .await
            .ok();
    assert_eq!(members["members"][0]["email"], "ada@example.com");
    assert_eq!(members["members"][0]["role"], "member");
}

async fn someone_known_is_asked_to_sign_in_first(app: TestApp) {
    let owner = owner(&app).await;
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    app.new_person("eve@example.com", Some(PASSWORD)).await;
    let made = invite(&app, &owner, &json!({ "email": "ada@example.com" })).await.ok();
    let path = format!("/signup?invitation={}", secret(&made));
    let mut browser = Browser::new(&app);
    let to_signin = browser.get(&path).await;
    assert!(
        to_signin.header("location").starts_with("/signin?return_to=%2Fsignup"),
        "{}",
        to_signin.header("location")
    );
    let page = browser.follow(to_signin).await;
    let back =
        browser.submit(&page, "/signin", &[("email", "ada@example.com"), ("password", PASSWORD)]).await;
    let join = browser.follow(back).await;
    assert!(join.text().contains("Join Acme"));
    let mut eve = Browser::new(&app);
    eve.sign_in("eve@example.com", PASSWORD).await;
    assert!(eve.get(&path).await.alert().contains("You are signed in as"));
    assert_eq!(browser.submit(&join, "/signup", &[]).await.header("location"), "http://console.test/");
}

async fn a_personal_account_invites_nobody(app: TestApp) {
    let ada = app.new_person("ada@example.com", None).await;
    let token = app.person_token(ada.id).await;
    let path = format!("/v1/accounts/orgs/{}/invitations", ada.account_id);
    let refused = call(&app, &token, "POST", &path, &json!({ "email": "x@example.com" }))
        .await
        .refused(Code::FailedPrecondition);
    assert_eq!(refused["details"][0]["reason"], "PERSONAL_ACCOUNT");
    let owner = owner(&app).await;
    invite(&app, &owner, &json!({ "email": "nowhere" })).await.refused_field("email");
}

#[tokio::test]
async fn where_mail_is_sent_the_link_goes_by_mail_alone() {
    let smtp =
        Some(Smtp { url: "smtp://127.0.0.1:1".to_owned(), from: "Acme <api@acme.example>".to_owned() });
    let environment = Environment { smtp, ..Environment::default() };
    let app =
        TestApp::with(Database::Sqlite, TestAppOptions { environment, ..TestAppOptions::default() }).await;
    let owner = owner(&app).await;
    let made = invite(&app, &owner, &json!({ "email": "ada@example.com" })).await.ok();
    assert_eq!(made["link"], "");
    assert_eq!(letters(&app).await, 1, "it is in the outbox");
    // Nobody is written to without end, also when each invitation is taken back.
    for _ in 0..6 {
        let made = invite(&app, &owner, &json!({ "email": "victim@example.com" })).await.ok();
        let id = made["invitation"]["id"].as_str().unwrap();
        let path = format!("/v1/accounts/orgs/{}/invitations/{id}", app.account);
        call(&app, &owner, "DELETE", &path, &json!(null)).await.ok();
    }
    let refused = invite(&app, &owner, &json!({ "email": "victim@example.com" })).await;
    refused.refused(Code::RateLimited);
    assert!(!refused.header("retry-after").is_empty());
    // A forgotten password: one answer for everyone, mail for those who are there, and not without end.
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    for email in [
        "ada@example.com",
        "nobody@example.com",
        "ada@example.com",
        "ada@example.com",
        "ada@example.com",
        "ada@example.com",
        "ada@example.com",
    ] {
        let mut browser = Browser::new(&app);
        let page = browser.get("/password/forgotten").await;
        let answer = browser.submit(&page, "/password/forgotten", &[("email", email)]).await;
        assert!(answer.status == 200 && answer.text().contains("If someone has an account"));
    }
    // The mail is written beside the answers: five for Ada, since the sixth and seventh try were one address's.
    while letters(&app).await < 12 {
        tokio::task::yield_now().await;
    }
}

async fn letters(app: &TestApp) -> i64 {
    let mut tx = app.app.engine.db.read().await.unwrap();
    let count: i64 = tx
        .value("select count(*) as value from queue_items where queue = 'mail.send'", args![])
        .await
        .unwrap();
    count
}

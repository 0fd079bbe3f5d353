//! Refresh tokens: each is spent by its use.

use std::time::Duration;

use portico::Environment;
use portico_identity::RefreshTokenDays;
use portico_kernel::Code;
use portico_testkit::{Answer, Browser, TestApp, TestAppOptions, TestRequest, on_both_databases};

use crate::apps::{App, Tokens, claims, sign_in_and_authorize};
use crate::signin::PASSWORD;

async fn begin(app: &TestApp) -> (App, Tokens) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::create(app, "identity:read account:read", false).await;
    let tokens =
        sign_in_and_authorize(app, &mut Browser::new(app), &client, "identity:read account:read").await;
    (client, tokens)
}

async fn refresh(app: &TestApp, client: &App, token: &str) -> Answer {
    client.token(app, &[("grant_type", "refresh_token"), ("refresh_token", token)]).await
}

async fn status(app: &TestApp, token: &str) -> u16 {
    app.send(TestRequest::new("GET", "/v1/me").bearer(token)).await.status
}

on_both_databases! {
    a_spent_token_answers_its_successor_for_a_moment_and_then_ends_everything,
    every_spent_token_has_its_own_moment,
    a_hundred_at_once_leave_one_family_with_one_successor,
    a_refresh_beside_a_revocation_leaves_nothing_alive,
    a_changed_token_is_nothing_and_harms_nobody,
    scopes_and_audience_stay_or_get_less,
    a_refresh_token_lives_thirty_days_from_its_last_use,
    what_a_person_let_an_app_do_ends_after_ninety_days,
    what_a_person_let_an_app_do_ends_after_the_configured_days,
    an_erased_person_or_closed_account_refreshes_nothing,
}

async fn a_spent_token_answers_its_successor_for_a_moment_and_then_ends_everything(app: TestApp) {
    let (client, first) = begin(&app).await;
    let second = Tokens::read(&refresh(&app, &client, &first.refresh).await);
    assert_ne!(first.refresh, second.refresh);
    assert_eq!(status(&app, &second.access).await, 200);
    app.clock.advance(Duration::from_secs(30));
    let again = Tokens::read(&refresh(&app, &client, &first.refresh).await);
    assert_eq!(again.refresh, second.refresh, "the same successor");
    let third = Tokens::read(&refresh(&app, &client, &second.refresh).await);
    app.clock.advance(Duration::from_secs(31));
    assert_eq!(refresh(&app, &client, &second.refresh).await.json()["error"], "invalid_grant");
    app.catch_up().await;
    assert_eq!(
        refresh(&app, &client, &third.refresh).await.json()["error"],
        "invalid_grant",
        "the family is ended"
    );
    assert_eq!(status(&app, &third.access).await, 401);
    let log = app
        .send(
            TestRequest::new(
                "GET",
                &format!("/v1/accounts/orgs/{}/audit", claims(&third.access)["org"].as_str().unwrap()),
            )
            .bearer(&app.person_token(claims(&third.access)["sub"].as_str().unwrap().parse().unwrap()).await),
        )
        .await
        .ok();
    assert!(log.to_string().contains("app.refresh_token_reused"), "{log}");
}

async fn every_spent_token_has_its_own_moment(app: TestApp) {
    let (client, first) = begin(&app).await;
    let second = Tokens::read(&refresh(&app, &client, &first.refresh).await);
    app.clock.advance(Duration::from_secs(20));
    let third = Tokens::read(&refresh(&app, &client, &second.refresh).await);
    let again = Tokens::read(&refresh(&app, &client, &first.refresh).await);
    assert_eq!(again.refresh, second.refresh, "its successor, although that is spent too");
    app.clock.advance(Duration::from_secs(11));
    assert_eq!(Tokens::read(&refresh(&app, &client, &second.refresh).await).refresh, third.refresh);
    assert_eq!(refresh(&app, &client, &first.refresh).await.json()["error"], "invalid_grant", "31 s");
    assert_eq!(refresh(&app, &client, &third.refresh).await.json()["error"], "invalid_grant");
}

async fn a_hundred_at_once_leave_one_family_with_one_successor(app: TestApp) {
    let (client, first) = begin(&app).await;
    let answers =
        futures_util::future::join_all((0..100).map(|_| refresh(&app, &client, &first.refresh))).await;
    let mut successors: Vec<_> = answers.iter().map(|answer| Tokens::read(answer).refresh).collect();
    successors.dedup();
    assert_eq!(successors.len(), 1);
    Tokens::read(&refresh(&app, &client, &successors[0]).await);
}

async fn a_refresh_beside_a_revocation_leaves_nothing_alive(app: TestApp) {
    let (client, first) = begin(&app).await;
    let token = [("token", &*first.refresh)];
    let (refreshed, revoked) = tokio::join!(
        futures_util::future::join_all((0..20).map(|_| refresh(&app, &client, &first.refresh))),
        async { client.post(&app, "/oauth2/revoke", &token).await.ok() }
    );
    assert_eq!(revoked, serde_json::json!({}));
    app.catch_up().await;
    for answer in refreshed {
        if answer.status == 200 {
            let tokens = Tokens::read(&answer);
            assert_eq!(status(&app, &tokens.access).await, 401);
            assert_eq!(refresh(&app, &client, &tokens.refresh).await.json()["error"], "invalid_grant");
        }
    }
    assert_eq!(status(&app, &first.access).await, 401);
}

async fn a_changed_token_is_nothing_and_harms_nobody(app: TestApp) {
    let (client, first) = begin(&app).await;
    let (body, proof) = first.refresh.rsplit_once('.').unwrap();
    let last = if proof.ends_with('A') { 'B' } else { 'A' };
    for changed in [
        first.refresh[..first.refresh.len() - 1].to_owned(),
        format!("{}{last}", &first.refresh[..first.refresh.len() - 1]),
        format!("{}.0.{proof}", body.rsplit_once('.').unwrap().0),
        format!("{}.01.{proof}", body.rsplit_once('.').unwrap().0),
        format!("{}.9.{proof}", body.rsplit_once('.').unwrap().0),
        body.to_owned(),
        format!("{}=", first.refresh),
        "prt_".to_owned(),
        first.access.clone(),
    ] {
        assert_eq!(refresh(&app, &client, &changed).await.json()["error"], "invalid_grant", "{changed}");
    }
    let other = App::create(&app, "identity:read", false).await;
    assert_eq!(
        refresh(&app, &other, &first.refresh).await.json()["error"],
        "invalid_grant",
        "another client"
    );
    Tokens::read(&refresh(&app, &client, &first.refresh).await);
}

async fn scopes_and_audience_stay_or_get_less(app: TestApp) {
    let (client, first) = begin(&app).await;
    let with =
        |name, value| [("grant_type", "refresh_token"), ("refresh_token", &*first.refresh), (name, value)];
    client.refused(&app, &with("scope", "identity:read webhooks:write"), "invalid_scope").await;
    client.refused(&app, &with("resource", "http://api.test/mcp"), "invalid_target").await;
    let less = Tokens::read(&client.token(&app, &with("scope", "identity:read")).await);
    assert_eq!(
        (less.scope.as_str(), &claims(&less.access)["scope"]),
        ("identity:read", &serde_json::json!("identity:read"))
    );
    let all = Tokens::read(&refresh(&app, &client, &less.refresh).await);
    assert_eq!(all.scope, "account:read identity:read", "what the person said still holds");
}

async fn a_refresh_token_lives_thirty_days_from_its_last_use(app: TestApp) {
    let (client, mut tokens) = begin(&app).await;
    for _ in 0..3 {
        app.advance(Duration::from_hours(29 * 24)).await;
        tokens = Tokens::read(&refresh(&app, &client, &tokens.refresh).await);
    }
    app.advance(Duration::from_hours(30 * 24)).await;
    assert_eq!(refresh(&app, &client, &tokens.refresh).await.json()["error"], "invalid_grant");
}

async fn what_a_person_let_an_app_do_ends_after_ninety_days(app: TestApp) {
    let (client, mut tokens) = begin(&app).await;
    for _ in 0..3 {
        app.advance(Duration::from_hours(29 * 24)).await;
        tokens = Tokens::read(&refresh(&app, &client, &tokens.refresh).await);
    }
    app.advance(Duration::from_hours(3 * 24 - 1)).await;
    tokens = Tokens::read(&refresh(&app, &client, &tokens.refresh).await);
    app.advance(Duration::from_hours(1)).await;
    let over = refresh(&app, &client, &tokens.refresh).await;
    assert_eq!((over.status, &over.json()["error"]), (400, &serde_json::json!("invalid_grant")));
}

async fn what_a_person_let_an_app_do_ends_after_the_configured_days(app: TestApp) {
    let environment =
        Environment { refresh_token_days: RefreshTokenDays::new(2).unwrap(), ..Environment::default() };
    let options = TestAppOptions { environment, ..TestAppOptions::default() };
    let app = app.beside_with(options).await;
    let (client, mut tokens) = begin(&app).await;
    app.advance(Duration::from_hours(47)).await;
    tokens = Tokens::read(&refresh(&app, &client, &tokens.refresh).await);
    app.advance(Duration::from_hours(1)).await;
    assert_eq!(refresh(&app, &client, &tokens.refresh).await.json()["error"], "invalid_grant");
}

async fn an_erased_person_or_closed_account_refreshes_nothing(app: TestApp) {
    let (client, first) = begin(&app).await;
    let claims = claims(&first.access);
    let (person, account) = (claims["sub"].as_str().unwrap(), claims["org"].as_str().unwrap());
    let token = app.person_token(person.parse().unwrap()).await;
    let path = format!("/v1/accounts/orgs/{account}");
    app.send(TestRequest::new("DELETE", &path).bearer(&token)).await.ok();
    app.catch_up().await;
    app.send(TestRequest::new("GET", "/v1/me").bearer(&first.access)).await.refused(Code::Unauthenticated);
    assert_eq!(refresh(&app, &client, &first.refresh).await.json()["error"], "invalid_grant");
}

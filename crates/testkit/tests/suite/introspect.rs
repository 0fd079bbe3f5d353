//! Revocation (RFC 7009) and introspection (RFC 7662).

use portico_testkit::{Answer, Browser, TestApp, TestRequest, on_both_databases};
use serde_json::{Value, json};

use crate::apps::{App, sign_in_and_authorize};
use crate::signin::PASSWORD;

/// A key as a client.
async fn key(app: &TestApp, account: portico_kernel::AccountId) -> App {
    let made = app.new_key(account, app.all_scopes()).await;
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    App { id: text("client_id"), secret: Some(text("client_secret")) }
}

async fn introspect(app: &TestApp, client: &App, token: &str) -> Value {
    client.post(app, "/oauth2/introspect", &[("token", token)]).await.ok()
}

async fn revoke(app: &TestApp, client: &App, token: &str) -> Answer {
    client.post(app, "/oauth2/revoke", &[("token", token)]).await
}

async fn status(app: &TestApp, token: &str) -> u16 {
    app.catch_up().await;
    app.send(TestRequest::new("GET", "/v1/me").bearer(token)).await.status
}

on_both_databases! {
    a_key_looks_into_its_own_accounts_tokens_and_ends_its_own,
    an_app_ends_what_it_was_given,
    only_those_who_keep_a_secret_look_into_tokens,
    nobody_revokes_without_end,
}

async fn a_key_looks_into_its_own_accounts_tokens_and_ends_its_own(app: TestApp) {
    let (own, other) = (key(&app, app.account).await, key(&app, app.new_account("Other").await).await);
    let exchange = || async {
        let form = [("grant_type", "client_credentials"), ("scope", "identity:read")];
        own.token(&app, &form).await.ok()["access_token"].as_str().unwrap().to_owned()
    };
    let token = exchange().await;
    let told = introspect(&app, &own, &token).await;
    assert_eq!(
        (&told["active"], &told["client_id"], &told["scope"]),
        (&json!(true), &json!(own.id), &json!("identity:read"))
    );
    assert_eq!(introspect(&app, &other, &token).await, json!({ "active": false }), "another account's");
    assert_eq!(introspect(&app, &own, &app.token).await["active"], true, "an API token of the account");
    assert_eq!(introspect(&app, &own, "garbage").await, json!({ "active": false }));
    assert_eq!(revoke(&app, &other, &token).await.status, 200, "of no use to this one, and no harm");
    assert_eq!(status(&app, &token).await, 200);
    assert_eq!(revoke(&app, &own, &token).await.status, 200);
    assert_eq!(introspect(&app, &own, &token).await, json!({ "active": false }));
    assert_eq!(status(&app, &token).await, 401);
    assert_eq!(status(&app, &exchange().await).await, 200, "the key itself stands");
    assert_eq!(revoke(&app, &own, "garbage").await.status, 200);
    let missing = own.post(&app, "/oauth2/revoke", &[]).await;
    assert_eq!((missing.status, &missing.json()["error"]), (400, &json!("invalid_request")));
}

async fn an_app_ends_what_it_was_given(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let (client, other) =
        (App::create(&app, "identity:read", true).await, App::create(&app, "identity:read", true).await);
    let tokens = sign_in_and_authorize(&app, &mut Browser::new(&app), &client, "identity:read").await;
    assert_eq!(introspect(&app, &client, &tokens.refresh).await["active"], true);
    assert_eq!(introspect(&app, &other, &tokens.refresh).await, json!({ "active": false }));
    assert_eq!(introspect(&app, &other, &tokens.access).await, json!({ "active": false }));
    assert_eq!(revoke(&app, &other, &tokens.refresh).await.status, 200);
    assert_eq!(status(&app, &tokens.access).await, 200, "another app's word is nothing");
    assert_eq!(revoke(&app, &client, &tokens.refresh).await.status, 200);
    assert_eq!(introspect(&app, &client, &tokens.refresh).await, json!({ "active": false }));
    assert_eq!(
        introspect(&app, &client, &tokens.access).await,
        json!({ "active": false }),
        "what came from it is over too"
    );
    assert_eq!(status(&app, &tokens.access).await, 401);
}

async fn only_those_who_keep_a_secret_look_into_tokens(app: TestApp) {
    let public = App::create(&app, "identity:read", false).await;
    let answer = public.post(&app, "/oauth2/introspect", &[("token", &app.token)]).await;
    assert_eq!((answer.status, &answer.json()["error"]), (401, &json!("invalid_client")));
    let nobody = app.send_auth(TestRequest::new("POST", "/oauth2/introspect").form("token=x")).await;
    assert_eq!(nobody.status, 401);
}

async fn nobody_revokes_without_end(app: TestApp) {
    let own = key(&app, app.account).await;
    let token = || async {
        own.token(&app, &[("grant_type", "client_credentials")]).await.ok()["access_token"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for _ in 0..100 {
        let token = token().await;
        assert_eq!(revoke(&app, &own, &token).await.status, 200);
        assert_eq!(revoke(&app, &own, &token).await.status, 200, "again costs nothing");
    }
    let refused = revoke(&app, &own, &token().await).await;
    assert_eq!(refused.status, 429);
    assert!(!refused.header("retry-after").is_empty());
}

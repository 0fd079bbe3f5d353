//! Nothing that must stay secret is found anywhere that it does not belong.

use portico_kernel::Role;
use portico_testkit::{Browser, Database, TestApp, TestRequest};
use serde_json::{Value, json};

use crate::apps::{App, sign_in_and_authorize};
use crate::signin::PASSWORD;

#[tokio::test]
async fn secrets_are_in_no_answer_log_event_audit_entry_metric_or_database() {
    portico_testkit::capture_log();
    let app = TestApp::new(Database::Sqlite).await;
    let ada = app.new_person("ada@example.com", Some(PASSWORD)).await;
    app.join(app.account, ada.id, Role::Owner).await;
    let owner = app.person_token(ada.id).await;
    let org = format!("/v1/accounts/orgs/{}", app.account);
    let post = |path: String, body: Value| {
        let sent = TestRequest::new("POST", &path).bearer(&owner).json(&body);
        async { app.send(sent).await.ok() }
    };
    let key = post(format!("{org}/keys"), json!({ "scopes": ["identity:read"] })).await;
    let token = post(format!("{org}/tokens"), json!({ "scopes": ["identity:read"] })).await;
    let invitation = post(format!("{org}/invitations"), json!({ "email": "guest@example.com" })).await;
    let confidential = App::create(&app, "identity:read", true).await;
    let mut browser = Browser::new(&app);
    let tokens = sign_in_and_authorize(&app, &mut browser, &confidential, "identity:read").await;
    let totp = browser.get("/settings/totp").await.text();
    let totp = totp.split("id=\"totp-secret\">").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut secrets = vec![
        ("password", PASSWORD.to_owned()),
        ("client secret of a key", text(&key["client_secret"])),
        ("API token", text(&token["token"])),
        ("invitation", text(&invitation["link"]).split('=').next_back().unwrap().to_owned()),
        ("client secret of an app", confidential.secret.clone().unwrap()),
        ("access token", tokens.access.clone()),
        ("refresh token", tokens.refresh.clone()),
        ("console token", owner.clone()),
        ("TOTP secret", totp),
    ];
    secrets.extend(browser.cookies.values().map(|value| ("session", value.clone())));
    // The secrets are used, rightly and wrongly, so that whatever is written down then is there to be found.
    for path in ["/v1/me", "/v1/accounts/me", "/v1/openapi.json", "/nowhere"] {
        for bearer in [&text(&token["token"]), &tokens.access, &tokens.refresh, &text(&key["client_secret"])]
        {
            app.send(TestRequest::new("GET", path).bearer(bearer)).await;
        }
    }
    Browser::new(&app).sign_in("ada@example.com", &format!("{PASSWORD} wrong")).await;
    confidential
        .token(&app, &[("grant_type", "refresh_token"), ("refresh_token", &format!("{}x", tokens.refresh))])
        .await;
    let mut seen = String::new();
    for path in ["/keys", "/tokens", "/invitations", "/members", "/audit", "/events?page_size=200"] {
        seen += &app.send(TestRequest::new("GET", &format!("{org}{path}")).bearer(&owner)).await.text();
    }
    seen += &app
        .send(TestRequest::new("GET", &format!("/v1/accounts/orgs/{}/audit", ada.account_id)).bearer(&owner))
        .await
        .text();
    seen += &app.send(TestRequest::new("GET", "/v1/accounts/me").bearer(&text(&token["token"]))).await.text();
    seen += &browser.get("/settings").await.text();
    seen += &portico_testkit::captured_log();
    assert!(seen.contains("Sign-in failed"), "the log was kept");
    look_for(&app, &secrets, &seen);
}

/// Looks for the secrets in what was seen and in the files of the database.
fn look_for(app: &TestApp, secrets: &[(&str, String)], seen: &str) {
    let mut files = Vec::new();
    for folder in [app.database.folder.path().to_owned(), app.database.folder.path().join("journal")] {
        for file in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if file.file_name() != "keyring" && file.file_type().unwrap().is_file() {
                files.push((file.file_name(), std::fs::read(file.path()).unwrap()));
            }
        }
    }
    assert!(files.iter().any(|(name, _)| name == "portico.db"));
    for (what, secret) in secrets {
        assert!(!seen.contains(secret), "{what} is in an answer or the log");
        for (name, bytes) in &files {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{what} is in {}", name.display());
        }
        // The signature is what makes a token; without it the rest is no secret, but it is not kept either.
        if let Some((_, signature)) = secret.rsplit_once('.') {
            let found = files.iter().any(|(_, bytes)| {
                bytes.windows(signature.len()).any(|window| window == signature.as_bytes())
            });
            assert!(!found, "the signature of {what} is kept");
        }
    }
}

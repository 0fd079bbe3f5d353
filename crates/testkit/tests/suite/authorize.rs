//! Letting an app in: the authorization code grant.

use std::time::Duration;

use portico_kernel::{Code, Role};
use portico_testkit::{AUTH_URL, BASE_URL, Browser, CONSOLE_URL, TestApp, TestRequest, on_both_databases};
use serde_json::json;

use crate::apps::{App, REDIRECT, Tokens, VERIFIER, allow, claims, sign_in_and_authorize};
use crate::settings::change;
use crate::signin::PASSWORD;

async fn me(app: &TestApp, token: &str) -> portico_testkit::Answer {
    app.send(TestRequest::new("GET", "/v1/me").bearer(token)).await
}

/// Where the link on a page leads that tells an app what is wrong.
#[track_caller]
fn link_to_app(page: &portico_testkit::Answer) -> String {
    assert_eq!((page.status, page.header("location")), (400, ""), "{}", page.text());
    let text = page.text();
    let link = text.split("id=\"to-app\" href=\"").nth(1).unwrap_or_else(|| panic!("no link in {text}"));
    link.split('"').next().unwrap().replace("&amp;", "&")
}

on_both_databases! {
    an_app_acts_for_a_person,
    nobody_is_sent_to_an_address_that_is_not_registered,
    what_is_wrong_is_told_to_the_app_with_iss,
    a_code_is_for_one_client_one_address_one_proof_and_one_minute,
    a_code_that_is_used_again_ends_what_it_gave,
    a_code_ends_with_what_it_was_made_for,
    of_many_who_exchange_one_code_one_gets_tokens_and_they_are_ended,
    an_assistants_token_opens_no_rest_route,
    a_person_chooses_the_account_and_leaving_it_ends_the_app,
    nobody_is_sent_anywhere_for_a_stranger_before_they_sign_in,
    nobody_is_sent_to_an_app_that_nobody_checked_without_a_click,
    an_app_acts_in_the_account_that_was_chosen_and_in_no_other,
    consent_is_given_by_whoever_was_asked,
    the_console_signs_in_without_a_question_and_out_with_the_browser,
    the_console_lasts_as_long_as_the_session,
    loading_the_console_uses_up_nobodys_changes,
    the_operator_ends_apps_and_people,
    a_secret_is_needed_where_there_is_one,
}

async fn an_app_acts_for_a_person(app: TestApp) {
    let ada = app.new_person("ada@example.com", Some(PASSWORD)).await;
    for confidential in [false, true] {
        let client = App::create(&app, "identity:read account:read", confidential).await;
        let mut browser = Browser::new(&app);
        // The person is asked to sign in on the way, and comes back to where they were going.
        let request = client.request(&[("scope", "identity:read"), ("audience", "platform-api")]);
        let signin = browser.get(&request).await;
        assert!(
            signin.header("location").starts_with("/signin?return_to=%2Foauth2%2Fauth"),
            "{}",
            signin.header("location")
        );
        let page = browser.follow(signin).await;
        assert!(page.header("content-security-policy").contains("form-action 'self' http://127.0.0.1:5000;"));
        let answer =
            browser.submit(&page, "/signin", &[("email", "ada@example.com"), ("password", PASSWORD)]).await;
        let consent = browser.follow(answer).await;
        assert!(
            consent.text().contains("Let Test App in?") && consent.text().contains("See who calls"),
            "{}",
            consent.text()
        );
        assert!(consent.text().contains("127.0.0.1") && !consent.text().contains("Nobody here has checked"));
        assert!(!consent.text().contains("account:read"), "only what was asked for");
        let back = browser.submit(&consent, "/consent", &[("decision", "allow")]).await;
        assert_eq!(back.status, 303);
        assert!(back.header("location").starts_with(REDIRECT));
        assert_eq!(back.parameter("state").as_deref(), Some("a state"));
        assert_eq!(back.parameter("iss").as_deref(), Some(AUTH_URL));
        let tokens = Tokens::read(&client.exchange(&app, &back.parameter("code").unwrap()).await);
        assert_eq!(tokens.scope, "identity:read");
        let caller = me(&app, &tokens.access).await.ok();
        assert_eq!(caller["subject"], json!(ada.id));
        assert_eq!(
            (&caller["kind"], &caller["role"], &caller["client_id"]),
            (&json!("person"), &json!("owner"), &json!(client.id))
        );
        assert_eq!(
            (&caller["org"], &caller["email"], &caller["key"]),
            (&json!(ada.account_id), &json!("ada@example.com"), &json!(null))
        );
        app.send(TestRequest::new("GET", "/v1/accounts/me").bearer(&tokens.access))
            .await
            .refused(Code::Forbidden);
        app.send(TestRequest::new("GET", "/v1/accounts/orgs").bearer(&tokens.access))
            .await
            .refused(Code::Forbidden);
        // An app that the operator knows and that keeps a secret asks once; for more than it has, again.
        assert_eq!(
            allow_silently(&mut browser, &client.request(&[("scope", "identity:read")])).await,
            confidential
        );
        assert!(
            !allow_silently(
                &mut browser,
                &client.request(&[("scope", "identity:read"), ("prompt", "consent")])
            )
            .await
        );
        assert!(!allow_silently(&mut browser, &client.request(&[("scope", "account:read")])).await);
        let again = browser.get(&client.request(&[("prompt", "consent login")])).await;
        assert!(again.header("location").starts_with("/signin?again=1"), "{}", again.header("location"));
        let page = browser.follow(again).await;
        let back =
            browser.submit(&page, "/signin", &[("email", "ada@example.com"), ("password", PASSWORD)]).await;
        assert!(
            back.header("location").starts_with("/oauth2/auth?")
                && !back.header("location").contains("login")
        );
    }
}

async fn nobody_is_sent_to_an_address_that_is_not_registered(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::create(&app, "identity:read", false).await;
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    for evil in [
        "https://evil.example/cb",
        "https://app.example/cb/..;/evil",
        "https://app.example/cb/../evil",
        "https://app.example@evil.example/cb",
        "https://a@b@app.example/cb",
        "https://app.example/cb#x",
        "http://127.0.0.1:5000@evil.example/cb",
        "http://127.0.0.1.evil.example/cb",
        "http://localhost:5000/cb",
        "http://127.0.0.1:5000/other",
        "https://app.example/cb?x=y",
        "javascript:alert(1)",
        "",
    ] {
        let answer = browser.get(&client.request(&[("redirect_uri", evil)])).await;
        assert_eq!((answer.status, answer.header("location")), (400, ""), "{evil}");
        assert!(!answer.text().contains("evil"), "the page does not repeat the address");
    }
    for unknown in ["", "app_01KN2MGCG0B9D5MPJTB9D5MPJT", "https://127.0.0.1/client.json"] {
        let answer = browser.get(&client.request(&[("client_id", unknown)])).await;
        assert_eq!((answer.status, answer.header("location")), (400, ""), "{unknown}");
    }
    let twice = format!("{}&redirect_uri=https%3A%2F%2Fevil.example", client.request(&[]));
    assert_eq!(browser.get(&twice).await.status, 400);
}

async fn what_is_wrong_is_told_to_the_app_with_iss(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::create(&app, "identity:read", false).await;
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    for (fields, error) in [
        (&[("response_type", "token")][..], "unsupported_response_type"),
        (&[("response_type", "")], "unsupported_response_type"),
        (&[("code_challenge", "")], "invalid_request"),
        (&[("code_challenge_method", "plain")], "invalid_request"),
        (&[("code_challenge_method", "")], "invalid_request"),
        (&[("code_challenge", "short")], "invalid_request"),
        (&[("response_mode", "fragment")], "invalid_request"),
        (&[("scope", "identity:read nonsense")], "invalid_scope"),
        (&[("scope", "account:read")], "invalid_scope"),
        (&[("scope", "public")], "invalid_scope"),
        (&[("audience", "elsewhere")], "invalid_target"),
        (&[("resource", "https://evil.example/mcp")], "invalid_target"),
        (&[("prompt", "none")], "consent_required"),
        (&[("request", "x")], "request_not_supported"),
    ] {
        let back = browser.get(&client.request(fields)).await;
        assert_eq!((back.status, back.parameter("error").as_deref()), (303, Some(error)), "{fields:?}");
        assert_eq!(back.parameter("iss").as_deref(), Some(AUTH_URL));
        assert_eq!(back.parameter("state").as_deref(), Some("a state"));
        assert_eq!(back.parameter("code"), None);
    }
    let page = browser.get(&client.request(&[("state", "a&b=<c>\r\nd")])).await;
    let page = browser.follow(page).await;
    let denied = browser.submit(&page, "/consent", &[("decision", "deny")]).await;
    assert_eq!(denied.parameter("error").as_deref(), Some("access_denied"));
    assert_eq!(denied.parameter("state").as_deref(), Some("a&b=<c>\r\nd"));
    let signed_out = Browser::new(&app).get(&client.request(&[("prompt", "none")])).await;
    assert_eq!(signed_out.parameter("error").as_deref(), Some("login_required"));
}

async fn a_code_is_for_one_client_one_address_one_proof_and_one_minute(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let (client, other) =
        (App::create(&app, "identity:read", false).await, App::create(&app, "identity:read", false).await);
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    let code = allow(&mut browser, &client.request(&[])).await.parameter("code").unwrap();
    let exchange = [
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("redirect_uri", REDIRECT),
        ("code_verifier", VERIFIER),
    ];
    let with = |name: &'static str, value: &'static str| {
        exchange.map(|(known, old)| if known == name { (known, value) } else { (known, old) })
    };
    client.refused(&app, &with("code_verifier", "a".repeat(43).leak()), "invalid_grant").await;
    client.refused(&app, &with("code_verifier", crate::apps::CHALLENGE), "invalid_grant").await;
    client.refused(&app, &with("code_verifier", ""), "invalid_request").await;
    client.refused(&app, &with("redirect_uri", "http://127.0.0.1:5001/cb"), "invalid_grant").await;
    client.refused(&app, &with("redirect_uri", ""), "invalid_request").await;
    client.refused(&app, &with("code", "pac_x"), "invalid_grant").await;
    client
        .refused(&app, &[&exchange[..], &[("resource", "http://api.test/mcp")]].concat(), "invalid_target")
        .await;
    other.refused(&app, &exchange, "invalid_grant").await;
    app.clock.advance(Duration::from_secs(61));
    assert_eq!(client.exchange(&app, &code).await.json()["error"], "invalid_grant", "a minute is over");
    let code = allow(&mut browser, &client.request(&[])).await.parameter("code").unwrap();
    app.clock.advance(Duration::from_secs(59));
    Tokens::read(&client.exchange(&app, &code).await);
}

async fn a_code_that_is_used_again_ends_what_it_gave(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::create(&app, "identity:read", false).await;
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    let code = allow(&mut browser, &client.request(&[])).await.parameter("code").unwrap();
    let tokens = Tokens::read(&client.exchange(&app, &code).await);
    me(&app, &tokens.access).await.ok();
    // Also where it could no longer be used the first time.
    app.clock.advance(Duration::from_mins(2));
    assert_eq!(client.exchange(&app, &code).await.json()["error"], "invalid_grant");
    app.catch_up().await;
    me(&app, &tokens.access).await.refused(Code::Unauthenticated);
    client
        .refused(
            &app,
            &[("grant_type", "refresh_token"), ("refresh_token", &tokens.refresh)],
            "invalid_grant",
        )
        .await;
}

async fn a_code_ends_with_what_it_was_made_for(app: TestApp) {
    let ada = app.new_person("ada@example.com", Some(PASSWORD)).await;
    let eve = app.new_person("eve@example.com", None).await;
    app.join(app.account, eve.id, Role::Owner).await;
    let client = App::create(&app, "identity:read", true).await;
    let request = client.request(&[("redirect_uri", "https://app.example/cb")]);
    let exchange = async |code: &str| {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", "https://app.example/cb"),
            ("code_verifier", VERIFIER),
        ];
        client.token(&app, &fields).await
    };
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    let first = allow(&mut browser, &request).await.parameter("code").unwrap();
    Tokens::read(&exchange(&first).await);
    // The person disconnects the app, that had been let in once more without a question.
    let silent = browser.get(&request).await.parameter("code").unwrap();
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(change(&mut browser, "/settings/apps/end", &[]).await.status, 303);
    assert_eq!(exchange(&silent).await.json()["error"], "invalid_grant", "disconnected");
    assert!(browser.get(&request).await.parameter("code").is_none(), "they are asked again");
    // They leave the team that they chose.
    app.join(app.account, ada.id, Role::Member).await;
    let answer = browser.get(&request).await;
    let page = browser.follow(answer).await;
    let chosen = [("account", &*app.account.to_string()), ("decision", "allow")];
    let of_team = browser.submit(&page, "/consent", &chosen).await.parameter("code").unwrap();
    let member = format!("/v1/accounts/orgs/{}/members/{}", app.account, ada.id);
    let owner = app.person_token(eve.id).await;
    app.send(TestRequest::new("DELETE", &member).bearer(&owner)).await.ok();
    assert_eq!(exchange(&of_team).await.json()["error"], "invalid_grant", "no longer a member");
    // They sign out.
    let own = allow(&mut browser, &request).await.parameter("code").unwrap();
    let page = browser.get("/signout").await;
    browser.submit(&page, "/signout", &[]).await;
    assert_eq!(exchange(&own).await.json()["error"], "invalid_grant", "signed out");
    assert_eq!(app.count("authorizations").await, 1);
}

async fn of_many_who_exchange_one_code_one_gets_tokens_and_they_are_ended(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::create(&app, "identity:read", false).await;
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    let code = allow(&mut browser, &client.request(&[])).await.parameter("code").unwrap();
    let answers = futures_util::future::join_all((0..20).map(|_| client.exchange(&app, &code))).await;
    let got: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
    assert_eq!(got.len(), 1);
    app.catch_up().await;
    me(&app, &Tokens::read(got[0]).access).await.refused(Code::Unauthenticated);
}

async fn an_assistants_token_opens_no_rest_route(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::register(&app).await;
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    for (fields, error) in [
        (&[("audience", "platform-api")][..], "invalid_target"),
        (&[("resource", BASE_URL)], "invalid_target"),
        (&[("scope", "identity:read")], "invalid_scope"),
    ] {
        let shown = browser.get(&client.request(fields)).await;
        assert!(link_to_app(&shown).contains(&format!("error={error}")), "{fields:?}");
    }
    let request = client
        .request(&[("resource", "HTTP://API.test/mcp/"), ("scope", "mcp:read identity:read offline_access")]);
    let answer = browser.get(&request).await;
    let page = browser.follow(answer).await;
    assert!(
        page.text().contains("Nobody here has checked this app") && page.text().contains("your own computer")
    );
    let back = browser.submit(&page, "/consent", &[("decision", "allow")]).await;
    let tokens = Tokens::read(&client.exchange(&app, &back.parameter("code").unwrap()).await);
    assert_eq!(tokens.scope, "mcp:read", "what it asked for, as far as assistants have it");
    assert_eq!(claims(&tokens.access)["aud"], "http://api.test/mcp");
    for entry in app.app.engine.registry.catalog().entries() {
        let opens_tools = entry.spec.protocol == Some(portico_engine::Protocol::Mcp);
        if entry.spec.access != portico_engine::Access::Open && !opens_tools {
            let path = entry.spec.path.replace("{org_id}", &app.account.to_string());
            let answer =
                app.send(TestRequest::new(entry.spec.method.name(), &path).bearer(&tokens.access)).await;
            assert_eq!(answer.status, 401, "{}", entry.spec.name);
        }
    }
    // Nobody vouches for it, so it asks every time.
    assert!(!allow_silently(&mut browser, &request).await);
}

async fn a_person_chooses_the_account_and_leaving_it_ends_the_app(app: TestApp) {
    let ada = app.new_person("ada@example.com", Some(PASSWORD)).await;
    app.join(app.account, ada.id, Role::Admin).await;
    let eve = app.new_person("eve@example.com", None).await;
    app.join(app.account, eve.id, Role::Owner).await;
    let stranger = app.new_account("Strangers").await;
    let client = App::create(&app, "identity:read account:audit", false).await;
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    let answer = browser.get(&client.request(&[])).await;
    let page = browser.follow(answer).await;
    let foreign = [("account", &*stranger.to_string()), ("decision", "allow")];
    assert_eq!(browser.submit(&page, "/consent", &foreign).await.status, 400);
    let chosen = [("account", &*app.account.to_string()), ("decision", "allow")];
    let back = browser.submit(&page, "/consent", &chosen).await;
    let tokens = Tokens::read(&client.exchange(&app, &back.parameter("code").unwrap()).await);
    let caller = me(&app, &tokens.access).await.ok();
    assert_eq!((&caller["org"], &caller["role"]), (&json!(app.account), &json!("admin")));
    let audit = format!("/v1/accounts/orgs/{}/audit", app.account);
    app.send(TestRequest::new("GET", &audit).bearer(&tokens.access)).await.ok();
    let member = format!("/v1/accounts/orgs/{}/members/{}", app.account, ada.id);
    let owner = app.person_token(eve.id).await;
    app.send(TestRequest::new("DELETE", &member).bearer(&owner)).await.ok();
    app.send(TestRequest::new("GET", &audit).bearer(&tokens.access)).await.refused(Code::Forbidden);
    app.catch_up().await;
    me(&app, &tokens.access).await.refused(Code::Unauthenticated);
}

async fn nobody_is_sent_anywhere_for_a_stranger_before_they_sign_in(app: TestApp) {
    let client = App::register(&app).await;
    for fields in [&[("scope", "nonsense")][..], &[("response_type", "token")]] {
        let answer = Browser::new(&app).get(&client.request(fields)).await;
        assert!(
            answer.header("location").starts_with("/signin?"),
            "{fields:?}: {}",
            answer.header("location")
        );
    }
    let answer = Browser::new(&app).get(&client.request(&[("prompt", "none")])).await;
    assert_eq!((answer.status, answer.header("location")), (400, ""));
    let looked = Browser::new(&app).send(TestRequest::new("HEAD", &client.request(&[]))).await;
    assert_eq!(looked.status, 405, "a look alone does nothing");
}

async fn nobody_is_sent_to_an_app_that_nobody_checked_without_a_click(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::register(&app).await;
    let mut browser = Browser::new(&app);
    let signin = browser.get(&client.request(&[("scope", "nonsense")])).await;
    let page = browser.follow(signin).await;
    let fields = [("email", "ada@example.com"), ("password", PASSWORD)];
    let answer = browser.submit(&page, "/signin", &fields).await;
    let after_signin = browser.follow(answer).await;
    assert_eq!((after_signin.status, after_signin.header("location")), (400, ""), "signing in is no yes");
    for (fields, error) in [
        (&[("scope", "nonsense")][..], "invalid_scope"),
        (&[("response_type", "token")], "unsupported_response_type"),
        (&[("code_challenge", "")], "invalid_request"),
        (&[("prompt", "none")], "consent_required"),
    ] {
        let shown = browser.get(&client.request(fields)).await;
        let (text, link) = (shown.text(), link_to_app(&shown));
        assert!(link.starts_with(REDIRECT) && link.contains(&format!("error={error}")), "{link}");
        assert!(link.contains("state=a+state") && link.contains("iss="), "{link}");
        assert!(text.contains("127.0.0.1") && text.contains("Nobody here has checked this app"), "{text}");
    }
    // A click on the consent page is one.
    let answer = browser.get(&client.request(&[])).await;
    let consent = browser.follow(answer).await;
    let denied = browser.submit(&consent, "/consent", &[("decision", "deny")]).await;
    assert_eq!((denied.status, denied.parameter("error").as_deref()), (303, Some("access_denied")));
}

async fn an_app_acts_in_the_account_that_was_chosen_and_in_no_other(app: TestApp) {
    let ada = app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::create(&app, "identity:read account:read account:audit events:read", false).await;
    let tokens = sign_in_and_authorize(&app, &mut Browser::new(&app), &client, "").await;
    app.join(app.account, ada.id, Role::Owner).await;
    for path in ["audit", "events", "entitlements"] {
        let other = format!("/v1/accounts/orgs/{}/{path}", app.account);
        app.send(TestRequest::new("GET", &other).bearer(&tokens.access)).await.refused(Code::Forbidden);
        let own = format!("/v1/accounts/orgs/{}/{path}", ada.account_id);
        app.send(TestRequest::new("GET", &own).bearer(&tokens.access)).await.ok();
    }
    let document = format!("/v1/openapi.json?account={}", app.account);
    app.send(TestRequest::new("GET", &document).bearer(&tokens.access)).await.refused(Code::Forbidden);
    let own = format!("/v1/accounts/orgs/{}/audit", ada.account_id);
    let log = app.send(TestRequest::new("GET", &own).bearer(&tokens.access)).await.ok();
    assert!(log.to_string().contains("app.authorized"));
    let refused = portico::admin::run(
        &app.app,
        portico::admin::Admin::App(portico::admin::AppCommand::Create {
            name: "Keys".to_owned(),
            redirect_uri: vec!["https://a.example/cb".to_owned()],
            scopes: "account:keys".into(),
            confidential: true,
        }),
    )
    .await;
    assert!(refused.is_err(), "an app makes no keys");
}

async fn consent_is_given_by_whoever_was_asked(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    app.new_person("eve@example.com", Some(PASSWORD)).await;
    let client = App::create(&app, "identity:read", false).await;
    let (mut ada, mut eve) = (Browser::new(&app), Browser::new(&app));
    ada.sign_in("ada@example.com", PASSWORD).await;
    eve.sign_in("eve@example.com", PASSWORD).await;
    let answer = ada.get(&client.request(&[])).await;
    let asked = answer.header("location").to_owned();
    assert_eq!(eve.get(&asked).await.status, 400, "another's request");
    let page = ada.get(&asked).await;
    assert_eq!(eve.submit(&page, "/consent", &[("decision", "allow")]).await.status, 403);
    assert_eq!(ada.submit(&page, "/consent", &[("decision", "allow")]).await.status, 303);
    assert_eq!(ada.submit(&page, "/consent", &[("decision", "allow")]).await.status, 400, "once");
    let answer = ada.get(&client.request(&[])).await;
    let page = ada.follow(answer).await;
    app.clock.advance(Duration::from_mins(11));
    assert_eq!(ada.submit(&page, "/consent", &[("decision", "allow")]).await.status, 400, "too old");
}

async fn the_console_signs_in_without_a_question_and_out_with_the_browser(app: TestApp) {
    let ada = app.new_person("ada@example.com", Some(PASSWORD)).await;
    let console = App { id: "console".to_owned(), secret: None };
    let redirect = format!("{CONSOLE_URL}/callback");
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    for other in [REDIRECT, "http://console.test:31337/callback", "http://127.0.0.1:31337/callback"] {
        assert_eq!(
            browser.get(&console.request(&[("redirect_uri", other)])).await.status,
            400,
            "only its own address"
        );
    }
    let back =
        browser.get(&console.request(&[("redirect_uri", &redirect), ("audience", "platform-api")])).await;
    let code = back.parameter("code").unwrap();
    let exchange = [
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("redirect_uri", &*redirect),
        ("code_verifier", VERIFIER),
    ];
    let tokens = Tokens::read(&console.token(&app, &exchange).await);
    assert_eq!(claims(&tokens.access).get("scope"), None, "the role decides");
    let caller = me(&app, &tokens.access).await.ok();
    assert_eq!(
        (&caller["subject"], &caller["role"], &caller["scopes"]),
        (&json!(ada.id), &json!(null), &json!([]))
    );
    app.send(TestRequest::new("GET", "/v1/accounts/orgs").bearer(&tokens.access)).await.ok();
    let again = console.token(&app, &exchange).await;
    assert_eq!(again.json()["error"], "invalid_grant", "a code works once, for the console too");
    app.catch_up().await;
    me(&app, &tokens.access).await.refused(Code::Unauthenticated);
    let back = browser.get(&console.request(&[("redirect_uri", &redirect)])).await;
    let code = back.parameter("code").unwrap();
    let exchange = exchange.map(|(name, value)| if name == "code" { (name, &*code) } else { (name, value) });
    let tokens = Tokens::read(&console.token(&app, &exchange).await);
    let page = browser.get("/signout").await;
    browser.submit(&page, "/signout", &[]).await;
    app.catch_up().await;
    me(&app, &tokens.access).await.refused(Code::Unauthenticated);
    console
        .refused(
            &app,
            &[("grant_type", "refresh_token"), ("refresh_token", &tokens.refresh)],
            "invalid_grant",
        )
        .await;
}

async fn the_console_lasts_as_long_as_the_session(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let console = App { id: "console".to_owned(), secret: None };
    let redirect = format!("{CONSOLE_URL}/callback");
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    let back = browser.get(&console.request(&[("redirect_uri", &redirect)])).await;
    let code = back.parameter("code").unwrap();
    let exchange = [
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("redirect_uri", &*redirect),
        ("code_verifier", VERIFIER),
    ];
    let tokens = Tokens::read(&console.token(&app, &exchange).await);
    app.advance(Duration::from_hours(6 * 24)).await;
    let tokens = Tokens::read(
        &console.token(&app, &[("grant_type", "refresh_token"), ("refresh_token", &tokens.refresh)]).await,
    );
    app.advance(Duration::from_hours(24)).await;
    while portico_testkit::turn(&app, "identity.prune").await == portico_engine::JobOutcome::MoreWork {}
    console
        .refused(
            &app,
            &[("grant_type", "refresh_token"), ("refresh_token", &tokens.refresh)],
            "invalid_grant",
        )
        .await;
}

async fn loading_the_console_uses_up_nobodys_changes(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let console = App { id: "console".to_owned(), secret: None };
    let redirect = format!("{CONSOLE_URL}/callback");
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    for _ in 0..120 {
        let back = browser.get(&console.request(&[("redirect_uri", &redirect)])).await;
        assert!(back.parameter("code").is_some(), "{}", back.alert());
    }
    let refused = browser.get(&console.request(&[("redirect_uri", &redirect)])).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "60"));
    let page = browser.get("/settings").await;
    assert_eq!(browser.submit(&page, "/settings/name", &[("name", "Countess")]).await.status, 303);
}

async fn the_operator_ends_apps_and_people(app: TestApp) {
    let ada = app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::create(&app, "identity:read", true).await;
    let mut browser = Browser::new(&app);
    let tokens = sign_in_and_authorize(&app, &mut browser, &client, "identity:read").await;
    let console = app.person_token(ada.id).await;
    app.admin(portico::admin::Admin::Revoke { id: client.id.clone() }).await;
    app.catch_up().await;
    me(&app, &tokens.access).await.refused(Code::Unauthenticated);
    client
        .refused(
            &app,
            &[("grant_type", "refresh_token"), ("refresh_token", &tokens.refresh)],
            "invalid_client",
        )
        .await;
    assert_eq!(browser.get(&client.request(&[])).await.status, 400);
    me(&app, &console).await.ok();
    app.admin(portico::admin::Admin::Revoke { id: ada.id.to_string() }).await;
    app.catch_up().await;
    me(&app, &console).await.refused(Code::Unauthenticated);
    assert_eq!(browser.get("/settings").await.status, 303);
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(browser.sign_in("ada@example.com", PASSWORD).await.status, 303);
    app.catch_up().await;
    me(&app, &app.person_token(ada.id).await).await.ok();
}

async fn a_secret_is_needed_where_there_is_one(app: TestApp) {
    app.new_person("ada@example.com", Some(PASSWORD)).await;
    let client = App::create(&app, "identity:read", true).await;
    let mut browser = Browser::new(&app);
    browser.sign_in("ada@example.com", PASSWORD).await;
    let code = allow(&mut browser, &client.request(&[])).await.parameter("code").unwrap();
    let public = App { id: client.id.clone(), secret: None };
    assert_eq!(public.exchange(&app, &code).await.json()["error"], "invalid_client");
    let wrong = App { id: client.id.clone(), secret: Some("pcs_wrong".to_owned()) };
    assert_eq!(wrong.exchange(&app, &code).await.json()["error"], "invalid_client");
    client.refused(&app, &[("grant_type", "client_credentials")], "unauthorized_client").await;
    Tokens::read(&client.exchange(&app, &code).await);
}

/// Does the request go through without a question?
async fn allow_silently(browser: &mut Browser<'_>, request: &str) -> bool {
    browser.get(request).await.parameter("code").is_some()
}

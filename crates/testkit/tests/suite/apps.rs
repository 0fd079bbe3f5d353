//! An app that acts for a person, as its own code would do it.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use portico::admin::{Admin, AppCommand};
use portico_testkit::{Answer, Browser, TestApp, TestRequest, form};
use serde_json::Value;

use crate::signin::PASSWORD;

pub(crate) const REDIRECT: &str = "http://127.0.0.1:5000/cb";
pub(crate) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub(crate) const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// An app.
pub(crate) struct App {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
}

/// What it got.
pub(crate) struct Tokens {
    pub(crate) access: String,
    pub(crate) refresh: String,
    pub(crate) scope: String,
}

impl Tokens {
    #[track_caller]
    pub(crate) fn read(answer: &Answer) -> Self {
        let body = answer.ok();
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        assert_eq!((text("token_type").as_str(), &body["expires_in"]), ("bearer", &Value::from(899)));
        assert_eq!(answer.header("cache-control"), "no-store");
        Self { access: text("access_token"), refresh: text("refresh_token"), scope: text("scope") }
    }
}

impl App {
    /// One that the operator registers.
    pub(crate) async fn create(app: &TestApp, scopes: &str, confidential: bool) -> Self {
        let command = AppCommand::Create {
            name: "Test App".to_owned(),
            redirect_uri: vec!["http://127.0.0.1/cb".to_owned(), "https://app.example/cb".to_owned()],
            scopes: scopes.into(),
            confidential,
        };
        let made = app.admin(Admin::App(command)).await;
        let text = |name: &str| made[name].as_str().map(str::to_owned);
        Self { id: text("client_id").unwrap(), secret: text("client_secret") }
    }

    /// One that registers itself.
    pub(crate) async fn register(app: &TestApp) -> Self {
        let body =
            serde_json::json!({ "client_name": "An assistant", "redirect_uris": ["http://127.0.0.1/cb"] });
        let made = app.send_auth(TestRequest::new("POST", "/oauth2/register").json(&body)).await;
        assert_eq!(made.status, 201, "{}", made.text());
        Self { id: made.json()["client_id"].as_str().unwrap().to_owned(), secret: None }
    }

    /// The authorization request; later fields replace earlier ones, and empty ones are left out.
    pub(crate) fn request(&self, fields: &[(&str, &str)]) -> String {
        let mut all = vec![
            ("response_type", "code"),
            ("client_id", self.id.as_str()),
            ("redirect_uri", REDIRECT),
            ("state", "a state"),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
        ];
        for (name, value) in fields {
            all.retain(|(known, _)| known != name);
            all.push((name, value));
        }
        all.retain(|(_, value)| !value.is_empty());
        format!("/oauth2/auth?{}", form(&all))
    }

    /// Posts to the token endpoint.
    pub(crate) async fn token(&self, app: &TestApp, fields: &[(&str, &str)]) -> Answer {
        self.post(app, "/oauth2/token", fields).await
    }

    pub(crate) async fn post(&self, app: &TestApp, path: &str, fields: &[(&str, &str)]) -> Answer {
        let mut fields = fields.to_vec();
        let mut sent = TestRequest::new("POST", path);
        match &self.secret {
            None => fields.push(("client_id", &self.id)),
            Some(secret) => {
                let basic = BASE64_STANDARD.encode(format!("{}:{secret}", self.id));
                sent = sent.header("authorization", &format!("Basic {basic}"));
            }
        }
        app.send_auth(sent.form(&form(&fields))).await
    }

    /// Exchanges a code.
    pub(crate) async fn exchange(&self, app: &TestApp, code: &str) -> Answer {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", REDIRECT),
            ("code_verifier", VERIFIER),
        ];
        self.token(app, &fields).await
    }

    /// Asserts that the token endpoint refuses.
    pub(crate) async fn refused(&self, app: &TestApp, fields: &[(&str, &str)], error: &str) {
        let answer = self.token(app, fields).await;
        assert_eq!(answer.json()["error"], error, "{}", answer.text());
        assert_eq!(answer.status, if error == "invalid_client" { 401 } else { 400 });
        assert_eq!(answer.header("cache-control"), "no-store");
    }
}

/// Says yes on the consent page, where there is one; answers where the person is sent.
pub(crate) async fn allow(browser: &mut Browser<'_>, request: &str) -> Answer {
    let answer = browser.get(request).await;
    let page = browser.follow(answer).await;
    if page.status == 303 {
        return page;
    }
    assert_eq!(page.status, 200, "{}", page.text());
    browser.submit(&page, "/consent", &[("decision", "allow")]).await
}

/// Signs `ada@example.com` in and lets the app in; answers its tokens.
pub(crate) async fn sign_in_and_authorize(
    app: &TestApp,
    browser: &mut Browser<'_>,
    client: &App,
    scopes: &str,
) -> Tokens {
    browser.sign_in("ada@example.com", PASSWORD).await;
    let back = allow(browser, &client.request(&[("scope", scopes)])).await;
    let code = back.parameter("code").unwrap_or_else(|| panic!("no code in {:?}", back.header("location")));
    Tokens::read(&client.exchange(app, &code).await)
}

/// What a token says.
pub(crate) fn claims(token: &str) -> Value {
    let body = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(body).unwrap()).unwrap()
}

//! Tokens: what is admitted, and what is not.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use portico::admin::{Admin, SigningKeyCommand};
use portico_kernel::{Code, seconds};
use portico_store::Select;
use portico_testkit::{Answer, TestApp, TestRequest, on_both_databases};
use serde_json::{Value, json};

async fn me(app: &TestApp, token: &str) -> Answer {
    app.send(TestRequest::new("GET", "/v1/me").bearer(token)).await
}

fn part(token: &str, number: usize) -> Value {
    serde_json::from_slice(&BASE64.decode(token.split('.').nth(number).unwrap()).unwrap()).unwrap()
}

fn with(token: &str, header: Option<Value>, claims: Option<Value>) -> String {
    let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
    for (number, value) in [(0, header), (1, claims)] {
        if let Some(value) = value {
            parts[number] = BASE64.encode(value.to_string());
        }
    }
    parts.join(".")
}

/// Signs with the server's own key, to make tokens that only their claims or header condemn.
async fn sign(app: &TestApp, header: &Value, claims: &Value) -> String {
    use portico_store::{Context, Select, args, from_row};
    struct Key {
        id: String,
        sealed_private_key: Vec<u8>,
    }
    from_row!(Key { id, sealed_private_key });
    let mut tx = app.app.engine.db.read().await.unwrap();
    let key: Key = tx.one("select id, sealed_private_key from signing_keys", args![]).await.unwrap();
    let context = Context { account: "", row: &key.id, purpose: "signing key" };
    let private = app.app.engine.keyring.open(context, &key.sealed_private_key).unwrap();
    let pair = aws_lc_rs::signature::Ed25519KeyPair::from_pkcs8(private.expose()).unwrap();
    let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
    format!("{signed}.{}", BASE64.encode(pair.sign(signed.as_bytes())))
}

on_both_databases! {
    tokens_are_jwts_as_promised,
    what_is_not_a_token_of_ours_is_refused,
    claims_and_header_are_checked_even_when_the_signature_is_ours,
    a_key_that_was_followed_signs_nothing_any_more,
    an_api_token_says_what_was_written_down,
    the_token_travels_in_one_authorization_header,
    a_token_ends_when_its_time_is_up,
    a_revoked_token_is_refused_even_when_it_is_known,
    nobody_is_admitted_while_revocations_cannot_be_read,
    an_account_has_at_most_twenty_tokens_and_ten_keys,
    a_token_lives_7_30_90_or_365_days,
    neither_token_nor_secret_is_kept,
}

async fn tokens_are_jwts_as_promised(app: TestApp) {
    let (header, claims) = (part(&app.token, 0), part(&app.token, 1));
    assert_eq!((&header["alg"], &header["typ"]), (&json!("EdDSA"), &json!("at+jwt")));
    assert_eq!(claims["aud"], "platform-api");
    assert_eq!(claims["iss"], "http://auth.test");
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 7 * 24 * 3600);
    let jwks = app.send_auth(TestRequest::new("GET", "/.well-known/jwks.json")).await.ok();
    let key = &jwks["keys"][0];
    assert_eq!((&key["kty"], &key["crv"], &key["kid"]), (&json!("OKP"), &json!("Ed25519"), &header["kid"]));
    assert_eq!(key.get("d"), None);
    // Someone else's library verifies it with the published key.
    let decoding = jsonwebtoken::DecodingKey::from_ed_components(key["x"].as_str().unwrap()).unwrap();
    let mut validation = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::EdDSA);
    validation.set_audience(&["platform-api"]);
    validation.validate_exp = false;
    jsonwebtoken::decode::<Value>(&app.token, &decoding, &validation).unwrap();
}

async fn what_is_not_a_token_of_ours_is_refused(app: TestApp) {
    let token = app.token.clone();
    me(&app, &token).await.ok();
    let (header, claims) = (part(&token, 0), part(&token, 1));
    let mut wider = claims.clone();
    wider["scope"] = json!("identity:read account:audit");
    let mut none = header.clone();
    none["alg"] = json!("none");
    let mut hmac = header.clone();
    hmac["alg"] = json!("HS256");
    let flipped =
        format!("{}{}", &token[..token.len() - 4], if token.ends_with("AAAA") { "BBBB" } else { "AAAA" });
    let unsigned = format!("{}.{}.", BASE64.encode(none.to_string()), token.split('.').nth(1).unwrap());
    for bad in [
        String::new(),
        "abc".to_owned(),
        "a.b.c".to_owned(),
        "..".to_owned(),
        flipped,
        unsigned,
        with(&token, Some(hmac), None),
        with(&token, Some(none), None),
        with(&token, None, Some(wider)),
        token[..token.len() - 1].to_owned(),
        format!("{token}.x"),
        format!("{token}=="),
        "x".repeat(9_000),
    ] {
        let refused = me(&app, &bad).await;
        refused.refused(Code::Unauthenticated);
        assert!(refused.header("www-authenticate").starts_with("Bearer "), "{bad}");
    }
}

async fn claims_and_header_are_checked_even_when_the_signature_is_ours(app: TestApp) {
    let (header, claims) = (part(&app.token, 0), part(&app.token, 1));
    me(&app, &sign(&app, &header, &claims).await).await.ok();
    let changed = |name: &str, value: Value| {
        let mut claims = claims.clone();
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value;
        }
        claims
    };
    let now = claims["iat"].as_i64().unwrap();
    for bad in [
        changed("aud", json!("other")),
        changed("aud", json!("http://api.test/mcp")),
        changed("aud", Value::Null),
        changed("iss", json!("http://evil.test")),
        changed("iss", Value::Null),
        changed("exp", Value::Null),
        changed("exp", json!(now)),
        changed("exp", json!("4102444800")),
        changed("iat", json!(now + 60)),
        changed("sub", Value::Null),
        changed("kind", json!("root")),
        changed("scope", Value::Null),
        changed("sub", json!("tok_01ARZ3NDEKTSV4RRFFQ69G5FAV")),
    ] {
        me(&app, &sign(&app, &header, &bad).await).await.refused(Code::Unauthenticated);
    }
    for (name, value) in
        [("typ", json!("JWT")), ("typ", Value::Null), ("kid", json!("other")), ("kid", Value::Null)]
    {
        let mut other = header.clone();
        if value.is_null() {
            other.as_object_mut().unwrap().remove(name);
        } else {
            other[name] = value;
        }
        me(&app, &sign(&app, &other, &claims).await).await.refused(Code::Unauthenticated);
    }
}

async fn a_key_that_was_followed_signs_nothing_any_more(app: TestApp) {
    let ada = app.new_person("ada@example.com", None).await;
    let token = app.person_token(ada.id).await;
    let (header, mut claims) = (part(&token, 0), part(&token, 1));
    me(&app, &sign(&app, &header, &claims).await).await.ok();
    let mut critical = header.clone();
    critical["crit"] = json!(["exp"]);
    me(&app, &sign(&app, &critical, &claims).await).await.refused(Code::Unauthenticated);
    let forged = sign(&app, &header, &{
        let (mut late, at) = (claims.clone(), claims["iat"].as_i64().unwrap() + 3600);
        (late["iat"], late["exp"]) = (json!(at), json!(at + 900));
        late
    })
    .await;
    claims["exp"] = json!(claims["iat"].as_i64().unwrap() + 901);
    me(&app, &sign(&app, &header, &claims).await).await.refused(Code::Unauthenticated);
    app.admin(Admin::SigningKey(SigningKeyCommand::Rotate { now: true })).await;
    app.advance(seconds(3600)).await;
    me(&app, &forged).await.refused(Code::Unauthenticated);
    me(&app, &app.token).await.ok();
    let kid = header["kid"].as_str().unwrap().to_owned();
    app.admin(Admin::SigningKey(SigningKeyCommand::Remove { kid })).await;
    let console = app.person_token(ada.id).await;
    app.catch_up().await;
    me(&app, &app.token).await.refused(Code::Unauthenticated);
    me(&app, &token).await.refused(Code::Unauthenticated);
    me(&app, &console).await.ok();
    let made = app.new_token(app.account, app.all_scopes(), 7).await;
    me(&app, made["token"].as_str().unwrap()).await.ok();
}

async fn an_api_token_says_what_was_written_down(app: TestApp) {
    let (header, claims) = (part(&app.token, 0), part(&app.token, 1));
    let narrow = app.new_token(app.account, ["identity:read"].into_iter().collect(), 7).await;
    let narrow = part(narrow["token"].as_str().unwrap(), 1);
    let other = app.new_account("Victim").await;
    for (name, value) in [
        ("org", json!(other)),
        ("scope", claims["scope"].clone()),
        ("kind", json!("service")),
        ("kind", json!("person")),
        ("key", json!("key_01ARZ3NDEKTSV4RRFFQ69G5FAV")),
        ("exp", json!(narrow["exp"].as_i64().unwrap() + 1)),
    ] {
        let mut forged = narrow.clone();
        forged[name] = value;
        me(&app, &sign(&app, &header, &forged).await).await.refused(Code::Unauthenticated);
    }
    me(&app, &sign(&app, &header, &narrow).await).await.ok();
}

async fn the_token_travels_in_one_authorization_header(app: TestApp) {
    let get = |value: &str| TestRequest::new("GET", "/v1/me").header("authorization", value);
    let token = &app.token;
    app.send(get(&format!("bearer {token}"))).await.ok();
    for bad in [
        token.clone(),
        format!("Basic {token}"),
        format!("Token {token}"),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
    ] {
        app.send(get(&bad)).await.refused(Code::Unauthenticated);
    }
    let bearer = format!("Bearer {token}");
    app.send(get(&bearer).header("authorization", &bearer)).await.refused(Code::Unauthenticated);
    app.send(TestRequest::new("GET", &format!("/v1/me?access_token={token}")))
        .await
        .refused(Code::Unauthenticated);
    app.send(TestRequest::new("GET", "/v1/me").header("cookie", &format!("token={token}")))
        .await
        .refused(Code::Unauthenticated);
    let bare = app.send(TestRequest::new("GET", "/v1/me")).await;
    bare.refused(Code::Unauthenticated);
    assert_eq!(bare.header("www-authenticate"), "Bearer realm=\"platform-api\"");
}

async fn a_token_ends_when_its_time_is_up(app: TestApp) {
    app.advance(seconds(7 * 24 * 3600 - 1)).await;
    me(&app, &app.token).await.ok();
    app.advance(seconds(1)).await;
    me(&app, &app.token).await.refused(Code::Unauthenticated);
}

async fn a_revoked_token_is_refused_even_when_it_is_known(app: TestApp) {
    let made = app.new_token(app.account, app.all_scopes(), 365).await;
    let (id, token) = (made["token_id"].as_str().unwrap(), made["token"].as_str().unwrap());
    me(&app, token).await.ok();
    app.admin(Admin::Revoke { id: id.to_owned() }).await;
    app.advance(seconds(1)).await;
    me(&app, token).await.refused(Code::Unauthenticated);
    // Long after the window of revocations has closed, the positive list still refuses it.
    for _ in 0..30 {
        app.advance(seconds(60)).await;
        me(&app, token).await.refused(Code::Unauthenticated);
    }
    me(&app, &app.token).await.ok();
}

async fn nobody_is_admitted_while_revocations_cannot_be_read(app: TestApp) {
    me(&app, &app.token).await.ok();
    app.clock.advance(seconds(10));
    me(&app, &app.token).await.ok();
    app.clock.advance(seconds(1));
    let refused = me(&app, &app.token).await;
    refused.refused(Code::Unavailable);
    assert_eq!(refused.header("retry-after"), "1");
    app.advance(seconds(0)).await;
    me(&app, &app.token).await.ok();
}

async fn an_account_has_at_most_twenty_tokens_and_ten_keys(app: TestApp) {
    let mut last = Value::Null;
    for _ in 0..19 {
        last = app.new_token(app.account, app.all_scopes(), 7).await;
    }
    let create = || {
        portico::admin::run(
            &app.app,
            Admin::Token(portico::admin::TokenCommand::Create {
                account: app.account,
                scopes: app.all_scopes(),
                days: 7,
                name: String::new(),
            }),
        )
    };
    let refused = create().await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(format!("{:?}", refused.details()).contains("LIMIT_REACHED"));
    app.admin(Admin::Revoke { id: last["token_id"].as_str().unwrap().to_owned() }).await;
    create().await.unwrap();
    for _ in 0..10 {
        app.new_key(app.account, app.all_scopes()).await;
    }
    let eleventh = Admin::Key(portico::admin::KeyCommand::Create {
        account: app.account,
        scopes: app.all_scopes(),
        name: String::new(),
    });
    assert_eq!(portico::admin::run(&app.app, eleventh).await.unwrap_err().code(), Code::FailedPrecondition);
}

async fn a_token_lives_7_30_90_or_365_days(app: TestApp) {
    for days in [7, 30, 90, 365] {
        let made = app.new_token(app.account, app.all_scopes(), days).await;
        let claims = part(made["token"].as_str().unwrap(), 1);
        assert_eq!(
            claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(),
            i64::from(days) * 86_400
        );
    }
    for days in [0, 1, 8, 366] {
        let create = Admin::Token(portico::admin::TokenCommand::Create {
            account: app.account,
            scopes: app.all_scopes(),
            days,
            name: String::new(),
        });
        assert_eq!(portico::admin::run(&app.app, create).await.unwrap_err().code(), Code::BadRequest);
    }
}

async fn neither_token_nor_secret_is_kept(app: TestApp) {
    let key = app.new_key(app.account, app.all_scopes()).await;
    let secret = key["client_secret"].as_str().unwrap();
    let mut tx = app.app.engine.db.read().await.unwrap();
    let rows: Vec<String> = tx
        .values(
            "select id || name || scopes || secret_hint || created_by as value from credentials",
            portico_store::args![],
        )
        .await
        .unwrap();
    tx.rollback();
    let all: String = rows.concat();
    assert!(!all.contains(secret) && !all.contains(&app.token));
    if app.database.url.starts_with("sqlite:") {
        app.app.engine.db.close().await;
        let file = std::fs::read(app.database.folder.path().join("portico.db")).unwrap();
        let holds = |text: &str| file.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(holds(key["key_id"].as_str().unwrap()), "the file was looked at");
        assert!(!holds(secret) && !holds(app.token.split('.').nth(2).unwrap()));
    }
}

//! Configurations and credentials of connections, and where they lead.

use portico_connectors::{Destination, Manifest, Mode, Overrides, Values, builtin};
use serde_json::{Map, Value, json};

use crate::{credentials, minimal, paths, put, read, strings, with};

fn config(manifest: &Manifest, mode: Mode, config: &Value) -> String {
    let faults = manifest.check_config(mode, &strings(config)).err().unwrap_or_default();
    paths(&faults).join(" ")
}

#[test]
fn a_configuration_is_checked_by_its_fields() {
    let mut source = minimal();
    put(
        &mut source,
        "/config",
        json!([
            { "name": "name", "type": "string", "required": true, "min": "2", "max": "4" },
            { "name": "count", "type": "integer", "min": "1", "max": "9" },
            { "name": "ratio", "type": "number", "max": "0.5" },
            { "name": "flag", "type": "boolean" },
            { "name": "choice", "type": "string", "choices": ["a", "b"] },
            { "name": "given", "type": "string", "required": true, "default_value": "x" },
        ]),
    );
    let manifest = read(&source);
    let of = |value: Value| config(&manifest, Mode::ApiKey, &value);
    assert_eq!(
        of(json!({ "name": "äöüß", "count": "9", "ratio": "0.5", "flag": "true", "choice": "b" })),
        ""
    );
    assert_eq!(of(json!({})), "config.name");
    assert_eq!(of(json!({ "name": "" })), "config.name");
    assert_eq!(of(json!({ "name": "a" })), "config.name");
    assert_eq!(of(json!({ "name": "abcde", "nope": "x", "": "y" })), "config. config.name config.nope");
    assert_eq!(
        of(json!({ "name": "ab", "count": "10", "ratio": "nan", "flag": "yes", "choice": "c" })),
        "config.choice config.count config.flag config.ratio"
    );
    assert_eq!(of(json!({ "name": "ab", "count": "1.0" })), "config.count");
    assert_eq!(of(json!({ "name": "ab", "nope": "" })), "config.nope");
    assert_eq!(of(json!({ "name": "a\u{0}" })), "config.name");
    assert_eq!(of(json!({ "name": "ab", "given": "x".repeat(2_049) })), "config.given");
    assert_eq!(of(json!({ "name": "ab", "given": "x".repeat(2_048) })), "");
}

#[test]
fn a_mode_needs_what_its_addresses_have() {
    let jira = builtin("jira").unwrap();
    assert_eq!(config(jira, Mode::Basic, &json!({})), "config.site");
    assert_eq!(config(jira, Mode::OAuth2, &json!({})), "");
    assert_eq!(config(jira, Mode::Basic, &json!({ "site": "acme" })), "");
    for bad in ["acme.evil", "a/b", "acme.atlassian.net", "a b", "-a", "é", "a@b", "a:1", "a#", "%61"] {
        assert_eq!(config(jira, Mode::Basic, &json!({ "site": bad })), "config.site", "{bad}");
    }
    let gitlab = builtin("gitlab").unwrap();
    for bad in [
        "localhost",
        "127.0.0.1",
        "[::1]",
        "a.b/c",
        "a.b:80",
        "x@y.z",
        "https://a.b",
        "a_b.c",
        "a.b\\c",
        "0x7f.1",
        "1.2.3.4.",
    ] {
        assert_eq!(config(gitlab, Mode::ApiKey, &json!({ "host": bad })), "config.host", "{bad}");
    }
    assert_eq!(config(gitlab, Mode::ApiKey, &json!({ "host": "GitLab.Acme.Example" })), "");
    assert_eq!(
        config(builtin("sentry").unwrap(), Mode::ApiKey, &json!({ "region": "evil.example" })),
        "config.region"
    );
}

#[test]
fn a_credential_is_of_the_mode_that_its_fields_fit() {
    let check = |id: &str, mode: Option<&str>, fields: Value| {
        let found = builtin(id).unwrap().check_credentials(mode, &strings(&fields));
        found.map(Mode::name).map_err(|faults| paths(&faults).join(" "))
    };
    let fault = |text: &str| Err(text.to_owned());
    assert_eq!(check("github", None, json!({ "api_key": "x" })), Ok("api_key"));
    assert_eq!(check("github", Some(""), json!({ "api_key": "x" })), Ok("api_key"));
    assert_eq!(
        check("github", None, json!({ "app_id": "1", "installation_id": "2", "private_key": "a\nb" })),
        Ok("app")
    );
    assert_eq!(
        check("github", None, json!({ "app_id": "1", "installation_id": "2" })),
        fault("credentials.private_key")
    );
    assert_eq!(
        check("github", None, json!({ "app_id": "1", "installation_id": "x", "private_key": "k" })),
        fault("credentials.installation_id")
    );
    assert_eq!(check("github", None, json!({ "nope": "x" })), fault("credentials.nope credentials.api_key"));
    // A sign-in has no fields; it is what fits when nothing is given.
    assert_eq!(check("github", None, json!({})), Ok("oauth2"));
    assert_eq!(check("github", Some("oauth2"), json!({})), Ok("oauth2"));
    assert_eq!(check("github", Some("oauth2"), json!({ "api_key": "x" })), fault("credentials.api_key"));
    assert_eq!(check("github", Some("basic"), json!({ "api_key": "x" })), fault("auth_mode"));
    assert_eq!(check("github", Some("magic"), json!({})), fault("auth_mode"));
    assert_eq!(check("stripe", None, json!({})), fault("credentials.api_key"));
    for bad in ["", "a\nb", "a\u{0}"] {
        assert_eq!(check("stripe", None, json!({ "api_key": bad })), fault("credentials.api_key"), "{bad:?}");
    }
    assert_eq!(check("stripe", None, json!({ "api_key": "x".repeat(8_192) })), Ok("api_key"));
    assert_eq!(check("stripe", None, json!({ "api_key": "x".repeat(8_193) })), fault("credentials.api_key"));
    assert_eq!(check("jira", None, json!({ "email": "a:b", "token": "x" })), fault("credentials.email"));
    assert_eq!(check("jira", None, json!({ "email": "a", "token": "x:y" })), Ok("basic"));
}

#[test]
fn fields_that_fit_several_modes_need_a_mode() {
    let mut source = minimal();
    put(
        &mut source,
        "/auth/basic",
        json!({ "fields": [{ "name": "api_key" }], "user": "{auth.api_key}", "password": "" }),
    );
    let manifest = read(&source);
    let fields = strings(&json!({ "api_key": "x" }));
    assert_eq!(paths(&manifest.check_credentials(None, &fields).unwrap_err()), ["auth_mode"]);
    assert_eq!(manifest.check_credentials(Some("basic"), &fields), Ok(Mode::Basic));
}

#[test]
fn hosts_are_listed_or_chosen() {
    let of = |id: &str, mode: Mode, config: Value| builtin(id).unwrap().destinations(mode, &strings(&config));
    let listed = |host: &str| (host.to_owned(), Destination::Listed);
    assert_eq!(of("github", Mode::ApiKey, json!({})).unwrap(), [listed("api.github.com")]);
    assert_eq!(
        of("github", Mode::OAuth2, json!({})).unwrap(),
        [listed("api.github.com"), listed("github.com")]
    );
    assert_eq!(of("gitlab", Mode::OAuth2, json!({})).unwrap(), [listed("gitlab.com")]);
    assert_eq!(
        of("gitlab", Mode::OAuth2, json!({ "host": "GL.acme.example" })).unwrap(),
        [("gl.acme.example".to_owned(), Destination::Chosen)]
    );
    // Neither the domain itself, nor a name that only ends like it, nor a name below an exact host.
    assert_eq!(
        of("gitlab", Mode::OAuth2, json!({ "host": "evilgitlab.com" })).unwrap()[0].1,
        Destination::Chosen
    );
    assert_eq!(
        of("gitlab", Mode::OAuth2, json!({ "host": "x.gitlab.com" })).unwrap()[0].1,
        Destination::Chosen
    );
    assert_eq!(of("jira", Mode::Basic, json!({ "site": "acme" })).unwrap(), [listed("acme.atlassian.net")]);
    assert_eq!(of("jira", Mode::Basic, json!({})).unwrap_err().path, "config.site");
    assert_eq!(
        of("jira", Mode::OAuth2, json!({})).unwrap(),
        [listed("api.atlassian.com"), listed("auth.atlassian.com")]
    );
}

#[test]
fn another_host_in_the_configuration_is_noticed() {
    let gitlab = builtin("gitlab").unwrap();
    let moves = |old: Value, new: Value| gitlab.moves_host(Mode::ApiKey, &strings(&old), &strings(&new));
    assert!(!moves(json!({}), json!({ "host": "gitlab.com" })));
    assert!(!moves(json!({ "host": "GITLAB.com" }), json!({ "host": "" })));
    assert!(moves(json!({}), json!({ "host": "gitlab.acme.example" })));
    let github = builtin("github").unwrap();
    assert!(!github.moves_host(
        Mode::ApiKey,
        &strings(&json!({})),
        &strings(&json!({ "repositories": "a/b" }))
    ));
    let jira = builtin("jira").unwrap();
    let (old, new) = (strings(&json!({ "site": "a" })), strings(&json!({ "site": "b" })));
    assert!(jira.moves_host(Mode::Basic, &old, &new) && !jira.moves_host(Mode::OAuth2, &old, &new));
}

#[test]
fn the_operator_puts_something_else_in_the_place_of_every_host() {
    let overrides = Overrides::parse("github=http://127.0.0.1:9000/gh,jira=https://mock.example").unwrap();
    let (config, auth) = (strings(&json!({})), credentials(&json!({ "api_key": "k" })));
    let values =
        Values { mode: Mode::ApiKey, config: &config, auth: &auth, base_url: overrides.get("github") };
    let github = builtin("github").unwrap();
    let request = github.test_request(&values).unwrap();
    assert_eq!(request.url.as_str(), "http://127.0.0.1:9000/gh/user");
    assert_eq!(
        (request.destination, request.is_plain(), request.host()),
        (Destination::Operator, true, "127.0.0.1")
    );
    let params = crate::object(&json!({ "owner": "a", "repo": "b" }));
    let request = github.action("get_repository").unwrap().request(&values, &params).unwrap();
    assert_eq!(request.url.as_str(), "http://127.0.0.1:9000/gh/repos/a/b");
    // The host of the configuration is not even asked for.
    let auth = credentials(&json!({ "email": "a", "token": "b" }));
    let values = Values { mode: Mode::Basic, config: &config, auth: &auth, base_url: overrides.get("jira") };
    let request = builtin("jira").unwrap().test_request(&values).unwrap();
    assert_eq!(request.url.as_str(), "https://mock.example/rest/api/3/myself");
}

#[test]
fn plain_http_is_said_by_the_request() {
    let manifest = read(&with("/request/base_url", json!("http://api.acme.example:8080/v1/")));
    let (config, auth) = (strings(&json!({})), credentials(&json!({ "api_key": "k" })));
    let values = Values { mode: Mode::ApiKey, config: &config, auth: &auth, base_url: None };
    let request = manifest.test_request(&values).unwrap();
    assert_eq!(request.url.as_str(), "http://api.acme.example:8080/v1/me");
    assert!(request.is_plain() && request.destination == Destination::Listed);
}

#[test]
fn a_credential_that_lacks_something_leaves_its_header_out() {
    let manifest = read(&minimal());
    let (config, auth) = (strings(&json!({})), credentials(&json!({})));
    let values = Values { mode: Mode::ApiKey, config: &config, auth: &auth, base_url: None };
    assert!(!manifest.test_request(&values).unwrap().headers.contains_key("authorization"));
    let auth = credentials(&json!({ "api_key": "schlüssel" }));
    let values = Values { auth: &auth, ..values };
    assert_eq!(manifest.test_request(&values).unwrap_err().path, "credentials.api_key");
    let action = manifest.action("get_thing").unwrap();
    assert_eq!(action.request(&values, &Map::new()).unwrap_err().path, "params.id");
}

#[test]
fn a_credential_is_kept_as_bytes() {
    let auth = credentials(&json!({ "api_key": "k\"ey", "x": "ü" }));
    let bytes = auth.to_bytes();
    let again = portico_connectors::Credentials::from_bytes(bytes.expose()).unwrap();
    assert_eq!(again.iter().collect::<Vec<_>>(), [("api_key", "k\"ey"), ("x", "ü")]);
    assert!(portico_connectors::Credentials::from_bytes(b"{\"a\":1}").is_none());
}

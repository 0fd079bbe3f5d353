//! What a manifest is read into.

use portico_connectors::{
    ACTIONS_MAX, Class, MANIFEST_BYTES_MAX, Manifest, Mode, builtin, builtins, is_reserved,
};
use serde_json::{Value, json};

use crate::{action, minimal, put, read, with};

/// The example of the documents, with everything that a manifest can say.
const LINEAR: &str = r#"
id = "linear"
title = "Linear"
description = "Issues."
docs = "https://linear.app/developers"
hosts = ["api.linear.app", "linear.app"]
[[config]]
name = "region"
type = "string"
description = "…"
required = false
choices = ["us", "eu"]
default_value = "us"
[auth.oauth2]
authorize_url = "https://linear.app/oauth/authorize"
token_url = "https://api.linear.app/oauth/token"
revoke_url = ""
scopes = ["read", "write"]
scope_separator = ","
authorize_params = {}
client_auth = "body"
body = "form"
token = { access_token = "/access_token", refresh_token = "/refresh_token", expires_in = "/expires_in", scope = "/scope" }
dead = [{ status = [400, 401], at = "/error", values = ["invalid_grant"] }]
header = "Bearer {auth.access_token}"
[auth.api_key]
fields = [{ name = "api_key", description = "…", pattern = "" }]
header = "{auth.api_key}"
[request]
base_url = "https://api.linear.app"
headers = {}
ok_when = { at = "/errors", absent = true }
error_at = "/errors/0/message"
expired_when = [{ status = [401] }]
rate = { retry_after = "retry-after" }
[test]
method = "POST"
path = "/graphql"
json = { query = "{organization{id name}}" }
label = ["/data/organization/name"]
external_id = ["/data/organization/id"]
scopes_header = ""
[[actions]]
name = "get_issue"
description = "Read one issue."
class = "read"
reads_private = true
reads_untrusted = true
sends_out = false
method = "POST"
path = "/graphql"
json = { query = "query($id:String!){issue(id:$id){id title description}}", variables = { id = "{params.id}" } }
params = [{ name = "id", type = "string", description = "…", required = true, max = "64" }]
result = "/data/issue"
next = ""
tokens = { input = "", output = "" }
"#;

#[test]
fn the_example_is_read_from_toml_and_from_json_alike() {
    let manifest = Manifest::from_toml(LINEAR).unwrap();
    assert_eq!(manifest.modes().collect::<Vec<_>>(), [Mode::ApiKey, Mode::OAuth2]);
    assert_eq!(manifest.oauth().unwrap().scopes(), ["read", "write"]);
    assert_eq!((manifest.id(), manifest.title(), manifest.description()), ("linear", "Linear", "Issues."));
    assert_eq!(manifest.docs(), "https://linear.app/developers");
    assert_eq!(manifest.hosts(), ["api.linear.app", "linear.app"]);
    let again = read(manifest.to_json());
    assert_eq!(again.to_json(), manifest.to_json());
    assert_eq!(again.kind(), manifest.kind());
}

#[test]
fn what_is_left_out_has_its_default() {
    let manifest = read(&minimal());
    assert_eq!(manifest.auth_names(), "api_key");
    let fields: Vec<_> =
        manifest.credential_fields(Mode::ApiKey).iter().map(|field| field.name.as_str()).collect();
    assert_eq!(fields, ["api_key"]);
    assert!(manifest.credential_fields(Mode::OAuth2).is_empty());
    let action = manifest.action("get_thing").unwrap();
    assert_eq!((action.class, action.spec().sends_out), (Class::Read, false));
    assert!(manifest.oauth().is_none() && manifest.app().is_none() && manifest.action("nope").is_none());
    // Null is what is left out.
    assert_eq!(read(&with("/docs", json!(null))).docs(), "");
}

#[test]
fn the_default_mode_comes_first() {
    let mut source = with("/auth/basic", json!({}));
    assert_eq!(read(&source).auth_names(), "api_key basic");
    put(&mut source, "/default_mode", json!("basic"));
    assert_eq!(read(&source).auth_names(), "basic api_key");
}

#[test]
fn bounds_are_kept() {
    let many = |count: usize| {
        let actions: Vec<_> = (0..count).map(|n| action(&format!("get_{n}"))).collect();
        with("/actions", json!(actions))
    };
    assert_eq!(read(&many(ACTIONS_MAX)).actions().count(), ACTIONS_MAX);
    assert!(Manifest::from_json(&many(ACTIONS_MAX + 1)).is_err());
    let long = |bytes: usize| {
        let text = minimal().to_string();
        let mut source = minimal();
        // A field that may be that long beside others does not exist: the whole is refused first.
        put(
            &mut source,
            "/description",
            json!("x".repeat(bytes - text.len() - r#","description":"""#.len())),
        );
        source
    };
    let whole = long(MANIFEST_BYTES_MAX);
    assert_eq!(whole.to_string().len(), MANIFEST_BYTES_MAX);
    assert_eq!(Manifest::from_json(&whole).unwrap_err()[0].path, "description");
    let faults = Manifest::from_json(&long(MANIFEST_BYTES_MAX + 1)).unwrap_err();
    assert_eq!((faults.len(), faults[0].path.as_str()), (1, ""));
    assert!(faults[0].message.contains("131072"), "{faults:?}");
    assert!(Manifest::from_toml(&" ".repeat(MANIFEST_BYTES_MAX + 1)).is_err());
}

#[test]
fn toml_that_does_not_parse_says_where() {
    let faults = Manifest::from_toml("id = \"a\"\ntitle = \n").unwrap_err();
    assert!(faults[0].message.contains("line 2"), "{faults:?}");
    // A date is no value of a manifest.
    let faults = Manifest::from_toml("id = 1979-05-27T07:32:00Z").unwrap_err();
    assert!(faults.iter().any(|fault| fault.path == "id"), "{faults:?}");
}

#[test]
fn what_every_account_has_is_read_and_says_what_it_must() {
    let expected = [
        ("anthropic", "api_key", 2),
        ("github", "api_key oauth2 app", 8),
        ("gitlab", "api_key oauth2", 5),
        ("jira", "basic oauth2", 5),
        ("linear", "api_key oauth2", 5),
        ("notion", "api_key oauth2", 5),
        ("openai", "api_key", 2),
        ("sentry", "api_key", 4),
        ("slack", "oauth2 api_key", 5),
        ("stripe", "api_key", 4),
    ];
    let found: Vec<_> =
        builtins().iter().map(|each| (each.id(), each.auth_names(), each.actions().count())).collect();
    let expected: Vec<_> =
        expected.into_iter().map(|(id, modes, count)| (id, modes.to_owned(), count)).collect();
    assert_eq!(found, expected);
    for manifest in builtins() {
        assert!(is_reserved(manifest.id()) && !manifest.docs().is_empty(), "{}", manifest.id());
        let texts = manifest.to_json().to_string();
        assert!(!texts.contains("http://"), "{}", manifest.id());
        for action in manifest.actions() {
            assert!(action.description.ends_with('.'), "{} {}", manifest.id(), action.name);
            for param in action.params() {
                assert!(param.description.ends_with('.'), "{} {} {}", manifest.id(), action.name, param.name);
                let used = format!("{{params.{}}}", param.name);
                assert!(
                    source_of(manifest, &action.name).to_string().contains(&used),
                    "{} {used}",
                    action.name
                );
            }
        }
    }
    assert!(builtin("endpoint").is_none() && is_reserved("endpoint") && is_reserved("webhook-in"));
    assert!(!is_reserved("acme"));
}

fn source_of(manifest: &Manifest, action: &str) -> Value {
    let actions = manifest.to_json()["actions"].as_array().unwrap();
    actions.iter().find(|each| each["name"] == action).unwrap().clone()
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn classes_and_labels_are_those_that_were_decided() {
    let told = |id: &str| -> Vec<String> {
        let letters = |action: &portico_connectors::ActionSpec| {
            let flags = [(action.reads_private, 'p'), (action.reads_untrusted, 'u'), (action.sends_out, 's')];
            flags.into_iter().filter(|(flag, _)| *flag).map(|(_, letter)| letter).collect::<String>()
        };
        let line = |action: portico_connectors::Action<'_>| {
            format!("{} {} {}", action.name, action.class.name(), letters(&action))
        };
        builtin(id).unwrap().actions().map(line).map(|line| line.trim_end().to_owned()).collect()
    };
    assert_eq!(
        told("github"),
        [
            "get_repository read p",
            "get_file read pu",
            "get_issue read pu",
            "search_issues read pu",
            "get_pull_request read pu",
            "create_issue write_reversible s",
            "comment_issue write_reversible s",
            "merge_pull_request write_irreversible s",
        ]
    );
    assert_eq!(
        told("gitlab"),
        [
            "list_issues read pu",
            "get_merge_request read pu",
            "get_pipeline read p",
            "create_note write_reversible s",
            "retry_pipeline write_irreversible",
        ]
    );
    assert_eq!(
        told("slack"),
        [
            "list_channels read p",
            "read_channel read pu",
            "post_message write_irreversible s",
            "update_message write_reversible s",
            "add_reaction write_reversible s",
        ]
    );
    assert_eq!(
        told("linear"),
        [
            "search_issues read pu",
            "get_issue read pu",
            "create_issue write_reversible s",
            "update_issue write_reversible s",
            "add_comment write_reversible s",
        ]
    );
    assert_eq!(
        told("notion"),
        [
            "search read pu",
            "get_page read pu",
            "query_database read pu",
            "append_blocks write_reversible s",
            "archive_page write_reversible s",
        ]
    );
    assert_eq!(
        told("jira"),
        [
            "search read pu",
            "get_issue read pu",
            "create_issue write_reversible s",
            "add_comment write_reversible s",
            "transition_issue write_reversible s",
        ]
    );
    assert_eq!(
        told("sentry"),
        [
            "list_issues read pu",
            "get_event read pu",
            "resolve_issue write_reversible s",
            "assign_issue write_reversible s",
        ]
    );
    for id in ["anthropic", "openai"] {
        assert_eq!(told(id), ["list_models read", "create_message write_irreversible s"]);
    }
    assert_eq!(
        told("stripe"),
        [
            "list_customers read p",
            "get_customer read p",
            "list_invoices read p",
            "create_refund write_irreversible s",
        ]
    );
}

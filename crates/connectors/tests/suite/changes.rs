//! One manifest in the place of another.

use serde_json::{Value, json};

use crate::{action, minimal, paths, put, read, with};

#[test]
fn classes_and_labels_only_become_stricter() {
    let old = read(&with("/actions/0/class", json!("write_reversible")));
    let loosened = |pointer: &str, value: Value| {
        let mut source = with("/actions/0/class", json!("write_reversible"));
        put(&mut source, pointer, value);
        paths(&read(&source).loosened(&old)).join(" ")
    };
    assert_eq!(loosened("/actions/0/class", json!("read")), "actions[0].class");
    assert_eq!(loosened("/actions/0/class", json!("write_irreversible")), "");
    assert_eq!(loosened("/actions/0/reads_private", json!(false)), "actions[0].reads_private");
    assert_eq!(loosened("/actions/0/reads_untrusted", json!(true)), "");
    assert_eq!(loosened("/actions/0/sends_out", json!(true)), "");
    assert_eq!(loosened("/title", json!("New")), "");
    // The place is that of the new manifest, whatever the order.
    let mut moved = minimal();
    put(&mut moved, "/actions", json!([action("another"), action("get_thing")]));
    assert_eq!(paths(&read(&moved).loosened(&old)), ["actions[1].class"]);
}

#[test]
fn another_place_for_the_credential_is_noticed() {
    let base = || {
        let mut source = with("/hosts", json!(["api.acme.example", "b.acme.example"]));
        put(
            &mut source,
            "/config",
            json!([{ "name": "host", "type": "string", "host": true, "default_value": "b.acme.example" }]),
        );
        put(
            &mut source,
            "/auth/oauth2",
            json!({ "authorize_url": "https://api.acme.example/a", "token_url": "https://{config.host}/t" }),
        );
        source
    };
    let old = read(&base());
    let leads = |pointer: &str, value: Value| {
        let mut source = base();
        put(&mut source, pointer, value);
        read(&source).leads_elsewhere(&old)
    };
    for (pointer, value) in [
        ("/hosts", json!(["api.acme.example", "b.acme.example", "c.acme.example"])),
        ("/request/base_url", json!("https://b.acme.example/v1")),
        ("/request/base_url", json!("https://api.acme.example/v2")),
        ("/request/base_url", json!("http://api.acme.example/v1")),
        ("/request/base_url", json!("https://api.acme.example:444/v1")),
        ("/auth/oauth2/token_url", json!("https://b.acme.example/t")),
        ("/auth/oauth2/authorize_url", json!("https://api.acme.example/b")),
        ("/auth/oauth2/revoke_url", json!("https://api.acme.example/r")),
        ("/auth/api_key/base_url", json!("https://b.acme.example")),
        ("/test/base_url", json!("https://b.acme.example")),
        ("/config/0/default_value", json!("api.acme.example")),
    ] {
        assert!(leads(pointer, value), "{pointer}");
    }
    for (pointer, value) in [
        ("/hosts", json!(["b.acme.example", "api.acme.example"])),
        ("/title", json!("New")),
        ("/actions/0/path", json!("/other/{params.id}")),
        ("/request/headers", json!({ "x": "y" })),
        ("/auth/oauth2/scopes", json!(["a"])),
        ("/config/0/description", json!("New.")),
    ] {
        assert!(!leads(pointer, value), "{pointer}");
    }
}

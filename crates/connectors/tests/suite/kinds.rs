//! The catalogue, in the exact shape of its reference.

use std::collections::BTreeSet;

use portico_connectors::{Kind, Manifest, builtins, endpoint, webhook_in};
use serde_json::{Value, json};

use crate::{read, with};

fn names(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn every_kind_has_every_field() {
    let kinds: Vec<Kind> =
        builtins().iter().map(Manifest::kind).chain([endpoint::kind(), webhook_in::kind()]).collect();
    for kind in kinds {
        let kind = serde_json::to_value(kind).unwrap();
        assert_eq!(
            names(&kind),
            BTreeSet::from([
                "name",
                "title",
                "description",
                "auth",
                "executors",
                "test_action",
                "config",
                "actions"
            ])
        );
        assert_eq!(kind["test_action"], "test");
        let agent = kind["name"] == "endpoint";
        assert_eq!(kind["executors"], if agent { json!(["cloud", "agent"]) } else { json!(["cloud"]) });
        let actions = kind["actions"].as_array().unwrap();
        for action in actions {
            assert_eq!(
                names(action),
                BTreeSet::from([
                    "name",
                    "description",
                    "class",
                    "executors",
                    "params",
                    "schema",
                    "reads_private",
                    "reads_untrusted",
                    "sends_out",
                ])
            );
            assert_eq!(action["executors"], kind["executors"]);
        }
        let fields = actions.iter().flat_map(|action| action["params"].as_array().unwrap());
        for field in fields.chain(kind["config"].as_array().unwrap()) {
            assert_eq!(
                names(field),
                BTreeSet::from([
                    "name",
                    "type",
                    "description",
                    "required",
                    "choices",
                    "default_value",
                    "min",
                    "max"
                ])
            );
            assert!(
                field["choices"].is_array() && field["min"].is_string() && field["required"].is_boolean(),
                "{field}"
            );
        }
    }
}

#[test]
fn the_kinds_without_a_manifest_say_what_they_are() {
    let (own, inbound) = (endpoint::kind(), webhook_in::kind());
    assert_eq!((own.name.as_str(), own.auth.as_str()), ("endpoint", "secret"));
    assert_eq!((inbound.name.as_str(), inbound.auth.as_str()), ("webhook-in", "signing_secret"));
    let labels = |kind: &Kind| -> Vec<_> {
        let label = |action: &portico_connectors::ActionDefinition| {
            (
                action.name.clone(),
                action.class.clone(),
                action.reads_private,
                action.reads_untrusted,
                action.sends_out,
            )
        };
        kind.actions.iter().map(label).collect()
    };
    let text = |text: &str| text.to_owned();
    assert_eq!(
        labels(&own),
        [
            (text("get"), text("read"), true, true, false),
            (text("send"), text("write_irreversible"), true, true, true),
        ]
    );
    assert_eq!(
        labels(&inbound),
        [
            (text("list_messages"), text("read"), true, true, false),
            (text("get_message"), text("read"), true, true, false),
        ]
    );
}

#[test]
fn a_field_of_a_configuration_is_shown_whole() {
    let source = with(
        "/config",
        json!([{ "name": "region", "type": "string", "choices": ["us"], "default_value": "us", "host": true }]),
    );
    let kind = serde_json::to_value(read(&source).kind()).unwrap();
    assert_eq!(
        kind["config"],
        json!([{
            "name": "region", "type": "string", "description": "", "required": false, "choices": ["us"],
            "default_value": "us", "min": "", "max": "",
        }])
    );
}

#[test]
fn an_inbound_webhook_has_one_field() {
    let check = |config: Value| webhook_in::check_config(&crate::strings(&config)).err().unwrap_or_default();
    assert!(
        check(json!({})).is_empty()
            && check(json!({ "scheme": "stripe" })).is_empty()
            && check(json!({ "scheme": "" })).is_empty()
    );
    assert_eq!(
        crate::paths(&check(json!({ "scheme": "Stripe", "nope": "" }))),
        ["config.nope", "config.scheme"]
    );
    assert_eq!(webhook_in::scheme(&crate::strings(&json!({}))), "standard");
    assert_eq!(webhook_in::scheme(&crate::strings(&json!({ "scheme": "github" }))), "github");
}

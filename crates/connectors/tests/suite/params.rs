//! Parameters of calls, and the schema that says the same.

use portico_connectors::{ActionSpec, Manifest, builtins, endpoint, webhook_in};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{object, paths, put, read, with};

/// An action with one parameter of each sort.
fn manifest() -> Manifest {
    let mut source = with("/actions/0/method", json!("POST"));
    put(&mut source, "/actions/0/path", json!("/x"));
    put(&mut source, "/actions/0/json", json!({}));
    put(
        &mut source,
        "/actions/0/params",
        json!([
            { "name": "s", "type": "string", "required": true, "min": "1", "max": "3" },
            { "name": "i", "type": "integer", "min": "-2", "max": "5" },
            { "name": "n", "type": "number", "min": "0.5" },
            { "name": "b", "type": "boolean" },
            { "name": "o", "type": "object" },
            { "name": "a", "type": "array", "min": "1", "max": "2" },
            { "name": "p", "type": "path", "max": "4" },
            { "name": "c", "type": "string", "choices": ["x", "y"] },
            { "name": "e", "type": "integer", "choices": ["1", "2"] },
            { "name": "d", "type": "integer", "default_value": "7", "required": true },
        ]),
    );
    read(&source)
}

#[test]
fn every_fault_names_its_parameter() {
    let manifest = manifest();
    let action = manifest.action("get_thing").unwrap();
    for (given, expected) in [
        (json!({}), "params.s"),
        (json!({ "s": null }), "params.s"),
        (json!({ "s": "" }), "params.s"),
        (json!({ "s": "äöüß" }), "params.s"),
        (
            json!({ "s": 1, "i": "1", "n": "1", "b": 0, "o": [], "a": {}, "p": 1 }),
            "params.s params.i params.n params.b params.o params.a params.p",
        ),
        (json!({ "s": "a", "i": 6 }), "params.i"),
        (json!({ "s": "a", "i": -3 }), "params.i"),
        (json!({ "s": "a", "i": 1.5 }), "params.i"),
        (json!({ "s": "a", "i": 1e300 }), "params.i"),
        (json!({ "s": "a", "n": 0.4 }), "params.n"),
        (json!({ "s": "a", "a": [] }), "params.a"),
        (json!({ "s": "a", "a": [1, 2, 3] }), "params.a"),
        (json!({ "s": "a", "p": "abcde" }), "params.p"),
        (json!({ "s": "a", "c": "z" }), "params.c"),
        (json!({ "s": "a", "e": 3 }), "params.e"),
        (json!({ "s": "a", "zz": 1, "S": 2 }), "params.S params.zz"),
    ] {
        let faults = action.check_params(&object(&given)).unwrap_err();
        assert_eq!(paths(&faults).join(" "), expected, "{given}");
    }
    let faults = action.check_params(&object(&json!({ "s": "a", "x".repeat(1000): 1 }))).unwrap_err();
    assert!(faults[0].path.len() < 100, "{faults:?}");
}

#[test]
fn what_is_given_stays_as_it_is_and_the_rest_has_its_default() {
    let manifest = manifest();
    let action = manifest.action("get_thing").unwrap();
    let given = json!({ "s": "äöü", "i": 5.0, "n": 1, "b": false, "o": { "x": null }, "a": [null], "c": "y", "e": 2.0, "p": null });
    let checked = action.check_params(&object(&given)).unwrap();
    assert_eq!(
        Value::Object(checked),
        json!({ "s": "äöü", "i": 5, "n": 1, "b": false, "o": { "x": null }, "a": [null], "c": "y", "e": 2, "d": 7 })
    );
}

#[test]
fn every_schema_is_closed_and_compiles() {
    let own = builtins().iter().flat_map(Manifest::actions).map(|action| action.definition());
    let others = endpoint::actions().iter().chain(webhook_in::actions()).map(ActionSpec::definition);
    let mut count = 0;
    for action in own.chain(others) {
        let schema: Value = serde_json::from_str(&action.schema).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
        assert!(jsonschema::draft202012::meta::is_valid(&schema), "{}", action.schema);
        jsonschema::draft202012::new(&schema).unwrap();
        count += 1;
    }
    assert_eq!(count, 45 + 4);
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(true)),
        (-4_i64..8).prop_map(Value::from),
        (-4.0_f64..8.0).prop_map(Value::from),
        Just(json!(2.0)),
        Just(json!(9_007_199_254_740_993_u64)),
        "[xyäa]{0,5}".prop_map(Value::from),
        prop::collection::vec(Just(json!(1)), 0..4).prop_map(Value::from),
        Just(json!({})),
        Just(json!({ "x": [1] })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn parameters_are_taken_where_the_schema_takes_them(
        given in prop::collection::btree_map("[sinboapcedz]", value(), 0..6),
        complete in any::<bool>(),
    ) {
        let manifest = manifest();
        let action = manifest.action("get_thing").unwrap();
        let mut given: Map<String, Value> = given.into_iter().collect();
        if complete {
            given.insert("s".to_owned(), json!("a"));
        }
        let schema = action.schema();
        let expected = jsonschema::draft202012::is_valid(&schema, &Value::Object(given.clone()));
        let found = action.check_params(&given);
        prop_assert_eq!(found.is_ok(), expected, "{:?} {:?}", given, found);
    }
}

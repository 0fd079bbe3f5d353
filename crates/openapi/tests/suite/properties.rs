//! What holds for any schema and any value: our own composition agrees with JSON Schema wherever nothing is closed.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::closed::{both_ways, published};
use crate::{check, document, read};

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({ "type": "integer", "minimum": 2 })),
        Just(json!({ "type": ["string", "null"], "maxLength": 1 })),
        Just(json!({ "enum": [1, "a", null] })),
        Just(json!({ "required": ["a"] })),
        Just(json!({ "$ref": "#/components/schemas/Again" })),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 24, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..3);
        let named = prop::collection::btree_map("[ab]", inner.clone(), 0..3);
        let object = |named: std::collections::BTreeMap<String, Value>| Value::Object(named.into_iter().collect::<Map<_, _>>());
        prop_oneof![
            list.clone().prop_map(|all| json!({ "allOf": all })),
            list.clone().prop_map(|any| json!({ "anyOf": any })),
            list.clone().prop_map(|one| json!({ "oneOf": one })),
            inner.clone().prop_map(|not| json!({ "not": not })),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(i, t, e)| json!({ "if": i, "then": t, "else": e })),
            named.clone().prop_map(move |named| json!({ "properties": object(named) })),
            (named.clone(), inner.clone()).prop_map(move |(named, rest)| json!({ "properties": object(named), "additionalProperties": rest })),
            (list.clone(), named.clone()).prop_map(move |(all, named)| json!({ "allOf": all, "properties": object(named), "unevaluatedProperties": false })),
            named.prop_map(move |named| json!({ "dependentSchemas": object(named) })),
            inner.clone().prop_map(|items| json!({ "items": items })),
            (list.clone(), inner.clone()).prop_map(|(prefix, items)| json!({ "prefixItems": prefix, "items": items })),
            list.prop_map(|prefix| json!({ "allOf": [{ "prefixItems": prefix }], "unevaluatedItems": false })),
            inner.clone().prop_map(|contains| json!({ "contains": contains, "maxContains": 1 })),
            inner.prop_map(|names| json!({ "propertyNames": names })),
        ]
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(1)),
        Just(json!(3)),
        Just(json!("a")),
        Just(json!("bb")),
        Just(json!(true))
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..3)
                .prop_map(|named| Value::Object(named.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn an_event_fits_where_json_schema_says_so(schema in schema(), value in value()) {
        let again = json!({ "type": ["object", "integer"], "properties": { "a": { "$ref": "#/components/schemas/Again" } }, "required": ["b"] });
        let mut text = document("get", &json!({}), &json!({ "Again": again }));
        text["webhooks"] = json!({ "thing.made": { "post": { "requestBody": { "content": { "application/json": { "schema": schema } } } } } });
        let things = read(&text);
        let event = &things.events[0];
        let expected = jsonschema::draft202012::is_valid(&event.schema, &value);
        let found = event.check(&value);
        prop_assert_eq!(found.is_ok(), expected, "{} {} {:?}", event.schema, value, found);
        // Whoever says that something is wrong says what.
        prop_assert!(found.is_ok() || !found.unwrap_err().is_empty());
    }

    #[test]
    fn no_text_makes_a_check_fail_by_itself(text in "[\\[\\]{}\",:0-9a\\\\ ]{0,40}", schema in schema()) {
        let body = json!({ "content": { "application/json": { "schema": schema } } });
        let again = json!({ "Again": { "type": "object" } });
        let things = read(&document("post", &json!({ "requestBody": body }), &again));
        let result = things.operations[0].body.as_ref().unwrap().check(Some("application/json"), text.as_bytes());
        prop_assert!(result.is_ok() || result.unwrap_err().iter().all(|error| !error.description.is_empty()));
    }

    #[test]
    fn no_text_makes_reading_fail_by_itself(text in "(openapi: 3\\.1\\.0\n)?[ a-z:&*\\[\\]{}\\-\n\"]{0,60}") {
        prop_assert!(portico_openapi::Document::read(text.as_bytes(), "x").is_err());
    }

    #[test]
    fn the_published_schema_of_a_request_refuses_nothing_that_the_check_takes(schema in schema(), value in value(), is_shared in any::<bool>()) {
        // How choices are taken is seen elsewhere: there, the check takes more than JSON Schema by itself.
        let text = schema.to_string();
        prop_assume!(!text.contains("anyOf") && !text.contains("oneOf"));
        let again = json!({ "Again": { "type": ["object", "integer"], "properties": { "a": { "$ref": "#/components/schemas/Again" } } } });
        let answer = if is_shared { json!({ "$ref": "#/components/schemas/Again" }) } else { json!(true) };
        let things = read(&both_ways(&schema, &answer, &again));
        let (open, closed) = (published(&things, false), published(&things, true));
        let takes = jsonschema::draft202012::is_valid(&open, &value) && check(&things, &value).is_empty();
        prop_assert!(!takes || jsonschema::draft202012::is_valid(&closed, &value), "{} {}", closed, value);
        // Nor does it take more than before.
        prop_assert!(jsonschema::draft202012::is_valid(&open, &value) || !jsonschema::draft202012::is_valid(&closed, &value), "{} {}", closed, value);
    }
}

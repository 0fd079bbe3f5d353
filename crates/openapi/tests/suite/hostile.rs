//! Documents and requests that want to take long: each ends by a bound, which is what the tests look at.

use serde_json::{Value, json};

use crate::{check, check_query, check_text, document, fine, posting, read, refused_text};

#[test]
fn a_body_nests_so_deep_and_no_deeper() {
    let things = read(&posting(&json!({}), &json!({})));
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(check_text(&things, &nested(100)), fine());
    assert_eq!(check_text(&things, &nested(101)), ["body nests deeper than 100 levels"]);
    assert!(check_text(&things, &nested(1_000_000))[0].starts_with("body "));
}

#[test]
fn a_body_holds_so_many_values_and_no_more() {
    let things = read(&posting(&json!({}), &json!({})));
    let list = |items: usize| format!("[{}0]", "0,".repeat(items - 1));
    assert_eq!(check_text(&things, &list(99_999)), fine());
    assert_eq!(check_text(&things, &list(100_000)), ["body holds more than 100000 values, the maximum"]);
}

#[test]
fn a_refusal_lists_so_many_errors_and_repeats_no_long_text() {
    let things = read(&posting(&json!({ "type": "array", "items": { "type": "integer" } }), &json!({})));
    let errors = check(&things, &Value::from(vec!["x"; 50_000]));
    assert_eq!(errors.len(), portico_openapi::ERRORS_MAX);
    let errors = check(&things, &json!(["x".repeat(1 << 20)]));
    assert_eq!(errors, ["body[0] must be a whole number, not a string"]);
    let things = read(&posting(&json!({ "type": "object", "properties": {} }), &json!({})));
    let errors = check(&things, &json!({ "x".repeat(1 << 20): 1 }));
    assert!(errors[0].len() < 200, "{}", errors[0].len());
}

#[test]
fn patterns_take_linear_time() {
    let things = read(&posting(
        &json!({ "type": "object", "properties": { "x": { "pattern": "^(a+)+$" } } }),
        &json!({}),
    ));
    assert_eq!(
        check(&things, &json!({ "x": format!("{}b", "a".repeat(1 << 20)) })),
        ["x must match ^(a+)+$"]
    );
    let large = posting(&json!({ "pattern": "((a{0,500}){0,500}){0,500}" }), &json!({}));
    assert!(crate::refused(&large)[0].1.contains("too large"));
}

/// Choices within choices: whoever asks each of them at each level asks without end.
#[test]
fn choices_within_choices_do_not_multiply() {
    let branch = |operator: &str| {
        json!({ "type": "object", "required": ["aa", "op"], "properties": {
        "aa": { "$ref": "#/components/schemas/Term" }, "op": { "const": operator },
    } })
    };
    let schemas = json!({ "Term": { "oneOf": [branch("and"), branch("or"), branch("not"), branch("xor"), { "type": "integer" }] } });
    let things = read(&posting(
        &json!({ "type": "object", "properties": { "x": { "$ref": "#/components/schemas/Term" } } }),
        &schemas,
    ));
    let nested = |levels: usize, inner: Value, operator: &str| {
        (0..levels).fold(inner, |inner, _| json!({ "aa": inner, "op": operator }))
    };
    assert_eq!(check(&things, &json!({ "x": nested(90, json!(1), "xor") })), fine());
    let wrong = check(&things, &json!({ "x": nested(90, json!("end"), "xor") }));
    assert_eq!(wrong.len(), 1);
    assert!(
        wrong[0].starts_with("x.aa.aa.")
            && wrong[0].ends_with("must be an object or a whole number, not \"end\""),
        "{wrong:?}"
    );
}

#[test]
fn work_is_counted_and_ends() {
    let choices: Vec<Value> = (0..400).map(|number| json!({ "required": [format!("f{number}")] })).collect();
    let things = read(&posting(&json!({ "type": "array", "items": { "anyOf": choices } }), &json!({})));
    assert_eq!(
        check(&things, &Value::from(vec![json!({ "f399": 1 }); 20_000])),
        ["body is too complicated to be checked"]
    );
}

#[test]
fn a_query_has_so_many_names_and_nests_so_deep() {
    let schema = json!({ "name": "f", "in": "query", "style": "deepObject", "schema": { "type": "object" } });
    let things = read(&document("get", &json!({ "parameters": [schema] }), &json!({})));
    let deep = format!("f{}", "[a]".repeat(9));
    assert_eq!(check_query(&things, &[(&deep, "1")]), [format!("{deep} nests deeper than 8 levels")]);
    let many: Vec<_> = (0..2_000).map(|number| format!("x{number}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "1")).collect();
    assert_eq!(check_query(&things, &many), ["query has more than 1000 names"]);
}

#[test]
fn a_document_nests_so_deep_and_no_deeper() {
    let deep = format!("{{\"openapi\": \"3.1.0\", \"x\": {}1{}}}", "[".repeat(1_000), "]".repeat(1_000));
    assert!(refused_text(&deep)[0].1.contains("nests deeper"), "{:?}", refused_text(&deep));
    let deep = format!("openapi: 3.1.0\nx: {}1{}\n", "[".repeat(1_000), "]".repeat(1_000));
    assert!(refused_text(&deep)[0].1.contains("YAML"), "{:?}", refused_text(&deep));
}

#[test]
fn aliases_stand_for_little() {
    let level = |level: usize| {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        format!("a{level}: &a{level} [{inner}]\n")
    };
    let levels: String = (1..12).map(level).collect();
    let bomb = format!("openapi: 3.1.0\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{levels}");
    assert!(refused_text(&bomb)[0].1.contains("YAML"), "{:?}", refused_text(&bomb));
}

/// Ten references at each of eight levels: whoever follows each of them follows a hundred million.
#[test]
fn references_are_followed_once() {
    let mut schemas = json!({ "S8": { "type": "object", "properties": { "x": { "type": "integer" } } } });
    for level in 1..8 {
        let inner = json!({ "$ref": format!("#/components/schemas/S{}", level + 1) });
        let named: serde_json::Map<_, _> =
            (0..10).map(|number| (format!("f{number}"), inner.clone())).collect();
        schemas[format!("S{level}")] =
            json!({ "type": "object", "properties": named, "allOf": vec![inner; 10] });
    }
    let things = read(&posting(&json!({ "$ref": "#/components/schemas/S1" }), &schemas));
    assert_eq!(
        check(&things, &json!({ "f0": { "f9": { "x": "1" } } })),
        ["f0.f9.x must be a whole number, not \"1\""]
    );
    assert!(things.operations[0].input_schema().unwrap().to_string().len() < 100_000);
}

/// Schemas within schemas, at every level of a value: whoever follows them all needs a stack without end.
#[test]
fn checks_go_so_deep_and_no_deeper() {
    let inner = json!({ "type": "array", "items": { "$ref": "#/components/schemas/Again" } });
    let deep = (0..40).fold(inner, |inner, _| json!({ "anyOf": [inner] }));
    let things = read(&posting(&json!({ "$ref": "#/components/schemas/Again" }), &json!({ "Again": deep })));
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(check_text(&things, &nested(5)), fine());
    assert_eq!(check_text(&things, &nested(100)), ["body is too complicated to be checked"]);
}

/// A choice that is none of many forms, each of them many forms again.
#[test]
fn looking_for_what_is_meant_ends() {
    let choices = |inner: &str| json!({ "anyOf": vec![json!({ "$ref": format!("#/components/schemas/{inner}") }); 30] });
    let mut schemas = json!({ "S7": { "type": "object", "required": ["x"] } });
    for level in 1..7 {
        schemas[format!("S{level}")] = choices(&format!("S{}", level + 1));
    }
    let things = read(&posting(&choices("S1"), &schemas));
    assert_eq!(check(&things, &json!({})), ["body fits none of the 30 forms that it may have"]);
}

//! Paths, queries, headers and bodies as they come over HTTP.

use portico_openapi::{BodyRule, Document};
use serde_json::{Map, Value, json};

use crate::{check, check_query, check_text, document, fine, posting, read, said};

fn getting(parameters: &Value) -> Document {
    read(&document(
        "get",
        &json!({ "parameters": parameters }),
        &json!({
            "Size": { "type": "integer", "minimum": 1, "maximum": 50 },
            "Range": { "type": "object", "properties": { "min": { "type": "number" }, "max": { "type": "number" } } },
        }),
    ))
}

fn query(name: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "query", "schema": schema })
}

#[test]
fn texts_become_what_their_schemas_mean() {
    let things = getting(&json!([
        query("size", &json!({ "$ref": "#/components/schemas/Size" })),
        query("share", &json!({ "type": "number" })),
        query("all", &json!({ "type": "boolean" })),
        query("word", &json!({ "type": "string", "maxLength": 3 })),
        query("either", &json!({ "anyOf": [{ "type": "integer" }, { "const": "all" }] })),
        query("kind", &json!({ "type": "string", "enum": ["a", "b"] })),
    ]));
    let good = [
        ("size", "50"),
        ("share", "1.5e3"),
        ("all", "false"),
        ("word", "123"),
        ("either", "all"),
        ("kind", "b"),
    ];
    assert_eq!(check_query(&things, &good), fine());
    assert_eq!(check_query(&things, &[("either", "7")]), fine());
    for (name, value, expected) in [
        ("size", "51", "size must be at most 50"),
        ("size", "0", "size must be at least 1"),
        ("size", "1.5", "size must be a whole number, not 1.5"),
        ("size", "+1", "size must be a whole number, not \"+1\""),
        ("size", "01", "size must be a whole number, not \"01\""),
        ("size", "", "size must be a whole number, not \"\""),
        ("share", "many", "share must be a number, not \"many\""),
        ("all", "yes", "all must be true or false, not \"yes\""),
        ("word", "1234", "word must have at most 3 characters"),
        ("kind", "c", "kind must be one of `a`, `b`, not \"c\""),
        (
            "colour",
            "red",
            "colour is not known here; known are `all`, `either`, `kind`, `share`, `size`, `word`",
        ),
    ] {
        assert_eq!(check_query(&things, &[(name, value)]), [expected]);
    }
    assert_eq!(check_query(&things, &[("size", "1"), ("size", "2")]), ["size is given more than once"]);
}

#[test]
fn lists_are_repeated_or_joined() {
    let list = json!({ "type": "array", "maxItems": 2, "items": { "type": "integer" } });
    let mut joined = query("joined", &list);
    joined["explode"] = json!(false);
    let mut piped = query("piped", &list);
    piped["style"] = json!("pipeDelimited");
    piped["explode"] = json!(false);
    let things = getting(&json!([query("id", &list), joined, piped]));
    assert_eq!(
        check_query(&things, &[("id", "1"), ("id", "2"), ("joined", "1,2"), ("piped", "1|2")]),
        fine()
    );
    assert_eq!(check_query(&things, &[("id", "1")]), fine());
    assert_eq!(
        check_query(&things, &[("id", "1"), ("id", "x")]),
        ["id[1] must be a whole number, not \"x\""]
    );
    assert_eq!(check_query(&things, &[("joined", "1,2,3")]), ["joined must have at most 2 items"]);
}

#[test]
fn objects_stand_in_brackets_or_as_names_of_their_own() {
    let range = json!({ "$ref": "#/components/schemas/Range" });
    let mut price = query("price", &range);
    price["style"] = json!("deepObject");
    let things = getting(&json!([price]));
    assert_eq!(check_query(&things, &[("price[min]", "1"), ("price[max]", "2.5")]), fine());
    assert_eq!(check_query(&things, &[("price[min]", "x")]), ["price[min] must be a number, not \"x\""]);
    assert_eq!(
        check_query(&things, &[("price[mean]", "1")]),
        ["price[mean] is not known here; known are `max`, `min`"]
    );
    assert_eq!(
        check_query(&things, &[("price[min]", "1"), ("price[min]", "2")]),
        ["price[min] is given more than once"]
    );
    assert_eq!(check_query(&things, &[("price[min", "1")]), ["price[min has brackets that do not match"]);
    assert_eq!(check_query(&things, &[("price", "1")]), ["price is not known here; known are `price`"]);
    let things = getting(&json!([query("range", &range)]));
    assert_eq!(check_query(&things, &[("min", "1")]), fine());
    assert_eq!(check_query(&things, &[("min", "x")]), ["min must be a number, not \"x\""]);
    assert_eq!(check_query(&things, &[("range", "1")]), ["range is not known here; known are `max`, `min`"]);
}

#[test]
fn brackets_hold_lists_and_what_nests() {
    let schema = json!({ "type": "object", "properties": {
        "tags": { "type": "array", "items": { "type": "string", "maxLength": 2 } },
        "owner": { "type": "object", "properties": { "age": { "type": "integer" } } },
    } });
    let mut filter = query("filter", &schema);
    filter["style"] = json!("deepObject");
    let things = getting(&json!([filter]));
    assert_eq!(
        check_query(
            &things,
            &[("filter[tags][]", "a"), ("filter[tags][]", "b"), ("filter[owner][age]", "3")]
        ),
        fine()
    );
    assert_eq!(
        check_query(
            &things,
            &[("filter[tags][0]", "a"), ("filter[tags][10]", "abc"), ("filter[tags][2]", "b")]
        ),
        ["filter[tags][2] must have at most 2 characters"]
    );
    assert_eq!(
        check_query(&things, &[("filter[owner][age]", "x")]),
        ["filter[owner][age] must be a whole number, not \"x\""]
    );
}

#[test]
fn a_parameter_may_be_json() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    let things = getting(
        &json!([{ "name": "where", "in": "query", "content": { "application/json": { "schema": schema } } }]),
    );
    assert_eq!(check_query(&things, &[("where", "{\"a\": 1}")]), fine());
    assert_eq!(
        check_query(&things, &[("where", "{\"a\": \"x\"}")]),
        ["where.a must be a whole number, not \"x\""]
    );
    assert_eq!(check_query(&things, &[("where", "{")]), ["where does not parse as JSON"]);
}

#[test]
fn paths_and_headers_are_checked_by_the_names_that_they_have() {
    let operation = json!({ "operationId": "getThing", "security": [], "responses": {}, "parameters": [
        { "name": "id", "in": "path", "required": true, "schema": { "type": "string", "pattern": "^in_[0-9]+$" } },
        { "name": "If-Match", "in": "header", "required": true, "schema": { "type": "string" } },
        { "name": "X-Sizes", "in": "header", "schema": { "type": "array", "items": { "type": "integer" } } },
        { "name": "Authorization", "in": "header", "required": true, "schema": { "type": "string" } },
    ] });
    let mut text = document("get", &json!({}), &json!({}));
    text["paths"] = json!({ "/v1/things/{id}": { "get": operation } });
    let things = read(&text);
    let head = |id: &str, headers: &[(&str, &str)]| {
        let header = |name: &str| {
            headers.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        };
        said(things.operations[0].check_head(&[("id".to_owned(), id.to_owned())], &[], &header))
    };
    assert_eq!(head("in_1", &[("if-match", "\"1\""), ("x-sizes", "1, 2")]), fine());
    assert_eq!(head("nope", &[("if-match", "x")]), ["id must match ^in_[0-9]+$"]);
    for dots in ["", ".", "..", "..;", ".;a=b"] {
        assert_eq!(head(dots, &[("if-match", "x")]), ["id must be neither empty nor dots alone"], "{dots}");
    }
    for way in ["../a", "a/..", "a/b", "a\\b", "a/..;b/c"] {
        let refused = ["id must hold no slash: a service may take it for another path"];
        assert_eq!(head(way, &[("if-match", "x")]), refused, "{way}");
    }
    assert_eq!(head("in_1", &[]), ["If-Match is required"]);
    assert_eq!(
        head("in_1", &[("if-match", "x"), ("x-sizes", "1,x")]),
        ["X-Sizes[1] must be a whole number, not \"x\""]
    );
}

#[test]
fn a_required_parameter_must_be_there() {
    let mut size = query("size", &json!({ "type": "integer" }));
    size["required"] = json!(true);
    let things = getting(&json!([size]));
    assert_eq!(check_query(&things, &[]), ["size is required"]);
    let things = getting(
        &json!([{ "name": "all", "in": "query", "allowEmptyValue": true, "schema": { "type": "boolean" } }]),
    );
    assert_eq!(check_query(&things, &[("all", "")]), fine());
}

#[test]
fn a_body_is_checked_passed_or_refused_by_its_type() {
    let content = json!({ "application/json": { "schema": { "type": "object" } }, "multipart/form-data": {}, "image/*": {} });
    let things = read(&document("post", &json!({ "requestBody": { "content": content } }), &json!({})));
    let body = things.operations[0].body.as_ref().unwrap();
    for (kind, rule) in [
        (Some("application/json"), BodyRule::Check),
        (Some("Application/JSON; charset=utf-8"), BodyRule::Check),
        (Some("multipart/form-data; boundary=x"), BodyRule::Pass),
        (Some("image/png"), BodyRule::Pass),
        (Some("text/plain"), BodyRule::Unsupported),
        (Some("application/xml"), BodyRule::Unsupported),
        (None, BodyRule::Unsupported),
    ] {
        assert_eq!(body.rule(kind), rule, "{kind:?}");
    }
    assert!(read(&document("post", &json!({}), &json!({}))).operations[0].body.is_none());
    let anything =
        read(&document("post", &json!({ "requestBody": { "content": { "*/*": {} } } }), &json!({})));
    assert_eq!(anything.operations[0].body.as_ref().unwrap().rule(None), BodyRule::Pass);
}

#[test]
fn json_is_read_strictly() {
    let things = read(&posting(&json!({}), &json!({})));
    assert_eq!(check(&things, &json!({ "anything": [1, "x", null] })), fine());
    assert_eq!(check_text(&things, ""), ["body is required"]);
    assert!(check_text(&things, "{\"a\":")[0].starts_with("body does not parse as JSON: EOF while parsing"));
    assert!(check_text(&things, "1 2")[0].starts_with("body does not parse as JSON: trailing"));
    assert_eq!(check_text(&things, "{\"a\": {\"b\": 1, \"b\": 2}}"), ["a.b is given more than once"]);
    assert_eq!(check_text(&things, "[{\"a\": 1, \"a\": 1}]"), ["body[0].a is given more than once"]);
    assert!(check_text(&things, "\u{feff}{}")[0].starts_with("body does not parse"));
}

#[test]
fn what_one_value_came_to_says_nothing_about_the_next() {
    let no_evil =
        json!({ "type": "array", "items": { "type": "string" }, "not": { "contains": { "const": "evil" } } });
    let things = getting(&json!([query("a", &no_evil), query("b", &no_evil)]));
    assert_eq!(check_query(&things, &[("a", "ok"), ("b", "fine")]), fine());
    assert_ne!(check_query(&things, &[("b", "evil")]), fine());
    assert_ne!(check_query(&things, &[("a", "ok"), ("b", "evil")]), fine());
}

#[test]
fn a_number_in_a_path_may_be_said_as_text_or_number() {
    let operation = json!({ "operationId": "getThing", "security": [], "responses": {}, "parameters": [
        { "name": "n", "in": "path", "required": true, "schema": { "type": "integer" } },
    ] });
    let mut text = document("get", &json!({}), &json!({}));
    text["paths"] = json!({ "/v1/things/{n}": { "get": operation } });
    let things = read(&text);
    let request = |n: Value| {
        let fields = Map::from_iter([("n".to_owned(), n)]);
        things.operations[0].request(fields).map(|made| made.path_and_query)
    };
    assert_eq!(request(json!(5)).unwrap(), "/v1/things/5");
    assert_eq!(request(json!("5")).unwrap(), "/v1/things/5");
    assert!(request(json!("five")).is_err());
}

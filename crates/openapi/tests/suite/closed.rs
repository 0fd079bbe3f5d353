//! What the platform's document says of requests that are checked: no more than what the check lets through.

use std::collections::BTreeSet;

use portico_openapi::{Document, Errors, Mount, Operation};
use serde_json::{Value, json};

use crate::{check, document, fine, posting, read};

/// The platform's document with this service in it, and nothing else.
fn merged_as(document: &Document, checks_requests: bool, keeps: &dyn Fn(&Operation) -> bool) -> Value {
    let mut platform = json!({ "openapi": "3.1.0", "components": { "schemas": {} } });
    let taken = BTreeSet::new();
    let mount = Mount { service: "things", errors: Errors::Envelope, checks_requests, taken: &taken, keeps };
    document.merge_into(&mut platform, &mount);
    platform
}

fn merged(document: &Value) -> Value {
    merged_as(&read(document), true, &|_| true)
}

/// The published schema of the body of the operation at `/v1/things`.
fn body(merged: &Value) -> &Value {
    &merged["paths"]["/v1/things"]["post"]["requestBody"]["content"]["application/json"]["schema"]
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn object(fields: &Value) -> Value {
    json!({ "type": "object", "properties": fields })
}

/// The same schema, closed.
fn closed(schema: &Value) -> Value {
    let mut schema = schema.clone();
    schema["unevaluatedProperties"] = json!(false);
    schema
}

/// An operation that takes the one schema and answers with the other.
pub(crate) fn both_ways(request: &Value, answer: &Value, schemas: &Value) -> Value {
    let content = |schema: &Value| json!({ "application/json": { "schema": schema } });
    let operation = json!({
        "requestBody": { "content": content(request) },
        "responses": { "200": { "description": "Done.", "content": content(answer) } },
    });
    document("post", &operation, schemas)
}

#[test]
fn each_object_of_a_body_is_closed_where_it_stands() {
    let line = object(&json!({ "qty": { "type": "integer" } }));
    let schema = json!({
        "type": "object",
        "properties": {
            "line": line,
            "lines": { "type": "array", "prefixItems": [line], "items": line },
            "free": { "type": "object" },
            "empty": { "type": "object", "properties": {} },
            "labels": { "type": "object", "additionalProperties": { "type": "string" } },
            "by_name": { "type": "object", "additionalProperties": line },
            "open": { "type": "object", "properties": { "a": {} }, "additionalProperties": true },
            "own": { "type": "object", "properties": { "a": {} }, "unevaluatedProperties": true },
            "patterns": { "type": "object", "properties": { "a": {} }, "patternProperties": { "^x-": line } },
            "patterns_alone": { "type": "object", "patternProperties": { "^x-": {} } },
        },
    });
    let merged = merged(&posting(&schema, &json!({})));
    let published = body(&merged);
    assert_eq!(published["unevaluatedProperties"], false);
    let fields = &published["properties"];
    assert_eq!(fields["line"], closed(&line));
    assert_eq!(fields["lines"]["prefixItems"], json!([closed(&line)]));
    assert_eq!(fields["lines"]["items"], closed(&line));
    assert_eq!(fields["empty"], closed(&schema["properties"]["empty"]));
    assert_eq!(fields["by_name"], json!({ "type": "object", "additionalProperties": closed(&line) }));
    for same in ["free", "labels", "open", "own", "patterns_alone"] {
        assert_eq!(fields[same], schema["properties"][same], "{same}");
    }
    assert_eq!(fields["patterns"]["unevaluatedProperties"], false);
    assert_eq!(fields["patterns"]["patternProperties"]["^x-"], closed(&line));
}

#[test]
fn a_service_whose_requests_are_not_checked_is_told_as_it_is() {
    let schema = object(&json!({ "a": { "type": "string" } }));
    let text = posting(&reference("Item"), &json!({ "Item": schema }));
    let merged = merged_as(&read(&text), false, &|_| true);
    assert_eq!(*body(&merged), reference("Item"));
    assert_eq!(merged["components"]["schemas"]["Item"], schema);
}

#[test]
fn bodies_that_pass_unchecked_and_parameters_stay_open() {
    let schema = object(&json!({ "a": { "type": "string" } }));
    let mut text = posting(&reference("Item"), &json!({ "Item": schema, "Form": schema, "Filter": schema }));
    let operation = &mut text["paths"]["/v1/things"]["post"];
    operation["requestBody"]["content"]["multipart/form-data"] = json!({ "schema": reference("Form") });
    operation["parameters"] = json!([
        { "name": "filter", "in": "query", "content": { "application/json": { "schema": reference("Filter") } } },
    ]);
    let merged = merged(&text);
    let schemas = &merged["components"]["schemas"];
    assert_eq!((&schemas["Form"], &schemas["Filter"]), (&schema, &schema));
    assert_eq!(schemas["Item"], closed(&schema));
}

#[test]
fn schemas_of_requests_alone_are_closed_in_place_and_others_in_a_copy() {
    let part = object(&json!({ "size": { "type": "integer" } }));
    let item = object(&json!({ "part": reference("Part"), "box": object(&json!({ "w": {} })) }));
    let order = object(&json!({ "item": reference("Item") }));
    let schemas = json!({ "Part": part, "Item": item, "Order": order });
    let merged = merged(&both_ways(&reference("Order"), &reference("Item"), &schemas));
    let published = &merged["components"]["schemas"];
    assert_eq!(*body(&merged), reference("Order"));
    assert_eq!(published["Order"], closed(&object(&json!({ "item": closed(&reference("ItemRequest")) }))));
    assert_eq!(
        published["ItemRequest"],
        object(&json!({ "part": closed(&reference("Part")), "box": closed(&object(&json!({ "w": {} }))) }))
    );
    assert_eq!((&published["Item"], &published["Part"]), (&item, &part));
}

#[test]
fn no_copy_is_made_of_what_is_closed_at_its_top_alone() {
    let item = object(&json!({ "a": { "type": "string" }, "free": { "type": "object" } }));
    let merged = merged(&both_ways(&reference("Item"), &reference("Item"), &json!({ "Item": item })));
    assert_eq!(*body(&merged), closed(&reference("Item")));
    assert_eq!(merged["components"]["schemas"], json!({ "Item": item }));
}

#[test]
fn copies_have_names_that_nothing_else_has_and_the_same_in_every_cut() {
    let nested = |name: &str| object(&json!({ name: object(&json!({ "b": {} })) }));
    let schemas =
        json!({ "Item": nested("a"), "ItemRequest": nested("c"), "ItemRequest_2": { "type": "string" } });
    let mut text = both_ways(&reference("Item"), &reference("Item"), &schemas);
    let mut other = text["paths"]["/v1/things"]["post"].clone();
    other["operationId"] = json!("other");
    other["requestBody"]["content"]["application/json"]["schema"] = reference("ItemRequest");
    other["responses"] = json!({ "200": { "description": "Done." } });
    text["paths"]["/v1/others"] = json!({ "post": other });
    let things = read(&text);
    let all = merged_as(&things, true, &|_| true);
    assert_eq!(*body(&all), closed(&reference("ItemRequest_3")));
    let cut = merged_as(&things, true, &|operation| operation.id == "doThings");
    assert_eq!(body(&cut), body(&all));
    let names: Vec<_> = cut["components"]["schemas"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["Item", "ItemRequest_3"]);
    assert!(things.schema_names(true).any(|name| name == "ItemRequest_3"));
    assert!(!things.schema_names(false).any(|name| name == "ItemRequest_3"));
    // What the platform uses itself gets the name of the service in front, as ever.
    let mut platform = json!({});
    let taken = BTreeSet::from(["ItemRequest_3".to_owned()]);
    let mount = Mount {
        service: "things",
        errors: Errors::Envelope,
        checks_requests: true,
        taken: &taken,
        keeps: &|_| true,
    };
    things.merge_into(&mut platform, &mount);
    assert_eq!(*body(&platform), closed(&reference("things.ItemRequest_3")));
}

#[test]
fn a_composition_is_closed_around_its_parts() {
    let base = object(&json!({ "id": { "type": "string" } }));
    let part = object(&json!({ "total": { "type": "integer" } }));
    let all = json!({ "allOf": [reference("Base"), part] });
    let schema = object(&json!({ "all": all, "base": reference("Base") }));
    let merged = merged(&posting(&schema, &json!({ "Base": base })));
    let fields = &body(&merged)["properties"];
    assert_eq!(fields["all"], closed(&all));
    // Within the other value, a closed `Base` would refuse `total`.
    assert_eq!(fields["base"], closed(&reference("Base")));
    assert_eq!(merged["components"]["schemas"]["Base"], base);
}

#[test]
fn a_choice_that_stands_alone_has_closed_forms() {
    let card = object(&json!({ "number": { "type": "string" } }));
    let bank = object(&json!({ "iban": { "type": "string" } }));
    let (one, any) = (reference("Card"), reference("Bank"));
    let beside = json!({ "properties": { "kind": {} }, "oneOf": [bank] });
    let schema = object(&json!({
        "one": { "oneOf": [one, card] },
        "any": { "anyOf": [any, card] },
        "maybe": { "anyOf": [any, { "type": "null" }] },
        "beside": beside,
    }));
    let merged = merged(&posting(&schema, &json!({ "Card": card, "Bank": bank })));
    let fields = &body(&merged)["properties"];
    assert_eq!(fields["one"], json!({ "oneOf": [one, closed(&card)] }));
    assert_eq!(merged["components"]["schemas"]["Card"], closed(&card));
    assert_eq!(fields["any"], closed(&json!({ "anyOf": [any, card] })));
    assert_eq!(fields["maybe"], json!({ "anyOf": [closed(&any), { "type": "null" }] }));
    assert_eq!(fields["beside"], closed(&beside));
}

#[test]
fn a_discriminator_names_the_copies_by_what_they_were_called() {
    let inner = object(&json!({ "b": {} }));
    let pet = |kind: &str| object(&json!({ "kind": { "const": kind }, kind: inner }));
    let pets = json!({
        "oneOf": [reference("Cat"), reference("Dog")],
        "discriminator": { "propertyName": "kind", "mapping": { "dog": "Dog" } },
    });
    let schemas = json!({ "Pet": pets, "Cat": pet("Cat"), "Dog": pet("dog") });
    let merged = merged(&both_ways(&reference("Pet"), &reference("Pet"), &schemas));
    let published = &merged["components"]["schemas"];
    assert_eq!(*body(&merged), reference("PetRequest"));
    assert_eq!(
        published["PetRequest"]["discriminator"]["mapping"],
        json!({ "Cat": "#/components/schemas/CatRequest", "dog": "#/components/schemas/DogRequest" })
    );
    assert_eq!(published["PetRequest"]["oneOf"][0], closed(&reference("CatRequest")));
    assert_eq!(published["Cat"], pet("Cat"));
    assert_eq!(published["Pet"]["oneOf"], pets["oneOf"]);
}

#[test]
fn recursion_ends() {
    let tree = object(&json!({ "name": {}, "children": { "type": "array", "items": reference("Tree") } }));
    let closed_tree = merged(&posting(&reference("Tree"), &json!({ "Tree": tree })));
    assert_eq!(closed_tree["components"]["schemas"], json!({ "Tree": closed(&tree) }));
    let shared = merged(&both_ways(&reference("Tree"), &reference("Tree"), &json!({ "Tree": tree })));
    assert_eq!(*body(&shared), closed(&reference("TreeRequest")));
    assert_eq!(
        shared["components"]["schemas"]["TreeRequest"]["properties"]["children"]["items"],
        closed(&reference("TreeRequest"))
    );
    assert_eq!(shared["components"]["schemas"]["Tree"], tree);
}

#[test]
fn what_is_asked_of_a_value_stays_as_it_is() {
    let inner = object(&json!({ "b": { "type": "integer" } }));
    let schema = json!({
        "type": "object",
        "properties": { "a": {}, "list": { "type": "array", "contains": reference("Inner"), "items": inner } },
        "not": { "required": ["a"], "properties": { "a": inner } },
        "if": { "properties": { "a": inner } },
        "then": { "properties": { "more": inner } },
    });
    let merged = merged(&posting(&schema, &json!({ "Inner": inner })));
    let published = body(&merged);
    assert_eq!((&published["not"], &published["if"]), (&schema["not"], &schema["if"]));
    assert_eq!(published["then"]["properties"]["more"], closed(&inner));
    assert_eq!(published["properties"]["list"]["items"], closed(&inner));
    assert_eq!(merged["components"]["schemas"]["Inner"], inner);
}

#[test]
fn what_several_schemas_describe_together_is_left_open() {
    let part = |name: &str| {
        object(
            &json!({ "address": object(&json!({ name: { "type": "string" }, "geo": object(&json!({ name: {} })) })) }),
        )
    };
    let schema = json!({ "allOf": [part("street"), part("city")] });
    let published = merged(&posting(&schema, &json!({})));
    assert_eq!(*body(&published), closed(&schema));
    // Only what both describe is: the rest of each is closed.
    let other = object(&json!({ "address": object(&json!({ "at": object(&json!({ "x": {} })) })) }));
    let published = merged(&posting(&json!({ "allOf": [part("street"), other] }), &json!({})));
    let parts = &body(&published)["allOf"];
    assert_eq!(parts[1]["properties"]["address"].get("unevaluatedProperties"), None);
    assert_eq!(parts[1]["properties"]["address"]["properties"]["at"]["unevaluatedProperties"], false);
    // A schema that describes it no further does not count.
    let narrower = object(&json!({ "address": { "required": ["street"] } }));
    let published = merged(&posting(&json!({ "allOf": [part("street"), narrower] }), &json!({})));
    assert_eq!(body(&published)["allOf"][0]["properties"]["address"]["unevaluatedProperties"], false);
}

#[test]
fn a_discriminator_that_means_the_heirs_leaves_its_schema_open() {
    let pet = json!({ "type": "object", "properties": { "kind": { "type": "string" } }, "discriminator": { "propertyName": "kind" } });
    let cat = json!({ "allOf": [reference("Pet"), object(&json!({ "lives": {} }))] });
    let schema = object(&json!({ "pet": reference("Pet"), "cat": reference("Cat") }));
    let published = merged(&posting(&schema, &json!({ "Pet": pet, "Cat": cat })));
    let schemas = &published["components"]["schemas"];
    assert_eq!((&schemas["Pet"], &schemas["Cat"]), (&pet, &closed(&cat)));
    assert_eq!(body(&published)["properties"]["pet"], reference("Pet"));
}

/// Compositions of compositions: whoever looks through all of them looks without end.
#[test]
fn what_takes_too_long_to_find_out_is_published_as_it_is() {
    let mut schemas = json!({ "Level0": object(&json!({ "a": {} })) });
    for level in 1..8 {
        schemas[format!("Level{level}")] =
            json!({ "allOf": vec![reference(&format!("Level{}", level - 1)); 12] });
    }
    let published = merged(&posting(&reference("Level7"), &schemas));
    assert_eq!(published["components"]["schemas"], schemas);
}

/// The published schema of the body, as one that stands by itself.
pub(crate) fn published(things: &Document, checks_requests: bool) -> Value {
    let merged = merged_as(things, checks_requests, &|_| true);
    let mut schema = match body(&merged) {
        Value::Bool(schema) => json!({ "allOf": [schema] }),
        schema => schema.clone(),
    };
    schema["components"] = merged["components"].clone();
    schema
}

#[test]
fn the_published_schema_takes_what_the_check_takes() {
    let schemas = json!({
        "Base": object(&json!({ "id": { "type": "string" } })),
        "Card": { "type": "object", "required": ["number"], "properties": { "number": {}, "bank": reference("Bank") } },
        "Bank": object(&json!({ "iban": {} })),
        "Tree": object(&json!({ "name": {}, "children": { "type": "array", "items": reference("Tree") } })),
    });
    let object_of = |schema: &Value| object(&json!({ "x": schema }));
    let table = [
        object(&json!({ "id": {} })),
        json!({ "type": "object" }),
        json!({ "type": "object", "properties": {} }),
        json!({ "properties": { "id": {} }, "additionalProperties": true }),
        json!({ "properties": { "id": {} }, "additionalProperties": { "type": "integer" } }),
        json!({ "properties": { "id": {} }, "patternProperties": { "^n": {} } }),
        reference("Base"),
        reference("Tree"),
        json!({ "allOf": [reference("Base"), reference("Tree")] }),
        json!({ "$ref": "#/components/schemas/Base", "properties": { "name": {} } }),
        json!({ "oneOf": [reference("Card"), reference("Bank")] }),
        json!({ "oneOf": [reference("Base"), reference("Bank")] }),
        json!({ "anyOf": [reference("Base"), reference("Bank")] }),
        json!({ "anyOf": [reference("Card"), { "type": "null" }] }),
        json!({ "properties": { "id": {} }, "oneOf": [reference("Card"), { "type": "object", "not": { "required": ["number"] } }] }),
        json!({ "properties": { "id": {} }, "if": { "required": ["id"] }, "then": { "properties": { "name": {} } }, "else": reference("Bank") }),
        json!({ "properties": { "id": {} }, "dependentSchemas": { "id": reference("Bank") } }),
    ];
    let values = [
        json!({}),
        json!({ "id": "x" }),
        json!({ "id": "x", "name": 1 }),
        json!({ "iban": 1 }),
        json!({ "id": "x", "iban": 1 }),
        json!({ "number": 1 }),
        json!({ "number": 1, "bank": { "iban": 1 } }),
        json!({ "number": 1, "bank": { "ibam": 1 } }),
        json!({ "number": 1, "iban": 1 }),
        json!({ "name": 1, "children": [{ "name": 2, "children": [] }] }),
        json!({ "name": 1, "children": [{ "nom": 2 }] }),
        json!({ "other": 1 }),
        json!({ "other": "x", "id": "x" }),
        json!(null),
        json!([]),
    ];
    let mut refused = 0;
    for schema in &table {
        for (request, lift) in [(schema.clone(), false), (object_of(schema), true)] {
            for answer in [
                json!({}),
                json!({ "allOf": schemas.as_object().unwrap().keys().map(|name| reference(name)).collect::<Vec<_>>() }),
            ] {
                let things = read(&both_ways(&request, &answer, &schemas));
                let published = published(&things, true);
                for value in &values {
                    let value = if lift { json!({ "x": value }) } else { value.clone() };
                    let errors = check(&things, &value);
                    let fits = jsonschema::draft202012::is_valid(&published, &value);
                    assert_eq!(errors == fine(), fits, "{published} {value} {errors:?}");
                    refused += usize::from(!fits);
                }
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

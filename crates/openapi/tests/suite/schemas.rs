//! What schemas mean for a body: sentences, closing, composition.

use serde_json::{Value, json};

use crate::{check, fine, posting, read};

/// What is wrong with `body` by `schema`, with these schemas as components.
fn errors_with(schema: &Value, schemas: &Value, body: &Value) -> Vec<String> {
    check(&read(&posting(schema, schemas)), body)
}

fn errors(schema: &Value, body: &Value) -> Vec<String> {
    errors_with(schema, &json!({}), body)
}

#[test]
fn every_keyword_has_a_sentence() {
    for (schema, value, expected) in [
        (json!({ "type": "string" }), json!(1), "must be a string, not 1"),
        (json!({ "type": ["integer", "null"] }), json!("x"), "must be a whole number or null, not \"x\""),
        (json!({ "enum": ["a", 1] }), json!("c"), "must be one of `a`, `1`, not \"c\""),
        (json!({ "const": "a" }), json!("c"), "must be `a`, not \"c\""),
        (json!({ "minimum": 1 }), json!(0), "must be at least 1"),
        (json!({ "maximum": 1 }), json!(2), "must be at most 1"),
        (json!({ "exclusiveMinimum": 1 }), json!(1), "must be more than 1"),
        (json!({ "exclusiveMaximum": 1 }), json!(1), "must be less than 1"),
        (json!({ "multipleOf": 5 }), json!(7), "must be a multiple of 5"),
        (json!({ "minLength": 2 }), json!("é"), "must have at least 2 characters"),
        (json!({ "maxLength": 1 }), json!("éé"), "must have at most 1 character"),
        (json!({ "pattern": "^in_[0-9]+$" }), json!("x"), "must match ^in_[0-9]+$"),
        (
            json!({ "format": "date-time" }),
            json!("x"),
            "must be a date and a time, such as 2026-01-31T12:00:00Z",
        ),
        (json!({ "format": "email" }), json!("x"), "must be an e-mail address"),
        (json!({ "format": "uuid" }), json!("x"), "must be a UUID"),
        (json!({ "format": "uri" }), json!("x"), "must be a URI"),
        (json!({ "format": "byte" }), json!("*"), "must be base64"),
        (
            json!({ "type": "integer", "format": "int32" }),
            json!(3_000_000_000_u64),
            "must be at most 2147483647",
        ),
        (json!({ "minItems": 1 }), json!([]), "must have at least 1 item"),
        (json!({ "maxItems": 1 }), json!([1, 2]), "must have at most 1 item"),
        (json!({ "uniqueItems": true }), json!([1, 1]), "must not hold the same item twice"),
        (json!({ "contains": { "const": 1 } }), json!([2]), "does not hold the items that it must hold"),
        (
            json!({ "contains": { "const": 1 }, "maxContains": 1 }),
            json!([1, 1]),
            "does not hold the items that it must hold",
        ),
        (json!({ "minProperties": 1 }), json!({}), "must have at least 1 field"),
        (json!({ "maxProperties": 0 }), json!({ "a": 1 }), "must have at most 0 fields"),
        (json!({ "not": { "type": "string" } }), json!("x"), "has a form that it must not have"),
        (
            json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
            json!(true),
            "must be a string or a whole number, not true",
        ),
        (
            json!({ "oneOf": [{ "minimum": 1 }, { "minimum": 2 }] }),
            json!(3),
            "fits more than one of the forms of which it must have one",
        ),
    ] {
        let schema = json!({ "type": "object", "properties": { "x": schema } });
        assert_eq!(errors(&schema, &json!({ "x": value })), [format!("x {expected}")], "{schema}");
    }
}

#[test]
fn fields_are_named_where_they_stand() {
    let line = json!({ "type": "object", "required": ["qty"], "properties": { "qty": { "type": "integer", "minimum": 1 } } });
    let schema = json!({ "type": "object", "properties": { "lines": { "type": "array", "items": line } } });
    assert_eq!(
        errors(&schema, &json!({ "lines": [{ "qty": 1 }, { "qty": 0 }, {}, 5, { "qty": 1, "x": 2 }] })),
        [
            "lines[1].qty must be at least 1",
            "lines[2].qty is required",
            "lines[3] must be an object, not 5",
            "lines[4].x is not known here; known are `qty`",
        ]
    );
    assert_eq!(errors(&schema, &json!([])), ["body must be an object, not a list"]);
    assert_eq!(errors(&schema, &json!({ "lines": null })), ["lines must be a list, not null"]);
}

#[test]
fn an_object_that_names_fields_knows_no_others() {
    let named = |more: Value| {
        let mut schema = json!({ "type": "object", "properties": { "a": {} } });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        errors(&schema, &json!({ "a": 1, "b": 2 }))
    };
    let unknown = ["b is not known here; known are `a`"];
    assert_eq!(named(json!({})), unknown);
    assert_eq!(named(json!({ "additionalProperties": false })), unknown);
    assert_eq!(named(json!({ "unevaluatedProperties": false })), unknown);
    assert_eq!(named(json!({ "additionalProperties": true })), fine());
    assert_eq!(named(json!({ "unevaluatedProperties": true })), fine());
    assert_eq!(named(json!({ "additionalProperties": { "type": "integer" } })), fine());
    assert_eq!(named(json!({ "additionalProperties": { "type": "string" } })), ["b must be a string, not 2"]);
    assert_eq!(named(json!({ "patternProperties": { "^b$": {} } })), fine());
    assert_eq!(named(json!({ "patternProperties": { "^c": {} } })), unknown);
    assert_eq!(
        named(json!({ "propertyNames": { "maxLength": 0 }, "additionalProperties": true })),
        ["a has a name that is not allowed", "b has a name that is not allowed"]
    );
    // An object without any names is free, as OpenAPI has it.
    assert_eq!(errors(&json!({ "type": "object" }), &json!({ "b": 2 })), fine());
    assert_eq!(errors(&json!({}), &json!({ "b": { "c": 1 } })), fine());
    assert_eq!(
        errors(&json!({ "type": "object", "properties": {} }), &json!({ "b": 2 })),
        ["b is not known here"]
    );
}

#[test]
fn compositions_know_the_fields_of_all_their_parts() {
    let schemas = json!({
        "Base": { "type": "object", "required": ["id"], "properties": { "id": { "type": "string" } } },
        "Card": { "type": "object", "properties": { "number": { "type": "string" } } },
        "Bank": { "type": "object", "properties": { "iban": { "type": "string" } } },
    });
    let part = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let all = json!({ "allOf": [part("Base"), { "properties": { "total": { "type": "integer" } } }] });
    assert_eq!(errors_with(&all, &schemas, &json!({ "id": "x", "total": 1 })), fine());
    assert_eq!(
        errors_with(&all, &schemas, &json!({ "id": "x", "tot": 1 })),
        ["tot is not known here; known are `id`, `total`"]
    );
    assert_eq!(
        errors_with(&all, &schemas, &json!({ "total": "x" })),
        ["id is required", "total must be a whole number, not \"x\""]
    );
    let beside = json!({ "$ref": "#/components/schemas/Base", "properties": { "note": {} } });
    assert_eq!(errors_with(&beside, &schemas, &json!({ "id": "x", "note": 1 })), fine());
    // Of choices, those count that fit; a choice that does not know a field does not fit better than one that does.
    let one = json!({ "properties": { "kind": {} }, "oneOf": [part("Card"), part("Bank")] });
    assert_eq!(errors_with(&one, &schemas, &json!({ "kind": 1, "iban": "x" })), fine());
    assert_eq!(
        errors_with(&one, &schemas, &json!({ "iban": "x", "swift": "x" })),
        ["swift is not known here; known are `iban`, `kind`"]
    );
    assert_eq!(errors_with(&one, &schemas, &json!({ "number": "x", "iban": "x" })).len(), 1);
    let any = json!({ "anyOf": [part("Card"), part("Bank")] });
    assert_eq!(errors_with(&any, &schemas, &json!({ "number": "x", "iban": "x" })), fine());
    // A part that is open makes the whole open.
    let open = json!({ "allOf": [part("Base"), { "additionalProperties": true }] });
    assert_eq!(errors_with(&open, &schemas, &json!({ "id": "x", "more": 1 })), fine());
    // A part that is closed stays so, as JSON Schema has it.
    let closed =
        json!({ "allOf": [part("Base"), { "properties": { "a": {} }, "additionalProperties": false }] });
    assert_eq!(
        errors_with(&closed, &schemas, &json!({ "id": "x", "a": 1 })),
        ["id is not known here; known are `a`, `id`"]
    );
    // What looks only at the parts of its own is not helped by others.
    let own =
        json!({ "allOf": [part("Base"), { "properties": { "a": {} }, "unevaluatedProperties": false }] });
    assert_eq!(errors_with(&own, &schemas, &json!({ "id": "x", "a": 1 })).len(), 1);
    let around = json!({ "allOf": [part("Base")], "unevaluatedProperties": false });
    assert_eq!(errors_with(&around, &schemas, &json!({ "id": "x" })), fine());
}

#[test]
fn parts_that_describe_one_field_together_know_its_fields_together() {
    let part = |name: &str| json!({ "properties": { "address": { "type": "object", "properties": { name: { "type": "string" } } } } });
    let schema = json!({ "allOf": [part("street"), part("city")] });
    assert_eq!(errors(&schema, &json!({ "address": { "street": "x", "city": "y" } })), fine());
    assert_eq!(
        errors(&schema, &json!({ "address": { "street": 1, "zip": "y" } })),
        [
            "address.street must be a string, not 1",
            "address.zip is not known here; known are `city`, `street`"
        ]
    );
}

#[test]
fn conditions_and_dependent_schemas_bring_fields_of_their_own() {
    let schema = json!({
        "type": "object", "properties": { "kind": { "enum": ["card", "bank"] } },
        "if": { "properties": { "kind": { "const": "card" } }, "required": ["kind"] },
        "then": { "properties": { "number": {} }, "required": ["number"] },
        "else": { "properties": { "iban": {} } },
        "dependentSchemas": { "iban": { "properties": { "swift": {} } } },
        "dependentRequired": { "swift": ["iban"] },
    });
    assert_eq!(errors(&schema, &json!({ "kind": "card", "number": 1 })), fine());
    assert_eq!(errors(&schema, &json!({ "kind": "card" })), ["number is required"]);
    assert_eq!(
        errors(&schema, &json!({ "kind": "bank", "number": 1 })),
        ["number is not known here; known are `iban`, `kind`"]
    );
    assert_eq!(errors(&schema, &json!({ "kind": "bank", "iban": 1, "swift": 1 })), fine());
    assert_eq!(errors(&schema, &json!({ "kind": "bank", "swift": 1 })).first().unwrap(), "iban is required");
}

#[test]
fn a_discriminator_says_which_choice_is_meant() {
    let schemas = json!({
        "Cat": { "type": "object", "required": ["kind", "lives"], "properties": { "kind": { "type": "string" }, "lives": { "type": "integer" } } },
        "Dog": { "type": "object", "required": ["kind"], "properties": { "kind": { "type": "string" }, "bark": { "type": "string" } } },
    });
    let schema = json!({
        "oneOf": [{ "$ref": "#/components/schemas/Cat" }, { "$ref": "#/components/schemas/Dog" }],
        "discriminator": { "propertyName": "kind", "mapping": { "cat": "#/components/schemas/Cat" } },
    });
    let check = |body: Value| errors_with(&schema, &schemas, &body);
    assert_eq!(check(json!({ "kind": "cat", "lives": 9 })), fine());
    assert_eq!(check(json!({ "kind": "Dog", "bark": "loud" })), fine());
    assert_eq!(check(json!({ "kind": "cat", "lives": "x" })), ["lives must be a whole number, not \"x\""]);
    assert_eq!(
        check(json!({ "kind": "cat", "lives": 1, "bark": "x" })),
        ["bark is not known here; known are `kind`, `lives`"]
    );
    assert_eq!(check(json!({ "kind": "cow" })), ["kind must be one of `Dog`, `cat`, not \"cow\""]);
    assert_eq!(check(json!({ "lives": 1 })), ["kind is required"]);
}

#[test]
fn a_discriminator_without_choices_means_the_schemas_that_extend_it() {
    let schemas = json!({
        "Pet": { "type": "object", "required": ["kind"], "properties": { "kind": { "type": "string" } }, "discriminator": { "propertyName": "kind" } },
        "Cat": { "allOf": [{ "$ref": "#/components/schemas/Pet" }, { "type": "object", "properties": { "lives": { "type": "integer" } } }] },
    });
    let pet = json!({ "$ref": "#/components/schemas/Pet" });
    assert_eq!(errors_with(&pet, &schemas, &json!({ "kind": "Cat", "lives": 9 })), fine());
    assert_eq!(
        errors_with(&pet, &schemas, &json!({ "kind": "Cat", "lives": "x" })),
        ["lives must be a whole number, not \"x\""]
    );
    assert_eq!(
        errors_with(&pet, &schemas, &json!({ "kind": "Pet", "lives": 9 })),
        ["lives is not known here; known are `kind`"]
    );
    let choice = json!({ "anyOf": [pet, { "type": "null" }] });
    assert_eq!(errors_with(&choice, &schemas, &json!({ "kind": "Cat", "lives": 9 })), fine());
    let cat = json!({ "$ref": "#/components/schemas/Cat" });
    assert_eq!(errors_with(&cat, &schemas, &json!({ "kind": "Cat", "lives": 9 })), fine());
}

#[test]
fn the_only_choice_that_can_be_meant_says_what_is_wrong() {
    let schema = json!({ "anyOf": [
        { "type": "null" },
        { "type": "object", "required": ["kind"], "properties": { "kind": { "const": "a" }, "x": { "type": "integer" } } },
        { "type": "object", "required": ["kind"], "properties": { "kind": { "const": "b" }, "y": { "type": "integer" } } },
    ] });
    assert_eq!(errors(&schema, &json!({ "kind": "b", "y": "x" })), ["y must be a whole number, not \"x\""]);
    assert_eq!(errors(&schema, &json!({ "x": 1 })), ["body fits none of the 3 forms that it may have"]);
    assert_eq!(errors(&schema, &json!({ "kind": "c" })), ["kind must be one of `a`, `b`, not \"c\""]);
    assert_eq!(errors(&schema, &json!(1)), ["body must be an object or null, not 1"]);
}

#[test]
fn recursive_schemas_are_checked_as_deep_as_they_go() {
    let schemas = json!({ "Tree": { "type": "object", "required": ["name"], "properties": {
        "name": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#/components/schemas/Tree" } },
    } } });
    let tree = json!({ "$ref": "#/components/schemas/Tree" });
    let leaf = json!({ "name": "c" });
    assert_eq!(
        errors_with(
            &tree,
            &schemas,
            &json!({ "name": "a", "children": [{ "name": "b", "children": [leaf] }] })
        ),
        fine()
    );
    assert_eq!(
        errors_with(
            &tree,
            &schemas,
            &json!({ "name": "a", "children": [{ "name": "b", "children": [{ "nom": 1 }] }] })
        ),
        [
            "children[0].children[0].name is required",
            "children[0].children[0].nom is not known here; known are `children`, `name`",
        ]
    );
}

#[test]
fn lists_have_positions_and_rests() {
    let schema = json!({ "type": "object", "properties": { "x": { "prefixItems": [{ "type": "string" }], "items": { "type": "integer" } } } });
    assert_eq!(errors(&schema, &json!({ "x": ["a", 1] })), fine());
    assert_eq!(
        errors(&schema, &json!({ "x": [1, "a"] })),
        ["x[0] must be a string, not 1", "x[1] must be a whole number, not \"a\""]
    );
    let schema = json!({ "type": "object", "properties": { "x": { "allOf": [{ "prefixItems": [true] }], "unevaluatedItems": false } } });
    assert_eq!(errors(&schema, &json!({ "x": [1, 2] })), ["x[1] must not be there"]);
}

#[test]
fn documents_of_3_0_are_read_as_they_were_meant() {
    let schemas = json!({ "Address": { "type": "object", "properties": { "city": { "type": "string" } } } });
    let schema = json!({ "type": "object", "properties": {
        "name": { "type": "string", "nullable": true, "example": "Ada" },
        "size": { "type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false },
        "home": { "nullable": true, "allOf": [{ "$ref": "#/components/schemas/Address" }] },
        "work": { "$ref": "#/components/schemas/Address", "nullable": true },
        "mood": { "type": "string", "nullable": true, "enum": ["good", null] },
        "tone": { "type": "string", "nullable": true, "enum": ["good"] },
    } });
    let mut text = posting(&schema, &schemas);
    text["openapi"] = json!("3.0.3");
    let things = read(&text);
    assert_eq!(check(&things, &json!({ "name": null, "size": 1, "home": null, "mood": null })), fine());
    assert_eq!(
        check(&things, &json!({ "home": { "city": "x" }, "work": { "city": "x" }, "size": 9 })),
        fine()
    );
    assert_eq!(check(&things, &json!({ "size": 0 })), ["size must be more than 0"]);
    assert_eq!(
        check(&things, &json!({ "home": { "town": "x" } })),
        ["home.town is not known here; known are `city`"]
    );
    // Whatever stands beside a reference says nothing, and an enum says all of its values.
    assert_eq!(check(&things, &json!({ "work": null })), ["work must be an object, not null"]);
    assert_eq!(check(&things, &json!({ "tone": null })), ["tone must be one of `good`, not null"]);
}

#[test]
fn an_event_is_checked_by_its_schema_alone() {
    let mut text = posting(
        &json!({}),
        &json!({ "Line": { "type": "object", "properties": { "qty": { "type": "integer" } } } }),
    );
    let schema = json!({ "type": "object", "required": ["lines"], "properties": {
        "lines": { "type": "array", "items": { "$ref": "#/components/schemas/Line" } },
    } });
    text["webhooks"] = json!({ "invoice.paid": { "post": {
        "description": "It was paid.",
        "requestBody": { "content": { "application/json": { "schema": schema, "example": { "lines": [] } } } },
    } } });
    let things = read(&text);
    let event = &things.events[0];
    assert_eq!((event.name.as_str(), event.description.as_str()), ("invoice.paid", "It was paid."));
    assert_eq!(event.examples, [json!({ "lines": [] })]);
    assert_eq!(event.schema["$defs"]["Line"]["properties"]["qty"], json!({ "type": "integer" }));
    assert_eq!(event.schema["properties"]["lines"]["items"], json!({ "$ref": "#/$defs/Line" }));
    assert_eq!(event.check(&json!({ "lines": [{ "qty": 1, "more": 1 }], "more": 1 })), Ok(()));
    let errors = event.check(&json!({ "lines": [{ "qty": "x" }] })).unwrap_err();
    assert_eq!(errors[0].to_string(), "`data.lines[0].qty` must be a whole number, not \"x\"");
}

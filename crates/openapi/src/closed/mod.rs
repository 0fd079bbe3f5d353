//! The document with the requests closed: what a check of requests refuses is said in JSON Schema's own words.
//!
//! A checked request may hold no field that no schema knows, wherever a schema of it names fields. JSON Schema by itself
//! lets such fields pass, so a caller who reads the document would take them for good. Here every value of a JSON body
//! gets `unevaluatedProperties: false`, beside the outermost schema about the value: within a part of a composition, it
//! would refuse what the other parts know. A choice that stands alone is another matter: each form of it is closed.
//!
//! What cannot be said is left open: where fields are known for some forms of a value alone, where two schemas describe
//! one field together, and where a discriminator means schemas that are referred to nowhere.
//!
//! Schemas that requests alone refer to are closed where they stand. Those of answers stay as they are; requests refer
//! to closed copies of them, made only where something within them changes.

mod grouping;
mod parts;
mod places;
mod reach;
mod says;
mod write;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::model::{self, Kind};
use crate::pointer;
use places::Places;
use reach::Reach;

/// The document with its requests closed; `None` where that changes nothing, or takes too long to find out.
pub(crate) fn closed(document: &Value) -> Option<Value> {
    let bodies = reach::bodies(document);
    let places = Places::find(document, &bodies)?;
    let open = Reach::of(document, bodies, &places.visited);
    let marks = places.marks(&open);
    (!marks.is_empty()).then(|| write::write(document, &places.visited, &marks, &open))
}

/// The outermost schema around this place, which is a component as a rule.
fn unit(place: &str) -> String {
    let mut ends: Vec<_> = place.match_indices('/').map(|(at, _)| at).skip(1).collect();
    ends.push(place.len());
    let found = ends.into_iter().find(|end| model::kind_at(&place[..*end]) == Some(Kind::Schema));
    place[..found.unwrap_or(place.len())].to_owned()
}

/// Every place that the schema refers to, those of its discriminator included.
fn targets(document: &Value, schema: &Value) -> BTreeSet<String> {
    let reference = pointer::target(document, schema).map(|(target, _)| target);
    let mapping = schema.pointer("/discriminator/mapping").and_then(Value::as_object);
    let mapped = mapping.into_iter().flatten().filter_map(|(_, target)| {
        let target = target.as_str()?;
        crate::schema::mapped(document, target)
    });
    mapped.chain(reference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_schema_is_a_component_or_stands_in_an_operation() {
        for (place, expected) in [
            ("/components/schemas/Item", "/components/schemas/Item"),
            ("/components/schemas/Item/properties/a/items", "/components/schemas/Item"),
            (
                "/paths/~1v1~1a/post/requestBody/content/application~1json/schema/properties/schema",
                "/paths/~1v1~1a/post/requestBody/content/application~1json/schema",
            ),
            ("/x-else/where", "/x-else/where"),
        ] {
            assert_eq!(unit(place), expected);
        }
    }
}

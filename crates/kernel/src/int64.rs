//! 64-bit integers on the wire.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An `int64`: a decimal string in answers; a string or a whole number in requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Int64(pub i64);

impl Serialize for Int64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Int64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        const RANGE: &str = "a whole number of 64 bits, as a decimal string or a number";

        impl de::Visitor<'_> for Visitor {
            type Value = Int64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(RANGE)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Int64, E> {
                Ok(Int64(value))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Int64, E> {
                i64::try_from(value)
                    .map(Int64)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))
            }

            /// `3.0` is a whole number to JSON Schema.
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Int64, E> {
                if value.fract() != 0.0 || value.abs() >= 9.0e15 {
                    return Err(E::invalid_type(de::Unexpected::Float(value), &self));
                }
                #[expect(clippy::cast_possible_truncation, reason = "whole, and within 53 bits")]
                Ok(Int64(value as i64))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Int64, E> {
                // `parse` would also take a leading plus and zeros; the schema names one spelling.
                text.parse::<i64>()
                    .ok()
                    .filter(|value| value.to_string() == text)
                    .map(Int64)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Int64 {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Int64".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        const DIGITS: &str = "^(0|-?[1-9][0-9]{0,18})$";
        if generator.contract().is_serialize() {
            return json_schema!({ "type": "string", "format": "int64", "pattern": DIGITS });
        }
        json_schema!({
            "type": ["string", "integer"], "format": "int64", "pattern": DIGITS,
            "minimum": i64::MIN, "maximum": i64::MAX,
        })
    }
}

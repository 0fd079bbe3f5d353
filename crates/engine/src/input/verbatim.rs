//! Values that an operation takes as they were sent, and parts of a message that are refused by themselves.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{InputError, Node};

/// What [`Verbatim`] asks a message for, which gives nulls away only then.
pub(super) const VERBATIM: &str = "portico::Verbatim";

/// A JSON value as it was sent: a null in it is a value, and not a field that was left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Verbatim(pub Value);

impl<'de> Deserialize<'de> for Verbatim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsSent;

        impl<'de> Visitor<'de> for AsSent {
            type Value = Verbatim;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<Verbatim, D::Error> {
                Value::deserialize(value).map(Verbatim)
            }
        }
        deserializer.deserialize_newtype_struct(VERBATIM, AsSent)
    }
}

impl JsonSchema for Verbatim {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Verbatim".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}

/// A part of a message that is read by itself: where it is wrong, the others count all the same.
#[derive(Debug)]
pub struct Element<T>(pub Result<T, InputError>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Element<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Verbatim(value) = Verbatim::deserialize(deserializer)?;
        Ok(Self(T::deserialize(Node::from(value))))
    }
}

impl<T: JsonSchema> JsonSchema for Element<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl From<Node> for Value {
    fn from(node: Node) -> Self {
        match node {
            Node::Null => Self::Null,
            Node::Bool(value) => value.into(),
            Node::Int(value) => value.into(),
            Node::Big(value) => value.into(),
            Node::Float(value) => value.into(),
            Node::Text(text) => text.into(),
            Node::Texts(words) => words.into(),
            Node::List(items) => items.into_iter().map(Self::from).collect(),
            Node::Object(fields) => Self::Object(
                fields.into_iter().map(|(name, value)| (name, value.into())).collect::<Map<_, _>>(),
            ),
        }
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Self::Int(number),
                (None, Some(number)) => Self::Big(number),
                (None, None) => Self::Float(number.as_f64().unwrap_or(f64::INFINITY)),
            },
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(fields) => {
                Self::Object(fields.into_iter().map(|(name, value)| (name, value.into())).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{parse_object, read};

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Part {
        name: String,
        data: Verbatim,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Whole {
        parts: Vec<Element<Part>>,
    }

    #[test]
    fn what_is_taken_as_it_was_sent_keeps_its_nulls() {
        let data = r#"{"a":null,"b":[null,1,18446744073709551615,-2,0.5,"x",true],"c":{"d":null}}"#;
        let text = format!(r#"{{"parts":[{{"name":"n","data":{data}}}]}}"#);
        let whole: Whole = read(parse_object(text.as_bytes(), 100).unwrap()).unwrap();
        let Element(Ok(part)) = &whole.parts[0] else { panic!("{whole:?}") };
        assert_eq!(part.data.0, serde_json::from_str::<Value>(data).unwrap());
    }

    #[test]
    fn a_part_that_is_wrong_leaves_the_others_alone() {
        let text =
            r#"{"parts":[{"name":1,"data":{}},{"name":"n","data":{}},7,null,{"name":"n","data":1,"x":1}]}"#;
        let whole: Whole = read(parse_object(text.as_bytes(), 100).unwrap()).unwrap();
        let told: Vec<_> =
            whole.parts.iter().map(|Element(part)| part.as_ref().err().map(InputError::field)).collect();
        assert_eq!(
            told,
            [Some("name".to_owned()), None, Some(String::new()), Some(String::new()), Some("x".to_owned())]
        );
    }
}

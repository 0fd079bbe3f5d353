//! A message into an operation's own type.

use std::fmt;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor, value::StringDeserializer,
};
use serde_json::Value;

use super::verbatim::VERBATIM;
use super::{Fields, InputError, Node, PathPart, text};

/// Reads a `T` from the fields of a message.
pub fn read<T: DeserializeOwned>(fields: Fields) -> Result<T, InputError> {
    T::deserialize(Node::Object(fields))
}

impl de::Error for InputError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::here(message.to_string())
    }

    fn invalid_type(given: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::here(format!("must be {}, not {}", text::expected(expected), text::given(given)))
    }

    fn invalid_value(given: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(given, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::here(format!("has {length} items where there must be {}", text::expected(expected)))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let given = text::given(Unexpected::Str(variant));
        Self::here(format!("must be one of {}, not {given}", text::names(expected)))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        if expected.is_empty() {
            return Self::of(field, "is not known here");
        }
        Self::of(field, format!("is not known here; known are {}", text::names(expected)))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::of(field, "is required")
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::of(field, "is given more than once")
    }
}

/// The one word of a singular field.
fn single(words: Vec<String>) -> Result<String, InputError> {
    let mut words = words.into_iter();
    match (words.next(), words.next()) {
        (Some(word), None) => Ok(word),
        _ => Err(InputError::here("is given more than once")),
    }
}

impl Node {
    /// A whole number: a word that is written as one, or `3.0` for `3`, which JSON Schema calls whole.
    fn whole<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InputError> {
        match self {
            Self::Texts(words) => {
                let word = single(words)?;
                // `parse` would also take a plus and zeros in front.
                let number = word.parse::<i64>().ok().filter(|number| number.to_string() == word);
                number.map_or(Self::Text(word), Self::Int).deserialize_any(visitor)
            }
            Self::Float(value) => match whole(value) {
                Some(number) => visitor.visit_i64(number),
                None => visitor.visit_f64(value),
            },
            other => other.deserialize_any(visitor),
        }
    }

    /// Any number.
    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InputError> {
        match self {
            Self::Texts(words) => {
                let word = single(words)?;
                let number = word.parse().ok().filter(|number: &f64| number.is_finite());
                number.map_or(Self::Text(word), Self::Float).deserialize_any(visitor)
            }
            other => other.deserialize_any(visitor),
        }
    }

    /// What a fault calls it.
    fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Self::Null => Unexpected::Unit,
            Self::Bool(value) => Unexpected::Bool(*value),
            Self::Int(value) => Unexpected::Signed(*value),
            Self::Big(value) => Unexpected::Unsigned(*value),
            Self::Float(value) => Unexpected::Float(*value),
            Self::Text(value) => Unexpected::Str(value),
            Self::Texts(words) => words.first().map_or(Unexpected::Unit, |word| Unexpected::Str(word)),
            Self::List(_) => Unexpected::Seq,
            Self::Object(_) => Unexpected::Map,
        }
    }
}

/// The number that `value` is, if it is whole and exact.
fn whole(value: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "whole, and within 53 bits")]
    (value.fract() == 0.0 && value.abs() < 9.0e15).then_some(value as i64)
}

/// Reads an object. A field that is null counts as absent; `known` are the names that there are.
fn object<'de, V: Visitor<'de>>(
    mut fields: Fields,
    known: &'static [&'static str],
    visitor: V,
) -> Result<V::Value, InputError> {
    let unknown =
        fields.iter().find(|(name, value)| **value == Node::Null && !known.contains(&name.as_str()));
    if let Some((name, _)) = unknown {
        return Err(de::Error::unknown_field(name, known));
    }
    fields.retain(|_, value| *value != Node::Null);
    visitor.visit_map(Entries { fields: fields.into_iter(), value: None })
}

/// Reads a list, every item of it.
fn list<'de, V: Visitor<'de>>(items: Vec<Node>, visitor: V) -> Result<V::Value, InputError> {
    let length = items.len();
    let mut items = Items { items: items.into_iter(), at: 0 };
    let value = visitor.visit_seq(&mut items)?;
    match items.items.next() {
        None => Ok(value),
        Some(_) => Err(InputError::here(format!("has {length} items, which is too many"))),
    }
}

macro_rules! numbers {
    ($($method:ident by $how:ident)+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InputError> {
            self.$how(visitor)
        }
    )+};
}

impl<'de> Deserializer<'de> for Node {
    type Error = InputError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InputError> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Bool(value) => visitor.visit_bool(value),
            Self::Int(value) => visitor.visit_i64(value),
            Self::Big(value) => visitor.visit_u64(value),
            Self::Float(value) => visitor.visit_f64(value),
            Self::Text(value) => visitor.visit_string(value),
            Self::Texts(words) => visitor.visit_string(single(words)?),
            Self::List(items) => list(items, visitor),
            Self::Object(mut fields) => {
                fields.retain(|_, value| *value != Self::Null);
                visitor.visit_map(Entries { fields: fields.into_iter(), value: None })
            }
        }
    }

    numbers! {
        deserialize_i8 by whole deserialize_i16 by whole deserialize_i32 by whole deserialize_i64 by whole
        deserialize_u8 by whole deserialize_u16 by whole deserialize_u32 by whole deserialize_u64 by whole
        deserialize_f32 by number deserialize_f64 by number
    }

    /// An object, and nothing else: serde would also take a list of the fields' values in their order.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, InputError> {
        match self {
            Self::Object(fields) => object(fields, known, visitor),
            other => Err(de::Error::invalid_type(other.unexpected(), &visitor)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InputError> {
        match self {
            Self::Texts(words) => match single(words)?.as_str() {
                "true" => visitor.visit_bool(true),
                "false" => visitor.visit_bool(false),
                other => Err(de::Error::invalid_type(Unexpected::Str(other), &visitor)),
            },
            other => other.deserialize_any(visitor),
        }
    }

    /// A list in a query is its name given any number of times, once included.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InputError> {
        match self {
            Self::Texts(words) => {
                list(words.into_iter().map(|word| Self::Texts(vec![word])).collect(), visitor)
            }
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InputError> {
        match self {
            Self::Null => visitor.visit_none(),
            other => visitor.visit_some(other),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, InputError> {
        if name == VERBATIM {
            return visitor.visit_newtype_struct(Value::from(self)).map_err(de::Error::custom);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, InputError> {
        match self {
            Self::Text(name) => visitor.visit_enum(name.into_deserializer()),
            Self::Texts(words) => visitor.visit_enum(single(words)?.into_deserializer()),
            Self::Object(fields) if fields.len() == 1 => visitor.visit_enum(OneOf(fields)),
            other => {
                let (names, given) = (text::names(known), text::given(other.unexpected()));
                Err(InputError::here(format!("must be one of {names}, not {given}")))
            }
        }
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct tuple tuple_struct map identifier ignored_any
    }
}

impl IntoDeserializer<'_, InputError> for Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct Items {
    items: std::vec::IntoIter<Node>,
    at: usize,
}

impl<'de> SeqAccess<'de> for &mut Items {
    type Error = InputError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, InputError> {
        let Some(item) = self.items.next() else { return Ok(None) };
        self.at += 1;
        seed.deserialize(item).map(Some).map_err(|fault| fault.under(PathPart::Index(self.at - 1)))
    }
}

struct Entries {
    fields: std::collections::btree_map::IntoIter<String, Node>,
    value: Option<(String, Node)>,
}

impl<'de> MapAccess<'de> for Entries {
    type Error = InputError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, InputError> {
        let Some((name, value)) = self.fields.next() else { return Ok(None) };
        let key: StringDeserializer<InputError> = name.clone().into_deserializer();
        let read = seed.deserialize(key).map(Some).map_err(|fault| fault.with_query_names(&value));
        self.value = Some((name, value));
        read
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, InputError> {
        let (name, value) = self.value.take().ok_or_else(|| InputError::here("has no value"))?;
        seed.deserialize(value).map_err(|fault| fault.in_field(&name))
    }
}

/// An enum written as an object with the variant's name as its only field.
struct OneOf(Fields);

impl<'de> EnumAccess<'de> for OneOf {
    type Error = InputError;
    type Variant = Payload;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Payload), InputError> {
        let (name, value) =
            self.0.into_iter().next().ok_or_else(|| InputError::here("must have one field"))?;
        let key: StringDeserializer<InputError> = name.clone().into_deserializer();
        let variant = seed.deserialize(key)?;
        Ok((variant, Payload { name, value }))
    }
}

struct Payload {
    name: String,
    value: Node,
}

impl<'de> VariantAccess<'de> for Payload {
    type Error = InputError;

    fn unit_variant(self) -> Result<(), InputError> {
        Err(InputError::of(&self.name, "takes no value"))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, InputError> {
        seed.deserialize(self.value).map_err(|fault| fault.in_field(&self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, InputError> {
        self.value.deserialize_seq(visitor).map_err(|fault| fault.in_field(&self.name))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, InputError> {
        self.value.deserialize_struct("", known, visitor).map_err(|fault| fault.in_field(&self.name))
    }
}

//! JSON text into a message.

use std::cell::Cell;
use std::collections::btree_map::Entry;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{DEPTH_MAX, Fields, HOLDS_NULL, InputError, Node, PathPart};

/// Reads a JSON object of at most `values_max` values, itself included. Whatever is not one is a fault of `body`; a name
/// given twice is a fault of that field.
pub fn parse_object(text: &[u8], values_max: usize) -> Result<Fields, InputError> {
    let fault = Cell::new(None);
    let values = Cell::new(0);
    let mut json = serde_json::Deserializer::from_slice(text);
    let node = Seed { depth: 0, values_max, values: &values, fault: &fault }.deserialize(&mut json);
    let node = node.and_then(|node| json.end().map(|()| node));
    match (node, fault.take()) {
        (_, Some(fault)) => Err(fault),
        (Err(error), None) => Err(InputError::whole(format!("does not parse as JSON: {error}"))),
        (Ok(Node::Object(fields)), None) => Ok(fields),
        (Ok(_), None) => Err(InputError::whole("must be a JSON object")),
    }
}

/// Reads one value. The parser's own errors are flat text, so a fault that knows its path travels beside them.
#[derive(Clone, Copy)]
struct Seed<'a> {
    depth: usize,
    values_max: usize,
    /// How many values were read so far.
    values: &'a Cell<usize>,
    fault: &'a Cell<Option<InputError>>,
}

impl Seed<'_> {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        if self.depth == DEPTH_MAX {
            return Err(self.refuse(InputError::whole(format!("nests deeper than {DEPTH_MAX} levels"))));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    fn refuse<E: de::Error>(self, fault: InputError) -> E {
        self.fault.set(Some(fault));
        E::custom("a fault with a path of its own")
    }

    /// Adds a step to a fault that came from further inside. Depth is a fault of the whole body.
    fn step(self, step: impl FnOnce() -> PathPart) {
        if let Some(fault) = self.fault.take() {
            self.fault.set(Some(if fault.whole { fault } else { fault.under(step()) }));
        }
    }

    /// Refuses a null character, which PostgreSQL cannot keep.
    fn text<E: de::Error>(self, text: String) -> Result<String, E> {
        if text.contains('\0') {
            return Err(self.refuse(InputError::here(HOLDS_NULL)));
        }
        Ok(text)
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        self.values.set(self.values.get() + 1);
        if self.values.get() > self.values_max {
            let message = format!("holds more than {} values, the maximum", self.values_max);
            return Err(self.refuse(InputError::whole(message)));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(i64::try_from(value).map_or(Node::Big(value), Node::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Float(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Node, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Node, E> {
        self.text(value).map(Node::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let seed = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) =
            items.next_element_seed(seed).inspect_err(|_| self.step(|| PathPart::Index(list.len())))?
        {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let seed = self.deeper()?;
        let mut fields = Fields::new();
        while let Some(name) = entries.next_key::<String>()? {
            if name.contains('\0') {
                return Err(self.refuse(InputError::whole(format!("has a name that {HOLDS_NULL}"))));
            }
            let place = match fields.entry(name) {
                Entry::Vacant(place) => place,
                Entry::Occupied(taken) => {
                    return Err(self.refuse(InputError::of(taken.key(), "is given more than once")));
                }
            };
            let value = entries
                .next_value_seed(seed)
                .inspect_err(|_| self.step(|| PathPart::Name(place.key().clone())))?;
            place.insert(value);
        }
        Ok(Node::Object(fields))
    }
}

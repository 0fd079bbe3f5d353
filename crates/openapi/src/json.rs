//! Strict JSON: a name given twice, too deep nesting and too many values are refused.

use std::cell::Cell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::FieldError;
use crate::schema::Place;

/// What a text may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// How deep it may nest.
    pub(crate) depth: usize,
    /// How many values it may hold, itself included.
    pub(crate) values: usize,
}

/// What the body of a request may hold. The parser itself refuses 128 levels.
pub(crate) const BODY: Bounds = Bounds { depth: 100, values: 100_000 };

/// Why a text is refused, and where: in which field, or in which line.
pub(crate) struct Refusal {
    pub(crate) error: FieldError,
    pub(crate) line: usize,
}

/// Reads one value.
pub(crate) fn read(text: &[u8], bounds: Bounds) -> Result<Value, Refusal> {
    let fault = Cell::new(None);
    let count = Cell::new(0);
    let mut json = serde_json::Deserializer::from_slice(text);
    let seed = Seed { depth: 0, bounds, count: &count, fault: &fault, place: &Place::body() };
    let value = seed.deserialize(&mut json);
    let value = value.and_then(|value| json.end().map(|()| value));
    value.map_err(|error| {
        let line = error.line();
        let unread = || FieldError::new("body", format!("does not parse as JSON: {error}"));
        Refusal { error: fault.take().unwrap_or_else(unread), line }
    })
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    depth: usize,
    bounds: Bounds,
    /// How many values were read so far.
    count: &'a Cell<usize>,
    /// The parser's own errors are flat text, so a fault that knows its field travels beside them.
    fault: &'a Cell<Option<FieldError>>,
    place: &'a Place<'a>,
}

impl Seed<'_> {
    fn refuse<E: de::Error>(self, field: impl Into<String>, description: impl Into<String>) -> E {
        let error = FieldError::new(field, description);
        let error_text = error.description.clone();
        self.fault.set(Some(error));
        E::custom(error_text)
    }

    fn deeper<E: de::Error>(self) -> Result<usize, E> {
        if self.depth == self.bounds.depth {
            return Err(self.refuse("body", format!("nests deeper than {} levels", self.bounds.depth)));
        }
        Ok(self.depth + 1)
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count.set(self.count.get() + 1);
        if self.count.get() > self.bounds.values {
            let message = format!("holds more than {} values, the maximum", self.bounds.values);
            return Err(self.refuse("body", message));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut list = Vec::new();
        loop {
            let place = self.place.item(list.len());
            match items.next_element_seed(Seed { depth, place: &place, ..self })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let place = self.place.field(&name);
            if fields.contains_key(&name) {
                return Err(self.refuse(place.to_string(), "is given more than once"));
            }
            let value = entries.next_value_seed(Seed { depth, place: &place, ..self })?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

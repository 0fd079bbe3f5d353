//! What was posted, as it arrived.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::de::{self, Deserializer};

use super::{Fields, Node};

/// What was posted to an operation that takes anything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Posted {
    /// The method.
    pub method: String,
    /// The headers, their names in small letters.
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(deserialize_with = "bytes")]
    pub body: Vec<u8>,
}

/// Messages hold text alone, so the bytes travel in base64.
fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    BASE64_STANDARD.decode(String::deserialize(deserializer)?).map_err(de::Error::custom)
}

impl Posted {
    /// The field of the message that holds it.
    pub const FIELD: &'static str = "posted";

    /// The value of that field.
    pub fn node(method: &str, headers: impl IntoIterator<Item = (String, String)>, body: &[u8]) -> Node {
        let mut by_name: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in headers {
            by_name
                .entry(name)
                .and_modify(|values| {
                    values.push_str(", ");
                    values.push_str(&value);
                })
                .or_insert(value);
        }
        let headers = by_name.into_iter().map(|(name, value)| (name, Node::Text(value))).collect();
        Node::Object(Fields::from([
            ("method".to_owned(), Node::Text(method.to_owned())),
            ("headers".to_owned(), Node::Object(headers)),
            ("body".to_owned(), Node::Text(BASE64_STANDARD.encode(body))),
        ]))
    }
}

//! One hash for all spellings of a message.

use super::{Fields, Node};
use crate::LengthPrefixedHash;

/// A hash of the message: the same for another order of fields or another spelling of a number, since a caller that
/// writes its request anew sends the same request.
pub fn fingerprint(fields: &Fields) -> [u8; 32] {
    let mut hash = LengthPrefixedHash::default();
    object(&mut hash, fields);
    hash.finish()
}

fn object(hash: &mut LengthPrefixedHash, fields: &Fields) {
    // A field that is null is absent.
    let present = || fields.iter().filter(|(_, value)| **value != Node::Null);
    hash.add(b'o', &present().count().to_be_bytes());
    for (name, value) in present() {
        hash.add(b'n', name.as_bytes());
        node(hash, value);
    }
}

fn node(hash: &mut LengthPrefixedHash, value: &Node) {
    match value {
        Node::Null => hash.add(b'0', b""),
        Node::Bool(value) => hash.add(b'b', &[u8::from(*value)]),
        // An int64 travels as a string or as a number; both are one value.
        Node::Int(value) => hash.add(b't', value.to_string().as_bytes()),
        Node::Big(value) => hash.add(b't', value.to_string().as_bytes()),
        Node::Float(value) => hash.add(b't', value.to_string().as_bytes()),
        Node::Text(value) => hash.add(b't', value.as_bytes()),
        Node::Texts(words) => {
            hash.add(b'w', &words.len().to_be_bytes());
            for word in words {
                hash.add(b't', word.as_bytes());
            }
        }
        Node::List(items) => {
            hash.add(b'l', &items.len().to_be_bytes());
            for item in items {
                node(hash, item);
            }
        }
        Node::Object(fields) => object(hash, fields),
    }
}

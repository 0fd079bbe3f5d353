//! One hash for all spellings of a message.

use aws_lc_rs::digest::{Context, SHA256};

use super::{Fields, Node};

/// A hash of the message: the same for another order of fields or another spelling of a number, since a caller that
/// writes its request anew sends the same request.
pub fn fingerprint(fields: &Fields) -> [u8; 32] {
    let mut hash = Context::new(&SHA256);
    object(&mut hash, fields);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(hash.finish().as_ref());
    bytes
}

fn object(hash: &mut Context, fields: &Fields) {
    // A field that is null is absent.
    let present = || fields.iter().filter(|(_, value)| **value != Node::Null);
    piece(hash, b'o', &present().count().to_be_bytes());
    for (name, value) in present() {
        piece(hash, b'n', name.as_bytes());
        node(hash, value);
    }
}

fn node(hash: &mut Context, value: &Node) {
    match value {
        Node::Null => piece(hash, b'0', b""),
        Node::Bool(value) => piece(hash, b'b', &[u8::from(*value)]),
        // An int64 travels as a string or as a number; both are one value.
        Node::Int(value) => piece(hash, b't', value.to_string().as_bytes()),
        Node::Big(value) => piece(hash, b't', value.to_string().as_bytes()),
        Node::Float(value) => piece(hash, b't', value.to_string().as_bytes()),
        Node::Text(value) => piece(hash, b't', value.as_bytes()),
        Node::Words(words) => {
            piece(hash, b'w', &words.len().to_be_bytes());
            for word in words {
                piece(hash, b't', word.as_bytes());
            }
        }
        Node::List(items) => {
            piece(hash, b'l', &items.len().to_be_bytes());
            for item in items {
                node(hash, item);
            }
        }
        Node::Object(fields) => object(hash, fields),
    }
}

/// A tag, a length and the bytes, so that no two messages feed the hash alike.
fn piece(hash: &mut Context, tag: u8, bytes: &[u8]) {
    hash.update(&[tag]);
    hash.update(&bytes.len().to_be_bytes());
    hash.update(bytes);
}

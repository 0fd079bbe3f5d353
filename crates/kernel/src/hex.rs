//! Bytes as text.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The bytes in hexadecimal, small letters.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

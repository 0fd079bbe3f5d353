//! JSON as its text: numbers stay as they were written.
//!
//! The library's own type for such text is not used: with it, any text of JSON that is read into a tree could hold further
//! text of JSON that is read again, however deep it nests.

use std::borrow::Cow;

use serde::de::IgnoredAny;

/// How deep an answer may nest; what nests deeper is text, since not every reader can take it.
const DEPTH_MAX: usize = 100;

/// The text without the whitespace between its parts; `None` when it is not JSON. `rewrite` is asked for every string,
/// decoded, and every number, and says what stands there instead.
pub(crate) fn compact(text: &str, rewrite: &mut dyn FnMut(Token<'_>) -> Option<String>) -> Option<String> {
    // Checks the text without building a tree, however deep it is.
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        let end = match byte {
            b'"' => end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => end_of_number(bytes, at),
            _ => at + 1,
        };
        let token = text.get(at..end)?;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'"' => push(&mut out, token, rewrite(Token::Text(&unescape(token)))),
            b'-' | b'0'..=b'9' => push(&mut out, token, rewrite(Token::Number(token))),
            _ => {
                match byte {
                    b'[' | b'{' => depth += 1,
                    b']' | b'}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                if depth > DEPTH_MAX {
                    return None;
                }
                out.push_str(token);
            }
        }
        at = end;
    }
    Some(out)
}

/// A part of JSON that can hold a value of somebody's.
pub(crate) enum Token<'a> {
    /// A string or a name, decoded.
    Text(&'a str),
    /// A number, as it is written.
    Number(&'a str),
}

fn push(out: &mut String, token: &str, instead: Option<String>) {
    match instead {
        Some(text) => out.push_str(&serde_json::Value::from(text).to_string()),
        None => out.push_str(token),
    }
}

/// Where the string ends that begins at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'\\' => end += 2,
            b'"' => return end + 1,
            _ => end += 1,
        }
    }
    bytes.len()
}

fn end_of_number(bytes: &[u8], at: usize) -> usize {
    let is_part = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    at + bytes[at..].iter().take_while(is_part).count()
}

/// What a string says. Half of a surrogate pair, which no text can hold, becomes the replacement character.
fn unescape(token: &str) -> Cow<'_, str> {
    let inside = token.get(1..token.len().saturating_sub(1)).unwrap_or_default();
    if !inside.contains('\\') {
        return Cow::Borrowed(inside);
    }
    if let Ok(text) = serde_json::from_str::<String>(token) {
        return Cow::Owned(text);
    }
    let mut units: Vec<u16> = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(character) = rest.chars().next() {
        let (unit, length) = if character == '\\' { escape(rest) } else { (None, character.len_utf8()) };
        match unit {
            Some(unit) => units.push(unit),
            None => units.extend(character.encode_utf16(&mut [0; 2]).iter()),
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Cow::Owned(String::from_utf16_lossy(&units))
}

/// The unit of UTF-16 that an escape stands for, and how long it is.
fn escape(text: &str) -> (Option<u16>, usize) {
    let unit = |c: char| u16::try_from(u32::from(c)).ok();
    match text.as_bytes().get(1) {
        Some(b'u') => (text.get(2..6).and_then(|hex| u16::from_str_radix(hex, 16).ok()), 6),
        Some(b'n') => (unit('\n'), 2),
        Some(b't') => (unit('\t'), 2),
        Some(b'r') => (unit('\r'), 2),
        Some(b'b') => (unit('\u{8}'), 2),
        Some(b'f') => (unit('\u{c}'), 2),
        Some(other) => (Some(u16::from(*other)), 2),
        None => (None, 1),
    }
}

/// The text of the value that the steps lead to in compact JSON. Of a name that is given twice, the last one counts.
pub(crate) fn find<'a>(json: &'a str, steps: &[String]) -> Option<&'a str> {
    steps.iter().try_fold(json, |json, step| match json.as_bytes().first()? {
        b'{' => {
            let named = Parts::of(json).filter(|(name, _)| name.is_some_and(|name| unescape(name) == *step));
            named.last().map(|(_, value)| value)
        }
        b'[' => {
            let is_index = step == "0" || !step.starts_with(['0', '+']);
            let index = step.parse().ok().filter(|_| is_index)?;
            items(json).nth(index)
        }
        _ => None,
    })
}

/// The items of a list in compact JSON; none of anything else.
pub(crate) fn items(json: &str) -> impl Iterator<Item = &str> {
    let list = if json.starts_with('[') { json } else { "[]" };
    Parts::of(list).map(|(_, item)| item)
}

/// The entries of an object, or the items of a list, which have no names.
struct Parts<'a> {
    json: &'a str,
    at: usize,
    is_object: bool,
}

impl<'a> Parts<'a> {
    /// The text is compact JSON that was checked before.
    fn of(json: &'a str) -> Self {
        Self { json, at: 1, is_object: json.starts_with('{') }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = (Option<&'a str>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.json.as_bytes();
        if matches!(bytes.get(self.at)?, b']' | b'}') {
            return None;
        }
        let mut name = None;
        if self.is_object {
            let end = end_of_string(bytes, self.at);
            name = self.json.get(self.at..end);
            // Behind the colon.
            self.at = end + 1;
        }
        let end = end_of_value(bytes, self.at);
        let value = self.json.get(self.at..end)?;
        // Behind the comma, or at the end.
        self.at = end + usize::from(bytes.get(end) == Some(&b','));
        Some((name, value))
    }
}

/// Where the value ends that begins at `at`.
fn end_of_value(bytes: &[u8], at: usize) -> usize {
    let (mut end, mut depth) = (at, 0_usize);
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'"' => {
                end = end_of_string(bytes, end);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' | b',' if depth == 0 => return end,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        end += 1;
    }
    end
}

/// A string, a number or a boolean as text.
pub(crate) fn scalar(json: &str) -> Option<String> {
    match json.as_bytes().first()? {
        b'"' => Some(unescape(json).into_owned()),
        b'-' | b'0'..=b'9' | b't' | b'f' => Some(json.to_owned()),
        _ => None,
    }
}

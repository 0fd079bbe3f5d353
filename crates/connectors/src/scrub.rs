//! Takes a credential's own values out of what a provider says.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem::Finder;

use crate::json::{self, Token};
use crate::text::encode;

/// What stands in the place of a value.
const STARS: &str = "***";

/// Finds a credential's values in what a provider says, and writes `***` in their place.
#[derive(Clone, Default)]
pub struct Scrubber(Vec<String>);

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a scrubber of {} values", self.0.len())
    }
}

impl Scrubber {
    /// Scrubs these values, as they are and as a query or a form has them.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut forms = Vec::new();
        for value in values.into_iter().filter(|value| !value.is_empty()) {
            let encoded = encode(value);
            forms.extend([value.to_owned(), encoded.replace("%20", "+"), lower_hex(&encoded), encoded]);
        }
        // A value that holds another one goes first, or its rest would stay.
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Self(forms)
    }

    /// Text without the values.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut scrubbed = Cow::Borrowed(text);
        for form in self.0.iter().filter(|form| text.contains(form.as_str())) {
            scrubbed = Cow::Owned(scrubbed.replace(form.as_str(), STARS));
        }
        scrubbed
    }

    /// JSON without the values and without whitespace, otherwise as it was written; `None` when it is not JSON, or
    /// nests too deep for its readers.
    pub fn json(&self, text: &str) -> Option<String> {
        json::compact(text, &mut |token| match token {
            Token::Text(text) => match self.text(text) {
                Cow::Borrowed(_) => None,
                Cow::Owned(scrubbed) => Some(scrubbed),
            },
            Token::Number(number) => self.0.iter().any(|form| form == number).then(|| STARS.to_owned()),
        })
    }

    /// Bytes without the values.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut scrubbed = Cow::Borrowed(bytes);
        for form in &self.0 {
            let finder = Finder::new(form.as_bytes());
            let mut out = Vec::new();
            let mut from = 0;
            for at in finder.find_iter(&scrubbed) {
                out.extend_from_slice(&scrubbed[from..at]);
                out.extend_from_slice(STARS.as_bytes());
                from = at + form.len();
            }
            if from > 0 {
                out.extend_from_slice(&scrubbed[from..]);
                scrubbed = Cow::Owned(out);
            }
        }
        scrubbed
    }
}

/// The same with the digits behind each `%` in lower case, as some write them.
fn lower_hex(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        text.push('%');
        text.push_str(&digits.to_ascii_lowercase());
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_value_is_scrubbed() {
        let scrubber = Scrubber::new(["s/e cret", "s/e", ""]);
        assert_eq!(
            scrubber.text("a s/e cret, s%2Fe%20cret, s%2fe%20cret, s%2Fe+cret, s/e b"),
            "a ***, ***, ***, ***, *** b"
        );
        assert_eq!(Scrubber::new(["A/b"]).text("A%2Fb A%2fb a%2fb"), "*** *** a%2fb");
        assert!(matches!(scrubber.text("nothing"), Cow::Borrowed("nothing")));
        assert_eq!(scrubber.bytes(b"\xffs/e cret\xff").as_ref(), b"\xff***\xff");
        assert_eq!(format!("{scrubber:?}"), "a scrubber of 7 values");
    }

    #[test]
    fn json_keeps_everything_else_as_it_was() {
        let scrubber = Scrubber::new(["key\"1", "4711", "ü"]);
        let text = "{ \"a\" : 1.10, \"key\\\"1\": [9007199254740993, 1e400, 4711, -0.0],\n\"\\u00fc\": \"\\ud800 \\u006bey\\\"1 x\\/\" }";
        let found = scrubber.json(text).unwrap();
        assert_eq!(
            found,
            "{\"a\":1.10,\"***\":[9007199254740993,1e400,\"***\",-0.0],\"***\":\"\u{fffd} *** x/\"}"
        );
        let untouched = r#"{"x":"\ud800\/\u0041"}"#;
        assert_eq!(scrubber.json(untouched).unwrap(), untouched);
    }

    #[test]
    fn what_is_not_json_is_none() {
        let scrubber = Scrubber::default();
        for text in ["", "{", "{} {}", "nul", "\"a", "{'a':1}", "[1,]", "01", "\u{feff}{}"] {
            assert_eq!(scrubber.json(text), None, "{text}");
        }
        assert!(scrubber.json(&format!("{}{}", "[".repeat(100), "]".repeat(100))).is_some());
        assert_eq!(scrubber.json(&format!("{}{}", "[".repeat(101), "]".repeat(101))), None);
        let deep = 300_000;
        assert_eq!(scrubber.json(&format!("{}{}", "[".repeat(deep), "]".repeat(deep))), None);
    }
}

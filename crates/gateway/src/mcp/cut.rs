//! An answer that is too long for a model, cut where it is long. It is cut as its text, so that what is left stands as it was
//! written: a number that goes through a tree may come out as another.

use std::fmt::Write as _;

/// How long a text and a list may be, tried until the answer fits. Base64 that is cut so still reads.
const LETTERS: [usize; 6] = [16_384, 8_192, 4_096, 1_024, 256, 64];
const ITEMS: [usize; 4] = [usize::MAX, 100, 10, 1];
/// How many fields an object inside of the answer may then have.
const FIELDS: [usize; 3] = [100, 10, 1];
/// How deep an answer may nest; what nests deeper is left out.
const DEPTH_MAX: usize = 100;

/// Fields that a caller goes on with, or finds the call again by. Half of one says something else, so they stay whole,
const WHOLE: [&str; 3] = ["next_page_token", "next_cursor", "use_id"];
/// unless they are longer than this. Then they are left out.
const WHOLE_BYTES_MAX: usize = 16 << 10;

/// How many of the places where something was cut are named, and how much of each.
const CUTS_NAMED: usize = 10;
const PATH_CHARACTERS_MAX: usize = 100;

/// What is left of an answer.
pub(super) struct Cut {
    /// JSON.
    pub(super) text: String,
    /// What is lost, and where.
    pub(super) lost: Vec<String>,
}

/// Cuts an answer, which is JSON, to so many bytes.
pub(super) fn cut(json: &str, room: usize) -> Cut {
    let mut tries = Limits::all().into_iter();
    tries
        .find_map(|limits| Cutter::new(json, limits, room).cut())
        .unwrap_or_else(|| Cut { text: "null".to_owned(), lost: vec!["the answer is left out".to_owned()] })
}

/// How much of an answer may stay.
#[derive(Clone, Copy)]
struct Limits {
    letters: usize,
    items: usize,
    fields: usize,
    depth: usize,
}

impl Limits {
    /// What is tried, from what takes the least away.
    fn all() -> Vec<Self> {
        let least = Self { letters: 64, items: 1, fields: usize::MAX, depth: DEPTH_MAX };
        let mut all = Vec::new();
        for items in ITEMS {
            all.extend(LETTERS.map(|letters| Self { letters, items, ..least }));
        }
        all.extend(FIELDS.map(|fields| Self { fields, ..least }));
        // No more than the answer's own fields, and nothing that is inside of them.
        all.push(Self { depth: 1, ..least });
        all
    }
}

/// Writes an answer anew, from its beginning to its end.
struct Cutter<'a> {
    json: &'a str,
    /// How far it was read.
    at: usize,
    limits: Limits,
    room: usize,
    out: String,
    /// The place of what is written.
    path: String,
    lost: Vec<String>,
}

/// What is written is `None` where it does not fit, or where what is read is no JSON.
impl<'a> Cutter<'a> {
    fn new(json: &'a str, limits: Limits, room: usize) -> Self {
        let (out, path) = (String::new(), String::new());
        Self { json, at: 0, limits, room, out, path, lost: Vec::new() }
    }

    fn cut(mut self) -> Option<Cut> {
        self.value(0)?;
        Some(Cut { text: self.out, lost: self.lost })
    }

    fn put(&mut self, text: &str) -> Option<()> {
        self.out.push_str(text);
        (self.out.len() <= self.room).then_some(())
    }

    /// Notes what is lost here, before what was noted since there were `noted`.
    fn lose(&mut self, noted: usize, what: &str) {
        if noted < CUTS_NAMED {
            let path: String = self.path.chars().take(PATH_CHARACTERS_MAX).collect();
            let place = if path.is_empty() { "the answer".to_owned() } else { format!("`{path}`") };
            self.lost.insert(noted, format!("{place} {what}"));
            self.lost.truncate(CUTS_NAMED);
        }
    }

    fn leave_out(&mut self) -> Option<()> {
        self.lose(self.lost.len(), "is left out");
        self.put("null")
    }

    /// Writes the value that comes next.
    fn value(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.text(),
            b'{' | b'[' if depth >= self.limits.depth => {
                self.raw()?;
                self.leave_out()
            }
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            _ => {
                let scalar = self.raw()?;
                self.put(scalar)
            }
        }
    }

    fn text(&mut self) -> Option<()> {
        let (text, letters) = (self.string()?, self.limits.letters);
        let kept = head(text, letters);
        self.put("\"")?;
        self.put(kept)?;
        self.put("\"")?;
        if kept.len() < text.len() {
            let all = letters_of(text).count();
            self.lose(self.lost.len(), &format!("is {letters} of {all} characters"));
        }
        Some(())
    }

    fn list(&mut self, depth: usize) -> Option<()> {
        self.eat(b'[')?;
        self.put("[")?;
        let (noted, start, items) = (self.lost.len(), self.path.len(), self.limits.items);
        let mut count = 0_usize;
        while self.peek()? != b']' {
            if count > 0 {
                self.eat(b',')?;
            }
            if count < items {
                self.put(if count > 0 { "," } else { "" })?;
                // A text can always be written to.
                let _ = write!(self.path, "[{count}]");
                self.value(depth + 1)?;
                self.path.truncate(start);
            } else {
                self.raw()?;
            }
            count += 1;
        }
        self.eat(b']')?;
        if count > items {
            self.lose(noted, &format!("holds {items} of {count}"));
        }
        self.put("]")
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        self.eat(b'{')?;
        self.put("{")?;
        let fields = if depth == 0 { usize::MAX } else { self.limits.fields };
        let (noted, mut count) = (self.lost.len(), 0_usize);
        while self.peek()? != b'}' {
            if count > 0 {
                self.eat(b',')?;
            }
            let name = self.string()?;
            self.eat(b':')?;
            if count < fields {
                self.put(if count > 0 { ",\"" } else { "\"" })?;
                self.field(name, depth)?;
            } else {
                self.raw()?;
            }
            count += 1;
        }
        self.eat(b'}')?;
        if count > fields {
            self.lose(noted, &format!("holds {fields} of {count} fields"));
        }
        self.put("}")
    }

    /// Writes a field of an object, whose name begins to be written.
    fn field(&mut self, name: &str, depth: usize) -> Option<()> {
        self.put(name)?;
        self.put("\":")?;
        let start = self.path.len();
        if start > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let written = if WHOLE.contains(&name) { self.whole() } else { self.value(depth + 1) };
        self.path.truncate(start);
        written
    }

    fn whole(&mut self) -> Option<()> {
        let value = self.raw()?;
        if value.len() > WHOLE_BYTES_MAX { self.leave_out() } else { self.put(value) }
    }

    /// What comes next that is no space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.json.as_bytes().get(self.at..)?;
        let spaces = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.at += spaces;
        rest.get(spaces).copied()
    }

    /// Reads that byte.
    fn eat(&mut self, byte: u8) -> Option<()> {
        let is_next = self.peek()? == byte;
        self.at += usize::from(is_next);
        is_next.then_some(())
    }

    /// Reads a string; returns what stands between its quotes.
    fn string(&mut self) -> Option<&'a str> {
        self.eat(b'"')?;
        let (json, start) = (self.json, self.at);
        loop {
            match json.as_bytes().get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        let inside = json.get(start..self.at);
        self.at += 1;
        inside
    }

    /// Reads a number, or one of the three words.
    fn scalar(&mut self) -> Option<()> {
        let rest = self.json.as_bytes().get(self.at..)?;
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = rest.iter().take_while(is_part).count();
        self.at += length;
        (length > 0).then_some(())
    }

    /// Reads a value, however deep it nests; returns it as it is written.
    fn raw(&mut self) -> Option<&'a str> {
        self.peek()?;
        let (json, start, mut depth) = (self.json, self.at, 0_usize);
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    self.at += 1;
                    depth += 1;
                }
                b'}' | b']' => {
                    self.at += 1;
                    depth = depth.checked_sub(1)?;
                }
                b',' | b':' if depth > 0 => self.at += 1,
                _ => self.scalar()?,
            }
            if depth == 0 {
                return json.get(start..self.at);
            }
        }
    }
}

/// So many letters of what stands in a string, from its beginning.
fn head(text: &str, letters: usize) -> &str {
    // None takes less than a byte.
    if text.len() <= letters {
        return text;
    }
    let end = letters_of(text).take(letters).sum::<usize>();
    text.get(..end).unwrap_or(text)
}

/// How many bytes each letter takes of what stands in a string, where it may be escaped.
fn letters_of(text: &str) -> impl Iterator<Item = usize> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let length = first_letter(rest);
        rest = rest.get(length..).unwrap_or_default();
        (length > 0).then_some(length)
    })
}

fn first_letter(text: &[u8]) -> usize {
    match text {
        [] => 0,
        // A letter whose halves are escaped one by one.
        [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', _, _, b'\\', b'u', ..] => 12,
        [b'\\', b'u', ..] => 6,
        [b'\\' | 0xc0..=0xdf, ..] => 2,
        [0..=0x7f, ..] => 1,
        [0xe0..=0xef, ..] => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    fn cut_to(json: &str, room: usize) -> (Value, Vec<String>) {
        let Cut { text, lost } = cut(json, room);
        assert!(text.len() <= room, "{} of {room}", text.len());
        (serde_json::from_str(&text).unwrap(), lost)
    }

    #[test]
    fn what_fits_stays_as_it_was_written() {
        let json = r#" { "a" : [ 1.10, 18446744073709551616, -0.0e+5, true, null ], "b\n" : { "\u00e9" : "\ud800" } } "#;
        let compact = r#"{"a":[1.10,18446744073709551616,-0.0e+5,true,null],"b\n":{"\u00e9":"\ud800"}}"#;
        let Cut { text, lost } = cut(json, 1_000);
        assert_eq!((text.as_str(), lost.len()), (compact, 0));
    }

    #[test]
    fn long_texts_and_lists_are_cut_and_named() {
        let body =
            json!({ "result": [{ "text": "x".repeat(5_000) }, { "text": "short" }], "status_code": 200 });
        let (left, lost) = cut_to(&body.to_string(), 2_000);
        assert_eq!(left["result"][0]["text"], "x".repeat(1_024));
        assert_eq!((&left["result"][1]["text"], &left["status_code"]), (&json!("short"), &json!(200)));
        assert_eq!(lost, ["`result[0].text` is 1024 of 5000 characters"]);
        let body = json!({ "a": vec![vec!["y".repeat(70); 3]; 500] });
        let (left, lost) = cut_to(&body.to_string(), 1_000);
        assert_eq!(left["a"], json!([["y".repeat(70)]]));
        assert_eq!(lost[..2], ["`a` holds 1 of 500", "`a[0]` holds 1 of 3"]);
    }

    #[test]
    fn letters_are_never_halved() {
        for (text, letters, expected) in [
            ("ab", 2, "ab"),
            ("abc", 2, "ab"),
            (r#"\"\\\n"#, 2, r#"\"\\"#),
            ("é€😀x", 3, "é€😀"),
            (r"\ud83d\ude00\u00e9z", 1, r"\ud83d\ude00"),
            (r"\ud83d\ude00\u00e9z", 2, r"\ud83d\ude00\u00e9"),
        ] {
            assert_eq!(head(text, letters), expected);
        }
    }

    #[test]
    fn what_the_caller_goes_on_with_stays_whole() {
        let (cursor, fields) = ("c".repeat(8_192), (0..2_000).map(|at| (format!("name {at}"), json!([at]))));
        let result: Map<String, Value> = fields.collect();
        let body = json!({ "result": result, "status_code": 200, "next_cursor": cursor, "use_id": "use_1" });
        let (left, lost) = cut_to(&body.to_string(), 20_000);
        assert_eq!((&left["next_cursor"], &left["use_id"]), (&json!(cursor), &json!("use_1")));
        assert_eq!(left["result"].as_object().unwrap().len(), 100);
        assert_eq!(lost[0], "`result` holds 100 of 2000 fields");
        let (left, _) = cut_to(&body.to_string(), 8_300);
        assert_eq!((&left["next_cursor"], &left["result"]["name 0"]), (&json!(cursor), &json!([0])));
        let (left, lost) = cut_to(&json!({ "next_cursor": "c".repeat(30_000), "b": 1 }).to_string(), 20_000);
        assert_eq!(left, json!({ "next_cursor": null, "b": 1 }));
        assert_eq!(lost, ["`next_cursor` is left out"]);
    }

    #[test]
    fn something_is_left_of_everything() {
        let names = "n".repeat(30_000);
        let (left, lost) = cut_to(&json!({ "result": { names: 1 }, "use_id": "use_1" }).to_string(), 20_000);
        assert_eq!(left, json!({ "result": null, "use_id": "use_1" }));
        assert_eq!(lost, ["`result` is left out"]);
        let deep =
            format!("{{\"result\":{}1{},\"use_id\":\"use_1\"}}", "[".repeat(20_000), "]".repeat(20_000));
        let (left, _) = cut_to(&deep, 20_000);
        assert_eq!(left["use_id"], "use_1");
        let many: Map<String, Value> = (0..5_000).map(|at| (format!("name {at}"), json!(at))).collect();
        assert_eq!(cut_to(&json!(many).to_string(), 1_000).0, Value::Null);
        for broken in ["", "{", "[1", "{\"a\"", "{\"a\":", "\"a", "[1,", "{1:2}", "]", ","] {
            assert_eq!(cut(broken, 1_000).text, "null", "{broken}");
        }
    }
}

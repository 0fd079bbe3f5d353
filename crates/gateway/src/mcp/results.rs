//! What a call of a tool answers: the answer as it is, the same as text, and no more than a model can read.

use std::fmt::Write as _;

use bytes::Bytes;
use portico_kernel::Problem;
use serde_json::Value;

use super::cut::{Cut, cut};
use super::message::Id;

/// A result takes at most so much, all of it.
const RESULT_BYTES_MAX: usize = 64 << 10;
/// What surrounds the answer in a result, at most.
const FRAME_BYTES: usize = 4 << 10;
/// So much of an answer fits surely: it stands there twice, once as text, where each byte may take two.
pub(super) const ANSWER_BYTES: usize = (RESULT_BYTES_MAX - FRAME_BYTES) / 3;

/// What an answer holds beside its parts, at most.
const TEMPLATE_BYTES: usize = 256;

/// What every result says of itself.
#[derive(Clone, Copy)]
pub(super) struct ResultWriter<'a> {
    /// Does it stand by itself, as since the newest revision?
    pub(super) is_stateless: bool,
    /// The request that it answers.
    pub(super) id: &'a Id,
    /// The JSON of its `_meta`.
    pub(super) server: &'a str,
}

impl ResultWriter<'_> {
    /// The answer to a call that went well. `body` is the operation's answer, and `next` the token of the next page. However
    /// long it is, it is no refusal: whoever was told of one would repeat a write.
    pub(super) fn done(self, body: &[u8], next: Option<&str>, is_write: bool) -> Result<Bytes, Problem> {
        let more = next.map_or_else(String::new, |token| {
            format!(" More follows: call again with the same arguments and `page_token` \"{token}\".")
        });
        let body = str::from_utf8(body).map_err(Problem::internal)?;
        if body.len() <= ANSWER_BYTES {
            return Ok(self.write(body, body, &more, false));
        }
        let Cut { text, lost } = cut(body, ANSWER_BYTES);
        if lost.is_empty() {
            // What was too long was the space between its parts.
            return Ok(self.write(&text, &text, &more, false));
        }
        let rest = if is_write {
            "It was done: do not call again for the rest."
        } else {
            "Whoever needs the rest reads it over the REST API."
        };
        let note = format!("Too long for a tool, and cut: {}. {rest}{more}", lost.join("; "));
        Ok(self.write(&text, &text, &note, false))
    }

    /// The answer to a call that was refused: as text for the model, and as the `Problem` for a program.
    pub(super) fn refused(self, problem: &[u8]) -> Result<Bytes, Problem> {
        let body = str::from_utf8(problem).map_err(Problem::internal)?;
        let problem: Value = serde_json::from_str(body).map_err(Problem::internal)?;
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut message = format!("{}: {}", word(&problem["code"]), word(&problem["error"]));
        for detail in problem["details"].as_array().into_iter().flatten() {
            let description = word(&detail["description"]);
            if detail["type"] == "field" && !message.contains(&description) {
                let _ = write!(message, " `{}` {description}.", word(&detail["field"]));
            }
            // That a month turns is nothing to wait for.
            if detail["type"] == "retry" && problem["code"] != "quota_exceeded" {
                let _ = write!(message, " Try again after {} seconds.", word(&detail["after_seconds"]));
            }
        }
        Ok(self.write(&message, body, "", true))
    }

    /// The whole answer, put together in one piece of memory.
    fn write(self, text: &str, body: &str, note: &str, is_error: bool) -> Bytes {
        let parts = [text, text, body, note, &self.id.0, self.server];
        let mut answer =
            Vec::with_capacity(parts.iter().map(|part| part.len()).sum::<usize>() + TEMPLATE_BYTES);
        let mut put =
            |parts: &[&str]| parts.iter().for_each(|part| answer.extend_from_slice(part.as_bytes()));
        put(&[
            "{\"jsonrpc\":\"2.0\",\"id\":",
            &self.id.0,
            ",\"result\":{\"content\":[{\"type\":\"text\",\"text\":",
        ]);
        put_quoted(&mut answer, text);
        if !note.is_empty() {
            answer.extend_from_slice(b"},{\"type\":\"text\",\"text\":");
            put_quoted(&mut answer, note.trim());
        }
        let mut put =
            |parts: &[&str]| parts.iter().for_each(|part| answer.extend_from_slice(part.as_bytes()));
        let is_error = if is_error { "true" } else { "false" };
        // Only an object can be structured content; a service may answer with any JSON.
        let structured: &[&str] =
            if body.trim_start().starts_with('{') { &["}],\"structuredContent\":", body] } else { &["}]"] };
        put(structured);
        put(&[",\"isError\":", is_error]);
        if self.is_stateless {
            put(&[",\"resultType\":\"complete\",\"_meta\":", self.server]);
        }
        put(&["}}"]);
        answer.into()
    }
}

/// Writes a text as JSON. A text that is JSON itself has many quotes, so each byte is written in the same way, whatever it
/// is: that takes half the time of writing the pieces between the quotes.
fn put_quoted(to: &mut Vec<u8>, text: &str) {
    if text.bytes().any(|byte| byte < b' ') {
        // A text is always written: there is nothing in it that JSON cannot say.
        let _ = serde_json::to_writer(to, text);
        return;
    }
    to.push(b'"');
    let start = to.len();
    to.resize(start + 2 * text.len(), 0);
    let (space, mut at) = (&mut to[start..], 0);
    for byte in text.bytes() {
        space[at] = b'\\';
        at += usize::from(byte == b'"' || byte == b'\\');
        space[at] = byte;
        at += 1;
    }
    to.truncate(start + at);
    to.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_as_json() {
        for text in ["", "{\"a\":[\"b\\n\",1]}", "\\\\\"", "é\u{1f600}\u{7f}", "a line\nand\tanother\0"] {
            let mut written = b"before".to_vec();
            put_quoted(&mut written, text);
            assert_eq!(serde_json::from_slice::<String>(&written[6..]).unwrap(), text);
        }
    }
}

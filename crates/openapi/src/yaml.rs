//! The text of a document into one value, JSON or YAML.

use serde_json::Value;

use crate::finding::Findings;
use crate::json::{self, Bounds};

/// What a document may hold.
const BOUNDS: Bounds = Bounds { depth: 100, values: 1_000_000 };
/// How many values aliases may stand for, all together.
const ALIASED_MAX: usize = 100_000;

/// Reads the text. What begins with a brace is JSON, anything else YAML.
pub(crate) fn read(text: &[u8], findings: &mut Findings) -> Option<Value> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    if text.trim_ascii_start().starts_with(b"{") {
        return match json::read(text, BOUNDS) {
            Ok(value) => Some(value),
            Err(refusal) => {
                let error = refusal.error;
                let what = if error.field == "body" { "The document" } else { error.field.as_str() };
                findings.add(format!("line {}", refusal.line), format!("{what} {}.", error.description));
                None
            }
        };
    }
    let Ok(text) = std::str::from_utf8(text) else {
        findings.add("", "The document is not UTF-8.");
        return None;
    };
    match serde_saphyr::from_str_with_options(text, options()) {
        Ok(value) => Some(value),
        Err(error) => {
            let line = error.location().map(|location| format!("line {}", location.line()));
            let said = error.without_snippet().to_string();
            let reason = said.lines().next().unwrap_or_default();
            findings.add(line.unwrap_or_default(), format!("The document does not parse as YAML: {reason}."));
            None
        }
    }
}

/// YAML 1.2, in which only `true` and `false` are booleans, and in which aliases cannot stand for much more than is
/// written.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: BOUNDS.depth,
            max_nodes: BOUNDS.values,
            max_events: 3 * BOUNDS.values,
            max_documents: 1,
            // One anchor may well have many aliases; what they stand for all together is bounded below.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_MAX },
        strict_booleans: true,
        with_snippet: false,
    }
}

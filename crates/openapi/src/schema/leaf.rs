//! What one schema says about one value by itself, checked by the crate `jsonschema`.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value, json};

use super::words;
use crate::finding::{Findings, shown};
use crate::pointer;

/// The keywords that look at one value alone, not at schemas of what is in it.
const KEYWORDS: [&str; 19] = [
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "format",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
];

/// How large a pattern may get once it is compiled, in bytes: what it costs for each character depends on it.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Compiled leaves, each text of them once: most schemas of a document are alike.
#[derive(Default)]
pub(super) struct Leaves(HashMap<String, Option<Arc<Validator>>>);

impl Leaves {
    /// The leaf of a schema; `None` when it says nothing of the kind, or what is refused.
    pub(super) fn of(
        &mut self,
        schema: &Map<String, Value>,
        place: &str,
        findings: &mut Findings,
    ) -> Option<Arc<Validator>> {
        let mut leaf: Map<String, Value> = schema
            .iter()
            .filter(|(keyword, _)| KEYWORDS.contains(&keyword.as_str()))
            .map(|(keyword, value)| (keyword.clone(), value.clone()))
            .collect();
        bound_integers(&mut leaf);
        if leaf.is_empty() {
            return None;
        }
        self.compile(&Value::Object(leaf), place, findings)
    }

    /// A pattern for the names of fields.
    pub(super) fn pattern(
        &mut self,
        pattern: &str,
        place: &str,
        findings: &mut Findings,
    ) -> Option<Arc<Validator>> {
        self.compile(&json!({ "pattern": pattern }), place, findings)
    }

    fn compile(&mut self, leaf: &Value, place: &str, findings: &mut Findings) -> Option<Arc<Validator>> {
        let text = leaf.to_string();
        if let Some(Some(known)) = self.0.get(&text) {
            return Some(Arc::clone(known));
        }
        let built = build(leaf);
        if let Err(error) = &built {
            refuse(leaf, error, place, findings);
        }
        let built = built.ok().map(Arc::new);
        self.0.insert(text, built.clone());
        built
    }
}

fn build(leaf: &Value) -> Result<Validator, ValidationError<'static>> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .should_validate_formats(true)
        .with_format("byte", is_base64)
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX))
        .build(leaf)
}

/// OpenAPI's own format for bytes.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    digits.bytes().all(known) && padding <= 2 && digits.len() % 4 != 1
}

/// OpenAPI's formats of whole numbers are ranges.
fn bound_integers(leaf: &mut Map<String, Value>) {
    let (least, most) = match leaf.get("format").and_then(Value::as_str) {
        Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Some("int64") => (i64::MIN, i64::MAX),
        _ => return,
    };
    leaf.remove("format");
    let said = |limit: Option<&Value>| limit.and_then(Value::as_f64);
    #[expect(clippy::cast_precision_loss, reason = "only which of the two is narrower")]
    let (least_float, most_float) = (least as f64, most as f64);
    if said(leaf.get("minimum")).is_none_or(|limit| limit < least_float) {
        leaf.insert("minimum".to_owned(), least.into());
    }
    if said(leaf.get("maximum")).is_none_or(|limit| limit > most_float) {
        leaf.insert("maximum".to_owned(), most.into());
    }
}

fn refuse(leaf: &Value, error: &ValidationError<'_>, place: &str, findings: &mut Findings) {
    let Some(pattern) = leaf.get("pattern").and_then(Value::as_str) else {
        // What is no JSON Schema is said already, where it stands.
        if findings.is_empty() {
            findings.add(place, format!("The schema does not compile: {}.", shown(&error.to_string())));
        }
        return;
    };
    let backtracks = ["(?=", "(?!", "(?<=", "(?<!", "\\1", "\\k<"].iter().any(|sign| pattern.contains(sign));
    let reason = if backtracks {
        "look-around and references to groups cannot be matched in linear time"
    } else {
        "it is no regular expression, or too large a one, of those that are matched in linear time"
    };
    findings.add(
        pointer::join(place, "pattern"),
        format!("The pattern `{}` is refused: {reason}.", shown(pattern)),
    );
}

/// Whether a schema is one at all, by the metaschema of JSON Schema 2020-12.
pub(crate) fn meta_findings(schema: &Value, place: &str, findings: &mut Findings) {
    // The first fault of each schema will do: the rest follow from it as a rule.
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        let place = format!("{place}{}", error.instance_path());
        findings.add(place, format!("This is no JSON Schema: {}.", shown(&error.to_string())));
    }
}

/// What a leaf says against a value: descriptions, and the field that each is about where it is one of the value's.
pub(super) fn errors(leaf: &Validator, value: &Value, mut say: impl FnMut(Option<&str>, String)) {
    let errors: Vec<_> = leaf.iter_errors(value).take(super::ERRORS_MAX).collect();
    // Of another type, everything else that is wrong means nothing.
    let type_error = errors.iter().find(|error| matches!(error.kind(), ValidationErrorKind::Type { .. }));
    if let Some(error) = type_error {
        return say(None, describe(error.kind(), value));
    }
    for error in &errors {
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                say(property.as_str(), "is required".to_owned());
            }
            kind => say(None, describe(kind, value)),
        }
    }
}

fn describe(kind: &ValidationErrorKind, value: &Value) -> String {
    use ValidationErrorKind as Kind;
    match kind {
        Kind::Type { kind } => {
            let types: Vec<_> = match kind {
                TypeKind::Single(one) => vec![one.to_string()],
                TypeKind::Multiple(several) => several.iter().map(|one| one.to_string()).collect(),
            };
            let names: Vec<_> = types.iter().map(|name| words::type_name(name)).collect();
            format!("must be {}, not {}", words::either(&names), words::given(value))
        }
        Kind::Enum { options } => words::one_of(options.as_array().map_or(&[], Vec::as_slice), value),
        Kind::Constant { expected_value } => {
            format!("must be {}, not {}", words::literal(expected_value), words::given(value))
        }
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::MinLength { limit } => {
            format!("must have at least {}", words::count(*limit, "character", "characters"))
        }
        Kind::MaxLength { limit } => {
            format!("must have at most {}", words::count(*limit, "character", "characters"))
        }
        Kind::MinItems { limit } => format!("must have at least {}", words::count(*limit, "item", "items")),
        Kind::MaxItems { limit } => format!("must have at most {}", words::count(*limit, "item", "items")),
        Kind::MinProperties { limit } => {
            format!("must have at least {}", words::count(*limit, "field", "fields"))
        }
        Kind::MaxProperties { limit } => {
            format!("must have at most {}", words::count(*limit, "field", "fields"))
        }
        Kind::Pattern { pattern } => format!("must match {}", shown(pattern)),
        Kind::Format { format } => words::format(format),
        Kind::UniqueItems => "must not hold the same item twice".to_owned(),
        other => format!("does not fit the schema ({})", other.keyword()),
    }
}

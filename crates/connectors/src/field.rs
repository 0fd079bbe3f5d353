//! Fields of configurations and parameters: what they may hold.

use portico_kernel::text_enum;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::source::{Node, Table};
use crate::text::{has_control, is_name, shown};

/// The longest value of a configuration, in characters.
pub const CONFIG_VALUE_MAX: usize = 2_048;
/// The most choices of a field.
const CHOICES_MAX: usize = 200;
/// The longest description of anything.
pub(crate) const DESCRIPTION_MAX: usize = 2_000;

text_enum! {
    /// What a value is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum FieldType {
        /// Text.
        String = "string",
        /// A whole number of 64 bits.
        Integer = "integer",
        /// Any number.
        Number = "number",
        /// true or false.
        Boolean = "boolean",
        /// A JSON object.
        Object = "object",
        /// A JSON array.
        Array = "array",
        /// Segments of a path, with slashes between them.
        Path = "path",
        /// Any JSON. No manifest can say so.
        Any = "any",
    }
}

/// A field of a configuration or a parameter of an action, as the catalogue shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FieldDefinition {
    /// Its name.
    pub name: String,
    /// Its type: `string`, `integer`, `number`, `boolean`, `object`, `array`, `path` or `any`.
    #[serde(rename = "type")]
    pub field_type: String,
    /// What it is.
    pub description: String,
    /// Whether it must be given.
    pub required: bool,
    /// The only values that it may have; empty for any.
    pub choices: Vec<String>,
    /// What counts when it is not given.
    pub default_value: String,
    /// The smallest value, or the fewest characters or items.
    pub min: String,
    /// The largest value, or the most characters or items.
    pub max: String,
}

/// A field, checked. Texts that are empty say nothing.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value_type: FieldType,
    pub(crate) description: String,
    pub(crate) required: bool,
    pub(crate) choices: Vec<String>,
    pub(crate) default_value: String,
    pub(crate) min: String,
    pub(crate) max: String,
}

/// A field of a configuration.
#[derive(Debug, Clone)]
pub(crate) struct ConfigField {
    pub(crate) field: Field,
    /// It names a host, or a part of one.
    pub(crate) host: bool,
}

/// The types of a field of a configuration.
const CONFIG_TYPES: [FieldType; 4] =
    [FieldType::String, FieldType::Integer, FieldType::Number, FieldType::Boolean];
/// The types of a parameter.
const PARAM_TYPES: [FieldType; 7] = [
    FieldType::String,
    FieldType::Integer,
    FieldType::Number,
    FieldType::Boolean,
    FieldType::Object,
    FieldType::Array,
    FieldType::Path,
];

impl ConfigField {
    pub(crate) fn read(node: &Node<'_>) -> Option<Self> {
        let read = |table: &Table<'_>| {
            Some(Self { host: table.flag("host", false), field: Field::read(table, &CONFIG_TYPES)? })
        };
        node.table(read)?
    }
}

impl Field {
    /// A field that may be left out and has no bounds.
    pub(crate) fn new(name: &str, value_type: FieldType, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            value_type,
            description: description.to_owned(),
            required: false,
            choices: Vec::new(),
            default_value: String::new(),
            min: String::new(),
            max: String::new(),
        }
    }

    /// Reads a parameter.
    pub(crate) fn read_param(node: &Node<'_>) -> Option<Self> {
        node.table(|table| Self::read(table, &PARAM_TYPES))?
    }

    fn read(table: &Table<'_>, types: &[FieldType]) -> Option<Self> {
        let name = table.required("name").and_then(|node| node.parse(32, name));
        let names: Vec<_> = types.iter().map(|each| each.name()).collect();
        let parse = |text: &str| FieldType::parse(text).filter(|found| types.contains(found));
        let value_type = table.required("type").and_then(|node| node.choice(&names, parse));
        let field = Self {
            description: table.text("description", DESCRIPTION_MAX),
            required: table.flag("required", false),
            choices: table.list("choices", CHOICES_MAX, |node| node.text(1..=200).map(str::to_owned)),
            default_value: table.text("default_value", CONFIG_VALUE_MAX),
            min: table.text("min", 32),
            max: table.text("max", 32),
            name: name?,
            value_type: value_type?,
        };
        field.check(table);
        Some(field)
    }

    /// Do its bounds, its choices and its default fit together?
    fn check(&self, table: &Table<'_>) {
        for (name, bound) in [("min", &self.min), ("max", &self.max)] {
            if !bound.is_empty() && self.parse_bound(bound).is_none() {
                table.fault(name, "is not a bound for a field of this type");
            }
        }
        if let (Some(min), Some(max)) = (self.parse_bound(&self.min), self.parse_bound(&self.max))
            && min > max
        {
            table.fault("min", "is above max");
        }
        if !self.choices.is_empty()
            && matches!(self.value_type, FieldType::Object | FieldType::Array | FieldType::Boolean)
        {
            table.fault("choices", "is for text and numbers alone");
        }
        let unfit = self.choices.iter().find_map(|choice| self.read_text(choice).err());
        if let Some(message) = unfit {
            table.fault("choices", format!("has a value that {message}"));
        }
        if !self.default_value.is_empty()
            && let Err(message) = self.read_text(&self.default_value)
        {
            table.fault("default_value", message);
        }
    }

    /// A bound as a number; `None` for none, and for what is no bound of this type.
    fn parse_bound(&self, text: &str) -> Option<f64> {
        match self.value_type {
            FieldType::Integer => text.parse::<i64>().ok().map(as_float),
            FieldType::Number => text.parse::<f64>().ok().filter(|bound| bound.is_finite()),
            FieldType::String | FieldType::Path | FieldType::Array => text.parse::<u32>().ok().map(f64::from),
            FieldType::Boolean | FieldType::Object | FieldType::Any => None,
        }
    }

    /// The value that a text stands for, checked: a choice, a default or a field of a configuration.
    pub(crate) fn read_text(&self, text: &str) -> Result<Value, String> {
        let value = match self.value_type {
            FieldType::String | FieldType::Path => Value::from(text),
            FieldType::Integer => Value::from(text.parse::<i64>().map_err(|_| self.type_fault())?),
            FieldType::Number => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                Value::from(number.ok_or_else(|| self.type_fault())?)
            }
            FieldType::Boolean => Value::from(text.parse::<bool>().map_err(|_| self.type_fault())?),
            FieldType::Object | FieldType::Array | FieldType::Any => {
                serde_json::from_str(text).map_err(|_| self.type_fault())?
            }
        };
        self.read_value(&value)
    }

    /// A value of a call, checked; a whole number that is written with a fraction becomes what it is.
    pub(crate) fn read_value(&self, value: &Value) -> Result<Value, String> {
        let value = match (self.value_type, value) {
            (FieldType::Integer, Value::Number(number)) => match number.as_f64() {
                _ if number.is_i64() || number.is_u64() => value.clone(),
                Some(float) => whole(float).map(Value::from).ok_or_else(|| self.type_fault())?,
                None => return Err(self.type_fault()),
            },
            (FieldType::String | FieldType::Path, Value::String(_))
            | (FieldType::Number, Value::Number(_))
            | (FieldType::Boolean, Value::Bool(_))
            | (FieldType::Object, Value::Object(_))
            | (FieldType::Array, Value::Array(_))
            | (FieldType::Any, _) => value.clone(),
            _ => return Err(self.type_fault()),
        };
        self.check_bounds(&value)?;
        if self.choices.is_empty() || self.is_choice(&value) {
            return Ok(value);
        }
        Err(format!("must be one of {}", shown(&self.choices.join(", "))))
    }

    fn is_choice(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.choices.contains(text),
            Value::Number(number) => {
                let same = |choice: &String| choice.parse::<f64>().ok() == number.as_f64();
                self.choices.iter().any(same)
            }
            _ => false,
        }
    }

    fn check_bounds(&self, value: &Value) -> Result<(), String> {
        let (size, unit) = match value {
            Value::String(text) => (count(text.chars().count()), " characters"),
            Value::Array(items) => (count(items.len()), " items"),
            Value::Number(number) => (number.as_f64().unwrap_or_default(), ""),
            Value::Null | Value::Bool(_) | Value::Object(_) => return Ok(()),
        };
        if self.parse_bound(&self.min).is_some_and(|min| size < min) {
            return Err(format!("must be at least {}{unit}", self.min));
        }
        if self.parse_bound(&self.max).is_some_and(|max| size > max) {
            return Err(format!("must be at most {}{unit}", self.max));
        }
        Ok(())
    }

    fn type_fault(&self) -> String {
        match self.value_type {
            FieldType::String | FieldType::Path => "must be a string".to_owned(),
            FieldType::Integer => "must be an integer".to_owned(),
            FieldType::Number => "must be a number".to_owned(),
            FieldType::Boolean => "must be true or false".to_owned(),
            FieldType::Object => "must be an object".to_owned(),
            FieldType::Array => "must be an array".to_owned(),
            FieldType::Any => "must be JSON".to_owned(),
        }
    }

    /// The JSON Schema of its values.
    pub(crate) fn schema(&self) -> Value {
        let mut schema = Map::new();
        let type_name = if self.value_type == FieldType::Path { "string" } else { self.value_type.name() };
        if self.value_type != FieldType::Any {
            schema.insert("type".to_owned(), type_name.into());
        }
        if !self.description.is_empty() {
            schema.insert("description".to_owned(), self.description.as_str().into());
        }
        let (least, most) = match self.value_type {
            FieldType::Integer | FieldType::Number => ("minimum", "maximum"),
            FieldType::Array => ("minItems", "maxItems"),
            _ => ("minLength", "maxLength"),
        };
        for (name, bound) in [(least, &self.min), (most, &self.max)] {
            if let Some(number) = self.parse_bound(bound) {
                schema.insert(name.to_owned(), whole(number).map_or_else(|| json!(number), Value::from));
            }
        }
        if !self.choices.is_empty() {
            let choices = self.choices.iter().filter_map(|choice| self.read_text(choice).ok()).collect();
            schema.insert("enum".to_owned(), Value::Array(choices));
        }
        if !self.default_value.is_empty()
            && let Ok(default) = self.read_text(&self.default_value)
        {
            schema.insert("default".to_owned(), default);
        }
        Value::Object(schema)
    }

    /// As the catalogue shows it.
    pub(crate) fn definition(&self) -> FieldDefinition {
        FieldDefinition {
            name: self.name.clone(),
            field_type: self.value_type.name().to_owned(),
            description: self.description.clone(),
            required: self.required,
            choices: self.choices.clone(),
            default_value: self.default_value.clone(),
            min: self.min.clone(),
            max: self.max.clone(),
        }
    }
}

impl ConfigField {
    /// Checks a value of a connection's configuration.
    pub(crate) fn check(&self, text: &str) -> Result<(), String> {
        if text.chars().count() > CONFIG_VALUE_MAX {
            return Err(format!("must have at most {CONFIG_VALUE_MAX} characters"));
        }
        if has_control(text) {
            return Err("must have no control characters".to_owned());
        }
        self.field.read_text(text).map(|_| ())
    }

    /// The values that it can have without an account's doing, or that an account may choose from.
    pub(crate) fn fixed_values(&self) -> impl Iterator<Item = &str> {
        let default = (!self.field.default_value.is_empty()).then_some(self.field.default_value.as_str());
        self.field.choices.iter().map(String::as_str).chain(default)
    }
}

/// The name of a field.
pub(crate) fn name(text: &str) -> Result<String, String> {
    if is_name(text) { Ok(text.to_owned()) } else { Err("must be like [a-z][a-z0-9_]{0,31}".to_owned()) }
}

#[expect(clippy::cast_precision_loss, reason = "a bound that large need not be exact")]
const fn as_float(number: i64) -> f64 {
    number as f64
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// A number without a fraction that a float holds exactly.
#[expect(clippy::cast_possible_truncation, reason = "the bounds are checked")]
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let is_whole = number.fract() == 0.0 && (-EXACT..=EXACT).contains(&number);
    is_whole.then_some(number as i64)
}

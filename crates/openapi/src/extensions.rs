//! What a document says to Portico alone: `x-portico-...`.

use portico_kernel::Category;
use serde_json::{Map, Value};

use crate::Method;
use crate::finding::{Findings, shown};
use crate::pointer;

/// What an operation is to assistants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// At most 40 lower-case letters, digits and underscores.
    pub name: String,
    /// The name for people.
    pub title: String,
}

/// The largest price of one call.
const UNITS_MAX: u64 = 1_000_000;
/// The longest name of a tool: assistants put words of their own before it.
const TOOL_NAME_MAX: usize = 40;
/// The longest title of a tool.
const TITLE_MAX: usize = 100;
const PREFIX: &str = "x-portico-";

/// Everything that an operation says to Portico.
#[derive(Debug, Default)]
pub(crate) struct Extensions {
    pub(crate) units: Option<u64>,
    pub(crate) category: Option<Category>,
    pub(crate) plans: Option<Vec<String>>,
    pub(crate) tool: Option<Tool>,
    pub(crate) websocket: bool,
}

impl Extensions {
    pub(crate) fn read(operation: &Value, method: Method, place: &str, findings: &mut Findings) -> Self {
        let mut read = Self::default();
        for (name, value) in operation.as_object().into_iter().flatten() {
            let Some(word) = name.strip_prefix(PREFIX) else { continue };
            let place = pointer::join(place, name);
            let fault = match word {
                "units" => read.read_units(value),
                "category" => read.read_category(value),
                "plans" => read.read_plans(value),
                "tool" => read.read_tool(value),
                "websocket" => read.read_websocket(value, method),
                _ => Some(format!(
                    "`{}` means nothing to Portico; known are units, category, plans, tool and websocket.",
                    shown(name)
                )),
            };
            if let Some(fault) = fault {
                findings.add(place, fault);
            }
        }
        if read.units.is_some() && read.category.is_some() {
            let place = pointer::join(place, "x-portico-category");
            findings
                .add(place, "The price is said twice; say either `x-portico-units` or `x-portico-category`.");
        }
        read
    }

    fn read_units(&mut self, value: &Value) -> Option<String> {
        self.units = value.as_u64().filter(|units| *units <= UNITS_MAX);
        let wrong = self.units.is_none();
        wrong.then(|| format!("The price must be a whole number of units, from 0 to {UNITS_MAX}."))
    }

    fn read_category(&mut self, value: &Value) -> Option<String> {
        self.category = Category::ALL.iter().copied().find(|category| value == category.name());
        let names: Vec<_> = Category::ALL.iter().map(|category| category.name()).collect();
        let wrong = self.category.is_none();
        wrong.then(|| format!("The category must be one of the price list: {}.", names.join(", ")))
    }

    fn read_plans(&mut self, value: &Value) -> Option<String> {
        let plans: Option<Vec<_>> = value.as_array().and_then(|plans| {
            plans
                .iter()
                .map(|plan| plan.as_str().filter(|plan| !plan.is_empty()).map(str::to_owned))
                .collect()
        });
        self.plans = plans.filter(|plans| !plans.is_empty());
        let wrong = self.plans.is_none();
        wrong.then(|| "The plans must be a list of at least one name, such as `[team, scale]`.".to_owned())
    }

    fn read_tool(&mut self, value: &Value) -> Option<String> {
        let form = || Some("A tool is `{name, title}`, both strings, and nothing else.".to_owned());
        let Some(tool) = value.as_object() else { return form() };
        let text = |member: &str| tool.get(member).and_then(Value::as_str);
        let (Some(name), Some(title), 2) = (text("name"), text("title"), tool.len()) else { return form() };
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let begins = name.starts_with(|first: char| first.is_ascii_lowercase());
        if !begins || name.len() > TOOL_NAME_MAX || !name.bytes().all(plain) {
            return Some(format!(
                "The name of a tool must be at most {TOOL_NAME_MAX} lower-case letters, digits and underscores, a letter first."
            ));
        }
        if title.trim().is_empty() || title.chars().count() > TITLE_MAX {
            return Some(format!("The title of a tool must have 1 to {TITLE_MAX} characters."));
        }
        self.tool = Some(Tool { name: name.to_owned(), title: title.to_owned() });
        None
    }

    fn read_websocket(&mut self, value: &Value, method: Method) -> Option<String> {
        let Some(websocket) = value.as_bool() else { return Some("It must be true or false.".to_owned()) };
        self.websocket = websocket;
        let wrong = websocket && method != Method::Get;
        wrong.then(|| "Only a GET can be upgraded to a WebSocket.".to_owned())
    }
}

/// Extensions of Portico on objects that have none.
pub(crate) fn refuse_elsewhere(object: &Map<String, Value>, place: &str, findings: &mut Findings) {
    for name in object.keys().filter(|name| name.starts_with(PREFIX)) {
        findings.add(pointer::join(place, name), "This stands on an operation, nowhere else.");
    }
}

//! `anyOf`, `oneOf` and discriminators: which of the choices a value means.

use serde_json::Value;

use super::check::{Check, Parts};
use super::graph::{Among, Discriminator, Id, Node};
use super::place::Place;
use super::words;

/// How many schemas are looked at to see which choice could be meant.
const LOOKS_MAX: usize = 10_000;

impl Check<'_> {
    /// Brings in the choices that the value means, and refuses it where it fits none.
    pub(super) fn choose(
        &mut self,
        at: usize,
        node: &Node,
        parts: &mut Parts,
        value: &Value,
        place: &Place<'_>,
        report: bool,
    ) {
        // JSON Schema by itself knows no discriminators.
        let chooser =
            node.discriminator.as_ref().filter(|chooser| self.closed && !chooser.mapping.is_empty());
        let chooser = chooser.filter(|_| value.is_object());
        let direct = parts.list[at].direct;
        if let Some(chooser) = chooser {
            self.by_discriminator(at, chooser, parts, value, place, report);
        }
        let chosen = chooser.map(|chooser| chooser.among);
        if let Some(choices) = node.any_of.as_ref().filter(|_| chosen != Some(Among::AnyOf)) {
            let fitting: Vec<_> =
                choices.iter().copied().filter(|choice| self.fits(*choice, value)).collect();
            if fitting.is_empty() {
                self.fits_none(at, choices, parts, value, place, report);
            }
            for choice in fitting {
                parts.add(choice, Some(at), direct);
            }
        }
        if let Some(choices) = node.one_of.as_ref().filter(|_| chosen != Some(Among::OneOf)) {
            let fitting: Vec<_> =
                choices.iter().copied().filter(|choice| self.fits(*choice, value)).collect();
            match self.best(&fitting, value).as_slice() {
                [] => self.fits_none(at, choices, parts, value, place, report),
                [only] => parts.add(*only, Some(at), direct),
                several => {
                    let message = || "fits more than one of the forms of which it must have one".to_owned();
                    self.refuse(parts, place, report, message);
                    parts.undecided = true;
                    for choice in several {
                        parts.add(*choice, Some(at), direct);
                    }
                }
            }
        }
    }

    /// The choice that the discriminator names. Of a schema without choices, it is one that extends it, and only where
    /// the schema is not itself being extended.
    fn by_discriminator(
        &mut self,
        at: usize,
        chooser: &Discriminator,
        parts: &mut Parts,
        value: &Value,
        place: &Place<'_>,
        report: bool,
    ) {
        let direct = parts.list[at].direct;
        if chooser.among == Among::Heirs && !direct {
            return;
        }
        let said = value.get(&chooser.property);
        if let Some(choice) = said.and_then(Value::as_str).and_then(|name| chooser.mapping.get(name)) {
            return parts.add(*choice, Some(at), direct);
        }
        if chooser.among == Among::Heirs {
            // The schema itself may be meant, under its own name.
            return;
        }
        let place = place.field(&chooser.property);
        parts.undecided = true;
        self.refuse(parts, &place, report, || match said {
            None => "is required".to_owned(),
            Some(said) => {
                let names: Vec<_> = chooser.mapping.keys().map(|name| Value::from(name.as_str())).collect();
                words::one_of(&names, said)
            }
        });
    }

    /// Of several choices that fit, those that know most of the value's fields: a choice that does not know a field
    /// refuses it, as long as nothing else is said.
    fn best(&mut self, fitting: &[Id], value: &Value) -> Vec<Id> {
        let Value::Object(fields) = value else { return fitting.to_vec() };
        if fitting.len() < 2 || !self.closed {
            return fitting.to_vec();
        }
        let unknown = |choice: &Id| {
            let parts = self.schemas.in_place(&[*choice]);
            let nodes: Vec<_> = parts.iter().map(|id| self.schemas.node(*id)).collect();
            let takes_others = |node: &&Node| {
                node.additional.is_some() || node.unevaluated.is_some() || !node.patterns.is_empty()
            };
            if nodes.iter().any(takes_others) {
                return 0;
            }
            let knows = |name: &String| {
                nodes
                    .iter()
                    .any(|node| node.properties.as_ref().is_some_and(|named| named.contains_key(name)))
            };
            fields.keys().filter(|name| !knows(name)).count()
        };
        let counts: Vec<_> = fitting.iter().map(unknown).collect();
        self.steps += fitting.len() * fields.len();
        let least = counts.iter().min().copied().unwrap_or_default();
        fitting.iter().zip(counts).filter(|(_, count)| *count == least).map(|(choice, _)| *choice).collect()
    }

    /// The value fits no choice. Where only one can be meant, the refusal says what is wrong with that one.
    fn fits_none(
        &mut self,
        at: usize,
        choices: &[Id],
        parts: &mut Parts,
        value: &Value,
        place: &Place<'_>,
        report: bool,
    ) {
        parts.fit = false;
        if !report {
            return;
        }
        let mut looks = LOOKS_MAX;
        let possible: Vec<_> =
            choices.iter().copied().filter(|choice| self.could_mean(*choice, value, &mut looks)).collect();
        self.steps += LOOKS_MAX - looks;
        if let [only] = possible.as_slice() {
            let direct = parts.list[at].direct;
            return parts.add(*only, Some(at), direct);
        }
        parts.undecided = true;
        if possible.is_empty()
            && let Some((name, message)) = self.constants_of(choices, value)
        {
            return self.report(&place.field(name), message);
        }
        let message = if possible.is_empty() { self.types_of(choices, value) } else { None };
        let count = choices.len();
        let message = message.unwrap_or_else(|| format!("fits none of the {count} forms that it may have"));
        self.report(place, message);
    }

    /// Could this schema be meant, by its types and constants alone?
    fn could_mean(&self, schema: Id, value: &Value, looks: &mut usize) -> bool {
        let node = self.schemas.node(schema);
        if node.never || !node.allows_type(value) {
            return false;
        }
        if node.values.as_ref().is_some_and(|values| !values.contains(value)) {
            return false;
        }
        let Some(left) = looks.checked_sub(1) else { return true };
        *looks = left;
        let named = node.properties.iter().flatten();
        let constants_fit = value.as_object().is_none_or(|fields| {
            named.into_iter().all(|(name, schema)| {
                match (fields.get(name), &self.schemas.node(*schema).values) {
                    (Some(given), Some(values)) => values.contains(given),
                    _ => true,
                }
            })
        });
        let always =
            node.reference.iter().chain(&node.all_of).all(|inner| self.could_mean(*inner, value, looks));
        let mut choices = node.choices().peekable();
        let chosen = choices.peek().is_none() || choices.any(|inner| self.could_mean(inner, value, looks));
        constants_fit && always && chosen
    }

    /// The field by which the choices are told apart, where all of them say its values and the value has another.
    fn constants_of<'v>(&self, choices: &[Id], value: &'v Value) -> Option<(&'v str, String)> {
        let about = choices.iter().map(|choice| self.schemas.together(*choice));
        let of_type = |nodes: &Vec<Id>| nodes.iter().all(|id| self.schemas.node(*id).allows_type(value));
        let about: Vec<_> = about.filter(of_type).collect();
        value.as_object()?.iter().find_map(|(name, given)| {
            let mut values = Vec::new();
            for nodes in &about {
                let mut fields =
                    nodes.iter().filter_map(|id| self.schemas.node(*id).properties.as_ref()?.get(name));
                values.extend(
                    fields.find_map(|field| self.schemas.node(*field).values.as_ref())?.iter().cloned(),
                );
            }
            (!values.is_empty() && !values.contains(given))
                .then(|| (name.as_str(), words::one_of(&values, given)))
        })
    }

    /// What types the choices ask for, where the value is of none of them.
    fn types_of(&self, choices: &[Id], value: &Value) -> Option<String> {
        let mut types: Vec<&str> = Vec::new();
        for choice in choices {
            let nodes = self.schemas.in_place(&[*choice]);
            let said: Vec<_> =
                nodes.iter().flat_map(|id| &self.schemas.node(*id).types).map(String::as_str).collect();
            let fits = nodes.iter().all(|id| self.schemas.node(*id).allows_type(value));
            let has_values = nodes.iter().any(|id| self.schemas.node(*id).values.is_some());
            if said.is_empty() || fits || has_values {
                return None;
            }
            types.extend(said);
        }
        let mut names: Vec<_> = types.into_iter().map(words::type_name).collect();
        names.dedup();
        let mut seen = Vec::new();
        names.retain(|name| {
            let first = !seen.contains(name);
            seen.push(*name);
            first
        });
        let given = words::given(value);
        Some(format!("must be {}, not {given}", words::either(&names)))
    }
}

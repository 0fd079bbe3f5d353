//! The schemas of a document, compiled once, and the check of a value by them.
//!
//! The crate `jsonschema` decides about everything that one schema says of one value by itself: types, limits,
//! patterns, formats. How schemas compose is decided here, because three things want to see all schemas of a value at
//! once: which fields nobody knows, what a refusal says, and how much work one request may cause.

mod check;
mod choice;
mod graph;
mod leaf;
mod place;
mod typed;
mod words;

pub(crate) use check::Check;
pub use check::ERRORS_MAX;
pub(crate) use graph::{Builder, Id, Schemas, mapped};
pub(crate) use leaf::meta_findings;
pub use place::FieldError;
pub(crate) use place::Place;
pub(crate) use typed::{Texts, value_of};
pub(crate) use words::unknown;

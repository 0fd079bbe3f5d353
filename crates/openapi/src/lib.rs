//! The OpenAPI document of a company's own service, read into everything that a gateway needs of it.
//!
//! [`Document::read`] takes the text, JSON or YAML, 3.0 or 3.1, and gives operations, scopes and event types, or every
//! fault at once with its place. An [`Operation`] checks requests by its schemas, says how it is called by name, and
//! what a call of that kind is as a request. [`Document::merge_into`] puts the service into the platform's document, and
//! [`diff`] says what changed from one document to the next. Nothing here does I/O: a reference that leads out of the
//! document is refused.

mod body;
mod bundle;
mod closed;
mod diff;
mod document;
mod event;
mod extensions;
mod finding;
mod json;
mod merge;
mod model;
mod named;
mod operation;
mod parameter;
mod pointer;
mod refs;
mod schema;
mod security;
mod shape;
mod upgrade;
mod yaml;

pub use body::{BodyRule, RequestBody};
pub use diff::{Change, diff, is_same_schema};
pub use document::{DOCUMENT_BYTES_MAX, Document, OPERATIONS_MAX};
pub use event::EventType;
pub use extensions::Tool;
pub use finding::Finding;
pub use merge::{Errors, Mount};
pub use named::NamedRequest;
pub use operation::{Method, Operation, dots_fault};
pub use schema::{ERRORS_MAX, FieldError};
pub use security::{Scope, Security};

//! What the manifest of a connector says: which requests a provider takes, and what its answers mean.
//!
//! [`Manifest`] is read whole, or refused with every fault at once. It is data: the requests of its actions, of its
//! test and of its sign-in are made from templates, whose values can leave neither their segment of a path, nor their
//! key of a query, nor their header, nor their place in a body. [`Action::read`] and its like say what an answer means.
//! The two kinds without a manifest stand beside it: [`endpoint`] and [`webhook_in`].
//!
//! Nothing here does I/O, knows an account, or asks for the time. Whoever sends a request asks first whether its
//! [`Destination`] may be called. https is the rule; where [`HttpRequest::is_plain`], only the operator can allow it.
//!
//! Start reading at [`Manifest`], then `request.rs`, `values.rs` and `answer.rs`.

mod action;
mod address;
mod answer;
mod app;
mod auth;
mod body;
mod builtin;
mod change;
mod check;
mod connection;
pub mod endpoint;
mod fault;
mod field;
mod json;
mod kind;
mod manifest;
mod oauth;
mod overrides;
mod path;
mod pointer;
mod probe;
mod request;
mod rules;
mod scrub;
mod source;
mod spec;
mod template;
mod text;
mod tokens;
mod values;
pub mod webhook_in;

pub use action::{Action, Reading};
pub use address::Destination;
pub use answer::Answer;
pub use app::{App, Claims};
pub use auth::{CREDENTIAL_BYTES_MAX, CredentialField, Mode};
pub use builtin::{builtin, builtins, is_reserved};
pub use fault::Fault;
pub use field::{CONFIG_VALUE_MAX, FieldDefinition};
pub use kind::{Kind, TEST_ACTION};
pub use manifest::{ACTIONS_MAX, MANIFEST_BYTES_MAX, Manifest};
pub use oauth::{Client, OAuth, OAuthCall, SignIn};
pub use overrides::{BaseUrl, Overrides};
pub use probe::{TestFailure, TestReading};
pub use request::{HttpRequest, REQUEST_BYTES_MAX};
pub use rules::{ErrorClass, Failure, PROVIDER_MESSAGE_MAX};
pub use scrub::Scrubber;
pub use spec::{ActionDefinition, ActionSpec, Class, Executor};
pub use tokens::{TokenFailure, Tokens, provider_error};
pub use values::{Credentials, Values};

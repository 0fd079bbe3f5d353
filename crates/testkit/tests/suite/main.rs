//! The suite: stories that read as the specification, on both databases.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod answers;
mod audit;
mod crash;
mod documents;
mod errors;
mod exchange;
mod fuzz;
mod idempotency;
mod input;
mod paging;
mod people;
mod program;
mod registry;
mod store;
mod structure;
mod tokens;
mod wire;

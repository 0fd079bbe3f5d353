//! The suite: stories that read as the specification, on both databases.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::path::PathBuf;

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

/// The root of the repository. Asked when the test runs: a path that was compiled in could be another clone's.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells tests where their crate is through the environment"
)]
fn root() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..")
}

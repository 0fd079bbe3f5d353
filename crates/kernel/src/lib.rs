//! Values without I/O that every crate of Portico shares.
//!
//! Nothing here opens a socket, a file or a transaction. What an operation takes and answers is built from
//! these types, so that a limit, a format or a status is said in one place and holds on every transport.
//!
//! Invariant: this crate depends on no other crate of the workspace.

mod brand;
mod calendar;
mod caller;
mod category;
mod clock;
mod entropy;
mod hex;
mod histogram;
mod ids;
mod int64;
mod intern;
mod plan;
mod problem;
mod role;
mod scope;
mod secret;
mod text;
mod text_enum;
mod timestamp;

pub use brand::{Accent, Brand, LOGO_BYTES_MAX, Logo};
pub use calendar::{Day, Hour, Month};
pub use caller::{Caller, CallerKey, CallerKind};
pub use category::Category;
pub use clock::{Clock, Sleep};
pub use entropy::{Entropy, SystemEntropy};
pub use hex::hex;
pub use histogram::{Buckets, Histogram};
pub use ids::*;
pub use int64::Int64;
pub use intern::{intern, intern_all, intern_lists};
pub use plan::{AtZero, Plan, PlanError, PlanTerms, Plans};
pub use problem::{Code, Detail, Problem};
pub use role::Role;
pub use scope::ScopeSet;
pub use secret::Secret;
pub use text::{check_name, is_printable};
pub use timestamp::{Timestamp, seconds};

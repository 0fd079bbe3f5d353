//! How the world sees one TXT record: the zone's own servers first, then public resolvers.
//!
//! [`Dns::look`] asks where a record is and what is wrong when it is not there, [`Dns::zone`] who serves a domain, and
//! [`Dns::roots`] which resolvers answer. Nothing is kept from one question to the next.
//!
//! Start reading at `look.rs`. What follows from the answers stands in `verdict.rs`, one question in `question.rs`, the way to the
//! zone's servers in `zone.rs`, and what people do wrong in `hints.rs`.
//!
//! Invariants: one resolver that lies decides nothing, where there are three or more (0054); there are no more looks at once than
//! [`LOOKS_AT_ONCE`], whoever asks for them.

mod dns;
mod figures;
mod hints;
mod look;
mod model;
mod names;
mod providers;
mod question;
#[cfg(test)]
mod tests;
mod time;
mod txt;
mod value;
mod verdict;
mod words;
mod zone;

pub use dns::{Dns, LOOKS_AT_ONCE, Resolver, Settings, WAIT_MAX};
pub use figures::{BOUNDS, Figures, SecondsFigures};
pub use model::{Answer, Authority, Busy, Hint, Look, Outcome, Record, ServerKind, Verdict, Zone};

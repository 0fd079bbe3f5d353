//! How the world sees one TXT record: the zone's own servers first, then public resolvers.
//!
//! [`Dns::look`] asks where a record is, [`Dns::zone`] who serves a domain, and [`Dns::roots`] which resolvers answer.

mod dns;
mod figures;
mod model;

pub use dns::{Dns, Resolver, Settings};
pub use figures::{BOUNDS, Figures, SecondsFigures};
pub use model::{Answer, Authority, Hint, Look, Outcome, Record, ServerKind, Verdict, Zone};

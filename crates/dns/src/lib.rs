//! How the world sees one TXT record: the zone's own servers first, then public resolvers.

mod model;

pub use model::{Answer, Authority, Hint, Look, Outcome, Record, ServerKind, Verdict, Zone};

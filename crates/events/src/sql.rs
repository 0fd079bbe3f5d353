//! Every statement of the area.

/// Runs when the area can serve.
pub(crate) const PROBE: &str = "select id from events limit 1";

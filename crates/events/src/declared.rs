//! Event types whose areas are still to come.

use portico_engine::events;

events! {
    /// A new radar digest is out.
    RadarDigestPublished = "radar.digest.published" {
        /// The id of the digest.
        digest_id: String = "2026-W14".to_owned(),
        /// The week, such as `2026-W14`.
        week: String = "2026-W14".to_owned(),
    }
}

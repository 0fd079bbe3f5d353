//! Event types whose areas are still to come.

use portico_engine::{events, example_id};
use portico_kernel::kind;

events! {
    /// A domain became verified.
    DomainVerified = "domain.verified" {
        /// The domain.
        domain: String = "example.com".to_owned(),
        /// Who acted.
        actor: String = example_id::<kind::Person>().to_string(),
    }
    /// A domain stopped being verified.
    DomainUnverified = "domain.unverified" {
        /// The domain.
        domain: String = "example.com".to_owned(),
        /// Who acted.
        actor: String = example_id::<kind::Person>().to_string(),
    }
    /// Another account proved a domain that this account held.
    DomainTransferred = "domain.transferred" {
        /// The domain.
        domain: String = "example.com".to_owned(),
        /// Who acted.
        actor: String = example_id::<kind::Person>().to_string(),
    }
    /// A new radar digest is out.
    RadarDigestPublished = "radar.digest.published" {
        /// The id of the digest.
        digest_id: String = "2026-W14".to_owned(),
        /// The week, such as `2026-W14`.
        week: String = "2026-W14".to_owned(),
    }
}

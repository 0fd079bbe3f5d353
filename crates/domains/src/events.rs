//! The events of the area.

use portico_engine::{events, example_id};
use portico_kernel::kind;

events! {
    /// A domain became verified: the account proved that it controls it.
    DomainVerified = "domain.verified" {
        /// The domain, as A-labels.
        domain: String = "example.com".to_owned(),
        /// Who confirmed it.
        actor: String = example_id::<kind::Person>().to_string(),
    }
    /// A domain stopped being verified: its record is gone, another account proved it, or it was removed.
    DomainUnverified = "domain.unverified" {
        /// The domain, as A-labels.
        domain: String = "example.com".to_owned(),
        /// Who checked or removed it; `platform` for what the platform found by itself.
        actor: String = "platform".to_owned(),
    }
    /// Another account proved a domain that this account held. It comes with `domain.unverified`.
    DomainTransferred = "domain.transferred" {
        /// The domain, as A-labels.
        domain: String = "example.com".to_owned(),
        /// Always `platform`: the account does not learn who has it now.
        actor: String = "platform".to_owned(),
    }
}

//! Event types whose areas are still to come.

use portico_engine::{Event, example_id};
use portico_kernel::kind;
use schemars::JsonSchema;
use serde::Serialize;

macro_rules! domain_events {
    ($($(#[doc = $when:literal])+ $name:ident = $type:literal;)+) => {$(
        $(#[doc = $when])+
        #[derive(Serialize, JsonSchema)]
        pub(crate) struct $name {
            /// The domain.
            domain: String,
            /// Who acted.
            actor: String,
        }

        impl Event for $name {
            const TYPE: &'static str = $type;

            fn example() -> Self {
                Self { domain: "example.com".to_owned(), actor: example_id::<kind::Person>().to_string() }
            }
        }
    )+};
}

domain_events! {
    /// A domain became verified.
    DomainVerified = "domain.verified";
    /// A domain stopped being verified.
    DomainUnverified = "domain.unverified";
    /// Another account proved a domain that this account held.
    DomainTransferred = "domain.transferred";
}

/// A new radar digest is out.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RadarDigestPublished {
    /// The id of the digest.
    digest_id: String,
    /// The week, such as `2026-W14`.
    week: String,
}

impl Event for RadarDigestPublished {
    const TYPE: &'static str = "radar.digest.published";

    fn example() -> Self {
        Self { digest_id: "2026-W14".to_owned(), week: "2026-W14".to_owned() }
    }
}

/// A test event was requested.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WebhookTest {
    /// The id of the endpoint that is tested.
    endpoint_id: String,
    /// Who asked for it.
    actor: String,
}

impl Event for WebhookTest {
    const TYPE: &'static str = "webhook.test";

    fn example() -> Self {
        let endpoint_id = "whe_01KN2MGCG0B9D5MPJTB9D5MPJT".to_owned();
        Self { endpoint_id, actor: example_id::<kind::Person>().to_string() }
    }
}

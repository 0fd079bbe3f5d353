//! The event of the area.

use portico_engine::{events, example_id};
use portico_kernel::kind;

events! {
    /// A test event was requested.
    WebhookTest = "webhook.test" {
        /// The id of the endpoint that is tested.
        endpoint_id: String = "whe_01KN2MGCG0B9D5MPJTB9D5MPJT".to_owned(),
        /// Who asked for it.
        actor: String = example_id::<kind::Person>().to_string(),
    }
}

/// The one type that cannot be subscribed.
pub(crate) const TEST_TYPE: &str = <WebhookTest as portico_engine::Event>::TYPE;

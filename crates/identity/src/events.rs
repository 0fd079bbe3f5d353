//! Events of keys and API tokens.

use portico_engine::{events, example_id};
use portico_kernel::kind;

events! {
    /// An API token was made.
    TokenCreated = "token.created" {
        /// The id of the API token.
        token_id: String = example_id::<kind::Token>().to_string(),
        /// Who made it.
        actor: String = example_id::<kind::Person>().to_string(),
    }
    /// An API token was revoked.
    TokenRevoked = "token.revoked" {
        /// The id of the API token.
        token_id: String = example_id::<kind::Token>().to_string(),
        /// Who revoked it.
        actor: String = example_id::<kind::Person>().to_string(),
    }
    /// An API key was made.
    KeyCreated = "key.created" {
        /// The id of the key.
        key_id: String = example_id::<kind::Key>().to_string(),
        /// Who made it.
        actor: String = example_id::<kind::Person>().to_string(),
    }
    /// An API key was revoked.
    KeyRevoked = "key.revoked" {
        /// The id of the key.
        key_id: String = example_id::<kind::Key>().to_string(),
        /// Who revoked it.
        actor: String = example_id::<kind::Person>().to_string(),
    }
}

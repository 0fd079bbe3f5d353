//! The events of the area.

use portico_engine::{events, example_id};
use portico_kernel::kind;

events! {
    /// A connection was made.
    ConnectionCreated = "connection.created" {
        /// The id of the connection.
        connection_id: String = example_id::<kind::Connection>().to_string(),
        /// Who made it.
        actor: String = example_id::<kind::Person>().to_string(),
    }

    /// A connection was deleted.
    ConnectionDeleted = "connection.deleted" {
        /// The id of the connection.
        connection_id: String = example_id::<kind::Connection>().to_string(),
        /// Who deleted it.
        actor: String = example_id::<kind::Person>().to_string(),
    }

    /// The credential of a connection is no longer taken; until it has another one, nothing is sent.
    ConnectionNeedsReconnect = "connection.needs_reconnect" {
        /// The id of the connection.
        connection_id: String = example_id::<kind::Connection>().to_string(),
        /// Always `platform`.
        actor: String = "platform".to_owned(),
    }

    /// A consumer was granted actions of a connection.
    GrantCreated = "grant.created" {
        /// The id of the grant.
        grant_id: String = example_id::<kind::Grant>().to_string(),
        /// The id of the connection.
        connection_id: String = example_id::<kind::Connection>().to_string(),
        /// Who made it.
        actor: String = example_id::<kind::Person>().to_string(),
    }

    /// A grant was revoked.
    GrantRevoked = "grant.revoked" {
        /// The id of the grant.
        grant_id: String = example_id::<kind::Grant>().to_string(),
        /// The id of the connection.
        connection_id: String = example_id::<kind::Connection>().to_string(),
        /// Who revoked it; `platform` when its key was revoked.
        actor: String = example_id::<kind::Person>().to_string(),
    }
}

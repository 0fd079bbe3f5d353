//! Every statement of the area; here those about the area as a whole.

mod changes;
mod clients;
mod connections;
mod credentials;
mod grants;
mod sign_ins;
mod uses;

use portico_store::delete_some;

pub(crate) use changes::*;
pub(crate) use clients::*;
pub(crate) use connections::*;
pub(crate) use credentials::*;
pub(crate) use grants::*;
pub(crate) use sign_ins::*;
pub(crate) use uses::*;

/// Runs when the area can serve.
pub(crate) const PROBE: &str = "select id from connections limit 1";

/// Erases what the area keeps of an account: credentials first.
pub(crate) const ERASE: [&str; 9] = [
    delete_some!("connection_credentials", "id", "account_id = $1"),
    "delete from connection_clients where account_id = $1 and $2 > 0",
    delete_some!("connection_sign_ins", "id", "account_id = $1"),
    delete_some!("connection_grants", "id", "account_id = $1"),
    delete_some!("connection_consumers", "connection_id, consumer", "account_id = $1"),
    delete_some!("connection_uses", "id", "account_id = $1"),
    delete_some!("connection_handles", "account_id, handle", "account_id = $1"),
    delete_some!("connections", "id", "account_id = $1"),
    "delete from connection_changes where account_id = $1 and $2 > 0",
];

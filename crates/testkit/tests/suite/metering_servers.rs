//! Units and limits with servers that are processes of their own: killed, and several on one database.

pub(crate) mod client;
mod crash;
mod ledger;
mod several;

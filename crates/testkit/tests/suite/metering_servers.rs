//! Units and limits with servers that are processes of their own: killed, and several on one database.

mod client;
mod crash;
mod ledger;
mod several;

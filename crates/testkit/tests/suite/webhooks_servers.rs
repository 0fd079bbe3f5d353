//! Deliveries of servers that are processes of their own: killed, stopped, several on one database, and without it.

mod cluster;
mod crash;
mod isolation;
mod ledger;
mod made;
mod outage;
mod receiver;
mod scene;
mod several;

//! HTTP/1.1, as a gateway speaks it to a target.
//!
//! A connection has no task of its own: the future that waits for the answer, and later the body of the answer, read
//! and write it, so dropping either closes it at once. What a target says is read strictly, because whoever disagrees
//! with it about where an answer ends can be given a part of one answer for another one.

mod body;
mod chunked;
mod connection;
mod head;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use body::{Http1Body, Upload};
pub(crate) use connection::{Connection, exchange};
pub(crate) use head::{Asked, Framing, content_length};
pub(crate) use write::Writer;

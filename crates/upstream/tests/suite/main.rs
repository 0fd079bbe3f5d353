//! Calls to targets on this machine, as good and as bad as they can be.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod balance;
mod bodies;
mod breaker;
mod faults;
mod fixture;
mod framing;
mod health;
mod http2;
mod retry;
mod stress;
mod tls;
mod websocket;

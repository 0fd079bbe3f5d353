//! Packets of MQTT 3.1.1 and 5, as a server reads them: [`packets`] finds and reads whole packets, with what [`codec`] knows of
//! texts, lengths, properties and reason codes. [`window`] numbers the packets that wait to be acknowledged.
//!
//! Invariant: it does no I/O, and knows nothing of the platform.

#![expect(
    missing_docs,
    reason = "variants and fields have the names that the specification of MQTT gives them"
)]

pub mod codec;
pub mod packets;
pub mod window;

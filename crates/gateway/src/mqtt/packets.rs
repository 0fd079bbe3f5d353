//! Packets as they come in.

use std::ops::Range;

use bytes::Bytes;
use mqtt_protocol_core::mqtt::Arc;
use mqtt_protocol_core::mqtt::packet::{Property, v3_1_1, v5_0};
use mqtt_protocol_core::mqtt::result_code::{DisconnectReasonCode as Reason, MqttError};

/// The versions that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// MQTT 3.1.1.
    V3,
    /// MQTT 5.
    V5,
}

/// A packet that a client sends once it is known.
#[derive(Debug)]
pub(super) enum Packet {
    Publish(Box<Publish>),
    Puback(u16),
    Subscribe {
        id: u16,
        filters: Vec<(String, u8)>,
    },
    Unsubscribe {
        id: u16,
        filters: Vec<String>,
    },
    Ping,
    /// It goes. It may say how long to keep its session.
    Disconnect {
        expiry: Option<u32>,
    },
}

/// What is published.
#[derive(Debug)]
pub(super) struct Publish {
    pub(super) topic: String,
    /// The packet's number, with quality of service 1.
    pub(super) id: Option<u16>,
    pub(super) response_topic: Option<String>,
    pub(super) correlation: Option<Bytes>,
    pub(super) idempotency_key: Option<String>,
    pub(super) payload: Bytes,
}

/// A packet as it lies in what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PacketSpan {
    /// The first byte: its kind, and flags.
    pub(super) head: u8,
    /// Where its body is.
    pub(super) body: Range<usize>,
}

/// The first packet in `input`; `None` while it is not whole.
pub(super) fn find(input: &[u8], bytes_max: usize) -> Result<Option<PacketSpan>, Reason> {
    let Some((head, rest)) = input.split_first() else { return Ok(None) };
    let mut length = 0;
    for (place, byte) in rest.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            // A length has one spelling only.
            if place > 0 && *byte == 0 {
                return Err(Reason::MalformedPacket);
            }
            let begin = 2 + place;
            if begin + length > bytes_max {
                return Err(Reason::PacketTooLarge);
            }
            let found = PacketSpan { head: *head, body: begin..begin + length };
            return Ok((input.len() >= begin + length).then_some(found));
        }
    }
    if rest.len() >= 4 { Err(Reason::MalformedPacket) } else { Ok(None) }
}

fn reason(error: MqttError) -> Reason {
    match error {
        MqttError::ProtocolError => Reason::ProtocolError,
        _ => Reason::MalformedPacket,
    }
}

/// Nothing may follow what was read.
fn all_of(body: &[u8], read: usize) -> Result<(), Reason> {
    if read == body.len() { Ok(()) } else { Err(Reason::MalformedPacket) }
}

/// A packet's number, which is never 0.
fn number(body: &[u8]) -> Result<u16, Reason> {
    let number = body.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
    number.filter(|number| *number != 0).ok_or(Reason::MalformedPacket)
}

/// Reads a packet of a client that is known.
pub(super) fn read(version: Version, head: u8, body: &[u8]) -> Result<Packet, Reason> {
    let flags = head & 0x0f;
    let fixed = |expected: u8| if flags == expected { Ok(()) } else { Err(Reason::MalformedPacket) };
    match head >> 4 {
        3 => publish(version, flags, body),
        4 => {
            fixed(0)?;
            // Nearly all of them are no more than the number.
            if body.len() != 2 {
                let read = match version {
                    Version::V3 => 2,
                    Version::V5 => v5_0::Puback::parse(body).map_err(reason)?.1,
                };
                all_of(body, read)?;
            }
            Ok(Packet::Puback(number(body)?))
        }
        8 => {
            fixed(2)?;
            subscribe(version, body)
        }
        10 => {
            fixed(2)?;
            unsubscribe(version, body)
        }
        12 if body.is_empty() => fixed(0).map(|()| Packet::Ping),
        14 => {
            fixed(0)?;
            disconnect(version, body)
        }
        0 | 12 => Err(Reason::MalformedPacket),
        // A second CONNECT, the steps of quality of service 2, and what only servers send.
        _ => Err(Reason::ProtocolError),
    }
}

fn publish(version: Version, flags: u8, body: &[u8]) -> Result<Packet, Reason> {
    if version == Version::V3 {
        // Calls need what came with MQTT 5, and there is no way to refuse but to close.
        return Err(Reason::NotAuthorized);
    }
    match (flags & 1, (flags >> 1) & 3) {
        (_, 3) => return Err(Reason::MalformedPacket),
        // What comes with quality of service 0 never comes again.
        (_, 0) if flags & 8 != 0 => return Err(Reason::MalformedPacket),
        (_, 2) => return Err(Reason::QosNotSupported),
        (1, _) => return Err(Reason::RetainNotSupported),
        _ => {}
    }
    let (packet, _) = v5_0::Publish::parse(flags, Arc::from(body)).map_err(reason)?;
    let (mut response_topic, mut correlation, mut idempotency_key) = (None, None, None);
    for property in packet.props() {
        match property {
            Property::ResponseTopic(topic) => response_topic = Some(topic.val().to_owned()),
            Property::CorrelationData(data) => correlation = Some(Bytes::copy_from_slice(data.val())),
            Property::UserProperty(pair) if pair.key() == "idempotency_key" => {
                idempotency_key = Some(pair.val().to_owned());
            }
            Property::TopicAlias(_) => return Err(Reason::TopicAliasInvalid),
            // Only a server says it.
            Property::SubscriptionIdentifier(_) => return Err(Reason::ProtocolError),
            _ => {}
        }
    }
    let topic = packet.topic_name();
    if topic.is_empty() || topic.contains(['#', '+', '\0']) {
        return Err(Reason::TopicNameInvalid);
    }
    let id = packet.packet_id();
    if id == Some(0) {
        return Err(Reason::ProtocolError);
    }
    let (topic, payload) = (topic.to_owned(), Bytes::copy_from_slice(packet.payload().as_slice()));
    let publish = Publish { topic, id, response_topic, correlation, idempotency_key, payload };
    Ok(Packet::Publish(Box::new(publish)))
}

fn subscribe(version: Version, body: &[u8]) -> Result<Packet, Reason> {
    let id = number(body)?;
    let entries = match version {
        Version::V3 => v3_1_1::Subscribe::parse(body).map_err(reason)?.0.entries().clone(),
        Version::V5 => {
            let packet = v5_0::Subscribe::parse(body).map_err(reason)?.0;
            if packet.props().iter().any(|property| matches!(property, Property::SubscriptionIdentifier(_))) {
                return Err(Reason::SubscriptionIdentifiersNotSupported);
            }
            packet.entries().clone()
        }
    };
    let filters = entries.iter().map(|entry| {
        let filter = whole(entry.topic_filter())?;
        Ok((filter, entry.sub_opts().qos() as u8))
    });
    Ok(Packet::Subscribe { id, filters: filters.collect::<Result<_, Reason>>()? })
}

fn unsubscribe(version: Version, body: &[u8]) -> Result<Packet, Reason> {
    let id = number(body)?;
    let entries = match version {
        Version::V3 => v3_1_1::Unsubscribe::parse(body).map_err(reason)?.0.entries().clone(),
        Version::V5 => v5_0::Unsubscribe::parse(body).map_err(reason)?.0.entries().clone(),
    };
    let filters = entries.iter().map(|entry| whole(entry.as_str()));
    Ok(Packet::Unsubscribe { id, filters: filters.collect::<Result<_, Reason>>()? })
}

/// A filter, which is not empty and has no null character (MQTT 5, sections 1.5.4 and 4.7.3).
fn whole(filter: &str) -> Result<String, Reason> {
    if filter.is_empty() || filter.contains('\0') {
        Err(Reason::MalformedPacket)
    } else {
        Ok(filter.to_owned())
    }
}

fn disconnect(version: Version, body: &[u8]) -> Result<Packet, Reason> {
    if version == Version::V3 {
        return if body.is_empty() {
            Ok(Packet::Disconnect { expiry: None })
        } else {
            Err(Reason::MalformedPacket)
        };
    }
    let (packet, read) = v5_0::Disconnect::parse(body).map_err(reason)?;
    all_of(body, read)?;
    let expiry = packet.props().iter().flatten().find_map(|property| match property {
        Property::SessionExpiryInterval(seconds) => Some(seconds.val()),
        _ => None,
    });
    Ok(Packet::Disconnect { expiry })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_found_when_it_is_whole() {
        let whole = [0x40, 0x02, 0x00, 0x07, 0xc0];
        for end in 0..4 {
            assert_eq!(find(&whole[..end], 100), Ok(None), "{end}");
        }
        assert_eq!(find(&whole, 100), Ok(Some(PacketSpan { head: 0x40, body: 2..4 })));
        assert_eq!(find(&[0x30, 0xff, 0xff, 0xff, 0x7f], 100), Err(Reason::PacketTooLarge));
        assert_eq!(find(&[0x30, 0xff, 0xff, 0xff, 0xff], 100), Err(Reason::MalformedPacket));
        assert_eq!(find(&[0x30, 0xff, 0xff, 0xff], 100), Ok(None));
    }

    #[test]
    fn what_is_no_packet_is_refused_and_never_panics() {
        for version in [Version::V3, Version::V5] {
            for head in 0..=u8::MAX {
                for body in [
                    &b""[..],
                    b"\0",
                    b"\0\0",
                    b"\0\x01",
                    b"\0\x01\0",
                    b"\0\x01\x05\x0b",
                    b"\xff\xff\xff\xff\xff",
                ] {
                    let _ = read(version, head, body);
                }
            }
        }
        assert!(matches!(read(Version::V5, 0x35, b""), Err(Reason::QosNotSupported)));
        assert!(matches!(read(Version::V5, 0x31, b""), Err(Reason::RetainNotSupported)));
        assert!(matches!(read(Version::V5, 0x10, b""), Err(Reason::ProtocolError)));
        assert!(matches!(read(Version::V5, 0x82, b"\0\0\0\0\x01a\0"), Err(Reason::MalformedPacket)));
        assert!(matches!(read(Version::V3, 0x40, b"\0\x09"), Ok(Packet::Puback(9))));
    }
}

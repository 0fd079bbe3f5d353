//! Packets as they come in.

use std::ops::Range;

use bytes::Bytes;

use crate::codec::{
    DisconnectReasonCode as Reason, Properties, PropertyId, PubackReasonCode, ReadError, Reader, Value,
};

const PUBLISH_PROPERTIES: [PropertyId; 6] = [
    PropertyId::PayloadFormatIndicator,
    PropertyId::MessageExpiryInterval,
    PropertyId::ContentType,
    PropertyId::ResponseTopic,
    PropertyId::CorrelationData,
    PropertyId::TopicAlias,
];
const DISCONNECT_PROPERTIES: [PropertyId; 3] =
    [PropertyId::SessionExpiryInterval, PropertyId::ReasonString, PropertyId::ServerReference];

/// The versions that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// MQTT 3.1.1.
    V3,
    /// MQTT 5.
    V5,
}

/// A packet that a client sends once it is known.
#[derive(Debug)]
pub enum Packet {
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
pub struct Publish {
    pub topic: String,
    /// The packet's number, with quality of service 1.
    pub id: Option<u16>,
    pub response_topic: Option<String>,
    pub correlation: Option<Bytes>,
    pub idempotency_key: Option<String>,
    pub payload: Bytes,
}

/// A packet as it lies in what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketSpan {
    /// The first byte: its kind, and flags.
    pub head: u8,
    /// Where its body is.
    pub body: Range<usize>,
}

/// The first packet in `input`; `None` while it is not whole.
pub fn find(input: &[u8], bytes_max: usize) -> Result<Option<PacketSpan>, Reason> {
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

/// A packet's number, which is never 0.
fn number(body: &mut Reader<'_>) -> Result<u16, ReadError> {
    body.two_bytes().and_then(|number| if number == 0 { Err(ReadError::Malformed) } else { Ok(number) })
}

/// What packets that end a step may say behind their number: a reason, and properties.
fn ending<'a>(
    body: &mut Reader<'a>,
    is_known: fn(u8) -> bool,
    allowed: &[PropertyId],
) -> Result<Properties<'a>, ReadError> {
    if body.is_empty() {
        return Ok(Properties::default());
    }
    if !is_known(body.byte()?) {
        return Err(ReadError::Malformed);
    }
    let properties = if body.is_empty() { Properties::default() } else { body.properties()? };
    properties.check(allowed)?;
    body.end()?;
    Ok(properties)
}

/// Reads a packet of a client that is known.
pub fn read(version: Version, head: u8, body: &[u8]) -> Result<Packet, Reason> {
    let flags = head & 0x0f;
    let fixed = |expected: u8| if flags == expected { Ok(()) } else { Err(Reason::MalformedPacket) };
    match head >> 4 {
        3 => publish(version, flags, body),
        4 => {
            fixed(0)?;
            let mut body = Reader::new(body);
            let id = number(&mut body)?;
            if version == Version::V5 {
                ending(&mut body, PubackReasonCode::is_known, &[PropertyId::ReasonString])?;
            }
            body.end()?;
            Ok(Packet::Puback(id))
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
    let mut body = Reader::new(body);
    let topic = body.text()?;
    let id = if flags & 0b110 == 0 { None } else { Some(body.two_bytes()?) };
    let properties = if body.is_empty() { Properties::default() } else { body.properties()? };
    properties.check(&PUBLISH_PROPERTIES)?;
    let (mut response_topic, mut correlation, mut idempotency_key) = (None, None, None);
    for property in properties.iter() {
        match property {
            (PropertyId::ResponseTopic, Value::Text(topic)) => response_topic = Some(topic.to_owned()),
            (PropertyId::CorrelationData, Value::Binary(data)) => {
                correlation = Some(Bytes::copy_from_slice(data));
            }
            (PropertyId::UserProperty, Value::Pair("idempotency_key", value)) => {
                idempotency_key = Some(value.to_owned());
            }
            (PropertyId::TopicAlias, _) => return Err(Reason::TopicAliasInvalid),
            _ => {}
        }
    }
    if topic.is_empty() || topic.contains(['#', '+', '\0']) {
        return Err(Reason::TopicNameInvalid);
    }
    if id == Some(0) {
        return Err(Reason::ProtocolError);
    }
    let (topic, payload) = (topic.to_owned(), Bytes::copy_from_slice(body.rest()));
    let publish = Publish { topic, id, response_topic, correlation, idempotency_key, payload };
    Ok(Packet::Publish(Box::new(publish)))
}

fn subscribe(version: Version, body: &[u8]) -> Result<Packet, Reason> {
    let mut body = Reader::new(body);
    let id = number(&mut body)?;
    if version == Version::V5 {
        let properties = body.properties()?;
        if properties.has(PropertyId::SubscriptionIdentifier) {
            return Err(Reason::SubscriptionIdentifiersNotSupported);
        }
        properties.check(&[])?;
    }
    let mut filters = Vec::new();
    while !body.is_empty() {
        let filter = filter(version, &mut body)?;
        let options = body.byte()?;
        // The quality of service; in MQTT 5 also what becomes of retained messages, of which there are none.
        let reserved = if version == Version::V3 { 0b1111_1100 } else { 0b1100_0000 };
        if options & reserved != 0 || options & 0b11 == 0b11 || options & 0b11_0000 == 0b11_0000 {
            return Err(Reason::MalformedPacket);
        }
        filters.push((filter, options & 0b11));
    }
    if filters.is_empty() { Err(Reason::ProtocolError) } else { Ok(Packet::Subscribe { id, filters }) }
}

fn unsubscribe(version: Version, body: &[u8]) -> Result<Packet, Reason> {
    let mut body = Reader::new(body);
    let id = number(&mut body)?;
    if version == Version::V5 {
        body.properties()?.check(&[])?;
    }
    let mut filters = Vec::new();
    while !body.is_empty() {
        filters.push(filter(version, &mut body)?);
    }
    if filters.is_empty() { Err(Reason::ProtocolError) } else { Ok(Packet::Unsubscribe { id, filters }) }
}

/// A filter, which is not empty and has no null character (MQTT 5, sections 1.5.4 and 4.7.3), and whose group has a name (4.8.2).
fn filter(version: Version, body: &mut Reader<'_>) -> Result<String, ReadError> {
    let filter = body.text()?;
    let group = filter.strip_prefix("$share/").filter(|_| version == Version::V5);
    let is_group = |(name, _): (&str, &str)| !name.is_empty() && !name.contains(['+', '#']);
    let group_is_odd = group.is_some_and(|group| !group.split_once('/').is_some_and(is_group));
    if filter.is_empty() || filter.contains('\0') || group_is_odd {
        return Err(ReadError::Malformed);
    }
    Ok(filter.to_owned())
}

fn disconnect(version: Version, body: &[u8]) -> Result<Packet, Reason> {
    if version == Version::V3 {
        return if body.is_empty() {
            Ok(Packet::Disconnect { expiry: None })
        } else {
            Err(Reason::MalformedPacket)
        };
    }
    let properties = ending(&mut Reader::new(body), Reason::is_known, &DISCONNECT_PROPERTIES)?;
    let expiry = properties.iter().find_map(|property| match property {
        (PropertyId::SessionExpiryInterval, Value::Number(seconds)) => Some(seconds),
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

    #[test]
    fn every_kind_of_packet_is_read_or_refused_with_its_reason() {
        let malformed = Some(Reason::MalformedPacket);
        for (version, head, body, refused) in [
            (Version::V5, 0x32, &b"\0\x01t\0\x07\0{}"[..], None),
            (Version::V5, 0x30, b"\0\x01t", None),
            (Version::V5, 0x32, b"\0\x01t\0\0\0", Some(Reason::ProtocolError)),
            (Version::V5, 0x32, b"\0\x01t\0", malformed),
            (Version::V5, 0x30, b"\0\x01+\0", Some(Reason::TopicNameInvalid)),
            (Version::V5, 0x30, b"\0\x01t\x03\x23\0\x01", Some(Reason::TopicAliasInvalid)),
            (Version::V5, 0x30, b"\0\x01t\x02\x0b\x01", Some(Reason::ProtocolError)),
            (Version::V5, 0x30, b"\0\x01t\x04\x01\0\x01\0", Some(Reason::ProtocolError)),
            (Version::V5, 0x40, b"\0\x09\x10", None),
            (Version::V5, 0x40, b"\0\x09\0\x04\x1f\0\x01a", None),
            (Version::V5, 0x40, b"\0\x09\0\x02\x01\0", Some(Reason::ProtocolError)),
            (Version::V5, 0x40, b"\0\x09\x81", malformed),
            (Version::V5, 0x40, b"\0\x09\0\0more", malformed),
            (Version::V3, 0x40, b"\0\x09\0", malformed),
            (Version::V5, 0x82, b"\0\x01\0\0\x01a\x2e", None),
            (Version::V5, 0x82, b"\0\x01\0\0\x01a\x03", malformed),
            (Version::V5, 0x82, b"\0\x01\0\0\x01a\x30", malformed),
            (Version::V5, 0x82, b"\0\x01\0\0\x01a\x40", malformed),
            (Version::V5, 0x82, b"\0\x01\0\0\x01a", malformed),
            (Version::V5, 0x82, b"\0\x01\0\0\0\0", malformed),
            (Version::V5, 0x82, b"\0\x01\0", Some(Reason::ProtocolError)),
            (Version::V5, 0x82, b"\0\x01\0\0\x0a$share/a/b\0", None),
            (Version::V5, 0x82, b"\0\x01\0\0\x09$share//b\0", malformed),
            (Version::V5, 0x82, b"\0\x01\0\0\x0a$share/+/b\0", malformed),
            (Version::V5, 0x82, b"\0\x01\0\0\x08$share/a\0", malformed),
            (
                Version::V5,
                0x82,
                b"\0\x01\x02\x0b\x01\0\x01a\0",
                Some(Reason::SubscriptionIdentifiersNotSupported),
            ),
            (Version::V3, 0x82, b"\0\x01\0\x01a\x02", None),
            (Version::V3, 0x82, b"\0\x01\0\x01a\x04", malformed),
            (Version::V3, 0xa2, b"\0\x01\0\x01a", None),
            (Version::V3, 0xa2, b"\0\x01", Some(Reason::ProtocolError)),
            (Version::V5, 0xa2, b"\0\x01\0\0\x01\0", malformed),
            (Version::V5, 0xa0, b"\0\x01\0\0\x01a", malformed),
            (Version::V5, 0xe0, b"\x04\x05\x11\0\0\0\x3c", None),
            (Version::V5, 0xe0, b"\x01", malformed),
            (Version::V5, 0xe0, b"\0\x03\x21\0\x01", Some(Reason::ProtocolError)),
            (Version::V3, 0xe0, b"\0", malformed),
        ] {
            assert_eq!(read(version, head, body).err(), refused, "{version:?} {head:x} {body:x?}");
        }
        let left = read(Version::V5, 0xe0, b"\x04\x05\x11\0\0\0\x3c");
        assert!(matches!(left, Ok(Packet::Disconnect { expiry: Some(60) })));
    }
}

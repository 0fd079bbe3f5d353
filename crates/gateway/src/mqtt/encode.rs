//! Packets as they go out. They are written by hand, because an event's packet is put together from what is shared by
//! everyone who is sent it, and both versions differ by little.

use bytes::{BufMut, Bytes, BytesMut};
use portico_events::{Frame, Shape};

use super::filters::EVENTS;
use portico_mqtt::codec::{
    ConnectReasonCode, DisconnectReasonCode, PropertyId, PubackReasonCode, SubackReasonCode,
    UnsubackReasonCode,
};
use portico_mqtt::packets::Version;

const CONTENT_TYPE: &str = "application/json";

/// The number of bytes in which a length is written.
fn length_bytes(length: usize) -> usize {
    match length {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x0020_0000 => 3,
        _ => 4,
    }
}

fn put_length(out: &mut BytesMut, mut length: usize) {
    loop {
        let low = u8::try_from(length & 0x7f).unwrap_or_default();
        length >>= 7;
        if length == 0 {
            return out.put_u8(low);
        }
        out.put_u8(low | 0x80);
    }
}

/// Text or bytes behind their length. What is longer than can be said is cut; nothing of ours is.
fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.put_u16(length);
    out.put_slice(&bytes[..usize::from(length)]);
}

/// Properties behind their length.
fn put_properties(out: &mut BytesMut, properties: &[u8]) {
    put_length(out, properties.len());
    out.put_slice(properties);
}

fn put_text(out: &mut BytesMut, property: PropertyId, text: &str) {
    out.put_u8(property as u8);
    put_bytes(out, text.as_bytes());
}

fn put_pair(out: &mut BytesMut, name: &str, value: &str) {
    put_text(out, PropertyId::UserProperty, name);
    put_bytes(out, value.as_bytes());
}

/// A packet of that kind around `body`.
fn put_packet(out: &mut BytesMut, head: u8, body: &[u8]) {
    out.reserve(5 + body.len());
    out.put_u8(head);
    put_length(out, body.len());
    out.put_slice(body);
}

/// The answer to CONNECT of a client that is let in.
pub(super) struct Connack<'a> {
    pub(super) session_present: bool,
    pub(super) session_expiry: u32,
    /// The name that the server gives a client without one.
    pub(super) assigned: Option<&'a str>,
    pub(super) keep_alive: Option<u16>,
    pub(super) receive_max: u16,
    pub(super) packet_max: u32,
}

impl Connack<'_> {
    pub(super) fn put(&self, out: &mut BytesMut, version: Version) {
        let mut body = BytesMut::new();
        body.put_slice(&[u8::from(self.session_present), ConnectReasonCode::Success as u8]);
        if version == Version::V5 {
            let mut properties = BytesMut::new();
            properties.put_u8(PropertyId::SessionExpiryInterval as u8);
            properties.put_u32(self.session_expiry);
            properties.put_u8(PropertyId::ReceiveMaximum as u8);
            properties.put_u16(self.receive_max);
            properties.put_u8(PropertyId::MaximumPacketSize as u8);
            properties.put_u32(self.packet_max);
            for (property, value) in [
                (PropertyId::MaximumQos, 1),
                (PropertyId::RetainAvailable, 0),
                (PropertyId::WildcardSubscriptionAvailable, 1),
                (PropertyId::SubscriptionIdentifierAvailable, 0),
                (PropertyId::SharedSubscriptionAvailable, 0),
            ] {
                properties.put_slice(&[property as u8, value]);
            }
            if let Some(seconds) = self.keep_alive {
                properties.put_u8(PropertyId::ServerKeepAlive as u8);
                properties.put_u16(seconds);
            }
            if let Some(name) = self.assigned {
                put_text(&mut properties, PropertyId::AssignedClientIdentifier, name);
            }
            put_properties(&mut body, &properties);
        }
        put_packet(out, 0x20, &body);
    }
}

/// The answer to CONNECT of a client that is refused.
pub(super) fn refusal(out: &mut BytesMut, version: Version, code: ConnectReasonCode, message: &str) {
    use ConnectReasonCode as Code;
    let mut body = BytesMut::new();
    match version {
        Version::V3 => body.put_slice(&[
            0,
            match code {
                Code::UnsupportedProtocolVersion => 1,
                Code::ClientIdentifierNotValid => 2,
                Code::BadUserNameOrPassword | Code::BadAuthenticationMethod => 4,
                Code::NotAuthorized => 5,
                _ => 3,
            },
        ]),
        Version::V5 => {
            let mut properties = BytesMut::new();
            if !message.is_empty() {
                put_text(&mut properties, PropertyId::ReasonString, message);
            }
            body.put_slice(&[0, code as u8]);
            put_properties(&mut body, &properties);
        }
    }
    put_packet(out, 0x20, &body);
}

/// Answers a SUBSCRIBE.
pub(super) fn suback(out: &mut BytesMut, version: Version, id: u16, codes: &[SubackReasonCode]) {
    let code = |code: &SubackReasonCode| {
        let code = *code as u8;
        if version == Version::V3 { code.min(0x80) } else { code }
    };
    put_codes(out, 0x90, version, id, codes.iter().map(code));
}

/// Answers an UNSUBSCRIBE. MQTT 3.1.1 does not say what became of each.
pub(super) fn unsuback(out: &mut BytesMut, version: Version, id: u16, codes: &[UnsubackReasonCode]) {
    let codes = if version == Version::V5 { codes } else { &[] };
    put_codes(out, 0xb0, version, id, codes.iter().map(|code| *code as u8));
}

fn put_codes(out: &mut BytesMut, head: u8, version: Version, id: u16, codes: impl Iterator<Item = u8>) {
    let mut body = BytesMut::from(&id.to_be_bytes()[..]);
    if version == Version::V5 {
        body.put_u8(0);
    }
    body.extend(codes);
    put_packet(out, head, &body);
}

/// Answers a PUBLISH.
pub(super) fn puback(out: &mut BytesMut, id: u16, code: PubackReasonCode) {
    let [high, low] = id.to_be_bytes();
    match code {
        PubackReasonCode::Success => put_packet(out, 0x40, &[high, low]),
        code => put_packet(out, 0x40, &[high, low, code as u8]),
    }
}

/// Answers a PINGREQ.
pub(super) fn pong(out: &mut BytesMut) {
    out.put_slice(&[0xd0, 0]);
}

/// Says why the connection ends; MQTT 3.1.1 has no code for it.
pub(super) fn disconnect(out: &mut BytesMut, version: Version, reason: DisconnectReasonCode) {
    if version == Version::V5 {
        put_packet(out, 0xe0, &[reason as u8]);
    }
}

/// A packet that publishes: the topic, in two parts, and all that comes after the packet's number, in two parts too.
pub(super) struct PublishPacket<'a> {
    pub(super) topic: [&'a str; 2],
    pub(super) rest: [&'a [u8]; 2],
}

impl PublishPacket<'_> {
    fn topic_bytes(&self) -> usize {
        self.topic.iter().map(|part| part.len()).sum()
    }

    fn body_bytes(&self, qos: u8) -> usize {
        let rest: usize = self.rest.iter().map(|part| part.len()).sum();
        2 + self.topic_bytes() + 2 * usize::from(qos) + rest
    }

    /// How large its packet is.
    pub(super) fn size(&self, qos: u8) -> usize {
        let body = self.body_bytes(qos);
        1 + length_bytes(body) + body
    }

    /// Writes the packet; `id` is its number with quality of service 1, and `again` says that it may have come before.
    pub(super) fn put(&self, out: &mut BytesMut, id: Option<u16>, again: bool) {
        let qos = u8::from(id.is_some());
        out.reserve(self.size(qos));
        out.put_u8(0x30 | (u8::from(again && id.is_some()) << 3) | (qos << 1));
        put_length(out, self.body_bytes(qos));
        out.put_u16(u16::try_from(self.topic_bytes()).unwrap_or(u16::MAX));
        self.topic.iter().for_each(|part| out.put_slice(part.as_bytes()));
        if let Some(id) = id {
            out.put_u16(id);
        }
        self.rest.iter().for_each(|part| out.put_slice(part));
    }
}

/// What follows the number in an event's packet: in MQTT 5 the properties and the envelope, made once for everyone.
pub(super) fn event_rest(version: Version, frame: &Frame) -> Bytes {
    match version {
        Version::V3 => frame.envelope.clone(),
        Version::V5 => frame.shape(Shape::Mqtt, |frame| {
            let mut properties = BytesMut::with_capacity(128);
            put_json(&mut properties);
            put_pair(&mut properties, "event_id", &frame.id.to_string());
            put_pair(&mut properties, "cursor", &frame.cursor().to_string());
            let mut rest = BytesMut::with_capacity(2 + properties.len() + frame.envelope.len());
            put_properties(&mut rest, &properties);
            rest.put_slice(&frame.envelope);
            rest.freeze()
        }),
    }
}

/// An event as it is published.
pub(super) fn event<'a>(frame: &'a Frame, rest: &'a [u8]) -> PublishPacket<'a> {
    PublishPacket { topic: [EVENTS, &frame.event_type], rest: [rest, &[]] }
}

/// The properties of the answer to a call.
pub(super) fn reply_properties(correlation: Option<&[u8]>, outcome: &str) -> BytesMut {
    let mut properties = BytesMut::new();
    put_json(&mut properties);
    if let Some(correlation) = correlation {
        properties.put_u8(PropertyId::CorrelationData as u8);
        put_bytes(&mut properties, correlation);
    }
    put_pair(&mut properties, "outcome", outcome);
    let mut all = BytesMut::with_capacity(4 + properties.len());
    put_properties(&mut all, &properties);
    all
}

fn put_json(properties: &mut BytesMut) {
    properties.put_slice(&[PropertyId::PayloadFormatIndicator as u8, 1]);
    put_text(properties, PropertyId::ContentType, CONTENT_TYPE);
}

#[cfg(test)]
mod tests {
    use super::*;
    use portico_mqtt::codec::{Reader, Value};

    #[test]
    fn a_reply_reads_as_it_was_written() {
        let properties = reply_properties(Some(b"abc"), "answer");
        let expected = b"\x2d\x01\x01\x03\0\x10application/json\x09\0\x03abc\x26\0\x07outcome\0\x06answer";
        assert_eq!(properties, expected[..]);
        let large = vec![b'x'; 20_000];
        for payload in [&b"{}"[..], &large] {
            for id in [None, Some(7)] {
                let reply = PublishPacket { topic: ["rpc/reply/", "me"], rest: [&properties, payload] };
                let mut out = BytesMut::new();
                reply.put(&mut out, id, false);
                assert_eq!(out.len(), reply.size(u8::from(id.is_some())));
                let found = portico_mqtt::packets::find(&out, 1 << 20).unwrap().unwrap();
                assert_eq!(found.head, if id.is_some() { 0x32 } else { 0x30 });
                let mut body = Reader::new(&out[found.body]);
                assert_eq!(body.text(), Ok("rpc/reply/me"));
                assert_eq!(id.map(|_| body.two_bytes().unwrap()), id);
                assert_eq!(body.properties().unwrap().iter().count(), 4);
                assert_eq!(body.rest(), payload);
            }
        }
    }

    #[test]
    fn the_answer_to_connect_reads_as_it_was_written() {
        let mut out = BytesMut::new();
        let connack = Connack {
            session_present: true,
            session_expiry: 7,
            assigned: Some("a"),
            keep_alive: Some(60),
            receive_max: 32,
            packet_max: 1 << 20,
        };
        connack.put(&mut out, Version::V5);
        let mut body = Reader::new(&out[2..]);
        assert_eq!((out[0], body.byte(), body.byte()), (0x20, Ok(1), Ok(0)));
        let properties = body.properties().unwrap();
        assert_eq!(body.end(), Ok(()));
        assert_eq!(
            properties.iter().collect::<Vec<_>>(),
            [
                (PropertyId::SessionExpiryInterval, Value::Number(7)),
                (PropertyId::ReceiveMaximum, Value::Number(32)),
                (PropertyId::MaximumPacketSize, Value::Number(1 << 20)),
                (PropertyId::MaximumQos, Value::Number(1)),
                (PropertyId::RetainAvailable, Value::Number(0)),
                (PropertyId::WildcardSubscriptionAvailable, Value::Number(1)),
                (PropertyId::SubscriptionIdentifierAvailable, Value::Number(0)),
                (PropertyId::SharedSubscriptionAvailable, Value::Number(0)),
                (PropertyId::ServerKeepAlive, Value::Number(60)),
                (PropertyId::AssignedClientIdentifier, Value::Text("a")),
            ]
        );
    }
}

//! The transports, and what their clients say and read: no more than it takes to listen and to count.

/// A transport, as a client uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sse,
    Socket,
    /// MQTT with quality of service 0,
    Mqtt0,
    /// and 1.
    Mqtt1,
}

/// The topic of every event of the bench.
pub(crate) const TOPIC: &str = "events/bench.happened";
/// Before the number in an event.
const NUMBER: &[u8] = b"\"number\":\"";

/// The complete frames at the beginning of what was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CompleteFrames {
    /// Events in it.
    pub(crate) events: u32,
    /// Bytes of it; the rest is the beginning of something.
    pub(crate) bytes: usize,
}

/// A frame or packet that is whole.
struct Whole {
    length: usize,
    is_event: bool,
    /// To be acknowledged under this number.
    packet_id: Option<[u8; 2]>,
}

impl Kind {
    /// Its name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sse => "SSE",
            Self::Socket => "WebSocket",
            Self::Mqtt0 => "MQTT QoS 0",
            Self::Mqtt1 => "MQTT QoS 1",
        }
    }

    pub(crate) fn is_mqtt(self) -> bool {
        matches!(self, Self::Mqtt0 | Self::Mqtt1)
    }

    /// The quality of service in MQTT's numbers.
    pub(crate) fn qos(self) -> u8 {
        u8::from(self == Self::Mqtt1)
    }

    /// Goes over what was read, and adds to `acks` what is to be answered.
    pub(crate) fn pass(self, read: &[u8], acks: &mut Vec<u8>) -> CompleteFrames {
        if self == Self::Sse {
            return pass_blocks(read);
        }
        let mut passed = CompleteFrames { events: 0, bytes: 0 };
        while let Some(whole) = self.first(&read[passed.bytes..]) {
            passed.bytes += whole.length;
            passed.events += u32::from(whole.is_event);
            if let Some([high, low]) = whole.packet_id {
                acks.extend([0x40, 2, high, low]);
            }
        }
        passed
    }

    /// How long the first frame or packet is, once it is whole.
    pub(crate) fn first_length(self, read: &[u8]) -> Option<usize> {
        self.first(read).map(|whole| whole.length)
    }

    fn first(self, read: &[u8]) -> Option<Whole> {
        let whole = if self.is_mqtt() { packet(read)? } else { frame(read)? };
        (whole.length <= read.len()).then_some(whole)
    }
}

/// Blocks of server-sent events, in pieces of HTTP: each event has two objects, its envelope and what is in it.
fn pass_blocks(read: &[u8]) -> CompleteFrames {
    let bytes = read.windows(2).rposition(|two| two == b"\n\n").map_or(0, |at| at + 2);
    let objects: u32 = read[..bytes].iter().map(|byte| u32::from(*byte == b'{')).sum();
    CompleteFrames { events: objects / 2, bytes }
}

/// A WebSocket's frame. Events are text, and so is what comes before them; the rest is pings.
fn frame(read: &[u8]) -> Option<Whole> {
    let (kind, length) = (*read.first()?, usize::from(*read.get(1)?));
    let length = match length {
        127 => 10 + usize::try_from(u64::from_be_bytes(*read.get(2..)?.first_chunk()?)).unwrap(),
        126 => 4 + usize::from(u16::from_be_bytes(*read.get(2..)?.first_chunk()?)),
        length => 2 + length,
    };
    Some(Whole { length, is_event: kind == 0x81, packet_id: None })
}

/// An MQTT packet.
fn packet(read: &[u8]) -> Option<Whole> {
    let (mut length, mut at) = (0, 1);
    loop {
        let byte = *read.get(at)?;
        length |= usize::from(byte & 0x7f) << (7 * (at - 1));
        at += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let is_event = read[0] >> 4 == 3;
    let packet_id = if is_event && read[0] & 0b110 != 0 {
        let topic = usize::from(u16::from_be_bytes(*read.get(at..)?.first_chunk()?));
        Some(*read.get(at + 2 + topic..)?.first_chunk()?)
    } else {
        None
    };
    Some(Whole { length: at + length, is_event, packet_id })
}

/// The numbers of the events in what was read, which must be whole.
pub(crate) fn numbers(read: &[u8]) -> Vec<u32> {
    let mut numbers = Vec::new();
    let mut rest = read;
    while let Some(at) = rest.windows(NUMBER.len()).position(|some| some == NUMBER) {
        rest = &rest[at + NUMBER.len()..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
        numbers.push(digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However it is cut, the same comes out.
    fn in_pieces(kind: Kind, whole: &[u8], events: u32, acknowledged: &[u8]) {
        for cut in 0..=whole.len() {
            let mut acks = Vec::new();
            let first = kind.pass(&whole[..cut], &mut acks);
            let rest = kind.pass(&whole[first.bytes..], &mut acks);
            assert_eq!((first.events + rest.events, acks.as_slice()), (events, acknowledged), "{cut}");
            let mut found = numbers(&whole[..first.bytes]);
            found.extend(numbers(&whole[first.bytes..first.bytes + rest.bytes]));
            assert_eq!(found, (12..12 + events).collect::<Vec<_>>());
        }
    }

    #[test]
    fn blocks_are_counted() {
        let block = |number| format!("id: 1-A\nevent: e\ndata: {{\"data\":{{\"number\":\"{number}\"}}}}\n\n");
        let text = format!("5\r\n:\n\n\r\n99\r\n{}{}\r\n99\r\n{}\r\n", block(12), block(13), block(14));
        in_pieces(Kind::Sse, text.as_bytes(), 3, b"");
    }

    #[test]
    fn frames_are_counted() {
        let event =
            |number| format!("{{\"data\":{{\"number\":\"{number}\",\"more\":\"{}\"}}}}", "x".repeat(200));
        let mut bytes = vec![0x89, 0];
        for number in [12, 13] {
            let event = event(number);
            bytes.extend([0x81, 126]);
            bytes.extend(u16::try_from(event.len()).unwrap().to_be_bytes());
            bytes.extend(event.as_bytes());
        }
        in_pieces(Kind::Socket, &bytes, 2, b"");
    }

    #[test]
    fn packets_are_counted_and_acknowledged() {
        let mut bytes = vec![0xd0, 0];
        for number in [12, 13] {
            bytes.extend(super::super::handshake::publish(
                1,
                number,
                format!("\"number\":\"{number}\"").as_bytes(),
            ));
        }
        in_pieces(Kind::Mqtt1, &bytes, 2, &[0x40, 2, 0, 12, 0x40, 2, 0, 13]);
    }
}

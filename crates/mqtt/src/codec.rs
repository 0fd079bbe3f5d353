//! What packets of MQTT are made of: texts, lengths, properties and reason codes (MQTT 5, sections 1.5, 2.2.2 and 2.4). Packets that come
//! in are read with it, and those that go out take its numbers. MQTT 3.1.1 writes texts and lengths alike, and has no properties.
//!
//! It is our own because clients send us eight kinds of packets only; a library that knows all of them brought twenty more crates.

use std::collections::HashSet;

/// Why something cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadError {
    /// It is not what the specification calls a packet.
    Malformed,
    /// It can be read, but may not be said here.
    Protocol,
}

impl From<ReadError> for DisconnectReasonCode {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Malformed => Self::MalformedPacket,
            ReadError::Protocol => Self::ProtocolError,
        }
    }
}

impl From<ReadError> for ConnectReasonCode {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Malformed => Self::MalformedPacket,
            ReadError::Protocol => Self::ProtocolError,
        }
    }
}

/// Why a client is let in or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectReasonCode {
    Success = 0x00,
    MalformedPacket = 0x81,
    ProtocolError = 0x82,
    UnsupportedProtocolVersion = 0x84,
    ClientIdentifierNotValid = 0x85,
    BadUserNameOrPassword = 0x86,
    NotAuthorized = 0x87,
    ServerUnavailable = 0x88,
    BadAuthenticationMethod = 0x8c,
    PacketTooLarge = 0x95,
    QuotaExceeded = 0x97,
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisconnectReasonCode {
    MalformedPacket = 0x81,
    ProtocolError = 0x82,
    NotAuthorized = 0x87,
    ServerBusy = 0x89,
    ServerShuttingDown = 0x8b,
    KeepAliveTimeout = 0x8d,
    SessionTakenOver = 0x8e,
    TopicNameInvalid = 0x90,
    TopicAliasInvalid = 0x94,
    PacketTooLarge = 0x95,
    QuotaExceeded = 0x97,
    RetainNotSupported = 0x9a,
    QosNotSupported = 0x9b,
    MaximumConnectTime = 0xa0,
    SubscriptionIdentifiersNotSupported = 0xa1,
}

impl DisconnectReasonCode {
    /// Whether a DISCONNECT may say it (section 3.14.2.1).
    pub fn is_known(code: u8) -> bool {
        matches!(code, 0x00 | 0x04 | 0x80..=0x83 | 0x87 | 0x89 | 0x8b | 0x8d..=0x90 | 0x93..=0xa2)
    }
}

/// What becomes of a PUBLISH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PubackReasonCode {
    Success = 0x00,
    ImplementationSpecificError = 0x83,
    NotAuthorized = 0x87,
    QuotaExceeded = 0x97,
}

impl PubackReasonCode {
    /// Whether a PUBACK may say it (section 3.4.2.1).
    pub fn is_known(code: u8) -> bool {
        matches!(code, 0x00 | 0x10 | 0x80 | 0x83 | 0x87 | 0x90 | 0x91 | 0x97 | 0x99)
    }
}

/// What becomes of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubackReasonCode {
    GrantedQos0 = 0x00,
    GrantedQos1 = 0x01,
    NotAuthorized = 0x87,
    TopicFilterInvalid = 0x8f,
    QuotaExceeded = 0x97,
    SharedSubscriptionsNotSupported = 0x9e,
}

/// What becomes of a subscription that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsubackReasonCode {
    Success = 0x00,
    NoSubscriptionExisted = 0x11,
    ImplementationSpecificError = 0x83,
}

/// How a property's value is written.
enum Encoding {
    /// One byte, 0 or 1.
    Switch,
    TwoBytes,
    FourBytes,
    Length,
    Text,
    Binary,
    Pair,
}

/// A property's name (section 2.2.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PropertyId {
    PayloadFormatIndicator = 0x01,
    MessageExpiryInterval = 0x02,
    ContentType = 0x03,
    ResponseTopic = 0x08,
    CorrelationData = 0x09,
    SubscriptionIdentifier = 0x0b,
    SessionExpiryInterval = 0x11,
    AssignedClientIdentifier = 0x12,
    ServerKeepAlive = 0x13,
    AuthenticationMethod = 0x15,
    AuthenticationData = 0x16,
    RequestProblemInformation = 0x17,
    WillDelayInterval = 0x18,
    RequestResponseInformation = 0x19,
    ResponseInformation = 0x1a,
    ServerReference = 0x1c,
    ReasonString = 0x1f,
    ReceiveMaximum = 0x21,
    TopicAliasMaximum = 0x22,
    TopicAlias = 0x23,
    MaximumQos = 0x24,
    RetainAvailable = 0x25,
    UserProperty = 0x26,
    MaximumPacketSize = 0x27,
    WildcardSubscriptionAvailable = 0x28,
    SubscriptionIdentifierAvailable = 0x29,
    SharedSubscriptionAvailable = 0x2a,
}

impl PropertyId {
    /// Reads the name, and how its value is written.
    fn read(byte: u8) -> Option<(Self, Encoding)> {
        Some(match byte {
            0x01 => (Self::PayloadFormatIndicator, Encoding::Switch),
            0x02 => (Self::MessageExpiryInterval, Encoding::FourBytes),
            0x03 => (Self::ContentType, Encoding::Text),
            0x08 => (Self::ResponseTopic, Encoding::Text),
            0x09 => (Self::CorrelationData, Encoding::Binary),
            0x0b => (Self::SubscriptionIdentifier, Encoding::Length),
            0x11 => (Self::SessionExpiryInterval, Encoding::FourBytes),
            0x12 => (Self::AssignedClientIdentifier, Encoding::Text),
            0x13 => (Self::ServerKeepAlive, Encoding::TwoBytes),
            0x15 => (Self::AuthenticationMethod, Encoding::Text),
            0x16 => (Self::AuthenticationData, Encoding::Binary),
            0x17 => (Self::RequestProblemInformation, Encoding::Switch),
            0x18 => (Self::WillDelayInterval, Encoding::FourBytes),
            0x19 => (Self::RequestResponseInformation, Encoding::Switch),
            0x1a => (Self::ResponseInformation, Encoding::Text),
            0x1c => (Self::ServerReference, Encoding::Text),
            0x1f => (Self::ReasonString, Encoding::Text),
            0x21 => (Self::ReceiveMaximum, Encoding::TwoBytes),
            0x22 => (Self::TopicAliasMaximum, Encoding::TwoBytes),
            0x23 => (Self::TopicAlias, Encoding::TwoBytes),
            0x24 => (Self::MaximumQos, Encoding::Switch),
            0x25 => (Self::RetainAvailable, Encoding::Switch),
            0x26 => (Self::UserProperty, Encoding::Pair),
            0x27 => (Self::MaximumPacketSize, Encoding::FourBytes),
            0x28 => (Self::WildcardSubscriptionAvailable, Encoding::Switch),
            0x29 => (Self::SubscriptionIdentifierAvailable, Encoding::Switch),
            0x2a => (Self::SharedSubscriptionAvailable, Encoding::Switch),
            _ => return None,
        })
    }

    /// Whether its number must not be 0.
    fn is_positive(self) -> bool {
        matches!(
            self,
            Self::SubscriptionIdentifier | Self::ReceiveMaximum | Self::TopicAlias | Self::MaximumPacketSize
        )
    }
}

/// A property's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    Number(u32),
    Text(&'a str),
    Binary(&'a [u8]),
    Pair(&'a str, &'a str),
}

/// The properties of a packet, in their order.
#[derive(Debug, Default)]
pub struct Properties<'a>(Vec<(PropertyId, Value<'a>)>);

impl<'a> Properties<'a> {
    pub fn iter(&self) -> impl Iterator<Item = (PropertyId, Value<'a>)> {
        self.0.iter().copied()
    }

    /// Whether it has one of that name.
    pub fn has(&self, id: PropertyId) -> bool {
        self.0.iter().any(|(each, _)| *each == id)
    }

    /// Checks that there are no others than these, each at most once; `UserProperty` may always come, and again.
    pub fn check(&self, allowed: &[PropertyId]) -> Result<(), ReadError> {
        let mut seen = HashSet::new();
        let mut named = self.0.iter().map(|(id, _)| id).filter(|id| **id != PropertyId::UserProperty);
        if named.all(|id| allowed.contains(id) && seen.insert(id)) {
            Ok(())
        } else {
            Err(ReadError::Protocol)
        }
    }
}

/// Reads a packet from its beginning to its end.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Nothing may follow what was read.
    pub fn end(&self) -> Result<(), ReadError> {
        if self.is_empty() { Ok(()) } else { Err(ReadError::Malformed) }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ReadError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ReadError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        self.take(N)?.try_into().map_err(|_| ReadError::Malformed)
    }

    pub fn byte(&mut self) -> Result<u8, ReadError> {
        self.array().map(u8::from_be_bytes)
    }

    pub fn two_bytes(&mut self) -> Result<u16, ReadError> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn binary(&mut self) -> Result<&'a [u8], ReadError> {
        let length = self.two_bytes()?;
        self.take(length.into())
    }

    pub fn text(&mut self) -> Result<&'a str, ReadError> {
        std::str::from_utf8(self.binary()?).map_err(|_| ReadError::Malformed)
    }

    /// A number of one to four bytes, seven bits in each.
    fn length(&mut self) -> Result<u32, ReadError> {
        let mut length = 0;
        for place in 0..4 {
            let byte = self.byte()?;
            length |= u32::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(length);
            }
        }
        Err(ReadError::Malformed)
    }

    /// The properties, behind their length.
    pub fn properties(&mut self) -> Result<Properties<'a>, ReadError> {
        let length = usize::try_from(self.length()?).map_err(|_| ReadError::Malformed)?;
        let mut reader = Self(self.take(length)?);
        let mut properties = Properties::default();
        while !reader.is_empty() {
            properties.0.push(reader.property()?);
        }
        Ok(properties)
    }

    fn property(&mut self) -> Result<(PropertyId, Value<'a>), ReadError> {
        let (id, encoding) = PropertyId::read(self.byte()?).ok_or(ReadError::Malformed)?;
        let value = match encoding {
            Encoding::Switch => Value::Number(self.byte()?.into()),
            Encoding::TwoBytes => Value::Number(self.two_bytes()?.into()),
            Encoding::FourBytes => Value::Number(u32::from_be_bytes(self.array()?)),
            Encoding::Length => Value::Number(self.length()?),
            Encoding::Text => Value::Text(self.text()?),
            Encoding::Binary => Value::Binary(self.binary()?),
            Encoding::Pair => Value::Pair(self.text()?, self.text()?),
        };
        match (encoding, value) {
            (Encoding::Switch, Value::Number(2..)) => Err(ReadError::Protocol),
            (_, Value::Number(0)) if id.is_positive() => Err(ReadError::Protocol),
            _ => Ok((id, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_of_one_to_four_bytes() {
        for (bytes, length) in [
            (&[0x00][..], Ok(0)),
            (&[0x7f], Ok(127)),
            (&[0x80, 0x01], Ok(128)),
            (&[0xff, 0x7f], Ok(16_383)),
            (&[0xff, 0xff, 0xff, 0x7f], Ok(268_435_455)),
            (&[0xff, 0xff, 0xff, 0xff, 0x01], Err(ReadError::Malformed)),
            (&[0x80], Err(ReadError::Malformed)),
            (&[], Err(ReadError::Malformed)),
        ] {
            assert_eq!(Reader::new(bytes).length(), length, "{bytes:x?}");
        }
    }

    #[test]
    fn every_property_is_read_and_none_is_read_beyond_its_end() {
        for id in 0..=u8::MAX {
            let Some((name, encoding)) = PropertyId::read(id) else { continue };
            assert_eq!(name as u8, id);
            let value: &[u8] = match encoding {
                Encoding::Switch | Encoding::Length => b"\x01",
                Encoding::TwoBytes => b"\0\x01",
                Encoding::FourBytes => b"\0\0\0\x01",
                Encoding::Text | Encoding::Binary => b"\0\x01a",
                Encoding::Pair => b"\0\x01a\0\x01b",
            };
            let bytes = [&[u8::try_from(value.len()).unwrap() + 1, id], value].concat();
            let properties = Reader::new(&bytes).properties().unwrap();
            assert_eq!(properties.iter().map(|(id, _)| id).collect::<Vec<_>>(), [name]);
            for end in 0..bytes.len() {
                assert!(Reader::new(&bytes[..end]).properties().is_err(), "{name:?} until {end}");
                let mut short = bytes[..end].to_vec();
                if let Some(length) = short.first_mut().filter(|_| end > 1) {
                    *length = u8::try_from(end).unwrap() - 1;
                    assert!(Reader::new(&short).properties().is_err(), "{name:?} of {end}");
                }
            }
        }
    }

    #[test]
    fn values_that_may_not_be_said_are_refused() {
        for (bytes, error) in [
            (&b"\x02\x01\x02"[..], ReadError::Protocol),
            (b"\x02\x0b\0", ReadError::Protocol),
            (b"\x03\x21\0\0", ReadError::Protocol),
            (b"\x03\x23\0\0", ReadError::Protocol),
            (b"\x05\x27\0\0\0\0", ReadError::Protocol),
            (b"\x02\x04\0", ReadError::Malformed),
            (b"\x04\x03\0\x01\xff", ReadError::Malformed),
            (b"\x05\x03\0\x01", ReadError::Malformed),
        ] {
            assert_eq!(Reader::new(bytes).properties().unwrap_err(), error, "{bytes:x?}");
        }
    }

    #[test]
    fn a_property_comes_once_where_it_may_come() {
        let read = |bytes| Reader::new(bytes).properties().unwrap();
        let once = read(b"\x02\x01\x01");
        assert_eq!(once.check(&[PropertyId::PayloadFormatIndicator]), Ok(()));
        assert_eq!(once.check(&[PropertyId::ContentType]), Err(ReadError::Protocol));
        let twice = read(b"\x04\x01\x01\x01\x01");
        assert_eq!(twice.check(&[PropertyId::PayloadFormatIndicator]), Err(ReadError::Protocol));
        assert_eq!(read(b"\x0a\x26\0\0\0\0\x26\0\0\0\0").check(&[]), Ok(()));
    }
}

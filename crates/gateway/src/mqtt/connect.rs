//! The first packet: who the client is, and what it wants.

use std::collections::HashSet;
use std::time::Duration;

use mqtt_protocol_core::mqtt::packet::{MqttBinary, MqttString, Properties, PropertiesParse, Property};
use mqtt_protocol_core::mqtt::result_code::{ConnectReasonCode as Code, MqttError};
use portico_events::limits::SESSION_LIFE_MAX;
use portico_kernel::Problem;

use super::packets::Version;

/// The longest name that a client may give itself.
const CLIENT_ID_BYTES_MAX: usize = 128;
/// How long a client may be silent at most, in seconds, where we can say so.
pub(super) const KEEP_ALIVE_MAX: u16 = 60;

const CLEAN: u8 = 1 << 1;
const WILL: u8 = 1 << 2;
const WILL_DETAILS: u8 = 0b11_1000;
const PASSWORD: u8 = 1 << 6;
const USER: u8 = 1 << 7;

/// What a client said of itself.
#[derive(Debug)]
pub(super) struct Connect {
    pub(super) version: Version,
    /// The name that it gave itself; it may be empty.
    pub(super) client_id: String,
    /// It wants nothing of what an earlier connection left.
    pub(super) clean: bool,
    /// How long it may be silent, in seconds; 0 for ever.
    pub(super) keep_alive: u16,
    pub(super) token: Option<String>,
    /// For how long its session is kept when it goes; zero when it has none.
    pub(super) session_life: Duration,
    pub(super) receive_max: u16,
    /// The largest packet that it takes.
    pub(super) packet_max: usize,
}

/// Why a client is not let in.
#[derive(Debug)]
pub(super) struct ConnectRefusal {
    /// In which version to say so; `None` when that is not known.
    pub(super) version: Option<Version>,
    pub(super) code: Code,
    pub(super) message: String,
}

impl ConnectRefusal {
    fn new(version: Version, code: Code, message: &str) -> Self {
        Self { version: Some(version), code, message: message.to_owned() }
    }

    /// A refusal that is not said: the connection is closed.
    pub(super) fn silent(code: Code) -> Self {
        Self { version: None, code, message: String::new() }
    }

    /// A refusal that came from further inside.
    pub(super) fn of_problem(version: Version, problem: &Problem) -> Self {
        use portico_kernel::Code as Slug;
        let code = match problem.code() {
            Slug::Unauthenticated => Code::BadUserNameOrPassword,
            Slug::RateLimited | Slug::QuotaExceeded => Code::QuotaExceeded,
            slug if slug.status() >= 500 => Code::ServerUnavailable,
            _ => Code::NotAuthorized,
        };
        Self::new(version, code, problem.error())
    }
}

/// The rest of the packet.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn text(&mut self) -> Option<String> {
        let (text, used) = MqttString::decode(self.0).ok()?;
        self.take(used)?;
        Some(text.as_str().to_owned()).filter(|text| !text.contains('\0'))
    }

    fn binary(&mut self) -> Option<Vec<u8>> {
        let (binary, used) = MqttBinary::decode(self.0).ok()?;
        self.take(used)?;
        Some(binary.as_slice().to_owned())
    }

    fn properties(&mut self) -> Result<Properties, Code> {
        let (properties, used) = Properties::parse(self.0).map_err(|error| match error {
            MqttError::ProtocolError => Code::ProtocolError,
            _ => Code::MalformedPacket,
        })?;
        self.take(used).ok_or(Code::MalformedPacket)?;
        Ok(properties)
    }
}

impl Connect {
    /// Reads the packet. The library would refuse a password without a name, which MQTT 5 allows.
    pub(super) fn read(body: &[u8]) -> Result<Self, ConnectRefusal> {
        let mut body = Body(body);
        let protocol = body.text().ok_or_else(|| ConnectRefusal::silent(Code::MalformedPacket))?;
        let level = body.byte().ok_or_else(|| ConnectRefusal::silent(Code::MalformedPacket))?;
        let version = match (protocol.as_str(), level) {
            ("MQTT", 4) => Version::V3,
            ("MQTT", 5) => Version::V5,
            ("MQTT", 6..) => {
                return Err(ConnectRefusal::new(Version::V5, Code::UnsupportedProtocolVersion, ""));
            }
            ("MQTT" | "MQIsdp", _) => {
                return Err(ConnectRefusal::new(Version::V3, Code::UnsupportedProtocolVersion, ""));
            }
            _ => return Err(ConnectRefusal::silent(Code::MalformedPacket)),
        };
        let malformed = || {
            // MQTT 3.1.1 closes without a word.
            let version = Some(version).filter(|version| *version == Version::V5);
            ConnectRefusal { version, ..ConnectRefusal::silent(Code::MalformedPacket) }
        };
        let mut connect = Self::new(version);
        let flags = connect.read_head(&mut body).ok_or_else(malformed)?;
        if version == Version::V5 {
            let properties = body.properties().map_err(|code| ConnectRefusal::new(version, code, ""))?;
            connect.apply(&properties)?;
        }
        connect.client_id = body.text().ok_or_else(malformed)?;
        if flags & WILL != 0 {
            let message = "Nothing may be published for a client that has gone.";
            return Err(ConnectRefusal::new(version, Code::NotAuthorized, message));
        }
        connect.token =
            Some(read_token(&mut body, flags).ok_or_else(malformed)?).filter(|token| !token.is_empty());
        if !body.0.is_empty() {
            return Err(malformed());
        }
        connect.check_name()?;
        Ok(connect)
    }

    fn new(version: Version) -> Self {
        Self {
            version,
            client_id: String::new(),
            clean: false,
            keep_alive: 0,
            token: None,
            session_life: Duration::ZERO,
            receive_max: u16::MAX,
            packet_max: usize::MAX,
        }
    }

    /// Everything before the properties.
    fn read_head(&mut self, body: &mut Body<'_>) -> Option<u8> {
        let flags = body.byte()?;
        let will_is_odd = flags & WILL == 0 && flags & WILL_DETAILS != 0;
        let password_alone = self.version == Version::V3 && flags & PASSWORD != 0 && flags & USER == 0;
        if flags & 1 != 0 || will_is_odd || flags & 0b1_1000 == 0b1_1000 || password_alone {
            return None;
        }
        self.keep_alive = u16::from_be_bytes(*body.take(2)?.first_chunk()?);
        self.clean = flags & CLEAN != 0;
        if self.version == Version::V3 && !self.clean {
            self.session_life = SESSION_LIFE_MAX;
        }
        Some(flags)
    }

    /// Takes what the properties say; each may be there once.
    fn apply(&mut self, properties: &Properties) -> Result<(), ConnectRefusal> {
        let wrong = || ConnectRefusal::new(Version::V5, Code::ProtocolError, "");
        let mut seen = HashSet::new();
        for property in properties {
            let again = !seen.insert(property.id() as u8);
            match property {
                Property::UserProperty(_) => continue,
                Property::SessionExpiryInterval(seconds) => {
                    let life = Duration::from_secs(seconds.val().into());
                    self.session_life = life.min(SESSION_LIFE_MAX);
                }
                Property::ReceiveMaximum(packets) if packets.val() > 0 => self.receive_max = packets.val(),
                Property::MaximumPacketSize(bytes) if bytes.val() > 0 => {
                    self.packet_max = usize::try_from(bytes.val()).unwrap_or(usize::MAX);
                }
                Property::TopicAliasMaximum(_)
                | Property::RequestProblemInformation(_)
                | Property::RequestResponseInformation(_) => {}
                Property::AuthenticationMethod(_) => {
                    let message = "The token is the password; there is no other way.";
                    return Err(ConnectRefusal::new(Version::V5, Code::BadAuthenticationMethod, message));
                }
                _ => return Err(wrong()),
            }
            if again {
                return Err(wrong());
            }
        }
        Ok(())
    }

    fn check_name(&self) -> Result<(), ConnectRefusal> {
        let invalid =
            |message| Err(ConnectRefusal::new(self.version, Code::ClientIdentifierNotValid, message));
        if self.client_id.len() > CLIENT_ID_BYTES_MAX {
            return invalid("The client identifier must be at most 128 bytes.");
        }
        // It could not be told which name it was given.
        if self.client_id.is_empty() && self.version == Version::V3 && !self.clean {
            return invalid("");
        }
        Ok(())
    }

    /// How long the client may be silent, in seconds, and whether it must be told.
    pub(super) fn keep_alive(&self) -> (u16, bool) {
        let asked = self.keep_alive;
        if self.version == Version::V5 && (asked == 0 || asked > KEEP_ALIVE_MAX) {
            (KEEP_ALIVE_MAX, true)
        } else {
            (asked, false)
        }
    }
}

/// The token: the password, or the user's name where there is no password; empty where there is neither.
fn read_token(body: &mut Body<'_>, flags: u8) -> Option<String> {
    let user = if flags & USER == 0 { String::new() } else { body.text()? };
    let password = if flags & PASSWORD == 0 { Vec::new() } else { body.binary()? };
    if password.is_empty() {
        return Some(user);
    }
    // What is no text is no token.
    Some(String::from_utf8(password).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(level: u8, flags: u8, rest: &[u8]) -> Vec<u8> {
        [b"\0\x04MQTT", &[level, flags, 0, 30][..], rest].concat()
    }

    #[test]
    fn the_password_is_the_token_and_else_the_name_is() {
        let read = |flags, rest: &[u8]| Connect::read(&body(4, flags, rest)).unwrap().token;
        assert_eq!(read(CLEAN | USER | PASSWORD, b"\0\x01c\0\x01u\0\x01p").as_deref(), Some("p"));
        assert_eq!(read(CLEAN | USER | PASSWORD, b"\0\x01c\0\x01u\0\0").as_deref(), Some("u"));
        assert_eq!(read(CLEAN | USER, b"\0\x01c\0\x01u").as_deref(), Some("u"));
        assert_eq!(read(CLEAN, b"\0\x01c"), None);
        let alone = Connect::read(&body(5, CLEAN | PASSWORD, b"\0\0\x01c\0\x01p")).unwrap();
        assert_eq!(alone.token.as_deref(), Some("p"));
    }

    #[test]
    fn what_cannot_be_taken_is_refused_with_its_code() {
        for (bytes, version, code) in [
            (body(3, CLEAN, b"\0\0"), Some(Version::V3), Code::UnsupportedProtocolVersion),
            (body(9, CLEAN, b"\0\0"), Some(Version::V5), Code::UnsupportedProtocolVersion),
            (body(4, CLEAN | 1, b"\0\0"), None, Code::MalformedPacket),
            (body(4, 0, b"\0\0"), Some(Version::V3), Code::ClientIdentifierNotValid),
            (body(4, CLEAN | WILL, b"\0\0\0\x01a\0\x01b"), Some(Version::V3), Code::NotAuthorized),
            (body(5, CLEAN, b"\0\0\0left over"), Some(Version::V5), Code::MalformedPacket),
            (body(5, CLEAN, b"\x03\x21\0\0\0\0"), Some(Version::V5), Code::ProtocolError),
            (body(5, CLEAN, b"\x04\x15\0\x01x\0\0"), Some(Version::V5), Code::BadAuthenticationMethod),
            (body(5, CLEAN, b"\x06\x21\0\x01\x21\0\x01\0\0"), Some(Version::V5), Code::ProtocolError),
            (b"\0\x04HTTP".to_vec(), None, Code::MalformedPacket),
        ] {
            let refused = Connect::read(&bytes).unwrap_err();
            assert_eq!((refused.version, refused.code), (version, code), "{bytes:?}");
        }
    }

    #[test]
    fn a_session_is_kept_as_long_as_asked_but_a_week_at_most() {
        let life = |seconds: u32| {
            let rest = [&b"\x05\x11"[..], &seconds.to_be_bytes(), b"\0\x01c"].concat();
            Connect::read(&body(5, 0, &rest)).unwrap().session_life
        };
        assert_eq!(life(0), Duration::ZERO);
        assert_eq!(life(61), Duration::from_secs(61));
        assert_eq!(life(u32::MAX), SESSION_LIFE_MAX);
        assert_eq!(Connect::read(&body(4, 0, b"\0\x01c")).unwrap().session_life, SESSION_LIFE_MAX);
        assert_eq!(Connect::read(&body(4, CLEAN, b"\0\x01c")).unwrap().session_life, Duration::ZERO);
    }
}

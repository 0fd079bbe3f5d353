//! The first packet: who the client is, and what it wants.

use std::time::Duration;

use portico_events::limits::SESSION_LIFE_MAX;
use portico_kernel::Problem;

use portico_mqtt::codec::{ConnectReasonCode as Code, Properties, PropertyId, Reader, Value};
use portico_mqtt::packets::Version;

/// The longest name that a client may give itself.
const CLIENT_ID_BYTES_MAX: usize = 128;
/// How long a client may be silent at most, in seconds, where we can say so.
pub(super) const KEEP_ALIVE_MAX: u16 = 60;

const CONNECT_PROPERTIES: [PropertyId; 6] = [
    PropertyId::SessionExpiryInterval,
    PropertyId::ReceiveMaximum,
    PropertyId::MaximumPacketSize,
    PropertyId::TopicAliasMaximum,
    PropertyId::RequestProblemInformation,
    PropertyId::RequestResponseInformation,
];

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

/// A text without a null character.
fn text<'a>(body: &mut Reader<'a>) -> Option<&'a str> {
    body.text().ok().filter(|text| !text.contains('\0'))
}

impl Connect {
    /// Reads the packet. MQTT 5 allows a password without a name.
    pub(super) fn read(body: &[u8]) -> Result<Self, ConnectRefusal> {
        let mut body = Reader::new(body);
        let protocol = text(&mut body).ok_or_else(|| ConnectRefusal::silent(Code::MalformedPacket))?;
        let level = body.byte().map_err(|error| ConnectRefusal::silent(error.into()))?;
        let version = match (protocol, level) {
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
            let properties =
                body.properties().map_err(|error| ConnectRefusal::new(version, error.into(), ""))?;
            connect.apply(&properties)?;
        }
        text(&mut body).ok_or_else(malformed)?.clone_into(&mut connect.client_id);
        if flags & WILL != 0 {
            let message = "Nothing may be published for a client that has gone.";
            return Err(ConnectRefusal::new(version, Code::NotAuthorized, message));
        }
        connect.token =
            Some(read_token(&mut body, flags).ok_or_else(malformed)?).filter(|token| !token.is_empty());
        if !body.is_empty() {
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
    fn read_head(&mut self, body: &mut Reader<'_>) -> Option<u8> {
        let flags = body.byte().ok()?;
        let will_is_odd = flags & WILL == 0 && flags & WILL_DETAILS != 0;
        let password_alone = self.version == Version::V3 && flags & PASSWORD != 0 && flags & USER == 0;
        if flags & 1 != 0 || will_is_odd || flags & 0b1_1000 == 0b1_1000 || password_alone {
            return None;
        }
        self.keep_alive = body.two_bytes().ok()?;
        self.clean = flags & CLEAN != 0;
        if self.version == Version::V3 && !self.clean {
            self.session_life = SESSION_LIFE_MAX;
        }
        Some(flags)
    }

    /// Takes what the properties say; each may be there once.
    fn apply(&mut self, properties: &Properties<'_>) -> Result<(), ConnectRefusal> {
        if properties.has(PropertyId::AuthenticationMethod) {
            let message = "The token is the password; there is no other way.";
            return Err(ConnectRefusal::new(Version::V5, Code::BadAuthenticationMethod, message));
        }
        properties
            .check(&CONNECT_PROPERTIES)
            .map_err(|error| ConnectRefusal::new(Version::V5, error.into(), ""))?;
        for property in properties.iter() {
            match property {
                (PropertyId::SessionExpiryInterval, Value::Number(seconds)) => {
                    self.session_life = Duration::from_secs(seconds.into()).min(SESSION_LIFE_MAX);
                }
                (PropertyId::ReceiveMaximum, Value::Number(packets)) => {
                    self.receive_max = u16::try_from(packets).unwrap_or(u16::MAX);
                }
                (PropertyId::MaximumPacketSize, Value::Number(bytes)) => {
                    self.packet_max = usize::try_from(bytes).unwrap_or(usize::MAX);
                }
                _ => {}
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
fn read_token(body: &mut Reader<'_>, flags: u8) -> Option<String> {
    let user = if flags & USER == 0 { "" } else { text(body)? };
    let password = if flags & PASSWORD == 0 { &[] } else { body.binary().ok()? };
    if password.is_empty() {
        return Some(user.to_owned());
    }
    // What is no text is no token.
    Some(std::str::from_utf8(password).unwrap_or_default().to_owned())
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

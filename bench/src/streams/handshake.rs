//! How a client begins to listen, written by hand: ten thousand of them must take almost no memory themselves.

use std::net::SocketAddr;
use std::time::Duration;

use portico_engine::clock::SystemClock;
use portico_kernel::Clock as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{TcpSocket, TcpStream};

use super::kind::{Kind, TOPIC};
use crate::http::process::Process;

/// A slot that was just released is free a moment later: how often it is asked for again, and after how long.
const TRIES_MAX: usize = 200;
const RETRY_WAIT: Duration = Duration::from_millis(50);
/// What a client that never reads takes all the same, with what the system adds.
const STALLED_BYTES: u32 = 4 << 10;

/// The first bytes of every packet.
const CONNECT: u8 = 0x10;
const CONNACK: u8 = 0x20;
const PUBLISH: u8 = 0x30;
const SUBSCRIBE: u8 = 0x82;
const SUBACK: u8 = 0x90;

/// A connection on which events come, and what was read of them already.
pub(crate) struct Listening {
    pub(crate) stream: TcpStream,
    pub(crate) read: Vec<u8>,
}

/// Whom to listen to: a server and, unless it asks for none, a token.
#[derive(Clone, Copy)]
pub(crate) struct Host<'a> {
    pub(crate) server: &'a Process,
    pub(crate) token: Option<&'a str>,
}

/// There are as many as there may be, for now.
struct Full;

fn text(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    [&length.to_be_bytes(), text.as_bytes()].concat()
}

/// An MQTT packet.
fn packet(head: u8, body: &[u8]) -> Vec<u8> {
    let (mut packet, mut length) = (vec![head], body.len());
    loop {
        let (byte, more) = (u8::try_from(length & 0x7f).unwrap(), length >> 7);
        packet.push(if more > 0 { byte | 0x80 } else { byte });
        length = more;
        if more == 0 {
            break;
        }
    }
    packet.extend(body);
    packet
}

/// CONNECT of MQTT 5: a clean start, no keep-alive, no name.
pub(crate) fn connect(token: Option<&str>) -> Vec<u8> {
    let flags = if token.is_some() { 0b1100_0010 } else { 0b0000_0010 };
    let mut body = [text("MQTT"), vec![5, flags, 0, 0, 0], text("")].concat();
    if let Some(token) = token {
        body.extend([text("bench"), text(token)].concat());
    }
    packet(CONNECT, &body)
}

/// PUBLISH of MQTT 5.
pub(crate) fn publish(qos: u8, packet_id: u16, payload: &[u8]) -> Vec<u8> {
    let mut body = text(TOPIC);
    if qos > 0 {
        body.extend(packet_id.to_be_bytes());
    }
    body.push(0);
    body.extend(payload);
    packet(PUBLISH | (qos << 1), &body)
}

/// SUBSCRIBE to the events that are counted: each commit has one of another type beside them.
fn subscribe(qos: u8) -> Vec<u8> {
    packet(SUBSCRIBE, &[vec![0, 1, 0], text(TOPIC), vec![qos]].concat())
}

fn request(path: &str, token: &str, more: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n{more}\r\n").into_bytes()
}

/// A frame of text from a client. The mask is 0, which changes nothing.
fn masked(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    assert!(length < 126);
    [&[0x81, 0x80 | length, 0, 0, 0, 0], text.as_bytes()].concat()
}

impl Listening {
    async fn open(address: SocketAddr, stalled: bool) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        if stalled {
            socket.set_recv_buffer_size(STALLED_BYTES).unwrap();
        }
        let stream = socket.connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, read: Vec::new() }
    }

    async fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Reads until `length` finds how much of it is the answer; takes that away and answers it.
    async fn hear(&mut self, length: impl Fn(&[u8]) -> Option<usize>) -> Vec<u8> {
        loop {
            if let Some(length) = length(&self.read) {
                let rest = self.read.split_off(length);
                return std::mem::replace(&mut self.read, rest);
            }
            let more = self.stream.read_buf(&mut self.read).await.unwrap();
            assert!(more > 0, "the server hung up after {}", String::from_utf8_lossy(&self.read));
        }
    }

    /// The head of an answer of HTTP, which must have that status.
    async fn head(&mut self, status: &str) -> Result<(), Full> {
        let end = |read: &[u8]| Some(read.windows(4).position(|four| four == b"\r\n\r\n")? + 4);
        let head = String::from_utf8(self.hear(end).await).unwrap();
        if head.starts_with("HTTP/1.1 429") {
            return Err(Full);
        }
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        Ok(())
    }

    /// The next frame or packet.
    async fn next(&mut self, kind: Kind) -> Vec<u8> {
        self.hear(|read| kind.first_length(read)).await
    }

    async fn begin_sse(&mut self, token: &str) -> Result<(), Full> {
        self.say(&request("/v1/events/stream?types=bench.happened", token, "")).await;
        self.head("200").await?;
        self.hear(|read| Some(read.windows(2).position(|two| two == b"\n\n")? + 2)).await;
        Ok(())
    }

    async fn begin_socket(&mut self, token: &str) -> Result<(), Full> {
        let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                       sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: platform.v1\r\n";
        self.say(&request("/v1/socket", token, upgrade)).await;
        self.head("101").await?;
        self.next(Kind::Socket).await;
        self.say(&masked(r#"{"type":"subscribe","id":"s","types":["bench.happened"]}"#)).await;
        let answer = String::from_utf8_lossy(&self.next(Kind::Socket).await).into_owned();
        assert!(answer.contains("\"answer\""), "{answer}");
        Ok(())
    }

    async fn begin_mqtt(&mut self, kind: Kind, token: Option<&str>) -> Result<(), Full> {
        const QUOTA_EXCEEDED: u8 = 0x97;
        self.introduce(token).await.map_err(|code| {
            assert_eq!(code, QUOTA_EXCEEDED, "the server refuses");
            Full
        })?;
        self.say(&subscribe(kind.qos())).await;
        let answer = self.next(kind).await;
        assert!(answer[0] == SUBACK && answer.last() == Some(&kind.qos()), "{answer:x?}");
        Ok(())
    }

    /// Says who it is in MQTT; or answers the code of the refusal.
    async fn introduce(&mut self, token: Option<&str>) -> Result<(), u8> {
        self.say(&connect(token)).await;
        let answer = self.next(Kind::Mqtt0).await;
        assert_eq!(answer[0], CONNACK);
        // Behind the length, which is one byte or two, come the flags.
        let code = answer[if answer[1] & 0x80 == 0 { 3 } else { 4 }];
        if code == 0 { Ok(()) } else { Err(code) }
    }

    /// Has the server not hung up? What it has sent before need not be read to know.
    pub(crate) async fn is_open(&self) -> bool {
        let ready = tokio::time::timeout(Duration::ZERO, self.stream.ready(Interest::READABLE)).await;
        !ready.is_ok_and(|ready| ready.unwrap().is_read_closed())
    }

    /// A client of MQTT that listens to nothing.
    pub(crate) async fn publisher(address: SocketAddr) -> Self {
        let mut publisher = Self::open(address, false).await;
        publisher.introduce(None).await.unwrap();
        publisher
    }

    /// Begins to listen; one that is to be stalled has little room for what it does not read.
    pub(crate) async fn begin(host: Host<'_>, kind: Kind, stalled: bool) -> Self {
        let address = if kind.is_mqtt() { host.server.mqtt.unwrap() } else { host.server.address };
        for _ in 0..TRIES_MAX {
            let mut listening = Self::open(address, stalled).await;
            let begun = match kind {
                Kind::Sse => listening.begin_sse(host.token.unwrap()).await,
                Kind::Socket => listening.begin_socket(host.token.unwrap()).await,
                Kind::Mqtt0 | Kind::Mqtt1 => listening.begin_mqtt(kind, host.token).await,
            };
            match begun {
                Ok(()) => return listening,
                Err(Full) => SystemClock.sleep(RETRY_WAIT).await,
            }
        }
        panic!("{} has no slot for another", kind.name());
    }
}

//! Clients of HTTP/2: one that keeps to the protocol, and one that sends whatever it likes.

use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use h2::client::SendRequest;
use http::Request;
use portico_testkit::{Answer, soon};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// A client that keeps to the protocol.
#[derive(Clone)]
pub(crate) struct Http2Client(pub(crate) SendRequest<Bytes>);

impl Http2Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap()).await
    }

    pub(crate) async fn over<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(io: T) -> Self {
        let mut builder = h2::client::Builder::new();
        // As clients do until the server has said what it takes; the library by itself would open any number.
        builder.initial_max_send_streams(100);
        let (send, connection) = soon("a handshake", builder.handshake(io)).await.unwrap();
        tokio::spawn(connection);
        Self(send)
    }

    /// Sends a request and reads its whole answer.
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer, h2::Error> {
        let request = Request::builder().method(method).uri(format!("http://test{path}"));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let mut send = soon("room for a stream", self.0.clone().ready()).await?;
        let (answer, mut sending) = send.send_request(request.body(()).unwrap(), body.is_empty())?;
        if !body.is_empty() {
            sending.send_data(Bytes::copy_from_slice(body), true)?;
        }
        let (parts, mut coming) = soon("an answer", answer).await?.into_parts();
        let mut body = BytesMut::new();
        while let Some(piece) = soon("the answer's body", coming.data()).await {
            let piece = piece?;
            coming.flow_control().release_capacity(piece.len())?;
            body.extend_from_slice(&piece);
        }
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body: body.freeze() })
    }
}

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame.
#[derive(Debug, Clone)]
pub(crate) struct RawFrame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Bytes,
}

impl RawFrame {
    /// The error that a `RST_STREAM` or `GOAWAY` says.
    pub(crate) fn error(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// The bytes of a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A number with a prefix of 7 bits (RFC 7541, section 5.1).
fn length(value: usize) -> Vec<u8> {
    let Some(mut rest) = value.checked_sub(127) else { return vec![u8::try_from(value).unwrap()] };
    let mut bytes = vec![127];
    while rest >= 128 {
        bytes.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    bytes.push(u8::try_from(rest).unwrap());
    bytes
}

/// Header fields as they are, without a table; `how` is the first byte of each.
pub(crate) fn fields(how: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let field = |(name, value): &(&str, &str)| {
        [&[how], &*length(name.len()), name.as_bytes(), &*length(value.len()), value.as_bytes()].concat()
    };
    fields.iter().flat_map(field).collect()
}

/// The fields of a request.
pub(crate) fn head(method: &str, path: &str) -> Vec<u8> {
    fields(0, &[(":method", method), (":scheme", "http"), (":authority", "test"), (":path", path)])
}

/// A GET as one frame.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &head("GET", path))
}

/// A client that sends whatever it likes.
pub(crate) struct RawClient {
    stream: TcpStream,
    read: BytesMut,
}

impl RawClient {
    /// Connects, and says what a client says first.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&[PREFACE, &*frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
        Self { stream, read: BytesMut::new() }
    }

    /// Sends bytes; returns whether they went out.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        // What comes meanwhile is taken, or both sides would wait for each other.
        let (mut reading, mut writing) = self.stream.split();
        let mut sending = std::pin::pin!(writing.write_all(bytes));
        loop {
            tokio::select! {
                sent = &mut sending => return sent.is_ok(),
                read = reading.read_buf(&mut self.read) => if !matches!(read, Ok(1..)) { return false },
            }
        }
    }

    /// The next frame; `None` once the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<RawFrame> {
        loop {
            if let [a, b, c, kind, flags, d, e, f, g, ..] = self.read[..] {
                let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap();
                if self.read.len() >= 9 + length {
                    self.read.advance(9);
                    let payload = self.read.split_to(length).freeze();
                    let stream = u32::from_be_bytes([d, e, f, g]);
                    return Some(RawFrame { kind, flags, stream, payload });
                }
            }
            if !matches!(soon("a frame", self.stream.read_buf(&mut self.read)).await, Ok(1..)) {
                return None;
            }
        }
    }

    /// The next frame of that kind.
    pub(crate) async fn next_of(&mut self, kind: u8) -> Option<RawFrame> {
        loop {
            let frame = self.next().await?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// Waits until the server has read all that was sent, and returns the frames that came before its word of that.
    pub(crate) async fn settle(&mut self) -> Vec<RawFrame> {
        assert!(self.send(&frame(PING, 0, 0, b"12345678")).await);
        let mut frames = Vec::new();
        loop {
            let next = self.next().await.unwrap();
            if next.kind == PING && next.flags == ACK {
                return frames;
            }
            frames.push(next);
        }
    }

    /// Reads until the connection ends; returns the errors that the server said last, if it did.
    pub(crate) async fn ended(mut self) -> Option<u32> {
        let mut error = None;
        while let Some(frame) = self.next().await {
            if frame.kind == GOAWAY {
                error = Some(frame.error());
            }
        }
        error
    }
}

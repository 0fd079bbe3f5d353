//! A WebSocket before its client has authenticated: how much it may cost until then.

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use crate::client_stream::ClientStream;
use crate::transport::wait;
use crate::websocket::{FRAME_BYTES_MAX, Ws, websocket};

/// The largest frame of somebody who is not known yet: a token, and room to spare.
const FIRST_FRAME_BYTES_MAX: usize = 64 << 10;
/// How long the first frame may take to come.
const FIRST_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(5);

/// A client that has not authenticated yet.
pub(crate) struct Unauthenticated {
    /// What it says is read from here, and little of it.
    pub(crate) ws: Ws,
    /// Its first frame, when that was whole and small, and what came after it.
    pub(crate) first: Option<(BytesMut, BytesMut)>,
}

impl Unauthenticated {
    /// The same, with what came after the first frame to be read through the WebSocket; and that frame.
    pub(crate) async fn into_limited(self) -> (Ws, BytesMut) {
        match self.first {
            Some((frame, rest)) => {
                (websocket(self.ws.into_inner(), rest, FIRST_FRAME_BYTES_MAX).await, frame)
            }
            None => (self.ws, BytesMut::new()),
        }
    }

    /// The WebSocket of a client that is known now. One whose first frame was read here may send as much as anybody.
    pub(crate) async fn into_websocket(self) -> Ws {
        match self.first {
            // Nothing was read through the small one.
            Some((_, rest)) => websocket(self.ws.into_inner(), rest, FRAME_BYTES_MAX).await,
            None => self.ws,
        }
    }
}

/// Waits for the first frame of that kind; the error is the WebSocket of a client that sends none in time.
///
/// The library makes room for a frame as soon as its head is there, and its limit stays what it was at the beginning. So
/// the first frame is awaited here, and the usual limit is given to those who are known after it.
pub(crate) async fn first_frame(
    mut stream: ClientStream,
    mut read: BytesMut,
    kind: Data,
) -> Result<Unauthenticated, Ws> {
    let found = tokio::select! {
        () = wait(FIRST_TIME_MAX) => None,
        found = read_first(&mut stream, &mut read, kind) => found,
    };
    match found {
        Some(Some(frame)) => {
            let ws = websocket(stream, BytesMut::new(), FIRST_FRAME_BYTES_MAX).await;
            Ok(Unauthenticated { ws, first: Some((frame, read)) })
        }
        Some(None) => {
            Ok(Unauthenticated { ws: websocket(stream, read, FIRST_FRAME_BYTES_MAX).await, first: None })
        }
        None => Err(websocket(stream, BytesMut::new(), FIRST_FRAME_BYTES_MAX).await),
    }
}

/// Reads until the first frame is there, past pings and pongs, and takes it if it is one of that kind, whole and small.
/// The outer `None` means that the peer has gone.
async fn read_first(stream: &mut ClientStream, read: &mut BytesMut, kind: Data) -> Option<Option<BytesMut>> {
    loop {
        match scan(read, kind) {
            FrameScan::More => {
                if stream.read_buf(read).await.ok()? == 0 {
                    return None;
                }
            }
            FrameScan::Whole(length, frame) => {
                read.advance(length);
                return Some(Some(frame));
            }
            FrameScan::Other => return Some(None),
            FrameScan::Ping(length, pong) => {
                read.advance(length);
                stream.write_all(&pong).await.ok()?;
            }
            FrameScan::Pong(length) => read.advance(length),
        }
    }
}

/// What has come so far.
enum FrameScan {
    /// Not enough to tell.
    More,
    /// The frame that was waited for, of that many bytes, and what it says.
    Whole(usize, BytesMut),
    /// Something else.
    Other,
    /// A ping of that many bytes, and the answer to it.
    Ping(usize, Vec<u8>),
    /// A pong of that many bytes.
    Pong(usize),
}

fn scan(read: &[u8], kind: Data) -> FrameScan {
    let mut cursor = std::io::Cursor::new(read);
    let (header, length) = match FrameHeader::parse(&mut cursor) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return FrameScan::More,
        Err(_) => return FrameScan::Other,
    };
    let begin = usize::try_from(cursor.position()).unwrap_or(usize::MAX);
    let plain = header.is_final && !header.rsv1 && !header.rsv2 && !header.rsv3;
    let (Some(mask), Ok(length)) = (header.mask, usize::try_from(length)) else { return FrameScan::Other };
    if !plain || length > FIRST_FRAME_BYTES_MAX {
        return FrameScan::Other;
    }
    let whole = read.len() >= begin + length;
    let payload =
        || read[begin..begin + length].iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key);
    match header.opcode {
        OpCode::Data(data) if data == kind && whole => {
            let payload: BytesMut = payload().collect();
            // What the library refuses in the protocol's own words is left to it.
            let fits = kind != Data::Text || str::from_utf8(&payload).is_ok();
            if fits { FrameScan::Whole(begin + length, payload) } else { FrameScan::Other }
        }
        OpCode::Data(data) if data == kind => FrameScan::More,
        OpCode::Control(Control::Ping | Control::Pong) if length > 125 => FrameScan::Other,
        OpCode::Control(Control::Ping | Control::Pong) if !whole => FrameScan::More,
        OpCode::Control(Control::Ping) => {
            let head = [0x8a, u8::try_from(length).unwrap_or(0)];
            FrameScan::Ping(begin + length, head.into_iter().chain(payload()).collect())
        }
        OpCode::Control(Control::Pong) => FrameScan::Pong(begin + length),
        _ => FrameScan::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(head: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[head, 0x80 | length, 0, 0, 0, 0], payload].concat()
    }

    #[test]
    fn only_a_whole_small_frame_of_its_kind_opens_the_door() {
        let text = frame(0x81, b"{}");
        assert!(matches!(scan(&text, Data::Text), FrameScan::Whole(8, payload) if payload == "{}"));
        assert!(matches!(scan(&text[..7], Data::Text), FrameScan::More));
        assert!(matches!(scan(&text, Data::Binary), FrameScan::Other));
        assert!(matches!(scan(&frame(0x01, b"{}"), Data::Text), FrameScan::Other), "half a message");
        assert!(matches!(scan(&frame(0x88, b""), Data::Text), FrameScan::Other), "a close");
        assert!(matches!(scan(&[0x81, 0x02, b'{', b'}'], Data::Text), FrameScan::Other), "not masked");
        let huge = [0x81, 0xff, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0];
        assert!(matches!(scan(&huge, Data::Text), FrameScan::Other));
        let FrameScan::Ping(6, pong) = scan(&frame(0x89, b""), Data::Text) else { panic!("a ping") };
        assert_eq!(pong, [0x8a, 0]);
        assert!(matches!(scan(&frame(0x8a, b"x"), Data::Text), FrameScan::Pong(7)));
        assert!(matches!(scan(&[], Data::Text), FrameScan::More));
    }
}

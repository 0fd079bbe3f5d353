//! The WebSocket of the platform: events and calls of every operation, side by side.

mod frames;
mod run;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use portico_engine::Protocol;
use portico_engine::input::{Fields, Node};
use portico_identity::verify::refused;
use portico_kernel::{Code, Problem};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame as WireFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::calls::Calls;
use crate::connections::{Connection, EndReason};
use crate::preauth::Unauthenticated;
use crate::transport::{Transport, wait};
use crate::websocket::Ws;

use frames::{Auth, Closing, InboundFrame};
pub(crate) use frames::{ClientFrame, ServerFrame};
pub(crate) use run::serve;

/// How long a client has to say who it is.
const AUTH_TIME_MAX: Duration = Duration::from_secs(5);
/// How long the last frames may take to leave.
const CLOSE_TIME_MAX: Duration = Duration::from_millis(500);

/// Why the server closes a socket. From 4000 on the client must not come back as it is, from 4100 on it should wait
/// before it does, from 4200 on it may at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    /// No token, or one that is not good, or not any more.
    Unauthenticated = 4001,
    /// The key, the API token or the app's permission has come to its end.
    Expired = 4002,
    /// The token does not allow it.
    Forbidden = 4003,
    /// The frame cannot be taken.
    BadFrame = 4004,
    /// Too many connections or calls.
    TooMany = 4100,
    /// A part of the platform is down.
    Unavailable = 4101,
    /// The server is stopping.
    Drain = 4200,
    /// It has lasted as long as it may.
    Old = 4201,
    /// Nothing was heard of the client.
    Idle = 4202,
}

impl Close {
    fn reason(self) -> &'static str {
        match self {
            Self::Unauthenticated => "The token is missing, invalid, expired or revoked.",
            Self::Expired => "The credential has expired.",
            Self::Forbidden => "The token does not allow this connection.",
            Self::BadFrame => "The first frame must be `auth`.",
            Self::TooMany => "Too many connections or calls; wait before you come back.",
            Self::Unavailable => "A part of the platform is down; wait before you come back.",
            Self::Drain => "The server is stopping; another one takes over.",
            Self::Old => "The connection has lasted 24 hours.",
            Self::Idle => "Nothing was heard of the client for 5 minutes.",
        }
    }

    fn retry(self) -> bool {
        self as u16 >= Self::Drain as u16
    }

    fn of_end(end: EndReason) -> Self {
        match end {
            EndReason::Revoked => Self::Unauthenticated,
            EndReason::Expired => Self::Expired,
            EndReason::Old => Self::Old,
            EndReason::Drain => Self::Drain,
        }
    }

    fn of_problem(problem: &Problem) -> Self {
        match problem.code() {
            Code::Unauthenticated => Self::Unauthenticated,
            Code::RateLimited | Code::QuotaExceeded => Self::TooMany,
            code if code.status() >= 500 => Self::Unavailable,
            _ => Self::Forbidden,
        }
    }
}

/// A frame of text that is known to be UTF-8.
fn text(bytes: bytes::Bytes) -> Message {
    Message::Frame(WireFrame::message(bytes, OpCode::Data(Data::Text), true))
}

/// Lets a client authenticate, and serves it.
pub(crate) async fn authenticate_and_serve(
    mut client: Unauthenticated,
    calls: Arc<Calls>,
    transport: &Transport,
) {
    let connection = Box::pin(authenticate(&mut client, &calls)).await;
    match connection {
        Ok(Some(connection)) => {
            transport.set_lasting();
            let ws = client.into_websocket().await;
            Box::pin(serve(ws, calls, connection)).await;
        }
        // It went away before it said who it is.
        Ok(None) => {}
        Err((problem, close)) => {
            transport.wait_with_refusal(None).await;
            refuse(&mut client.ws, &problem, close).await;
        }
    }
}

/// Tells a client that is not let in why, and closes.
pub(crate) async fn refuse(ws: &mut Ws, problem: &Problem, close: Close) {
    let refusal = text(frames::error("", &problem.to_json("")));
    let _ = tokio::time::timeout(CLOSE_TIME_MAX, ws.send(refusal)).await;
    closing(ws, close).await;
}

/// Waits for the client to say who it is; `None` when it goes away first.
async fn authenticate(
    client: &mut Unauthenticated,
    calls: &Calls,
) -> Result<Option<Connection>, (Problem, Close)> {
    let auth = if let Some((frame, _)) = &client.first {
        read_auth(frame).map(Some)
    } else {
        tokio::select! {
            () = wait(AUTH_TIME_MAX) => return Err((refused(), Close::Unauthenticated)),
            auth = first_auth(&mut client.ws) => auth,
        }
    };
    let Some(auth) = auth.map_err(|problem| (problem, Close::BadFrame))? else { return Ok(None) };
    open(calls, auth).await.map(Some).map_err(|problem| {
        let close = Close::of_problem(&problem);
        (problem, close)
    })
}

/// The first frame of text, which must say who the client is.
async fn first_auth(ws: &mut Ws) -> Result<Option<Auth>, Problem> {
    loop {
        match ws.next().await {
            None => return Ok(None),
            Some(Err(error)) => {
                broken(ws, &error).await;
                return Ok(None);
            }
            Some(Ok(Message::Close(_))) => {
                // The answer to it is there already; it only has to leave.
                let _ = ws.flush().await;
                return Ok(None);
            }
            Some(Ok(Message::Text(text))) => return read_auth(text.as_bytes()).map(Some),
            Some(Ok(Message::Binary(_))) => {
                return Err(Problem::new(Code::BadRequest, "Frames are text: JSON in UTF-8."));
            }
            // The answer to a ping is there already, too.
            Some(Ok(_)) => {
                let _ = ws.flush().await;
            }
        }
    }
}

/// The first frame, which must say who the client is.
fn read_auth(frame: &[u8]) -> Result<Auth, Problem> {
    match InboundFrame::read(frame) {
        Ok(InboundFrame::Auth(auth)) => Ok(auth),
        Ok(_) => Err(Problem::field("type", "must be `auth` in the first frame")),
        Err(error) => Err(error.problem),
    }
}

/// Opens the connection as the request would have, had it held the token.
async fn open(calls: &Calls, auth: Auth) -> Result<Connection, Problem> {
    let credential = calls.authenticate(&auth.token).await?;
    let mut fields = Fields::new();
    if let Some(account) = auth.account_id {
        fields.insert("account_id".to_owned(), Node::Text(account));
    }
    let opened = calls.open(Protocol::Socket, &credential, fields, async || ()).await;
    opened.map(|(connection, ())| connection)
}

/// A client that breaks the protocol is told so in the protocol's own words.
async fn broken(ws: &mut Ws, error: &Error) {
    let code = match error {
        Error::Capacity(_) => CloseCode::Size,
        Error::Utf8(_) => CloseCode::Invalid,
        Error::Protocol(_) => CloseCode::Protocol,
        _ => return,
    };
    let close = CloseFrame { code, reason: error.to_string().into() };
    let _ = tokio::time::timeout(CLOSE_TIME_MAX, ws.close(Some(close))).await;
}

/// Says why and closes.
async fn closing(ws: &mut Ws, close: Close) {
    let reason = close.reason();
    let frame = ServerFrame::Closing(Closing { reason: reason.to_owned(), retry: close.retry() });
    let frame = text(frame.text());
    let code = CloseCode::from(close as u16);
    let leaving = async {
        ws.send(frame).await?;
        ws.close(Some(CloseFrame { code, reason: reason.into() })).await?;
        // Until the client has answered the close, so that it reads all of it.
        while let Some(Ok(_)) = ws.next().await {}
        Ok::<_, Error>(())
    };
    let _ = tokio::time::timeout(CLOSE_TIME_MAX, leaving).await;
}

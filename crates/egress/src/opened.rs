//! An answer that is still coming.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use tokio_rustls::TlsConnector;

use crate::connection::{Connection, Message, Unanswered};
use crate::exchange;
use crate::target::Target;
use crate::{EgressError, Limits};

/// An answer whose head has come, whatever its status. To drop it is to hang up.
pub struct Opened {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    connection: Connection,
    body: Incoming,
}

impl Opened {
    /// Over a connection of its own. The caller bounds the whole by time.
    pub(crate) async fn open(
        tls: &TlsConnector,
        target: &Target,
        addresses: &[SocketAddr],
        message: Message,
        time: Duration,
    ) -> Result<Self, EgressError> {
        let (mut connection, _) = exchange::open(tls, target, addresses, time).await?;
        let answer = connection.send(message).await.map_err(Unanswered::into_error)?;
        let (head, body) = answer.into_parts();
        Ok(Self { status: head.status, headers: head.headers, connection, body })
    }

    /// The next piece of the body, as it comes; nothing once it has ended. It waits at most for `time`, and may be asked
    /// again when that was too short.
    pub async fn piece(&mut self, time: Duration) -> Result<Option<Bytes>, EgressError> {
        let piece = self.connection.piece(&mut self.body);
        tokio::time::timeout(time, piece).await.unwrap_or(Err(EgressError::Timeout))
    }

    /// The rest of the body.
    pub async fn rest(mut self, limits: Limits) -> Result<Bytes, EgressError> {
        let rest = exchange::read(&mut self.connection, self.body, limits.bytes);
        tokio::time::timeout(limits.time, rest).await.unwrap_or(Err(EgressError::Timeout))
    }
}

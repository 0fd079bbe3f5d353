//! A response whose body is read as it comes.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use tokio_rustls::TlsConnector;

use crate::connection::{Connection, Message, SendError};
use crate::exchange;
use crate::target::Target;
use crate::{EgressError, Limits};

/// A response whose head has come, whatever its status. Dropping it closes the connection.
pub struct StreamingResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    connection: Connection,
    body: Incoming,
}

impl StreamingResponse {
    /// Sends the message over a new connection. The caller limits the time.
    pub(crate) async fn open(
        tls: &TlsConnector,
        target: &Target,
        addresses: &[SocketAddr],
        message: Message,
        time: Duration,
    ) -> Result<Self, EgressError> {
        let (mut connection, _) = exchange::open(tls, target, addresses, time).await?;
        let answer = connection.send(message).await.map_err(SendError::into_error)?;
        let (head, body) = answer.into_parts();
        Ok(Self { status: head.status, headers: head.headers, connection, body })
    }

    /// The next chunk of the body; `None` at its end. Waits for `time` at most, and may be called again after a timeout.
    pub async fn chunk(&mut self, time: Duration) -> Result<Option<Bytes>, EgressError> {
        let chunk = self.connection.chunk(&mut self.body);
        tokio::time::timeout(time, chunk).await.unwrap_or(Err(EgressError::Timeout))
    }

    /// The rest of the body.
    pub async fn read_to_end(mut self, limits: Limits) -> Result<Bytes, EgressError> {
        let rest = exchange::read(&mut self.connection, self.body, limits.bytes);
        tokio::time::timeout(limits.time, rest).await.unwrap_or(Err(EgressError::Timeout))
    }
}

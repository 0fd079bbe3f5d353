//! One message and its answer.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Response;
use hyper::body::{Body, Incoming};
use tokio_rustls::TlsConnector;

use crate::connection::{Connection, Message, Unanswered};
use crate::pool::{Place, Pool};
use crate::target::Target;
use crate::{EgressError, Fetched, Limits, Posted};

/// Over a connection of their own. The caller bounds the whole by time, here and below.
pub(crate) async fn fetch(
    tls: &TlsConnector,
    target: &Target,
    addresses: &[SocketAddr],
    message: Message,
    limits: Limits,
) -> Result<Fetched, EgressError> {
    let (mut connection, _) = open(tls, target, addresses, limits.time).await?;
    let answer = connection.send(message).await.map_err(Unanswered::into_error)?;
    let (head, body) = answer.into_parts();
    let body = read(&mut connection, body, limits.bytes).await?;
    Ok(Fetched { status: head.status, headers: head.headers, body })
}

/// Over a connection that waits in `pool`, or over a new one that waits there afterwards.
pub(crate) async fn post(
    tls: &TlsConnector,
    pool: &Pool,
    target: &Target,
    addresses: &[SocketAddr],
    mut message: Message,
    limits: Limits,
) -> Result<Posted, EgressError> {
    if let Some((mut connection, place)) = pool.take(target, addresses).await {
        match connection.send(message).await {
            Ok(answer) => return finish(pool, place, connection, answer, limits.bytes).await,
            // The other side hung up before anything was written. Had it been written, sending it again might make it
            // count twice.
            Err(Unanswered::Unsent(back)) => message = *back,
            Err(Unanswered::Failed(error)) => return Err(error),
        }
    }
    let (mut connection, peer) = open(tls, target, addresses, limits.time).await?;
    let answer = connection.send(message).await.map_err(Unanswered::into_error)?;
    finish(pool, Place::new(target, peer), connection, answer, limits.bytes).await
}

/// Apart from the caller's future, which would carry the state of a TLS handshake around for good.
pub(crate) async fn open(
    tls: &TlsConnector,
    target: &Target,
    addresses: &[SocketAddr],
    time: Duration,
) -> Result<(Connection, SocketAddr), EgressError> {
    Box::pin(Connection::open(tls, target, addresses, time)).await
}

/// Reads the rest of the answer away, and keeps the connection if that was all of it.
async fn finish(
    pool: &Pool,
    place: Place,
    mut connection: Connection,
    answer: Response<Incoming>,
    bytes_max: usize,
) -> Result<Posted, EgressError> {
    let (head, body) = answer.into_parts();
    // The status is the answer; whether what follows it came whole is nobody's concern.
    let whole = skip(&mut connection, body, bytes_max).await.unwrap_or(false);
    if whole && connection.is_idle().await {
        pool.keep(place, connection);
    }
    Ok(Posted { status: head.status, headers: head.headers })
}

/// Reads the body and forgets it. Says whether it has ended within `bytes_max`; what is longer is left unread.
async fn skip(
    connection: &mut Connection,
    mut body: Incoming,
    bytes_max: usize,
) -> Result<bool, EgressError> {
    let mut left = bytes_max;
    if declares_more(&body, left) {
        return Ok(false);
    }
    while let Some(data) = connection.piece(&mut body).await? {
        match left.checked_sub(data.len()) {
            Some(less) => left = less,
            None => return Ok(false),
        }
    }
    Ok(true)
}

pub(crate) async fn read(
    connection: &mut Connection,
    mut body: Incoming,
    bytes_max: usize,
) -> Result<Bytes, EgressError> {
    if declares_more(&body, bytes_max) {
        return Err(EgressError::TooLarge);
    }
    let mut read = BytesMut::new();
    while let Some(data) = connection.piece(&mut body).await? {
        if data.len() > bytes_max - read.len() {
            return Err(EgressError::TooLarge);
        }
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}

fn declares_more(body: &Incoming, bytes_max: usize) -> bool {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX) > bytes_max
}

//! One request and its response.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Response;
use hyper::body::{Body, Incoming};
use tokio_rustls::TlsConnector;

use crate::connection::{Connection, Message, SendError};
use crate::pool::{Pool, PoolKey};
use crate::target::Target;
use crate::{EgressError, FetchResponse, Limits, PostResponse};

/// Sends the message over a new connection. The caller limits the time, here and below.
pub(crate) async fn fetch(
    tls: &TlsConnector,
    target: &Target,
    addresses: &[SocketAddr],
    message: Message,
    limits: Limits,
) -> Result<FetchResponse, EgressError> {
    let (mut connection, _) = open(tls, target, addresses, limits.time).await?;
    let answer = connection.send(message).await.map_err(SendError::into_error)?;
    let (head, body) = answer.into_parts();
    let body = read(&mut connection, body, limits.bytes).await?;
    Ok(FetchResponse { status: head.status, headers: head.headers, body })
}

/// Sends the message over a connection of the pool, or over a new one that is put into the pool afterwards.
pub(crate) async fn post(
    tls: &TlsConnector,
    pool: &Pool,
    target: &Target,
    addresses: &[SocketAddr],
    mut message: Message,
    limits: Limits,
) -> Result<PostResponse, EgressError> {
    if let Some((mut connection, key)) = pool.take(target, addresses).await {
        match connection.send(message).await {
            Ok(answer) => return finish(pool, key, connection, answer, limits.bytes).await,
            // The other side hung up before anything was written. Had it been written, sending it again might make it
            // count twice.
            Err(SendError::NotSent(back)) => message = *back,
            Err(SendError::Failed(error)) => return Err(error),
        }
    }
    let (mut connection, peer) = open(tls, target, addresses, limits.time).await?;
    let answer = connection.send(message).await.map_err(SendError::into_error)?;
    finish(pool, PoolKey::new(target, peer), connection, answer, limits.bytes).await
}

/// Boxed, because the caller's future would otherwise be as large as the state of a TLS handshake.
pub(crate) async fn open(
    tls: &TlsConnector,
    target: &Target,
    addresses: &[SocketAddr],
    time: Duration,
) -> Result<(Connection, SocketAddr), EgressError> {
    Box::pin(Connection::open(tls, target, addresses, time)).await
}

/// Discards the body, and puts the connection into the pool if it was read to its end.
async fn finish(
    pool: &Pool,
    key: PoolKey,
    mut connection: Connection,
    answer: Response<Incoming>,
    bytes_max: usize,
) -> Result<PostResponse, EgressError> {
    let (head, body) = answer.into_parts();
    // Only the head matters; a body that breaks off is no failure.
    let whole = skip(&mut connection, body, bytes_max).await.unwrap_or(false);
    if whole && connection.is_idle().await {
        pool.put(key, connection);
    }
    Ok(PostResponse { status: head.status, headers: head.headers })
}

/// Discards the body; returns whether it ended within `bytes_max`. A longer one is not read to its end.
async fn skip(
    connection: &mut Connection,
    mut body: Incoming,
    bytes_max: usize,
) -> Result<bool, EgressError> {
    let mut left = bytes_max;
    if declares_more(&body, left) {
        return Ok(false);
    }
    while let Some(data) = connection.chunk(&mut body).await? {
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
    while let Some(data) = connection.chunk(&mut body).await? {
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

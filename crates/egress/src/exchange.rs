//! One request and its response.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Response;
use hyper::body::{Body, Incoming};
use tokio_rustls::TlsConnector;

use crate::connection::{Connection, Message, SendError};
use crate::pool::{Pool, PoolKey};
use crate::target::Target;
use crate::{EgressError, FetchResponse, Limits, PostResponse, SendFailure};

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

/// How a request goes.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    pub(crate) tls: &'a TlsConnector,
    pub(crate) pool: &'a Pool,
    pub(crate) target: &'a Target,
    /// Turns true just before the request is written.
    pub(crate) is_sent: &'a AtomicBool,
}

/// Sends the message over a connection of the pool, or over a new one, and reads the whole response.
pub(crate) async fn send(
    way: Way<'_>,
    addresses: &[SocketAddr],
    mut message: Message,
    connect_time: Duration,
    bytes_max: usize,
) -> Result<FetchResponse, SendFailure> {
    let Way { tls, pool, target, is_sent } = way;
    let failed = |may_have_arrived| move |error| SendFailure { error, may_have_arrived };
    if let Some((mut connection, key)) = pool.take(target, addresses).await {
        is_sent.store(true, Ordering::Relaxed);
        match connection.send(message).await {
            Ok(answer) => {
                return whole(pool, key, connection, answer, bytes_max).await.map_err(failed(true));
            }
            Err(SendError::NotSent(back)) => {
                is_sent.store(false, Ordering::Relaxed);
                message = *back;
            }
            Err(SendError::Failed(error)) => return Err(failed(true)(error)),
        }
    }
    let opening = tokio::time::timeout(connect_time, open(tls, target, addresses, connect_time)).await;
    let (mut connection, peer) = opening.unwrap_or(Err(EgressError::Connection)).map_err(failed(false))?;
    is_sent.store(true, Ordering::Relaxed);
    match connection.send(message).await {
        Ok(answer) => {
            let key = PoolKey::new(target, peer);
            whole(pool, key, connection, answer, bytes_max).await.map_err(failed(true))
        }
        Err(SendError::NotSent(_)) => Err(failed(false)(EgressError::Connection)),
        Err(SendError::Failed(error)) => Err(failed(true)(error)),
    }
}

/// Reads the body, and puts the connection into the pool.
async fn whole(
    pool: &Pool,
    key: PoolKey,
    mut connection: Connection,
    answer: Response<Incoming>,
    bytes_max: usize,
) -> Result<FetchResponse, EgressError> {
    let (head, body) = answer.into_parts();
    let body = read(&mut connection, body, bytes_max).await?;
    if connection.is_idle().await {
        pool.put(key, connection);
    }
    Ok(FetchResponse { status: head.status, headers: head.headers, body })
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

//! One request and its answer, over a connection of their own.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::target::Target;
use crate::{EgressError, Fetched, Limits};

/// What the head of an answer may take; hyper would take more.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Sends `request` to the first of `addresses` that takes a connection. The caller bounds the whole by time.
pub(crate) async fn exchange(
    tls: &TlsConnector,
    target: &Target,
    addresses: &[SocketAddr],
    request: Request<Full<Bytes>>,
    limits: Limits,
) -> Result<Fetched, EgressError> {
    let stream = connect(addresses, limits.time).await?;
    if !target.secure {
        return talk(stream, request, limits.bytes).await;
    }
    let stream = tls.connect(target.server_name()?, stream).await.map_err(|error| tls_failure(&error))?;
    talk(stream, request, limits.bytes).await
}

/// Each address gets its share of the time, so that one that keeps silent leaves some to the next.
async fn connect(addresses: &[SocketAddr], time: Duration) -> Result<TcpStream, EgressError> {
    let share = time / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    for address in addresses {
        if let Ok(Ok(stream)) = tokio::time::timeout(share, TcpStream::connect(address)).await {
            return Ok(stream);
        }
    }
    Err(EgressError::Connection)
}

fn tls_failure(error: &io::Error) -> EgressError {
    let said_by_tls = error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>);
    if said_by_tls { EgressError::Tls } else { EgressError::Connection }
}

async fn talk<S>(stream: S, request: Request<Full<Bytes>>, bytes_max: usize) -> Result<Fetched, EgressError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.max_header_size(HEAD_BYTES_MAX);
    let (mut sender, connection) =
        http.handshake(TokioIo::new(stream)).await.map_err(|error| http_failure(&error))?;
    let mut answer = pin!(async move {
        let answer = sender.send_request(request).await.map_err(|error| http_failure(&error))?;
        let (head, body) = answer.into_parts();
        let body = read(body, bytes_max).await?;
        Ok(Fetched { status: head.status, headers: head.headers, body })
    });
    // In one task: when the caller gives up, the connection goes with it.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        // The other side has hung up; what it said before is still to be read.
        _ = connection => answer.await,
    }
}

async fn read(mut body: Incoming, bytes_max: usize) -> Result<Bytes, EgressError> {
    let declared = body.size_hint().lower();
    if usize::try_from(declared).unwrap_or(usize::MAX) > bytes_max {
        return Err(EgressError::TooLarge);
    }
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Trailers are of no use to anybody here.
        let Ok(data) = frame.map_err(|error| http_failure(&error))?.into_data() else { continue };
        if data.len() > bytes_max - read.len() {
            return Err(EgressError::TooLarge);
        }
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}

fn http_failure(error: &hyper::Error) -> EgressError {
    if error.is_parse_too_large() {
        EgressError::TooLarge
    } else if error.is_parse() {
        EgressError::Protocol
    } else {
        EgressError::Connection
    }
}

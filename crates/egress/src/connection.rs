//! A connection to a server.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::EgressError;
use crate::target::Target;

/// The limit of a response's head; that of hyper is larger.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A request as it is sent.
pub(crate) type Message = Request<Full<Bytes>>;

/// Moves bytes between the socket and the future that waits for a response.
type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// Why there is no response.
pub(crate) enum SendError {
    /// Nothing of the message was written: it may be sent again.
    NotSent(Box<Message>),
    /// The other side may have seen it.
    Failed(EgressError),
}

impl SendError {
    /// The error for a caller that does not try again.
    pub(crate) fn into_error(self) -> EgressError {
        match self {
            Self::NotSent(_) => EgressError::Connection,
            Self::Failed(error) => error,
        }
    }
}

/// An open connection. It has no task of its own: the future that waits for a response drives it, and dropping it closes
/// the connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended.
    driver: Option<Driver>,
}

impl Connection {
    /// Connects to the first of `addresses` that accepts; also returns which one that was.
    pub(crate) async fn open(
        tls: &TlsConnector,
        target: &Target,
        addresses: &[SocketAddr],
        time: Duration,
    ) -> Result<(Self, SocketAddr), EgressError> {
        let (stream, peer) = connect(addresses, time).await?;
        if !target.secure {
            return Ok((Self::over(stream).await?, peer));
        }
        let name = target.server_name()?;
        let stream = tls.connect(name, stream).await.map_err(|error| tls_failure(&error))?;
        Ok((Self::over(stream).await?, peer))
    }

    async fn over<S>(stream: S) -> Result<Self, EgressError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut http = http1::Builder::new();
        http.max_header_size(HEAD_BYTES_MAX);
        let handshake = http.handshake(TokioIo::new(stream)).await;
        let (sender, driver) = handshake.map_err(|error| http_failure(&error))?;
        Ok(Self { sender, driver: Some(Box::pin(driver)) })
    }

    /// Sends `message` and returns the head of the response. Interim responses, such as "100 Continue", are skipped.
    pub(crate) async fn send(&mut self, message: Message) -> Result<Response<Incoming>, SendError> {
        let answer = self.sender.try_send_request(message);
        let answer = run(&mut self.driver, answer).await;
        answer.map_err(|mut error| match error.take_message() {
            Some(message) => SendError::NotSent(Box::new(message)),
            None => SendError::Failed(http_failure(error.error())),
        })
    }

    /// The next chunk of a response's body; `None` at its end.
    pub(crate) async fn chunk(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, EgressError> {
        loop {
            let frame = run(&mut self.driver, body.frame()).await;
            match frame.transpose().map_err(|error| http_failure(&error))?.map(Frame::into_data) {
                Some(Ok(data)) => return Ok(Some(data)),
                // Trailers are of no use to anybody here.
                Some(Err(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// Could it take a message now? Polls the socket, and so notices when the other side has closed it.
    pub(crate) async fn is_idle(&mut self) -> bool {
        poll_fn(|cx| {
            let is_over = |driver: &mut Driver| driver.as_mut().poll(cx).is_ready();
            if self.driver.as_mut().is_none_or(is_over) {
                self.driver = None;
                return Poll::Ready(false);
            }
            Poll::Ready(matches!(self.sender.poll_ready(cx), Poll::Ready(Ok(()))))
        })
        .await
    }
}

/// Waits for `work`, and drives the connection meanwhile.
async fn run<T>(driver: &mut Option<Driver>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if let Some(moving) = driver {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = moving => {}
        }
        // It gives back what it has not sent, or `work` would wait for good.
        *driver = None;
    }
    // The other side has hung up; what it said before is still to be read.
    work.await
}

/// Each address gets its share of the time, so that one that keeps silent leaves some to the next.
async fn connect(addresses: &[SocketAddr], time: Duration) -> Result<(TcpStream, SocketAddr), EgressError> {
    let share = time / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    for address in addresses {
        if let Ok(Ok(stream)) = tokio::time::timeout(share, TcpStream::connect(address)).await {
            // Without it a small body waits for the other side to confirm the head. Where it cannot be, calls are slow.
            let _ = stream.set_nodelay(true);
            return Ok((stream, *address));
        }
    }
    Err(EgressError::Connection)
}

fn tls_failure(error: &io::Error) -> EgressError {
    let said_by_tls = error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>);
    if said_by_tls { EgressError::Tls } else { EgressError::Connection }
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

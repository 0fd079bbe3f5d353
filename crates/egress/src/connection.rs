//! A connection, and whoever talks over it.

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

/// What the head of an answer may take; hyper would take more.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A call as it goes over the wire.
pub(crate) type Message = Request<Full<Bytes>>;

/// Moves bytes between the socket and whoever waits for an answer.
type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// Why there is no answer.
pub(crate) enum Unanswered {
    /// Nothing of the message has left: it may be sent again.
    Unsent(Box<Message>),
    /// The other side may have seen it.
    Failed(EgressError),
}

impl Unanswered {
    /// For whoever does not try again.
    pub(crate) fn into_error(self) -> EgressError {
        match self {
            Self::Unsent(_) => EgressError::Connection,
            Self::Failed(error) => error,
        }
    }
}

/// An open connection. It has no task of its own: whoever waits for an answer moves it, and when they give up and drop
/// it, it is closed.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// None once it has come to its end.
    driver: Option<Driver>,
}

impl Connection {
    /// To the first of `addresses` that takes it, and which one that was.
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
        let shaken = http.handshake(TokioIo::new(stream)).await;
        let (sender, driver) = shaken.map_err(|error| http_failure(&error))?;
        Ok(Self { sender, driver: Some(Box::pin(driver)) })
    }

    /// The head of the answer to `message`. What comes before it, such as "100 Continue", is skipped.
    pub(crate) async fn send(&mut self, message: Message) -> Result<Response<Incoming>, Unanswered> {
        let answer = self.sender.try_send_request(message);
        let answer = run(&mut self.driver, answer).await;
        answer.map_err(|mut error| match error.take_message() {
            Some(message) => Unanswered::Unsent(Box::new(message)),
            None => Unanswered::Failed(http_failure(error.error())),
        })
    }

    /// The next piece of an answer's body, until it ends.
    pub(crate) async fn piece(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, EgressError> {
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

    /// Could it take a message now? It looks at the socket, and so finds out whether the other side has hung up.
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

/// Waits for `work`, and moves the connection meanwhile.
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

//! A receiver of posts that answers as a test tells it to, and counts its connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_rustls::TlsAcceptor;

/// What it does when it has read a request.
#[derive(Clone, Copy)]
pub(crate) enum Does {
    Answer(&'static str),
    AnswerAndHangUp(&'static str),
    HangUp,
    /// Reads on and says no more.
    Nothing,
}

/// Which connection it is, counted from 0, and which request on it.
pub(crate) type At = (usize, usize);

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// What came, and where.
    pub(crate) requests: mpsc::UnboundedReceiver<(At, String)>,
    /// The connections that have ended, whoever ended them.
    pub(crate) ended: mpsc::UnboundedReceiver<usize>,
    hang_up: Arc<Notify>,
}

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

impl Receiver {
    pub(crate) async fn start(does: impl Fn(At) -> Does + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), None, does).await
    }

    pub(crate) async fn start_at(
        address: SocketAddr,
        tls: Option<TlsAcceptor>,
        does: impl Fn(At) -> Does + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (came, requests) = mpsc::unbounded_channel();
        let (end, ended) = mpsc::unbounded_channel();
        let hang_up = Arc::new(Notify::new());
        let (counted, told, does) = (connections.clone(), hang_up.clone(), Arc::new(does));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = counted.fetch_add(1, Ordering::SeqCst);
                let (tls, came, end) = (tls.clone(), came.clone(), end.clone());
                let (told, does) = (told.clone(), does.clone());
                tokio::spawn(async move {
                    let talk = async {
                        match tls {
                            None => serve(stream, connection, &came, &*does).await,
                            Some(tls) => {
                                serve(tls.accept(stream).await.unwrap(), connection, &came, &*does).await;
                            }
                        }
                    };
                    tokio::select! {
                        () = talk => {}
                        () = told.notified() => {}
                    }
                    let _ = end.send(connection);
                });
            }
        });
        Self { address, connections, requests, ended, hang_up }
    }

    /// Always says the same.
    pub(crate) async fn saying(answer: &'static str) -> Self {
        Self::start(move |_| Does::Answer(answer)).await
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?a=b", self.address)
    }

    pub(crate) fn url_of(&self, host: &str) -> String {
        format!("http://{host}:{}/", self.address.port())
    }

    /// Closes the one connection that is open.
    pub(crate) async fn hang_up(&mut self) {
        self.hang_up.notify_one();
        self.ended.recv().await.unwrap();
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: usize,
    came: &mpsc::UnboundedSender<(At, String)>,
    does: &(dyn Fn(At) -> Does + Send + Sync),
) {
    for turn in 0.. {
        let Some(request) = read_request(&mut stream).await else { return };
        let _ = came.send(((connection, turn), request));
        match does((connection, turn)) {
            Does::Answer(answer) => {
                // Whoever has heard enough hangs up.
                let _ = stream.write_all(answer.as_bytes()).await;
            }
            Does::AnswerAndHangUp(answer) => {
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
                return;
            }
            Does::HangUp => return,
            Does::Nothing => {
                let _ = stream.read_to_end(&mut Vec::new()).await;
                return;
            }
        }
    }
}

/// Head and body, or None where nobody says anything more.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(request).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some(head + std::str::from_utf8(&body).unwrap())
}

//! The receiver of deliveries, in the bench's own process. It does as little as it can: it shares the processors with
//! the server that it measures.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use portico_engine::clock::SystemClock;
use portico_kernel::{Clock as _, Timestamp};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// The path of the endpoint that can be told to hang.
pub(crate) const MOODY: &str = "/moody";
/// Longer than any phase takes to come to its end.
const END_TIME_MAX: Duration = Duration::from_mins(1);

/// An event that came in.
#[derive(Clone, Copy)]
pub(crate) struct Receipt {
    /// Which event it is.
    pub(crate) number: usize,
    /// When it came.
    pub(crate) at: Timestamp,
}

struct ReceiverState {
    count: AtomicU32,
    receipts: Mutex<Vec<Receipt>>,
    /// How many more may be under way.
    room: Semaphore,
    hangs: AtomicBool,
}

/// Counts what is posted, and answers 200.
#[derive(Clone)]
pub(crate) struct Receiver {
    address: SocketAddr,
    state: Arc<ReceiverState>,
}

/// The number of the event in the body; a test event has none.
fn number(body: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"\"number\":\"";
    let at = body.windows(NAME.len()).rposition(|some| some == NAME)? + NAME.len();
    let digits = body[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}

async fn take(request: Request<Incoming>, state: Arc<ReceiverState>) -> Response<Empty<Bytes>> {
    let moody = request.uri().path() == MOODY;
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let at = SystemClock.now();
    if moody && state.hangs.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
    if let Some(number) = number(&body).filter(|_| !moody) {
        state.receipts.lock().unwrap().push(Receipt { number, at });
    }
    state.count.fetch_add(1, Ordering::Relaxed);
    state.room.add_permits(1);
    Response::new(Empty::new())
}

impl Receiver {
    /// Begins to listen.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(ReceiverState {
            count: AtomicU32::new(0),
            receipts: Mutex::default(),
            room: Semaphore::new(0),
            hangs: AtomicBool::new(false),
        });
        let receiver = Self { address, state: state.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = state.clone();
                tokio::spawn(async move {
                    stream.set_nodelay(true).unwrap();
                    let service = service_fn(move |request| {
                        let state = state.clone();
                        async move { Ok::<_, Infallible>(take(request, state).await) }
                    });
                    // Whoever hangs up has heard enough.
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        receiver
    }

    /// The address of that path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How many came, the moody endpoint's among them.
    pub(crate) fn count(&self) -> u32 {
        self.state.count.load(Ordering::Relaxed)
    }

    /// From now on the moody endpoint hangs, or does not.
    pub(crate) fn hang(&self, hangs: bool) {
        self.state.hangs.store(hangs, Ordering::Relaxed);
    }

    /// Forgets what came, and lets so many be under way.
    pub(crate) fn begin(&self, room: usize) {
        self.state.count.store(0, Ordering::Relaxed);
        self.state.receipts.lock().unwrap().clear();
        self.state.room.forget_permits(usize::MAX >> 3);
        self.state.room.add_permits(room);
    }

    /// Waits until so many more may be under way.
    pub(crate) async fn room_for(&self, count: u32) {
        self.state.room.acquire_many(count).await.unwrap().forget();
    }

    /// Waits until so many came that are not the moody endpoint's, and answers them.
    pub(crate) async fn receipts(&self, count: usize) -> Vec<Receipt> {
        let all = async {
            while self.state.receipts.lock().unwrap().len() < count {
                SystemClock.sleep(Duration::from_millis(10)).await;
            }
        };
        let ended = tokio::time::timeout(END_TIME_MAX, all).await;
        let receipts = std::mem::take(&mut *self.state.receipts.lock().unwrap());
        assert!(ended.is_ok() && receipts.len() == count, "{} of {count} came", receipts.len());
        receipts
    }
}

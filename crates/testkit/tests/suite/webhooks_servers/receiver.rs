//! A receiver of deliveries on this machine, which writes down everything that comes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use portico_engine::clock::SystemClock;
use portico_kernel::Clock;
use portico_testkit::while_moving;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::metering_servers::client::below;

/// Seconds in which everything is read that a server had sent, and after which no other has taken over yet.
const MOMENT: i64 = 4;

/// How an endpoint of the receiver behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It takes everything at once.
    Quick,
    /// It takes everything after so many milliseconds, or up to five times as many.
    Slow(u32),
    /// It takes nothing the first time.
    FailsFirst,
    /// A few events it does not take the first time.
    FailsRarely,
    /// It takes nothing as long as the receiver is down.
    Down,
    /// Some events it never takes.
    RefusesSome,
    /// It never answers.
    Hangs,
}

impl Manner {
    /// Does it never take the event?
    pub(crate) fn refuses(self, event: &str) -> bool {
        self == Self::RefusesSome && event.ends_with('7')
    }
}

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) endpoint: usize,
    /// The headers `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    pub(crate) event: Arc<str>,
    pub(crate) timestamp: i64,
    pub(crate) signature: String,
    /// When it came, in seconds.
    pub(crate) came_at: i64,
    /// Was it answered with 200, whether or not anybody was there to hear?
    pub(crate) taken: bool,
    /// Its place among all that were answered, or whose sender hung up before.
    pub(crate) ended: Option<usize>,
}

/// Where the log stood at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) requests: usize,
    pub(crate) ends: usize,
    /// The second in which a server stood still, and did not die.
    pub(crate) still_at: Option<i64>,
}

/// Everything that came.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) requests: Vec<Request>,
    /// The body of each event.
    pub(crate) bodies: HashMap<Arc<str>, Vec<u8>>,
    /// What is not as it should be.
    pub(crate) faults: Vec<String>,
    /// How many requests of each endpoint were open at once, at most; and of all together.
    pub(crate) open_most: Vec<usize>,
    pub(crate) all_open_most: usize,
    open: Vec<usize>,
    /// How often each event came to each endpoint.
    times: HashMap<(usize, Arc<str>), usize>,
    ends: usize,
}

impl Log {
    /// Writes a request down; answers its number, and whether it is taken.
    fn begin(&mut self, request: Request, manner: Manner, down: bool, body: Vec<u8>) -> (usize, bool) {
        let (endpoint, event) = (request.endpoint, request.event.clone());
        let times = self.times.entry((endpoint, event.clone())).or_default();
        *times += 1;
        let taken = match manner {
            Manner::Quick | Manner::Slow(_) => true,
            Manner::FailsFirst => *times > 1,
            Manner::FailsRarely => *times > 1 || !event.ends_with("77"),
            Manner::Down => !down,
            Manner::RefusesSome => !manner.refuses(&event),
            Manner::Hangs => false,
        };
        if self.bodies.get(&event).is_some_and(|known| *known != body) {
            self.faults.push(format!("another body of {event}: {}", String::from_utf8_lossy(&body)));
        }
        self.bodies.entry(event).or_insert(body);
        self.requests.push(request);
        self.open[endpoint] += 1;
        self.open_most[endpoint] = self.open_most[endpoint].max(self.open[endpoint]);
        self.all_open_most = self.all_open_most.max(self.open.iter().sum());
        (self.requests.len() - 1, taken)
    }

    fn end(&mut self, number: usize, taken: bool) {
        let request = &mut self.requests[number];
        (request.taken, request.ended) = (taken, Some(self.ends));
        self.ends += 1;
        self.open[request.endpoint] -= 1;
    }
}

/// How many requests came, and how many of them were taken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) requests: usize,
    pub(crate) taken: usize,
}

/// A receiver with an address for each of its endpoints.
pub(crate) struct Receiver {
    address: String,
    manners: Vec<Manner>,
    down: AtomicBool,
    log: Mutex<Log>,
    progress: watch::Sender<Progress>,
    /// How many there are.
    connections: watch::Sender<usize>,
}

impl Receiver {
    pub(crate) async fn start(manners: &[Manner]) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let none = vec![0; manners.len()];
        let receiver = Arc::new(Self {
            address: listener.local_addr().unwrap().to_string(),
            manners: manners.to_vec(),
            down: AtomicBool::new(true),
            log: Mutex::new(Log { open: none.clone(), open_most: none, ..Log::default() }),
            progress: watch::Sender::default(),
            connections: watch::Sender::new(0),
        });
        let accepting = receiver.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let receiver = accepting.clone();
                receiver.connections.send_modify(|count| *count += 1);
                tokio::spawn(async move {
                    receiver.serve(stream).await;
                    receiver.connections.send_modify(|count| *count -= 1);
                });
            }
        });
        receiver
    }

    pub(crate) fn url(&self, endpoint: usize) -> String {
        format!("http://{}/{endpoint}", self.address)
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }

    /// Those that were down take what comes from now on.
    pub(crate) fn come_up(&self) {
        self.down.store(false, Ordering::SeqCst);
    }

    /// How much has come.
    pub(crate) fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    pub(crate) fn mark(&self) -> Mark {
        let log = self.log();
        Mark { requests: log.requests.len(), ends: log.ends, still_at: None }
    }

    /// Where the log stood when a server had stood still for a moment, and no other had taken over yet.
    pub(crate) fn mark_still(&self, still_at: i64) -> Mark {
        let log = self.log();
        let requests = log.requests.partition_point(|request| request.came_at <= still_at + MOMENT);
        let ends = log.requests[..requests].iter().filter(|request| request.ended.is_some()).count();
        Mark { requests, ends, still_at: Some(still_at) }
    }

    /// Waits until so much has come.
    pub(crate) async fn reach(&self, is_enough: impl FnMut(&Progress) -> bool) {
        let mut progress = self.progress.subscribe();
        let moving = || self.progress();
        while_moving("enough", moving, progress.wait_for(is_enough)).await.unwrap();
    }

    /// Waits until so many more requests have come.
    pub(crate) async fn reach_more(&self, requests: usize) {
        let goal = self.progress.borrow().requests + requests;
        self.reach(|progress| progress.requests >= goal).await;
    }

    /// Waits until everything that a dead server has sent is read, and then marks the place.
    pub(crate) async fn hung_up(&self) -> Mark {
        let mut count = self.connections.subscribe();
        let moving = || (*self.connections.borrow(), self.progress());
        while_moving("the last hang-up", moving, count.wait_for(|count| *count == 0)).await.unwrap();
        self.mark()
    }

    /// Answers what comes on a connection, one request after the other.
    async fn serve(&self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        loop {
            let (request, body, length) = loop {
                match self.parse(&bytes) {
                    Ok(Some(whole)) => break whole,
                    Ok(None) => {}
                    Err(fault) => return self.log().faults.push(fault),
                }
                // A server that is killed leaves half a request behind.
                if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
                    return;
                }
            };
            bytes.drain(..length);
            let manner = self.manners[request.endpoint];
            let down = self.down.load(Ordering::SeqCst);
            let (number, taken) = self.log().begin(request, manner, down, body);
            self.progress.send_modify(|progress| progress.requests += 1);
            match manner {
                Manner::Slow(least) => {
                    let hundredths = u32::try_from(100 + below(400)).unwrap();
                    SystemClock.sleep(Duration::from_millis(least.into()) * hundredths / 100).await;
                }
                Manner::Hangs => {
                    // Until its sender hangs up.
                    let _ = stream.read_buf(&mut bytes).await;
                    return self.log().end(number, false);
                }
                _ => {}
            }
            self.log().end(number, taken);
            self.progress.send_modify(|progress| progress.taken += usize::from(taken));
            let status = if taken { "200 OK" } else { "500 Internal Server Error" };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    /// The first request in `bytes`, its body, and how long both are; `None` when it is not whole yet.
    fn parse(&self, bytes: &[u8]) -> Result<Option<(Request, Vec<u8>, usize)>, String> {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let field = |name: &str| {
            let mut fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
            let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim().to_owned()).ok_or_else(|| format!("no {name} in {head}"))
        };
        let length: usize = field("content-length")?.parse().map_err(|_| format!("no length in {head}"))?;
        let Some(body) = bytes.get(end + 4..end + 4 + length) else { return Ok(None) };
        let path = head.strip_prefix("POST /").and_then(|rest| rest.split(' ').next());
        let endpoint = path.and_then(|path| path.parse().ok()).filter(|at| *at < self.manners.len());
        let endpoint = endpoint.ok_or_else(|| format!("nobody lives at {head}"))?;
        if field("content-type")? != "application/json" {
            return Err(format!("not JSON: {head}"));
        }
        let request = Request {
            endpoint,
            event: field("webhook-id")?.into(),
            timestamp: field("webhook-timestamp")?.parse().map_err(|_| format!("no time in {head}"))?,
            signature: field("webhook-signature")?,
            came_at: SystemClock.now().as_seconds(),
            taken: false,
            ended: None,
        };
        Ok(Some((request, body.to_vec(), end + 4 + length)))
    }
}

//! The callers: plain HTTP/1.1 on connections that stay open, one request at a time on each.
//!
//! They share the processors with the server that they measure, so they do as little as they can.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use portico_engine::clock::Stopwatch;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How many there are, if nothing else is said.
pub(crate) const CONNECTIONS: usize = 64;
/// What stands before the length of a body.
const LENGTH: &[u8] = b"content-length: ";
/// Longer than any round; one that takes this long hangs.
const TIME_MAX: Duration = Duration::from_mins(1);

/// Requests as they go over the wire.
pub(crate) type Requests = Arc<Vec<Vec<u8>>>;

/// When a round ends.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// After this time; the requests are sent again and again.
    Time(Duration),
    /// When every request was sent, each once.
    EachOnce,
}

/// What a round said.
pub(crate) struct Round {
    /// Answers a second.
    pub(crate) rate: f64,
    /// How many there were.
    pub(crate) answers: u32,
    /// How long each took, in order.
    times: Vec<Duration>,
}

impl Round {
    /// What answers said that took so long each, and together that long.
    pub(crate) fn new(mut times: Vec<Duration>, elapsed: Duration) -> Self {
        times.sort_unstable();
        let answers = u32::try_from(times.len()).unwrap();
        Self { rate: f64::from(answers) / elapsed.as_secs_f64(), answers, times }
    }

    /// So many hundredths of the answers took at most this long.
    pub(crate) fn percentile_us(&self, hundredth: usize) -> f64 {
        self.times[self.times.len() * hundredth / 100].as_secs_f64() * 1e6
    }
}

/// A connection that stays open.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// How long the whole answer is; nothing as long as its head is not there.
fn answer_length(read: &[u8]) -> Option<usize> {
    let head = read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let mut lines = read[..head].split(|byte| *byte == b'\n');
    // nginx writes its names large.
    let name = |line: &[u8]| line.get(..LENGTH.len()).is_some_and(|name| name.eq_ignore_ascii_case(LENGTH));
    let length = lines.find_map(|line| name(line).then(|| &line[LENGTH.len()..])).unwrap();
    Some(head + std::str::from_utf8(length).unwrap().trim_end().parse::<usize>().unwrap())
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: vec![0; 8 << 10] }
    }

    /// Sends the request and waits for its answer, which must be good.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> &[u8] {
        let answer = self.send(request).await;
        let good = answer.starts_with(b"HTTP/1.1 200 ");
        assert!(good, "not a good answer:\n{}", String::from_utf8_lossy(answer));
        answer
    }

    /// Sends the request and waits for its answer, whatever it says.
    pub(crate) async fn send(&mut self, request: &[u8]) -> &[u8] {
        self.stream.write_all(request).await.unwrap();
        let mut read = 0;
        let whole = loop {
            let more = self.stream.read(&mut self.buffer[read..]).await.unwrap();
            assert!(more > 0, "the server hung up, or its answer is too long");
            read += more;
            match answer_length(&self.buffer[..read]) {
                Some(whole) if read >= whole => break whole,
                _ => {}
            }
        };
        assert!(read == whole, "more than an answer:\n{}", String::from_utf8_lossy(&self.buffer[..read]));
        &self.buffer[..whole]
    }

    /// Asks each request that falls to this connection, which is `number` of `callers`, and tells how long each answer took.
    async fn work(
        mut self,
        (number, callers): (usize, usize),
        requests: Requests,
        until: Until,
        watch: Stopwatch,
    ) -> Vec<Duration> {
        let (mut times, mut before) = (Vec::new(), watch.elapsed());
        let first = match until {
            Until::Time(_) => number % requests.len(),
            Until::EachOnce => number,
        };
        let mut next = first;
        while let Some(request) = requests.get(next) {
            self.ask(request).await;
            // Asked once for each answer: the clock costs something, too.
            let now = watch.elapsed();
            times.push(now.saturating_sub(before));
            before = now;
            next += callers;
            match until {
                Until::Time(end) if now >= end => break,
                Until::Time(_) if next >= requests.len() => next = first,
                _ => {}
            }
        }
        times
    }
}

/// One answer, as it came.
pub(crate) async fn fetch(address: SocketAddr, request: &[u8]) -> String {
    String::from_utf8(Connection::open(address).await.ask(request).await.to_vec()).unwrap()
}

async fn work(callers: usize, address: SocketAddr, requests: &Requests, until: Until) -> Round {
    let mut connections = Vec::new();
    for _ in 0..callers {
        connections.push(Connection::open(address).await);
    }
    let watch = Stopwatch::start();
    let tasks: Vec<_> = connections
        .into_iter()
        .enumerate()
        .map(|(number, connection)| {
            tokio::spawn(connection.work((number, callers), requests.clone(), until, watch))
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    Round::new(times, watch.elapsed())
}

/// Sends the requests, dealt out to the connections in turn.
pub(crate) async fn run(address: SocketAddr, requests: &Requests, until: Until) -> Round {
    run_with(CONNECTIONS, address, requests, until).await
}

/// The same with so many connections.
pub(crate) async fn run_with(
    callers: usize,
    address: SocketAddr,
    requests: &Requests,
    until: Until,
) -> Round {
    tokio::time::timeout(TIME_MAX, work(callers, address, requests, until)).await.unwrap()
}

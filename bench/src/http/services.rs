//! A company's own service behind Portico: what the gateway costs beside proxies that only hand on, before the same target.
//!
//! All are asked in turns, in one run, by the same callers. The target is a process of its own, so the processor time is that
//! of the proxy alone.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portico_engine::clock::{Stopwatch, SystemClock};
use portico_kernel::Clock as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::load::{self, Requests};
use super::peers::PEERS;
use super::process::{Process, files_max};
use super::target::{self, FILE, FILE_BYTES, ITEM, SERVICE, STREAM, TICK};
use super::{
    Measurement, ROUNDS, ROUTE, in_turns, measured, middle, portico, portico_command, request, stock,
};
use crate::report::Report;

/// Of the rate that each proxy reaches with a second of its processor.
const BARS: [(&str, &str); 2] = [("nginx", "bar: 0.6"), ("haproxy", "bar: 0.7")];
/// What the gateway may add to 99 of 100 calls.
const ADDED_US_MAX: f64 = 300.0;
/// What a verification may take of 99 of 100 calls.
const VERIFIED_US_MAX: f64 = 1_000.0;
/// What a body of 1 GiB may take: 32 MiB.
const ADDED_MB_MAX: f64 = 33.554_432;
const PIECE_BYTES: usize = 64 << 10;
/// Event streams that are held open,
const STREAMS: usize = 10_000;
/// so many of them begun at once,
const BEGINNERS: usize = 64;
/// from so many addresses, since one address may not have all of the server's connections,
const ADDRESSES: u8 = 8;
/// and files that the server keeps for everything else.
const FILES: usize = 1_600;
/// The accounts that hold the streams: each may have 256 calls at a service.
const ACCOUNTS: u32 = 40;
/// Until what connecting took is given back.
const SETTLE: Duration = Duration::from_secs(2);

/// What is started for all of it.
struct Setup {
    folder: tempfile::TempDir,
    target: Process,
    /// The first of them makes the calls of everything but the streams.
    tokens: Vec<String>,
}

impl Setup {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(target::NAME);
        let target = Process::start(command, &folder.path().join("target.log"));
        std::fs::write(folder.path().join("items.json"), target::document()).unwrap();
        let table = format!(
            "[services.{SERVICE}]\nopenapi = \"items.json\"\ntargets = [\"http://{}\"]\nbody_max = \"1 GiB\"\n\
             calls_per_minute = 100_000_000\n",
            target.address
        );
        let tokens = stock::fill_with(folder.path(), ACCOUNTS, ACCOUNTS * stock::TOKENS_EACH, &table).await;
        Self { folder, target, tokens }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn request(&self, route: &str) -> Vec<u8> {
        request(&self.tokens[0], route)
    }
}

/// The figure in the middle of all rounds.
fn median<const N: usize>(rounds: &[[Measurement; N]], of: impl Fn(&[Measurement; N]) -> f64) -> f64 {
    middle(rounds.iter().map(of).collect())
}

/// Asks each server in turns.
async fn in_rounds<const N: usize>(
    servers: [&Process; N],
    requests: &Requests,
    callers: usize,
) -> Vec<[Measurement; N]> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut round = Vec::new();
        for server in servers {
            round.push(measured(server, requests, callers).await);
        }
        rounds.push(round.try_into().unwrap_or_else(|_| panic!("as many as there are servers")));
    }
    rounds
}

/// How many answers a second of the processor is good for.
fn for_cpu_second(measured: &Measurement) -> f64 {
    1e9 / measured.cpu_ns
}

/// Calls of one kilobyte, through Portico and through each of the others.
async fn calls(report: &mut Report, setup: &Setup) {
    let one: Requests = Arc::new(vec![setup.request(ITEM)]);
    let ours = portico(setup.path());
    let alone = &setup.target;
    let said = load::fetch(ours.address, &one[0]).await;
    assert!(said.ends_with("\"}") && said.len() > 1_000, "{said}");
    for peer in PEERS {
        let what = |figure: &str| format!("GET of 1 kB of a service, against {}: {figure}", peer.name);
        let Some(proxy) = peer.start(setup.path(), alone.address) else {
            report.words(&what("calls"), "it is not installed");
            continue;
        };
        load::fetch(proxy.address, &one[0]).await;
        let rounds = in_rounds([&ours, &proxy], &one, load::CONNECTIONS).await;
        let bar = BARS.iter().find(|(name, _)| *name == peer.name).map_or("no bar", |(_, bar)| *bar);
        let of = |which: usize, of: fn(&Measurement) -> f64| median(&rounds, |round| of(&round[which]));
        let (us, them) = (of(0, for_cpu_second), of(1, for_cpu_second));
        report.ratio(&what("for a second of the proxy's processor"), us, them, "/s", bar);
        let rate = |measured: &Measurement| measured.round.rate;
        report.ratio(&what("calls"), of(0, rate), of(1, rate), "/s", "no bar");
        let added = added_us([&proxy, alone], &one).await;
        report.figure(&what("what the other adds at p99, one caller"), added, "µs");
    }
    let added = added_us([&ours, alone], &one).await;
    let what = "GET of 1 kB of a service: added at p99, one caller, against the limit";
    report.ratio(what, added, ADDED_US_MAX, "µs", "bar: at most 1");
    let rounds = in_rounds([&ours, alone], &one, load::CONNECTIONS).await;
    for hundredth in [50, 99] {
        let us = |which: usize| median(&rounds, |round| round[which].round.percentile_us(hundredth));
        let what = format!("GET of 1 kB of a service, against its target alone, 64 callers: p{hundredth}");
        report.ratio(&what, us(0), us(1), "µs", "no bar");
    }
}

/// What a proxy adds to 99 of 100 calls of one caller, who waits for each.
async fn added_us(servers: [&Process; 2], one: &Requests) -> f64 {
    let rounds = in_rounds(servers, one, 1).await;
    let p99 = |measured: &Measurement| measured.round.percentile_us(99);
    median(&rounds, |[proxy, alone]| p99(proxy) - p99(alone))
}

/// Reads until so many bytes have come behind the head, and throws them away.
async fn read_file(stream: &mut TcpStream) {
    let (mut piece, mut head, mut left) = (vec![0; PIECE_BYTES], Vec::new(), FILE_BYTES);
    while left > 0 {
        let read = stream.read(&mut piece).await.unwrap();
        assert!(read > 0, "the server hung up: {}", String::from_utf8_lossy(&head));
        let body = if left == FILE_BYTES {
            head.extend_from_slice(&piece[..read]);
            let end = head.windows(4).position(|four| four == b"\r\n\r\n");
            end.map_or(0, |end| head.len() - end - 4)
        } else {
            read
        };
        left -= body as u64;
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
}

async fn write_file(stream: &mut TcpStream, token: &str) {
    let head = format!(
        "PUT {FILE} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n\
         content-type: application/octet-stream\r\ncontent-length: {FILE_BYTES}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![b'x'; PIECE_BYTES];
    for _ in 0..FILE_BYTES / PIECE_BYTES as u64 {
        stream.write_all(&piece).await.unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with(&FILE_BYTES.to_string()), "{answer}");
}

/// A gibibyte in each direction, each through a server of its own.
async fn large_bodies(report: &mut Report, setup: &Setup) {
    for (direction, is_up) in [("down", false), ("up", true)] {
        let server = portico(setup.path());
        load::fetch(server.address, &setup.request(ITEM)).await;
        let before = server.resident_mb();
        let watch = Stopwatch::start();
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        if is_up {
            write_file(&mut stream, &setup.tokens[0]).await;
        } else {
            stream.write_all(&setup.request(FILE)).await.unwrap();
            read_file(&mut stream).await;
        }
        let took = watch.elapsed();
        let what =
            format!("1 GiB {direction} through a service: memory at most beside before, against the limit");
        report.ratio(&what, server.peak_mb() - before, ADDED_MB_MAX, "MB", "bar: at most 1");
        report.figure(&format!("1 GiB {direction} through a service"), took.as_secs_f64() * 1e3, "ms");
    }
}

/// A token of the service's own, for a credential that the operator made.
async fn service_token(setup: &Setup, server: &Process) -> String {
    let mut command = portico_command(setup.path());
    let output = command.args(["admin", "service", "credential", SERVICE, "--json"]).output().unwrap();
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |name: &str| made[name].as_str().unwrap();
    let basic = BASE64_STANDARD.encode([text("client_id"), text("client_secret")].join(":"));
    let form = "grant_type=client_credentials&audience=platform-api";
    let request = format!(
        "POST /oauth2/token HTTP/1.1\r\nhost: bench\r\nauthorization: Basic {basic}\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
        form.len()
    );
    let answer = load::fetch(server.auth.unwrap(), request.as_bytes()).await;
    let answer: Value = serde_json::from_str(answer.rsplit_once("\r\n").unwrap().1).unwrap();
    answer["access_token"].as_str().unwrap().to_owned()
}

/// Tokens of customers verified for a service with a front of its own, beside a call that such a token makes.
async fn verification(report: &mut Report, setup: &Setup) {
    let server = portico(setup.path());
    let service = service_token(setup, &server).await;
    let question = json!({ "token": setup.tokens[0], "name": "getItem", "method": "GET" }).to_string();
    let verify = format!(
        "POST /v1/services/verify HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {service}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{question}",
        question.len()
    );
    let verify: Requests = Arc::new(vec![verify.into_bytes()]);
    let me: Requests = Arc::new(vec![setup.request(ROUTE)]);
    let said = load::fetch(server.address, &verify[0]).await;
    assert!(said.contains("\"valid\":true"), "{said}");
    let (verified, plain) = in_turns((&server, &verify), (&server, &me)).await;
    let what = "tokens verified for a service, 64 callers, against GET /v1/me";
    report.ratio(what, verified.round.rate, plain.round.rate, "/s", "bar: 0.6");
    let what = format!("{what}: processor time for each");
    report.ratio(&what, verified.cpu_ns, plain.cpu_ns, "ns", "no bar");
    let p99 = measured(&server, &verify, 1).await.round.percentile_us(99);
    let what = "p99 of tokens verified for a service, one caller, against the limit";
    report.ratio(what, p99, VERIFIED_US_MAX, "µs", "bar: at most 1");
}

/// Opens a stream of events from an address of the loopback, and waits for the first.
async fn open_stream(from: Ipv4Addr, address: SocketAddr, request: Vec<u8>) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(&request).await.unwrap();
    let mut read = Vec::with_capacity(1024);
    while !read.windows(TICK.len()).any(|some| some == TICK.as_bytes()) {
        let more = stream.read_buf(&mut read).await.unwrap();
        assert!(more > 0, "no stream: {}", String::from_utf8_lossy(&read));
    }
    stream
}

/// Streams of the service on which nothing happens.
async fn idle_streams(report: &mut Report, setup: &Setup) {
    let server = portico(setup.path());
    load::fetch(server.address, &setup.request(ITEM)).await;
    // The server has two files open for each.
    let number = STREAMS.min(files_max().saturating_sub(FILES) / 2);
    let before = server.resident_mb();
    let (mut open, mut beginners) = (Vec::with_capacity(number), JoinSet::new());
    let addresses = (0..ADDRESSES).map(|last| Ipv4Addr::new(127, 0, 1, last)).cycle();
    for (token, from) in setup.tokens.iter().cycle().zip(addresses).take(number) {
        if beginners.len() == BEGINNERS {
            open.push(beginners.join_next().await.unwrap().unwrap());
        }
        beginners.spawn(open_stream(from, server.address, request(token, STREAM)));
    }
    open.extend(beginners.join_all().await);
    SystemClock.sleep(SETTLE).await;
    let bytes = (server.resident_mb() - before) * 1e6 / f64::from(u32::try_from(number).unwrap());
    for stream in &open {
        let read = stream.try_read(&mut [0; 1]);
        assert!(
            read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock),
            "a stream has ended"
        );
    }
    report.figure(&format!("memory of an idle event stream of a service ({number} of them)"), bytes, "bytes");
}

pub(crate) async fn measure(report: &mut Report) {
    let setup = Setup::new().await;
    calls(report, &setup).await;
    large_bodies(report, &setup).await;
    verification(report, &setup).await;
    idle_streams(report, &setup).await;
}

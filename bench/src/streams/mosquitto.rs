//! mosquitto, the broker to measure beside the server, and whoever publishes to its subscribers.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use portico_engine::clock::{Stopwatch, SystemClock};
use portico_kernel::Clock as _;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use super::crowd::Crowd;
use super::handshake::{Listening, publish};
use super::kind::Kind;
use super::load::BACKLOG;
use super::setup::Server;
use crate::http::process::{Process, free_address, installed};

const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A broker on a port of its own.
pub(crate) struct Mosquitto {
    // Ends before its folder.
    pub(crate) server: Arc<Server>,
    _folder: TempDir,
}

/// Nothing is dropped and nothing is kept; the rest is as it comes.
fn config(address: SocketAddr) -> String {
    format!(
        "listener {} {}\nallow_anonymous true\nmax_queued_messages 0\npersistence false\nset_tcp_nodelay true\n\
         log_type error\nlog_type warning\n",
        address.port(),
        address.ip()
    )
}

fn start(program: &Path, folder: &Path) -> Process {
    let (file, address) = (folder.join("mosquitto.conf"), free_address());
    std::fs::write(&file, config(address)).unwrap();
    let mut command = Command::new(program);
    command.arg("-c").arg(file);
    Process::start_at(command, &folder.join("mosquitto.log"), address)
}

impl Mosquitto {
    /// Starts it, if it is installed.
    pub(crate) fn start() -> Option<Self> {
        let (program, folder) = (installed("mosquitto")?, tempfile::tempdir().unwrap());
        let server = Server::without_accounts(start(&program, folder.path()));
        Some(Self { server, _folder: folder })
    }
}

/// What is published: so many bytes, as many messages together, and that as often a second.
#[derive(Clone, Copy)]
pub(crate) struct Publishing {
    pub(crate) kind: Kind,
    /// Of a whole packet.
    pub(crate) bytes: usize,
    pub(crate) together: u32,
    pub(crate) per_second: f64,
}

/// A publisher at work.
pub(crate) struct Publisher {
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

/// The messages of one go, numbered from `first`.
fn messages(publishing: Publishing, first: u32) -> Vec<u8> {
    let qos = publishing.kind.qos();
    let payload = vec![b'x'; publishing.bytes.saturating_sub(publish(qos, 1, b"").len() + 1)];
    let number = |at: u32| u16::try_from((first + at) % 65_535 + 1).unwrap();
    (0..publishing.together).flat_map(|at| publish(qos, number(at), &payload)).collect()
}

impl Publisher {
    /// Begins to publish to the crowd, no faster than it takes what is published.
    pub(crate) async fn begin(broker: &Mosquitto, publishing: Publishing, crowd: &Arc<Crowd>) -> Self {
        let listening = Listening::publisher(broker.server.process.address).await;
        let (mut reading, mut writing) = listening.stream.into_split();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, crowd) = (stop.clone(), crowd.clone());
        let (before, watch) = (crowd.events(), Stopwatch::start());
        let task = tokio::spawn(async move {
            // What is acknowledged is read, and forgotten.
            let forgetting = tokio::spawn(async move {
                let mut scratch = [0; 1024];
                while reading.read(&mut scratch).await.is_ok_and(|read| read > 0) {}
            });
            let mut published = 0;
            for go in 0_u32.. {
                let at = Duration::from_secs_f64(f64::from(go) / publishing.per_second);
                SystemClock.sleep(at.saturating_sub(watch.elapsed())).await;
                while u64::from(published) * u64::from(crowd.fan) > crowd.events() - before + BACKLOG {
                    SystemClock.sleep(LOOK_EVERY).await;
                }
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                writing.write_all(&messages(publishing, published)).await.unwrap();
                published += publishing.together;
            }
            crowd.wait_for(before + u64::from(published) * u64::from(crowd.fan)).await;
            forgetting.abort();
        });
        Self { stop, task }
    }

    /// Publishes no more, and waits until everyone has all of it.
    pub(crate) async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
    }
}

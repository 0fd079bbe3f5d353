//! A server in a process of its own.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use portico_engine::clock::Stopwatch;

const START_TIME_MAX: Duration = Duration::from_secs(30);
/// What Linux counts processor time in, for programs, on every machine that we know.
const TICK: Duration = Duration::from_millis(10);

/// Ends with whoever holds it, also when that one panics.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that is ready.
pub(crate) struct Process {
    running: Running,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Where its identity provider listens, if it has one.
    pub(crate) auth: Option<SocketAddr>,
    /// Where it listens for MQTT, if it does.
    pub(crate) mqtt: Option<SocketAddr>,
    /// How long it took to be ready.
    pub(crate) started_in: Duration,
}

/// Waits for the `ready` line on a thread of its own, which then goes on reading: a full pipe would stop the server.
fn ready_line(out: ChildStdout, watch: Stopwatch) -> Receiver<(String, Duration)> {
    let (found, ready) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if line.starts_with("ready ") {
                let _ = found.send((line, watch.elapsed()));
            }
        }
    });
    ready
}

/// The fields of a process's `stat` in `/proc`, from the third on: the name before it may hold anything.
fn fields(stat: &str) -> Vec<&str> {
    stat.rsplit_once(") ").unwrap().1.split(' ').collect()
}

/// The processor time that a process has taken: the 14th and 15th field.
fn cpu_of(stat: &str) -> Duration {
    ticks(fields(stat)[11..13].iter().copied())
}

fn ticks<'a>(counts: impl Iterator<Item = &'a str>) -> Duration {
    TICK * counts.map(|count| count.parse::<u32>().unwrap()).sum()
}

/// The processor time that this process has taken so far.
pub(crate) fn own_cpu() -> Duration {
    cpu_of(&std::fs::read_to_string("/proc/self/stat").unwrap())
}

/// The processor time that everything on this machine has taken so far.
pub(crate) fn all_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let counts: Vec<_> = stat.lines().next().unwrap().split_whitespace().skip(1).collect();
    // For users, those of them that are nice, the system; then idle and waiting; then interrupts of two kinds.
    ticks([0, 1, 2, 5, 6].iter().map(|at| counts[*at]))
}

/// The processes of a PostgreSQL cluster.
pub(crate) struct Cluster {
    /// The one that began all others.
    first: String,
}

impl Cluster {
    /// The cluster that the process serves in.
    pub(crate) fn of_backend(id: i64) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        Self { first: fields(&stat)[1].to_owned() }
    }

    /// The processor time that it has taken so far, of processes that have ended, too.
    pub(crate) fn cpu(&self) -> Duration {
        let first = std::fs::read_to_string(format!("/proc/{}/stat", self.first)).unwrap();
        let ended = ticks(fields(&first)[13..15].iter().copied());
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        // One that ends meanwhile cannot be read any more.
        let stats = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        let children = stats.filter(|stat| stat.contains(") ") && fields(stat)[1] == self.first);
        cpu_of(&first) + ended + children.map(|stat| cpu_of(&stat)).sum::<Duration>()
    }
}

/// The program of that name, if it is installed. Debian keeps servers where only root's PATH leads.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"];
    folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
}

/// How many files this process may open, and so the servers that it starts.
pub(crate) fn files_max() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap_or(usize::MAX)
}

/// An address that nobody has, for a server that cannot choose one itself.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Begins the program. It writes its log to `log`, and knows nothing of our environment.
fn spawn(mut command: Command, log: &Path) -> Running {
    let errors = File::create(log).unwrap();
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    let child = command.spawn();
    Running(child.unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display())))
}

impl Process {
    /// Starts the server and waits until it is ready.
    pub(crate) fn start(command: Command, log: &Path) -> Self {
        let watch = Stopwatch::start();
        let mut running = spawn(command, log);
        let ready = ready_line(running.0.stdout.take().unwrap(), watch).recv_timeout(START_TIME_MAX);
        let Ok((line, started_in)) = ready else {
            panic!("the server does not start:\n{}", std::fs::read_to_string(log).unwrap());
        };
        let named = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.parse().ok());
        Self {
            running,
            address: named("api=").unwrap(),
            auth: named("auth="),
            mqtt: named("mqtt="),
            started_in,
        }
    }

    /// Starts a server that says nothing when it is ready, and waits until it takes connections at `address`.
    pub(crate) fn start_at(command: Command, log: &Path, address: SocketAddr) -> Self {
        let watch = Stopwatch::start();
        let running = spawn(command, log);
        while TcpStream::connect(address).is_err() {
            let words = || std::fs::read_to_string(log).unwrap();
            assert!(watch.elapsed() < START_TIME_MAX, "the server does not start:\n{}", words());
            std::thread::sleep(TICK);
        }
        Self { running, address, auth: None, mqtt: Some(address), started_in: watch.elapsed() }
    }

    fn about(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.running.0.id())).unwrap()
    }

    /// The processor time that it has taken so far, its own and the system's for it.
    pub(crate) fn cpu(&self) -> Duration {
        cpu_of(&self.about("stat"))
    }

    /// The memory that it holds.
    pub(crate) fn resident_mb(&self) -> f64 {
        self.memory_mb("VmRSS:")
    }

    /// The most memory that it has held.
    pub(crate) fn peak_mb(&self) -> f64 {
        self.memory_mb("VmHWM:")
    }

    fn memory_mb(&self, which: &str) -> f64 {
        let status = self.about("status");
        let line = status.lines().find_map(|line| line.strip_prefix(which)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0 / 1e6
    }
}

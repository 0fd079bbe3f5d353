//! The processor time that a span of time took, and whose it was.

use std::fmt;
use std::time::Duration;

use portico_engine::clock::Stopwatch;

use crate::http::process::{Cluster, Process, all_cpu, own_cpu};

/// A span that has begun.
pub(crate) struct Span<'a> {
    server: &'a Process,
    cluster: Option<&'a Cluster>,
    watch: Stopwatch,
    before: [Duration; 4],
}

/// What it took, in seconds.
pub(crate) struct Spent {
    /// How long it was.
    pub(crate) seconds: f64,
    /// Processor time of the server.
    pub(crate) server: f64,
    database: f64,
    bench: f64,
    all: f64,
}

fn sample(server: &Process, cluster: Option<&Cluster>) -> [Duration; 4] {
    [server.cpu(), cluster.map(Cluster::cpu).unwrap_or_default(), own_cpu(), all_cpu()]
}

impl<'a> Span<'a> {
    pub(crate) fn begin(server: &'a Process, cluster: Option<&'a Cluster>) -> Self {
        Self { server, cluster, watch: Stopwatch::start(), before: sample(server, cluster) }
    }

    pub(crate) fn end(self) -> Spent {
        let seconds = self.watch.elapsed().as_secs_f64();
        let now = sample(self.server, self.cluster);
        let took = |which: usize| now[which].saturating_sub(self.before[which]).as_secs_f64();
        Spent { seconds, server: took(0), database: took(1), bench: took(2), all: took(3) }
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, server, database, bench, all } = self;
        let processors = std::thread::available_parallelism().unwrap().get();
        let whole = seconds * f64::from(u32::try_from(processors).unwrap());
        let percent = |time: f64| time * 100.0 / whole;
        write!(
            f,
            "processors {:.0}% busy: server {:.0}%, PostgreSQL {:.0}%, clients and callers {:.0}%, something else {:.0}%",
            percent(*all),
            percent(*server),
            percent(*database),
            percent(*bench),
            percent((all - server - database - bench).max(0.0))
        )
    }
}

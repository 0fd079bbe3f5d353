//! The resolvers, and what can be asked of them.

use std::net::SocketAddr;
use std::time::Duration;

use hickory_proto::op::Message;
use hickory_proto::rr::{Name, RecordType};
use portico_egress::Networks;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::figures::{Counters, Figures};
use crate::question::{Failure, Question};
use crate::time::{Instant, now};
use crate::txt::{Said, Sighting, Walk};
use crate::{Answer, Busy, Look, Outcome, Record, ServerKind, Zone, look, names, words, zone};

/// Looks, and searches for who serves a zone, at once. Each try of a question has a socket, and a look of four resolvers up to 32
/// at one time, of eight twice as many.
pub const LOOKS_AT_ONCE: usize = 32;
/// How long one more waits for its turn, in the order in which they came.
pub const WAIT_MAX: Duration = Duration::from_secs(10);
/// The label of the servers of zones in metrics, since there are as many as tenants like.
const AUTHORITATIVE: &str = "authoritative";

/// Whom to ask.
#[derive(Debug, Clone)]
pub struct Settings {
    /// In their configured order; 1 to 8.
    pub resolvers: Vec<Resolver>,
    /// The port of the servers of zones; 0 asks none of them.
    pub authoritative_port: u16,
}

/// A resolver that the operator chose.
#[derive(Debug, Clone)]
pub struct Resolver {
    /// `host:port` as configured.
    pub name: String,
    /// Where it is.
    pub address: SocketAddr,
}

/// Looks for records. Each question has sockets of its own, and no answer is kept.
pub struct Dns {
    /// In their configured order.
    pub(crate) resolvers: Vec<Resolver>,
    /// Of each of them.
    counters: Vec<Counters>,
    /// Of all servers of zones together.
    pub(crate) authoritative: Counters,
    pub(crate) authoritative_port: u16,
    /// Servers of zones may be in these networks, or public.
    pub(crate) allow: Networks,
    /// Whoever looks has one.
    pub(crate) turns: Semaphore,
}

/// A server that can be asked.
#[derive(Clone)]
pub(crate) struct Server<'a> {
    /// The first is asked first.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Is it a resolver, which asks others?
    pub(crate) recursion: bool,
    pub(crate) counters: &'a Counters,
}

impl Server<'_> {
    /// Asks one question, and counts it.
    pub(crate) async fn ask(
        &self,
        name: &Name,
        kind: RecordType,
        unchecked: bool,
    ) -> Result<Message, Failure> {
        let question = Question { name: name.clone(), kind, recursion: self.recursion, unchecked };
        let begun = now();
        let reply = question.ask(&self.addresses).await;
        let time = reply.is_ok().then(|| now() - begun);
        self.counters.count(question.outcome(reply.as_ref().map_err(|failure| *failure)), time);
        reply
    }

    /// The TXT records of `name`, its aliases followed. `zone` is the one that the server must speak for.
    pub(crate) async fn txt(
        &self,
        name: &Name,
        zone: Option<&Name>,
        unchecked: bool,
        until: Instant,
    ) -> Sighting {
        let begun = now();
        let walk = async {
            let mut walk = Walk::new(name.clone(), zone);
            loop {
                let reply = self.ask(&walk.at, RecordType::TXT, unchecked).await;
                if let Some(said) = walk.read(reply.as_ref().map_err(|failure| *failure)) {
                    return walk.end(said, now() - begun);
                }
            }
        };
        let walk = tokio::time::timeout_at(until, walk).await;
        walk.unwrap_or_else(|_| Sighting::unanswered(Said::Timeout))
    }
}

impl Dns {
    /// Asks the resolvers of `settings`, and servers of zones at public addresses or those in `allow`.
    pub fn new(settings: Settings, allow: Networks) -> Self {
        Self {
            counters: settings.resolvers.iter().map(|resolver| Counters::new(&resolver.name)).collect(),
            resolvers: settings.resolvers,
            authoritative: Counters::new(AUTHORITATIVE),
            authoritative_port: settings.authoritative_port,
            allow,
            turns: Semaphore::new(LOOKS_AT_ONCE),
        }
    }

    /// Where is the record? Takes at most 10 s from when it is its turn.
    pub async fn look(&self, record: &Record) -> Result<Look, Busy> {
        let _turn = self.turn().await?;
        // Its many questions are kept apart from the caller's future.
        Ok(Box::pin(look::look(self, record)).await)
    }

    /// Waits until one more may look.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, Busy> {
        // Turns are never closed, so what fails is that none comes.
        let turn = timeout(WAIT_MAX, self.turns.acquire()).await;
        turn.ok().and_then(Result::ok).ok_or(Busy)
    }

    /// Who serves `domain`, whose public suffix and one label are `registrable`? A caller who is in a hurry bounds it, and
    /// takes `Zone::default()` when it does not come; that is also the answer when it does not get its turn.
    pub async fn zone(&self, domain: &str, registrable: &str) -> Zone {
        let (Some(domain), Some(registrable)) = (names::read(domain), names::read(registrable)) else {
            return Zone::default();
        };
        match self.turn().await {
            Ok(_turn) => Box::pin(self.survey(&domain, &registrable, now() + zone::TIME)).await.zone,
            Err(Busy) => Zone::default(),
        }
    }

    /// What each resolver says of the start of the root zone: `Found` if it answers.
    pub async fn roots(&self) -> Vec<Answer> {
        let servers = self.servers();
        let questions = servers.iter().zip(&self.resolvers).map(async |(server, resolver)| {
            let begun = now();
            let reply = server.ask(&Name::root(), RecordType::SOA, false).await;
            let question =
                Question { name: Name::root(), kind: RecordType::SOA, recursion: true, unchecked: false };
            let outcome = question.outcome(reply.as_ref().map_err(|failure| *failure));
            Answer {
                server: resolver.name.clone(),
                kind: ServerKind::Public,
                outcome,
                values: Vec::new(),
                authenticated: reply.as_ref().is_ok_and(|reply| reply.metadata.authentic_data),
                ttl: 0,
                latency_ms: if reply.is_ok() { look::milliseconds(now() - begun) } else { 0 },
                message: words::root(outcome).to_owned(),
            }
        });
        futures_util::future::join_all(questions).await
    }

    /// What was counted of each resolver, in their order, and of the servers of zones.
    pub fn figures(&self) -> Vec<Figures> {
        self.counters.iter().chain([&self.authoritative]).map(Counters::figures).collect()
    }

    /// The resolvers, in their order.
    pub(crate) fn servers(&self) -> Vec<Server<'_>> {
        let server = |(resolver, counters): (&Resolver, _)| Server {
            addresses: vec![resolver.address],
            recursion: true,
            counters,
        };
        self.resolvers.iter().zip(&self.counters).map(server).collect()
    }

    /// Notes a server that may not be asked.
    pub(crate) fn count_blocked(&self) {
        self.authoritative.count(Outcome::Blocked, None);
    }
}

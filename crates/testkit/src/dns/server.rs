//! One name server, over UDP and TCP.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, OpCode, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::AbortHandle;

use super::Sockets;
use super::world::{World, read};

/// What is wrong with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DnsFault {
    /// Nothing.
    #[default]
    None,
    /// It never answers.
    Silence,
    /// It never answers a question for TXT records.
    SilenceOnTexts,
    /// It answers that it failed.
    ServFail,
    /// It finds the signatures broken, and fails unless it is told not to check them.
    BadSignatures,
    /// It finds those of TXT records alone broken.
    BadSignaturesOfTexts,
    /// It refuses.
    Refusal,
    /// What it sends is no message.
    Garbage,
    /// It does not speak for its zones.
    Lame,
    /// It cuts every answer over UDP.
    Truncation,
    /// It cuts them, and cannot be reached over TCP.
    TruncationWithoutTcp,
}

/// A question as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the bits of a message")]
pub struct DnsQuestion {
    /// The name, with its last dot.
    pub name: String,
    /// The type, such as `TXT`.
    pub kind: String,
    /// Did it come over TCP?
    pub tcp: bool,
    /// Its id.
    pub id: u16,
    /// The port that it came from.
    pub port: u16,
    /// RD: shall the server ask others?
    pub recursion_desired: bool,
    /// AD: does it want to know whether signatures were checked?
    pub authentic_data: bool,
    /// CD: shall they not be checked?
    pub checking_disabled: bool,
    /// DO: does it want signatures?
    pub dnssec_ok: bool,
    /// How many bytes it takes over UDP.
    pub payload: u16,
}

struct State {
    world: Arc<Mutex<World>>,
    /// What it serves in the place of the world of all.
    own: Mutex<Option<World>>,
    behaviour: Mutex<Behaviour>,
    asked: Mutex<Vec<DnsQuestion>>,
    role: Role,
}

/// Which kind of server it is.
pub(super) enum Role {
    /// It knows all zones.
    Resolver,
    /// It knows those that are served under its name, as soon as it has one.
    Host(Mutex<Option<Name>>),
}

#[derive(Debug, Clone, Copy, Default)]
struct Behaviour {
    fault: DnsFault,
    delay: Duration,
    authenticates: bool,
    /// Does it forget what it is asked?
    forgets: bool,
}

/// A name server of [`super::TestDns`].
pub struct NameServer {
    address: SocketAddr,
    state: Arc<State>,
    tasks: [AbortHandle; 2],
}

impl Drop for NameServer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl NameServer {
    pub(super) fn start((udp, tcp): Sockets, world: Arc<Mutex<World>>, role: Role) -> Self {
        let address = udp.local_addr().unwrap();
        let state = Arc::new(State {
            world,
            own: Mutex::default(),
            behaviour: Mutex::default(),
            asked: Mutex::default(),
            role,
        });
        let tasks = [
            tokio::spawn(serve_udp(Arc::new(udp), state.clone())).abort_handle(),
            tokio::spawn(serve_tcp(tcp, state.clone())).abort_handle(),
        ];
        Self { address, state, tasks }
    }

    pub(super) fn set_name(&self, name: &str) {
        let Role::Host(ours) = &self.state.role else { panic!("a resolver has no name") };
        *ours.lock().unwrap() = Some(read(name));
    }

    /// Where it is.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets something be wrong with it.
    pub fn fail(&self, fault: DnsFault) {
        self.state.behaviour.lock().unwrap().fault = fault;
    }

    /// Lets it wait before every answer.
    pub fn delay(&self, delay: Duration) {
        self.state.behaviour.lock().unwrap().delay = delay;
    }

    /// Says whether it tells that it has checked signatures, to those who want to know.
    pub fn authenticate(&self, authenticates: bool) {
        self.state.behaviour.lock().unwrap().authenticates = authenticates;
    }

    /// Says whether it remembers what it is asked.
    pub(super) fn remember(&self, remembers: bool) {
        self.state.behaviour.lock().unwrap().forgets = !remembers;
    }

    /// Gives it a world of its own, which is that of all but for this change, and does not change with it.
    pub fn keep(&self, change: impl FnOnce(&mut World)) {
        let mut own = self.state.world.lock().unwrap().clone();
        change(&mut own);
        *self.state.own.lock().unwrap() = Some(own);
    }

    /// Lets it serve the world of all again.
    pub fn follow(&self) {
        *self.state.own.lock().unwrap() = None;
    }

    /// What it was asked, in order.
    pub fn asked(&self) -> Vec<DnsQuestion> {
        self.state.asked.lock().unwrap().clone()
    }

    /// What it was asked for TXT records.
    pub fn asked_txt(&self) -> Vec<DnsQuestion> {
        self.asked().into_iter().filter(|question| question.kind == "TXT").collect()
    }

    /// Forgets what it was asked.
    pub fn forget(&self) {
        self.state.asked.lock().unwrap().clear();
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, state: Arc<State>) {
    let mut bytes = [0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
        let (question, socket, state) = (bytes[..length].to_vec(), socket.clone(), state.clone());
        tokio::spawn(async move {
            if let Some(reply) = state.reply(&question, from, false).await {
                // Whoever does not wait any more has heard enough.
                let _ = socket.send_to(&reply, from).await;
            }
        });
    }
}

async fn serve_tcp(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, from)) = listener.accept().await {
        let state = state.clone();
        tokio::spawn(async move {
            // The other side may hang up whenever it likes.
            let _ = serve_stream(stream, from, &state).await;
        });
    }
}

/// Each message has its length before it.
async fn serve_stream(mut stream: TcpStream, from: SocketAddr, state: &State) -> std::io::Result<()> {
    loop {
        let mut question = vec![0; stream.read_u16().await?.into()];
        stream.read_exact(&mut question).await?;
        let Some(reply) = state.reply(&question, from, true).await else { return Ok(()) };
        stream.write_u16(reply.len().try_into().unwrap()).await?;
        stream.write_all(&reply).await?;
    }
}

impl State {
    /// `None` where it says nothing.
    async fn reply(&self, bytes: &[u8], from: SocketAddr, tcp: bool) -> Option<Vec<u8>> {
        let question = Message::from_vec(bytes).ok()?;
        let Behaviour { fault, delay, authenticates, forgets } = *self.behaviour.lock().unwrap();
        if !forgets {
            self.note(&question, from, tcp);
        }
        if !delay.is_zero() {
            // Nothing comes, for so long.
            let _ = tokio::time::timeout(delay, std::future::pending::<()>()).await;
        }
        let is_for_texts = question.queries[0].query_type() == RecordType::TXT;
        let mut reply = self.answer(&question);
        let cuts = matches!(fault, DnsFault::Truncation | DnsFault::TruncationWithoutTcp) && !tcp;
        match fault {
            DnsFault::Silence => return None,
            DnsFault::SilenceOnTexts if is_for_texts => return None,
            DnsFault::TruncationWithoutTcp if tcp => return None,
            DnsFault::Garbage => return Some(bytes[..5].to_vec()),
            DnsFault::ServFail => reply = without_answer(&question, ResponseCode::ServFail),
            DnsFault::BadSignatures if !question.metadata.checking_disabled => {
                reply = without_answer(&question, ResponseCode::ServFail);
            }
            DnsFault::BadSignaturesOfTexts if is_for_texts && !question.metadata.checking_disabled => {
                reply = without_answer(&question, ResponseCode::ServFail);
            }
            DnsFault::Refusal => reply = without_answer(&question, ResponseCode::Refused),
            DnsFault::Lame => reply.metadata.authoritative = false,
            _ => {}
        }
        reply.metadata.authentic_data = authenticates && question.metadata.authentic_data;
        let whole = reply.to_vec().unwrap();
        let is_too_long = !tcp && whole.len() > usize::from(question.max_payload());
        Some(if cuts || is_too_long { reply.truncate().to_vec().unwrap() } else { whole })
    }

    fn answer(&self, question: &Message) -> Message {
        let mut reply = without_answer(question, ResponseCode::NoError);
        let host = match &self.role {
            Role::Resolver => None,
            Role::Host(name) => match name.lock().unwrap().clone() {
                Some(name) => Some(name),
                None => return without_answer(question, ResponseCode::Refused),
            },
        };
        let (query, own) = (&question.queries[0], self.own.lock().unwrap());
        match &*own {
            Some(own) => own.answer(query, host.as_ref(), &mut reply),
            None => self.world.lock().unwrap().answer(query, host.as_ref(), &mut reply),
        }
        reply
    }

    fn note(&self, question: &Message, from: SocketAddr, tcp: bool) {
        let query = &question.queries[0];
        self.asked.lock().unwrap().push(DnsQuestion {
            name: query.name().to_string(),
            kind: query.query_type().to_string(),
            tcp,
            id: question.metadata.id,
            port: from.port(),
            recursion_desired: question.metadata.recursion_desired,
            authentic_data: question.metadata.authentic_data,
            checking_disabled: question.metadata.checking_disabled,
            dnssec_ok: question.edns.as_ref().is_some_and(|edns| edns.flags().dnssec_ok),
            payload: question.edns.as_ref().map_or(512, Edns::max_payload),
        });
    }
}

fn without_answer(question: &Message, code: ResponseCode) -> Message {
    let mut reply = Message::response(question.metadata.id, OpCode::Query);
    reply.metadata.recursion_desired = question.metadata.recursion_desired;
    reply.metadata.recursion_available = true;
    reply.metadata.checking_disabled = question.metadata.checking_disabled;
    reply.metadata.response_code = code;
    reply.add_queries(question.queries.iter().cloned());
    if let Some(edns) = &question.edns {
        let mut ours = Edns::new();
        ours.set_max_payload(1232).set_dnssec_ok(edns.flags().dnssec_ok);
        reply.set_edns(ours);
    }
    reply
}

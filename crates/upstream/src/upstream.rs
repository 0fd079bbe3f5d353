//! Sending calls to the targets of a service.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::{PathAndQuery, Scheme as UriScheme};
use http::{HeaderValue, Method, Request, Response, Uri, Version};
use http_body::Body;
use tokio::time::{sleep_until, timeout};

use crate::answer::{Answer, AnswerBody};
use crate::connect::Connector;
use crate::deadline::Deadline;
use crate::failure::{Failure, Fault};
use crate::figures::TargetFigures;
use crate::http1::{self, Asked, Connection, Framing, Http1Body, Upload, Writer};
use crate::http2::{self, Http2Body, Slot};
use crate::pool::Keeping;
use crate::state::{Health, InFlight, TargetState, Ticket, Waited};
use crate::target::{Scheme, Target};
use crate::time::{Instant, now};
use crate::{Timing, UpstreamConfig, UpstreamError};

/// How often a request that nobody has seen is sent anew, each time over another connection.
const UNSENT_MAX: u32 = 2;

/// So long a call tries a target that was left out while its caller still sends. Then another call may: a caller who sends
/// slowly, or never ends, does not keep the target out.
const UPLOAD_TRIAL: Duration = Duration::from_secs(1);

/// A service, as the gateway reaches it.
pub struct Upstream {
    pub(crate) name: Arc<str>,
    pub(crate) targets: Vec<Arc<TargetState>>,
    pub(crate) health: Option<PathAndQuery>,
    pub(crate) timing: Timing,
    pub(crate) timeout: Duration,
    connector: Connector,
    /// Which target has the next turn among equals.
    turn: AtomicUsize,
}

/// A call on its way, whichever target it goes to.
pub(crate) struct Call<B> {
    pub(crate) parts: Parts,
    /// `None` once somebody else sends it.
    pub(crate) body: Option<B>,
    /// Is the connection to become a WebSocket?
    pub(crate) upgrades: bool,
    pub(crate) timeout: Duration,
}

/// What a target said.
pub(crate) enum Reply {
    Http1(Response<()>, Http1Body),
    Http2(Response<Http2Body>),
    /// The connection speaks another protocol now.
    Switched(Response<()>, Connection),
}

impl Reply {
    pub(crate) fn status(&self) -> http::StatusCode {
        match self {
            Self::Http1(head, _) | Self::Switched(head, _) => head.status(),
            Self::Http2(head) => head.status(),
        }
    }
}

/// A connection to send a request over.
enum Way {
    Http1(Connection),
    Http2(Slot),
}

impl Upstream {
    /// Reaches the service as it is described. Nothing is connected before the first call.
    pub fn new(config: UpstreamConfig) -> Result<Arc<Self>, UpstreamError> {
        Self::with_states(config, &[])
    }

    /// Reaches the service as it is described from now on. Targets that it had before stay as they are: their connections,
    /// their figures, and whether they are left out.
    pub fn succeeding(&self, config: UpstreamConfig) -> Result<Arc<Self>, UpstreamError> {
        Self::with_states(config, &self.targets)
    }

    fn with_states(config: UpstreamConfig, known: &[Arc<TargetState>]) -> Result<Arc<Self>, UpstreamError> {
        let UpstreamConfig { name, targets, health, timeout, roots, timing } = config;
        if targets.is_empty() {
            return Err(UpstreamError::NoTarget);
        }
        for (at, target) in targets.iter().enumerate() {
            if targets[..at].iter().any(|other| other.name() == target.name()) {
                return Err(UpstreamError::Twice(target.name().clone()));
            }
        }
        let path = |path: String| {
            let is_path = path.starts_with('/') && !path.contains('#');
            path.parse().ok().filter(|_| is_path).ok_or(UpstreamError::HealthPath)
        };
        let state = |target: Target| {
            let same = known.iter().find(|state| state.target.name() == target.name());
            same.cloned().unwrap_or_else(|| TargetState::new(target, &timing).into())
        };
        let health = health.map(path).transpose()?;
        let connector = Connector::new(&targets, &roots);
        let targets = targets.into_iter().map(state).collect();
        Ok(Arc::new(Self { name, targets, health, timing, timeout, connector, turn: AtomicUsize::new(0) }))
    }

    /// Sends a request to one of the targets, and returns the head of its answer with the body to follow. The body of the
    /// request is sent as it comes, also while the answer comes. `Host` and what frames the body are said here, whatever
    /// stands in the headers. A CONNECT is not forwarded.
    ///
    /// A GET or HEAD goes to a second target if the first answered no byte, and nothing of its body was read.
    pub async fn send<B>(&self, request: Request<B>) -> Result<Answer, Failure>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
    {
        let (parts, body) = request.into_parts();
        let mut call = Call { parts, body: Some(body), upgrades: false, timeout: self.timeout };
        let (reply, in_flight, waited) = self.ask(&mut call).await?;
        let target = waited.target().clone();
        let response = match reply {
            Reply::Http1(head, body) => head.map(|()| AnswerBody::http1(body, in_flight)),
            Reply::Http2(head) => head.map(|body| AnswerBody::http2(body, in_flight)),
            Reply::Switched(..) => {
                return Err(Failure::BrokenHead { target, cause: "it speaks another protocol unasked" });
            }
        };
        Ok(Answer { response, target, waited })
    }

    /// Asks a target, and another one where that is allowed.
    pub(crate) async fn ask<B>(&self, call: &mut Call<B>) -> Result<(Reply, InFlight, Waited), Failure>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
    {
        let is_repeatable = matches!(call.parts.method, Method::GET | Method::HEAD)
            && call.body.as_ref().is_some_and(Body::is_end_stream);
        let begun = now();
        let (state, ticket) = self.pick(None, begun).map_err(|wait| Failure::NoTarget { wait })?;
        let failure = match self.ask_target(&state, ticket, call, begun).await {
            Err(failure) if is_repeatable && failure.is_unanswered() => failure,
            answered => return answered,
        };
        let Ok((other, ticket)) = self.pick(Some(&state), now()) else { return Err(failure) };
        tracing::debug!(service = %self.name, %failure, "asking another target");
        self.ask_target(&other, ticket, call, begun).await
    }

    async fn ask_target<B>(
        &self,
        state: &Arc<TargetState>,
        mut ticket: Ticket,
        call: &mut Call<B>,
        begun: Instant,
    ) -> Result<(Reply, InFlight, Waited), Failure>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
    {
        let name = state.target.name();
        let may_be_slow = ticket.is_trial() && !call.body.as_ref().is_some_and(Body::is_end_stream);
        let mut exchange = pin!(self.exchange(state, call));
        let in_time = if may_be_slow { timeout(UPLOAD_TRIAL, exchange.as_mut()).await.ok() } else { None };
        let outcome = if let Some(outcome) = in_time {
            outcome
        } else {
            if may_be_slow {
                ticket.give_up_trial();
            }
            exchange.await
        };
        match outcome {
            Ok(reply) => {
                let (in_flight, waited) = ticket.answered(reply.status(), begun);
                Ok((reply, in_flight, waited))
            }
            Err(fault) => {
                // The caller's fault says nothing about the target.
                let is_of_caller = matches!(fault, Fault::RequestBroke);
                let failure = fault.at(name);
                if !is_of_caller && ticket.failed() {
                    tracing::warn!(service = %self.name, %failure, "target is left out for a while");
                }
                Err(failure)
            }
        }
    }

    /// The target with the fewest calls in flight among those that may be asked; equals have turns. The error says how
    /// long to wait.
    fn pick(
        &self,
        except: Option<&Arc<TargetState>>,
        now: Instant,
    ) -> Result<(Arc<TargetState>, Ticket), Duration> {
        let turn = if self.targets.len() > 1 { self.turn.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let (before, after) = self.targets.split_at(turn % self.targets.len());
        let in_turn = || {
            after.iter().chain(before).filter(move |state| !except.is_some_and(|it| Arc::ptr_eq(it, state)))
        };
        loop {
            let free = in_turn().filter(|state| self.wait(state, now).is_none());
            let Some(best) = free.min_by_key(|state| state.in_flight()) else {
                let waits = in_turn().filter_map(|state| self.wait(state, now));
                return Err(waits.min().unwrap_or(self.timing.left_out));
            };
            // Another call may have taken the one that tries it.
            if let Some(ticket) = best.enter(now) {
                return Ok((best.clone(), ticket));
            }
        }
    }

    /// How long is to be waited before that target may be asked; `None` if it may be now.
    fn wait(&self, state: &TargetState, now: Instant) -> Option<Duration> {
        let fails = self.health.is_some() && state.is_health(Health::Failing);
        if fails { Some(self.timing.probe_every) } else { state.wait(now) }
    }

    /// Sends the request to this target, until it has seen it.
    pub(crate) async fn exchange<B>(
        &self,
        state: &Arc<TargetState>,
        call: &mut Call<B>,
    ) -> Result<Reply, Fault>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
    {
        if call.parts.method == Method::CONNECT {
            return Err(Fault::RequestBroke);
        }
        // It stays the same over every connection, since none has taken a byte of it.
        let mut writer = None;
        for again in 0..=UNSENT_MAX {
            let is_last = again == UNSENT_MAX;
            // What the writer holds of the body is lost to HTTP/2.
            let http1 = call.upgrades || writer.is_some();
            let way = self.way(state, http1, is_last).await.map_err(Fault::Connect)?;
            let timer = pin!(sleep_until(now() + call.timeout));
            let deadline = Deadline::new(timer, call.timeout);
            let sent = match way {
                Way::Http1(connection) => {
                    self.over_http1(state, call, connection, &mut writer, deadline).await
                }
                Way::Http2(slot) => {
                    let Some(body) = &call.body else { return Err(Fault::RequestBroke) };
                    let request = http2_request(&state.target, &call.parts, body);
                    http2::exchange(slot, request, &mut call.body, deadline).await.map(Reply::Http2)
                }
            };
            match sent {
                Err(Fault::Unsent) if !is_last => {}
                sent => return sent,
            }
        }
        Err(Fault::Unsent)
    }

    async fn over_http1<B>(
        &self,
        state: &TargetState,
        call: &mut Call<B>,
        mut connection: Connection,
        writer: &mut Option<Writer>,
        deadline: Deadline<'_>,
    ) -> Result<Reply, Fault>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
    {
        let Some(mut body) = call.body.take() else { return Err(Fault::RequestBroke) };
        let new = || Writer::new(&call.parts, &state.target.host, &body, call.upgrades);
        let mut writing = writer.take().unwrap_or_else(new);
        let asked = Asked { is_head: call.parts.method == Method::HEAD, is_upgrade: call.upgrades };
        let head = match http1::exchange(&mut connection, &mut writing, &mut body, asked, deadline).await {
            Ok(head) => head,
            Err(fault) => {
                (call.body, *writer) = (Some(body), Some(writing));
                return Err(fault);
            }
        };
        let mut response = Response::new(());
        (*response.status_mut(), *response.headers_mut()) = (head.status, head.headers);
        if head.framing == Framing::Switched {
            return Ok(Reply::Switched(response, connection));
        }
        if !writing.is_done() {
            let (connection, io) = connection.split();
            let upload = Upload::spawn(writing, io, body);
            return Ok(Reply::Http1(response, Http1Body::new(connection, head.framing, Some(upload), None)));
        }
        let keep = || Keeping::new(&state.pool, self.timing.idle, head.keeps_for);
        let keeping = head.keeps_alive.then(keep);
        Ok(Reply::Http1(response, Http1Body::new(connection, head.framing, None, keeping)))
    }

    /// A connection that waits for a call, or a new one.
    async fn way(&self, state: &TargetState, http1: bool, fresh: bool) -> io::Result<Way> {
        if !fresh {
            if !http1 && let Some(slot) = state.http2.take() {
                return Ok(Way::Http2(slot));
            }
            if let Some(connection) = state.pool.take().await {
                return Ok(Way::Http1(connection));
            }
        }
        // Boxed, because every call would otherwise be as large as the state of a TLS handshake.
        Box::pin(self.open(state, http1)).await
    }

    async fn open(&self, state: &TargetState, http1: bool) -> io::Result<Way> {
        let time = self.timing.connect.min(self.timeout);
        let opening = if !http1 && state.shares_connections() {
            let opening = timeout(time, state.http2.opening.lock()).await;
            let opening = opening.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
            if let Some(slot) = state.http2.take() {
                return Ok(Way::Http2(slot));
            }
            Some(opening)
        } else {
            None
        };
        let opened = self.connector.open(&state.target, http1, time).await?;
        let way = if opened.is_http2 {
            Way::Http2(state.http2.open(opened.io).await.map_err(io::Error::other)?)
        } else {
            Way::Http1(Connection::new(opened.io))
        };
        drop(opening);
        Ok(way)
    }

    /// How every target stands, and what was counted of it.
    pub fn figures(&self) -> Vec<TargetFigures> {
        let now = now();
        self.targets.iter().map(|state| state.figures(self.wait(state, now).is_some())).collect()
    }

    /// May a call be sent? With probes, one target must have passed its own; without, none has to be known.
    pub fn is_ready(&self) -> bool {
        let now = now();
        self.targets.iter().any(|state| {
            let is_proven = self.health.is_none() || state.is_health(Health::Passing);
            is_proven && self.wait(state, now).is_none()
        })
    }
}

/// The head of a request as HTTP/2 carries it.
fn http2_request<B: Body>(target: &Target, parts: &Parts, body: &B) -> Request<()> {
    let mut uri = http::uri::Parts::default();
    let is_tls = matches!(target.scheme, Scheme::Tls(_));
    uri.scheme = Some(if is_tls { UriScheme::HTTPS } else { UriScheme::HTTP });
    uri.authority = Some(target.authority.clone());
    uri.path_and_query =
        Some(parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/")));
    let mut request = Request::new(());
    *request.method_mut() = parts.method.clone();
    // All three parts are there.
    *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
    *request.version_mut() = Version::HTTP_2;
    let headers = request.headers_mut();
    *headers = parts.headers.clone();
    for of_connection in [HOST, CONNECTION, UPGRADE, TRANSFER_ENCODING, CONTENT_LENGTH] {
        headers.remove(of_connection);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
    headers.insert(TE, HeaderValue::from_static("trailers"));
    let length = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
    let is_said = length != Some(0) || has_content(&parts.method);
    if let Some(length) = length.filter(|_| is_said) {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    request
}

/// Does a request with this method say how long its body is even if it has none?
pub(crate) fn has_content(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

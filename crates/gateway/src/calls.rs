//! The way of a call, whatever carries it: who calls, may they, what it costs, and the line that tells of it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response};
use portico_engine::clock::Stopwatch;
use portico_engine::input::{Attachment, Fields, Node};
use portico_engine::ports::Charge;
use portico_engine::{
    Access, Admission, Call, CallOptions, Engine, Entry, EntryPoint, IdempotencyKey, Protocol, Reply,
    dispatch, log_failure,
};
use portico_events::StreamParams;
use portico_identity::Identity;
use portico_identity::verify::refused;
use portico_kernel::{Code, Problem, RequestId};
use portico_metering::{IncomingCall, MeteredCall, Metering};
use serde_json::Value;
use tracing::field;

use crate::lines::{Line, Lines};
use crate::metrics::NOWHERE;
use crate::outgoing::Pieces;
use crate::tokens::{Bearer, Tokens};
use crate::{Metrics, Stopping};

/// The path variables of a path that has none, or whose variables do not read.
pub(crate) static NO_FIELDS: Fields = Fields::new();

/// Admits calls and runs them, for every transport.
pub(crate) struct Calls {
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stopping: Stopping,
    metering: Arc<Metering>,
    tokens: Tokens,
    names: HashMap<&'static str, Arc<Entry>>,
}

/// What is known of a call when it ends, for the log and the metrics.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) operation: Option<&'static str>,
    pub(crate) admitted: Option<Admission>,
    /// The call as it is counted, once its caller is known.
    pub(crate) ticket: Option<Arc<MeteredCall>>,
    pub(crate) queries: u32,
    /// The code of a refusal that the operation answered with.
    pub(crate) code: Option<Code>,
    /// Who calls, for a connection that stays.
    pub(crate) bearer: Option<Bearer>,
    /// What follows the head of an answer that goes on.
    pub(crate) pieces: Option<Pieces>,
    /// Does the call go on with it? Then its end is told of there.
    pub(crate) goes_on: bool,
    /// How it ended for the log, where that is not the status of the answer.
    pub(crate) status: Option<u16>,
    /// May pages of any origin read the answer?
    pub(crate) any_origin: bool,
}

impl Trace {
    /// How it ended for the log.
    pub(crate) fn status_or<B>(&self, response: &Response<B>) -> u16 {
        self.status.unwrap_or_else(|| response.status().as_u16())
    }

    /// What ran was for nothing, and is not charged.
    pub(crate) fn take_back(&self) {
        self.ticket.as_ref().inspect(|ticket| ticket.refund());
    }
}

/// What a call brings along: its fields, the bytes beside them, and its Idempotency-Key.
pub(crate) struct CallMessage {
    pub(crate) fields: Fields,
    pub(crate) attachment: Option<Attachment>,
    pub(crate) idempotency_key: Option<IdempotencyKey>,
}

/// A call by name, on a connection that stays.
pub(crate) struct Named<'a> {
    /// The operation's name.
    pub(crate) method: &'a str,
    /// Its fields, path variables included.
    pub(crate) fields: Fields,
    /// Makes it safe to repeat.
    pub(crate) idempotency_key: Option<&'a str>,
}

impl Calls {
    pub(crate) fn new(
        engine: Arc<Engine>,
        identity: Arc<Identity>,
        metering: Arc<Metering>,
        metrics: Arc<Metrics>,
        stopping: Stopping,
    ) -> Self {
        let names = engine.registry.entries().iter().map(|entry| (entry.spec.name, entry.clone())).collect();
        let tokens = Tokens::new(identity, metering.clone());
        Self { engine, metrics, stopping, metering, tokens, names }
    }

    /// Who sends these headers to the tools of assistants.
    pub(crate) async fn assistant(&self, headers: &HeaderMap) -> Result<Bearer, Problem> {
        self.tokens.of_headers(&self.engine, &self.metrics, headers).await
    }

    /// Does whoever opened a connection still stand?
    pub(crate) fn still_stands(&self, bearer: &Bearer) -> bool {
        // What cannot be asked now is asked again soon.
        self.tokens.still_stands(&self.engine, bearer).unwrap_or(true)
    }

    /// Who sends these headers.
    pub(crate) async fn bearer(&self, headers: &HeaderMap) -> Result<Bearer, Problem> {
        self.tokens.of_headers(&self.engine, &self.metrics, headers).await?.for_api()
    }

    /// Who holds that token.
    pub(crate) async fn holder(&self, token: &str) -> Result<Bearer, Problem> {
        self.tokens.holder(&self.engine, &self.metrics, token).await?.for_api()
    }

    /// Scope, account and rate, in this order. From here on the call is counted.
    pub(crate) async fn admit(
        &self,
        entry: &Entry,
        entry_point: EntryPoint,
        bearer: &Bearer,
        (request_id, watch): (&str, Stopwatch),
        path: &Fields,
        trace: &mut Trace,
    ) -> Result<Admission, Problem> {
        let caller = bearer.caller();
        trace.ticket = bearer.subject().and_then(|subject| {
            let (spec, key) = (&entry.spec, subject.clone());
            let call = IncomingCall { caller, key, spec, request_id, watch };
            MeteredCall::new(&self.metering, &self.engine, call)
        });
        let admitted = self.engine.admit(&entry.spec, entry_point, caller.clone(), path).await;
        match (&trace.ticket, &admitted) {
            (Some(ticket), Ok(admitted)) => ticket.admit(admitted.account()).await?,
            (Some(ticket), Err(_)) => ticket.load_rate_limit().await,
            (None, _) => {}
        }
        admitted
    }

    /// Logs and counts a call that was not admitted.
    pub(crate) fn not_admitted(&self, problem: &Problem, entry: &Entry, request_id: &str) {
        log_failure(problem, entry.spec.name, request_id);
        self.metrics.refused(problem.code());
    }

    /// Runs a call that was admitted.
    pub(crate) async fn run(
        &self,
        entry: &Arc<Entry>,
        message: CallMessage,
        options: CallOptions,
        request_id: &str,
        trace: &mut Trace,
    ) -> Result<Reply, Problem> {
        let CallMessage { fields, attachment, idempotency_key } = message;
        let charge = trace.ticket.clone().map(|ticket| ticket as Arc<dyn Charge>);
        let admitted = trace.admitted.clone().unwrap_or_else(Admission::anonymous);
        let call = Call {
            admitted,
            request_id: request_id.to_owned(),
            fields,
            idempotency_key,
            charge,
            options,
            attachment,
        };
        let reply = dispatch(&self.engine, entry, call).await.inspect_err(|problem| {
            if problem.code() == Code::QuotaExceeded {
                self.metrics.refused(Code::QuotaExceeded);
            }
        })?;
        (trace.queries, trace.code) = (reply.queries, reply.refused.map(|(code, _)| code));
        Ok(reply)
    }

    /// One line for each call, and the same facts as numbers.
    pub(crate) fn report(&self, trace: &Trace, request_id: &str, status: u16, watch: Stopwatch) {
        let elapsed = watch.elapsed();
        let operation = trace.operation.unwrap_or(NOWHERE);
        self.metrics.answered(operation, status, elapsed);
        let caller =
            trace.admitted.as_ref().map(|admitted| admitted.caller().subject.as_str()).unwrap_or_default();
        let account = trace.admitted.as_ref().and_then(Admission::account).map(field::display);
        tracing::info!(
            operation,
            caller,
            account,
            status,
            // To the microsecond; more digits would cost more than they say.
            ms = f64::from(u32::try_from(elapsed.as_micros()).unwrap_or(u32::MAX)) / 1e3,
            queries = trace.queries,
            request_id,
            "Answered"
        );
    }

    /// A call by name on a connection of `bearer`: admitted, limited, counted and told of as over REST.
    pub(crate) async fn call(&self, bearer: &Bearer, named: Named<'_>) -> Result<Outcome, Problem> {
        let told =
            self.told(bearer, named, Entry::is_callable, async |reply: Reply| Outcome::try_from(reply));
        told.await
    }

    /// Opens a connection of that kind for `bearer`: admitted, limited and counted like a call. What is to be done
    /// `before` its place is taken is done for those who are admitted.
    pub(crate) async fn open<T>(
        &self,
        lines: &Arc<Lines>,
        protocol: Protocol,
        bearer: &Bearer,
        fields: Fields,
        before: impl AsyncFnOnce() -> T,
    ) -> Result<(Line, T), Problem> {
        let opens = |entry: &Entry| entry.spec.protocol == Some(protocol);
        let method = self.names.values().find(|entry| opens(entry)).map_or("", |entry| entry.spec.name);
        let named = Named { method, fields, idempotency_key: None };
        let take_place = async |reply: Reply| {
            let opening: StreamParams = reply.body.into_connection()?;
            let done = before().await;
            Ok((lines.open(&self.engine, bearer, opening.account_id, None).await?, done))
        };
        self.told(bearer, named, opens, take_place).await
    }

    /// Runs the operation of that name, if it `may` be called so, and goes on with what it answers. One that cannot go on
    /// has used up nothing.
    async fn told<T>(
        &self,
        bearer: &Bearer,
        named: Named<'_>,
        may: impl Fn(&Entry) -> bool,
        go_on: impl AsyncFnOnce(Reply) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let (watch, mut trace) = (Stopwatch::start(), Trace::default());
        let id: RequestId = self.engine.entropy.id(self.engine.clock.now());
        let request_id = id.to_string();
        let entry = self.names.get(named.method).filter(|entry| may(entry));
        let result = match entry {
            Some(entry) => self.admit_and_run(entry, bearer, named, (&request_id, watch), &mut trace).await,
            None => Err(no_operation(named.method)),
        };
        let result = match result {
            Ok(reply) => go_on(reply).await.inspect_err(|_| trace.take_back()),
            Err(problem) => Err(problem),
        };
        let code = result.as_ref().map_or_else(|problem| Some(problem.code()), |_| trace.code);
        let status = code.map_or(200, Code::status);
        if let Some(ticket) = trace.ticket.take() {
            ticket.finish(status, code);
        }
        self.report(&trace, &request_id, status, watch);
        result
    }

    async fn admit_and_run(
        &self,
        entry: &Arc<Entry>,
        bearer: &Bearer,
        named: Named<'_>,
        (request_id, watch): (&str, Stopwatch),
        trace: &mut Trace,
    ) -> Result<Reply, Problem> {
        trace.operation = Some(entry.spec.name);
        self.stopping.check()?;
        if entry.spec.access != Access::Open && !self.tokens.still_stands(&self.engine, bearer)? {
            return Err(refused());
        }
        let call = (request_id, watch);
        let message = self.admit_named(entry, EntryPoint::Api, bearer, named.fields, call, trace).await?;
        let key = named.idempotency_key.filter(|_| entry.spec.idempotency_key);
        let key = key.map(|key| IdempotencyKey::parse(key.as_bytes())).transpose()?;
        let message = CallMessage { fields: message, attachment: None, idempotency_key: key };
        self.run(entry, message, CallOptions::default(), request_id, trace).await
    }

    /// Admits a call whose path variables stand among its fields; answers the message.
    pub(crate) async fn admit_named(
        &self,
        entry: &Entry,
        entry_point: EntryPoint,
        bearer: &Bearer,
        fields: Fields,
        call: (&str, Stopwatch),
        trace: &mut Trace,
    ) -> Result<Fields, Problem> {
        let (mut fields, path) = split(entry, fields);
        if entry.spec.access != Access::Open {
            // What is missing in the path is told after whether the caller may call at all.
            let known = path.as_ref().unwrap_or(&NO_FIELDS);
            let admitted = self.admit(entry, entry_point, bearer, call, known, trace).await;
            trace.admitted = Some(admitted.inspect_err(|problem| self.not_admitted(problem, entry, call.0))?);
        }
        fields.extend(path?);
        Ok(fields)
    }
}

/// How a call by name ended.
pub(crate) enum Outcome {
    /// The answer, as JSON.
    Answer(Bytes),
    /// The `Problem` of a refusal that was kept, as JSON.
    Refusal(Bytes),
}

impl TryFrom<Reply> for Outcome {
    type Error = Problem;

    fn try_from(reply: Reply) -> Result<Self, Problem> {
        // An answer may carry a code of its own; only one that was kept is a `Problem`.
        let is_answer = reply.refused.is_none() || !reply.replayed;
        let body = reply.into_json()?;
        if is_answer {
            return Ok(Self::Answer(body));
        }
        let problem = serde_json::from_slice::<Value>(&body).map(|mut problem| {
            // The frame's own id names the call.
            problem["request_id"] = Value::from("");
            problem.to_string().into()
        });
        Ok(Self::Refusal(problem.unwrap_or(body)))
    }
}

fn no_operation(name: &str) -> Problem {
    let name: String = name.chars().take(100).collect();
    Problem::new(Code::NotFound, format!("No operation that can be called here is named `{name}`."))
}

/// Takes the path's variables out of the fields, as words: that is what a path would hold.
fn split(entry: &Entry, mut fields: Fields) -> (Fields, Result<Fields, Problem>) {
    let path = entry.spec.variables().map(|name| match fields.remove(name) {
        Some(Node::Text(word)) if !word.is_empty() => Ok((name.to_owned(), Node::Texts(vec![word]))),
        Some(Node::Null) | None => Err(Problem::field(name, "is missing")),
        Some(_) => Err(Problem::field(name, "must be a string that is not empty")),
    });
    let path = path.collect();
    (fields, path)
}

//! The way of a call, whatever carries it: who calls, may they, what it costs, and the line that tells of it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use portico_engine::input::{Fields, Node};
use portico_engine::{
    Access, Admission, Call, CallOptions, Engine, Entry, EntryPoint, IdempotencyKey, Protocol, Reply, Spec,
    dispatch, log_failure,
};
use portico_events::Opening;
use portico_identity::Identity;
use portico_identity::verify::refused;
use portico_kernel::{Code, Problem, RequestId};
use portico_metering::Metering;
use serde_json::Value;

use crate::lines::{Line, Lines};
use crate::scope::CallScope;
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

    /// A call that has just arrived under that id.
    pub(crate) fn scope(&self, request_id: String) -> CallScope {
        CallScope::new(&self.metrics, request_id)
    }

    /// Scope, account and rate, in this order. From here on the call is counted.
    pub(crate) async fn admit(
        &self,
        entry: &Entry,
        entry_point: EntryPoint,
        bearer: &Bearer,
        path: &Fields,
        scope: &mut CallScope,
    ) -> Result<Admission, Problem> {
        let metered = scope.meter(&self.metering, &self.engine, bearer, &entry.spec);
        let admission = self.engine.admit(&entry.spec, entry_point, bearer.caller().clone(), path).await;
        let admission = match (metered, admission) {
            (Some(metered), Ok(admission)) => metered.admit(admission.account()).await.map(|()| admission),
            (Some(metered), Err(problem)) => {
                metered.look().await;
                Err(problem)
            }
            (None, admission) => admission,
        };
        let admission =
            admission.inspect_err(|problem| self.not_admitted(problem, entry, &scope.request_id))?;
        scope.admit(&admission);
        Ok(admission)
    }

    /// Counts a call that is refused before it is admitted.
    pub(crate) async fn refuse(
        &self,
        entry: &Entry,
        bearer: &Bearer,
        problem: &Problem,
        scope: &mut CallScope,
    ) {
        if let Some(metered) = scope.meter(&self.metering, &self.engine, bearer, &entry.spec) {
            metered.look().await;
        }
        self.not_admitted(problem, entry, &scope.request_id);
    }

    /// Logs and counts a call that was not admitted.
    pub(crate) fn not_admitted(&self, problem: &Problem, entry: &Entry, request_id: &str) {
        log_failure(problem, entry.spec.name, request_id);
        self.metrics.refused(problem.code());
    }

    /// Runs a call that was admitted.
    pub(crate) async fn run(&self, entry: &Arc<Entry>, call: Call) -> Result<Reply, Problem> {
        dispatch(&self.engine, entry, call).await.inspect_err(|problem| {
            if problem.code() == Code::QuotaExceeded {
                self.metrics.refused(Code::QuotaExceeded);
            }
        })
    }

    /// A call by name on a connection of `bearer`: admitted, limited, counted and told of as over REST.
    pub(crate) async fn call(&self, bearer: &Bearer, named: Named<'_>) -> Result<Outcome, Problem> {
        self.run_and_record(bearer, named, Spec::callable, async |reply| Ok(reply.into())).await
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
        let opens = |spec: &Spec| spec.protocol == Some(protocol);
        let method = self.names.values().find(|entry| opens(&entry.spec)).map_or("", |entry| entry.spec.name);
        let named = Named { method, fields, idempotency_key: None };
        let take_place = async |reply: Reply| {
            let opening: Opening = serde_json::from_slice(&reply.body).map_err(Problem::internal)?;
            let done = before().await;
            Ok((lines.open(&self.engine, bearer, opening.account_id, None).await?, done))
        };
        self.run_and_record(bearer, named, opens, take_place).await
    }

    /// Runs the operation of that name, if it `may` be called so, and goes on with what it answers. One that cannot go on
    /// has used up nothing.
    async fn run_and_record<T>(
        &self,
        bearer: &Bearer,
        named: Named<'_>,
        may: impl Fn(&Spec) -> bool,
        go_on: impl AsyncFnOnce(Reply) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let id: RequestId = self.engine.entropy.id(self.engine.clock.now());
        let mut scope = self.scope(id.to_string());
        let result = match self.names.get(named.method).filter(|entry| may(&entry.spec)) {
            Some(entry) => self.admit_and_run(entry, bearer, named, &mut scope).await,
            None => Err(no_operation(named.method)),
        };
        let result = match result {
            Ok(reply) => go_on(reply).await.inspect_err(|_| scope.refund()),
            Err(problem) => Err(problem),
        };
        scope.finish(200, result.as_ref().err().map(Problem::code));
        result
    }

    async fn admit_and_run(
        &self,
        entry: &Arc<Entry>,
        bearer: &Bearer,
        named: Named<'_>,
        scope: &mut CallScope,
    ) -> Result<Reply, Problem> {
        scope.operation = Some(entry.spec.name);
        self.stopping.check()?;
        if entry.spec.access != Access::Open && !self.tokens.still_stands(&self.engine, bearer)? {
            return Err(refused());
        }
        let (admission, message) =
            self.admit_named(entry, EntryPoint::Api, bearer, named.fields, scope).await?;
        let key = named.idempotency_key.filter(|_| entry.spec.idempotency_key);
        let key = key.map(|key| IdempotencyKey::parse(key.as_bytes())).transpose()?;
        let reply = self.run(entry, scope.call(admission, message, key, CallOptions::default())).await?;
        scope.note_reply(&reply);
        Ok(reply)
    }

    /// Admits a call whose path variables stand among its fields; returns the message too.
    pub(crate) async fn admit_named(
        &self,
        entry: &Entry,
        entry_point: EntryPoint,
        bearer: &Bearer,
        fields: Fields,
        scope: &mut CallScope,
    ) -> Result<(Admission, Fields), Problem> {
        let (mut fields, path) = split(entry, fields);
        let admission = match entry.spec.access {
            Access::Open => Admission::anonymous(),
            // What is missing in the path is told after whether the caller may call at all.
            _ => self.admit(entry, entry_point, bearer, path.as_ref().unwrap_or(&NO_FIELDS), scope).await?,
        };
        fields.extend(path?);
        Ok((admission, fields))
    }
}

/// How a call by name ended.
pub(crate) enum Outcome {
    /// The answer, as JSON.
    Answer(Bytes),
    /// The `Problem` of a refusal that was kept, as JSON.
    Refusal(Bytes),
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Self {
        // An answer may carry a code of its own; only one that was kept is a `Problem`.
        if reply.refused.is_none() || !reply.replayed {
            return Self::Answer(reply.body);
        }
        let problem = serde_json::from_slice::<Value>(&reply.body).map(|mut problem| {
            // The frame's own id names the call.
            problem["request_id"] = Value::from("");
            problem.to_string().into()
        });
        Self::Refusal(problem.unwrap_or(reply.body))
    }
}

fn no_operation(name: &str) -> Problem {
    let name: String = name.chars().take(100).collect();
    Problem::new(Code::NotFound, format!("No operation that can be called here is named `{name}`."))
}

/// Takes the path's variables out of the fields, as words: that is what a path would hold.
fn split(entry: &Entry, mut fields: Fields) -> (Fields, Result<Fields, Problem>) {
    let path = entry.spec.variables().map(|name| match fields.remove(name) {
        Some(Node::Text(word)) if !word.is_empty() => Ok((name.to_owned(), Node::Words(vec![word]))),
        Some(Node::Null) | None => Err(Problem::field(name, "is missing")),
        Some(_) => Err(Problem::field(name, "must be a string that is not empty")),
    });
    let path = path.collect();
    (fields, path)
}

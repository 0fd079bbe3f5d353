//! The way of a call, whatever the protocol: who calls, whether they may, and running it.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use portico_engine::input::{Fields, Node};
use portico_engine::{
    Access, Admission, Body, Call, CallOptions, Engine, Entry, EntryPoint, IdempotencyKey, Protocol, Reply,
    dispatch, log_failure,
};
use portico_events::StreamParams;
use portico_identity::verify::refused;
use portico_kernel::{AccountId, Code, Problem, seconds};
use portico_metering::Metering;
use serde_json::Value;

use crate::Metrics;
use crate::connections::{Connection, Connections};
use crate::credential::Credential;
use crate::incoming::{Stopping, new_request_id};
use crate::party::Party;
use crate::scope::CallScope;
use crate::tokens::Tokens;
use crate::transport::Refusals;

/// The path variables of a path that has none, or whose variables do not read.
pub(crate) static NO_FIELDS: Fields = Fields::new();

/// Admits calls and runs them, for every transport.
pub(crate) struct Calls {
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stopping: Stopping,
    pub(crate) connections: Arc<Connections>,
    metering: Arc<Metering>,
    tokens: Arc<Tokens>,
}

/// A call by name, on a connection that stays.
pub(crate) struct RpcCall<'a> {
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
        tokens: Arc<Tokens>,
        connections: Arc<Connections>,
        metrics: Arc<Metrics>,
        stopping: Stopping,
    ) -> Self {
        let (known, verified) = metrics.tokens();
        tokens.count(known, verified);
        Self { engine, metrics, stopping, connections, metering: tokens.metering.clone(), tokens }
    }

    /// Who sends these headers to the tools of assistants.
    pub(crate) async fn authenticate_assistant(&self, headers: &HeaderMap) -> Result<Credential, Problem> {
        self.tokens.authenticate_headers(&self.engine, headers).await?.for_tools()
    }

    /// Who sends these headers to the API.
    pub(crate) async fn authenticate_headers(&self, headers: &HeaderMap) -> Result<Credential, Problem> {
        self.authenticate_assistant(headers).await?.for_api()
    }

    /// Who sends that token to the API.
    pub(crate) async fn authenticate(&self, token: &str) -> Result<Credential, Problem> {
        self.tokens.authenticate(&self.engine, token).await?.for_api()
    }

    /// Is the credential that opened a connection still valid?
    pub(crate) fn is_valid(&self, credential: &Credential) -> bool {
        // What cannot be asked now is asked again soon.
        self.tokens.is_valid(&self.engine, credential).unwrap_or(true)
    }

    /// Scope, account and rate, in this order. From here on the call is counted.
    pub(crate) async fn admit(
        &self,
        entry: &Entry,
        entry_point: EntryPoint,
        credential: &Credential,
        path: &Fields,
        scope: &mut CallScope,
    ) -> Result<Admission, Problem> {
        let metered = scope.meter(&self.metering, &self.engine, credential, entry.spec);
        let admission = self.engine.admit(entry.spec, entry_point, credential.caller().clone(), path).await;
        let admission = match (metered, admission) {
            (Some(metered), Ok(admission)) => metered.admit(admission.account()).await.map(|()| admission),
            (Some(metered), Err(problem)) => {
                metered.load_rate_limit().await;
                Err(problem)
            }
            (None, admission) => admission,
        };
        let admission =
            admission.inspect_err(|problem| self.not_admitted(problem, entry, &scope.request_id))?;
        scope.admission = Some(admission.clone());
        Ok(admission)
    }

    /// Counts a call that is refused before it is admitted.
    pub(crate) async fn refuse(
        &self,
        entry: &Entry,
        credential: &Credential,
        problem: &Problem,
        scope: &mut CallScope,
    ) {
        if let Some(metered) = scope.meter(&self.metering, &self.engine, credential, entry.spec) {
            metered.load_rate_limit().await;
        }
        self.not_admitted(problem, entry, &scope.request_id);
    }

    /// Refuses a caller whose minute is used up before any of the message is read; counts nothing otherwise.
    pub(crate) async fn check_minute(
        &self,
        entry: &Entry,
        credential: &Credential,
        scope: &mut CallScope,
    ) -> Result<(), Problem> {
        let Some(key) = credential.rate_limit_key() else { return Ok(()) };
        let checked = self.metering.check_slot(&self.engine, key, credential.caller().org);
        if let Err(problem) = &checked {
            self.refuse(entry, credential, problem, scope).await;
        }
        checked
    }

    /// Logs and counts a call that was not admitted.
    pub(crate) fn not_admitted(&self, problem: &Problem, entry: &Entry, request_id: &str) {
        log_failure(problem, entry.spec.name, request_id);
        self.metrics.refused(problem.code());
    }

    /// Runs a call that was admitted, in its tenant's turn. Its answer counts for the tenant until it is taken.
    pub(crate) async fn run(&self, entry: &Arc<Entry>, mut call: Call) -> Result<Reply, Problem> {
        let party = call.admitted.account().map(Party::Account);
        if let Some(party) = &party {
            self.connections
                .unread
                .check(party)
                .inspect_err(|problem| self.metrics.refused(problem.code()))?;
            call.held =
                Some(Box::new(self.connections.turns.of(entry.spec.method).take(party.clone()).await));
        }
        let reply = dispatch(&self.engine, entry, call).await.inspect_err(|problem| {
            if problem.code() == Code::QuotaExceeded {
                self.metrics.refused(Code::QuotaExceeded);
            }
        })?;
        Ok(match (reply.body, party) {
            (Body::Json(answer), Some(party)) => {
                Reply { body: Body::Json(self.connections.unread.count(party, answer)), ..reply }
            }
            (body, _) => Reply { body, ..reply },
        })
    }

    /// A call by name on a connection of `credential`: admitted, limited, counted and told of as over REST.
    pub(crate) async fn call(&self, credential: &Credential, call: RpcCall<'_>) -> RpcAnswer {
        let call_name = call.method;
        let result = self.run_and_record(credential, call, Entry::is_callable, async |reply: Reply| {
            RpcAnswer::try_from(reply)
        });
        let is_known = self.engine.registry.catalog().entry(call_name).is_some();
        result.await.unwrap_or_else(|problem| RpcAnswer::Refusal {
            problem: problem.to_json("").into(),
            counted: is_known && !Refusals::is_one(problem.code().status()),
        })
    }

    /// Opens a connection of that kind for `credential`: admitted, limited and counted like a call. What is to be done
    /// `before` its slot is taken is done for those who are admitted.
    pub(crate) async fn open<T>(
        &self,
        protocol: Protocol,
        credential: &Credential,
        fields: Fields,
        before: impl AsyncFnOnce() -> T,
    ) -> Result<(Connection, T), Problem> {
        let opens = |entry: &Entry| entry.spec.protocol == Some(protocol);
        let catalog = self.engine.registry.catalog();
        let method = catalog.entries().iter().find(|entry| opens(entry)).map_or("", |entry| entry.spec.name);
        let call = RpcCall { method, fields, idempotency_key: None };
        let take_slot = async |reply: Reply| {
            let account = opening(reply)?.account_id;
            let done = before().await;
            Ok((self.connections.open(&self.engine, credential, account, None).await?, done))
        };
        self.run_and_record(credential, call, opens, take_slot).await
    }

    /// Counts a subscription to the account's events in the minute of `credential`, together with its calls; 429 when that
    /// is used up.
    pub(crate) async fn count_subscription(
        &self,
        credential: &Credential,
        account: AccountId,
    ) -> Result<(), Problem> {
        let Some(key) = credential.rate_limit_key() else { return Ok(()) };
        let counted = self.metering.take_slot(&self.engine, key, account).await;
        counted.inspect_err(|problem| self.metrics.refused(problem.code()))
    }

    /// Runs the operation of that name, if it `may` be called so, and goes on with what it answers. One that cannot go on
    /// has used up nothing.
    async fn run_and_record<T>(
        &self,
        credential: &Credential,
        call: RpcCall<'_>,
        may: impl Fn(&Entry) -> bool,
        go_on: impl AsyncFnOnce(Reply) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let mut scope = CallScope::new(&self.metrics, new_request_id(&self.engine));
        let catalog = self.engine.registry.catalog();
        let result = match catalog.entry(call.method).filter(|entry| may(entry)) {
            Some(entry) => self.admit_and_run(entry, credential, call, &mut scope).await,
            None => Err(no_operation(call.method)),
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
        credential: &Credential,
        call: RpcCall<'_>,
        scope: &mut CallScope,
    ) -> Result<Reply, Problem> {
        scope.operation = Some(entry.spec.name);
        self.stopping.check()?;
        if entry.spec.access != Access::Open && !self.tokens.is_valid(&self.engine, credential)? {
            return Err(refused());
        }
        let (admission, message) =
            self.admit_named(entry, EntryPoint::Api, credential, call.fields, scope).await?;
        let key = call.idempotency_key.filter(|_| entry.spec.idempotency_key);
        let key = key.map(|key| IdempotencyKey::parse(key.as_bytes())).transpose()?;
        let reply =
            self.run(entry, scope.call(admission, message, None, key, CallOptions::default())).await?;
        scope.note_reply(&reply);
        Ok(reply)
    }

    /// Admits a call whose path variables stand among its fields; returns the message too.
    pub(crate) async fn admit_named(
        &self,
        entry: &Entry,
        entry_point: EntryPoint,
        credential: &Credential,
        fields: Fields,
        scope: &mut CallScope,
    ) -> Result<(Admission, Fields), Problem> {
        let (mut fields, path) = split(entry, fields);
        let admission = match entry.spec.access {
            Access::Open => Admission::anonymous(),
            // What is missing in the path is told after whether the caller may call at all.
            _ => {
                self.admit(entry, entry_point, credential, path.as_ref().unwrap_or(&NO_FIELDS), scope).await?
            }
        };
        fields.extend(path?);
        Ok((admission, fields))
    }
}

/// The answer to a call by name.
pub(crate) enum RpcAnswer {
    /// The answer, as JSON.
    Answer(Bytes),
    /// A refusal.
    Refusal {
        /// The `Problem`, as JSON. The frame's own id names the call, so it names none.
        problem: Bytes,
        /// Did the call take anything of the caller's minute?
        counted: bool,
    },
}

impl TryFrom<Reply> for RpcAnswer {
    type Error = Problem;

    fn try_from(reply: Reply) -> Result<Self, Problem> {
        // An answer may carry a code of its own; only one that was kept is a `Problem`.
        let is_answer = reply.refused.is_none() || !reply.replayed;
        let body = reply.into_json()?;
        if is_answer {
            return Ok(Self::Answer(body));
        }
        let problem = serde_json::from_slice::<Value>(&body).map(|mut problem| {
            problem["request_id"] = Value::from("");
            problem.to_string().into()
        });
        Ok(Self::Refusal { problem: problem.unwrap_or(body), counted: true })
    }
}

/// What an operation that opens a connection replied.
pub(crate) fn opening(reply: Reply) -> Result<StreamParams, Problem> {
    reply.body.into_connection()
}

fn no_operation(name: &str) -> Problem {
    let name: String = name.chars().take(100).collect();
    Problem::new(Code::NotFound, format!("No operation that can be called here is named `{name}`."))
}

/// 429: a connection of that kind has as many calls under way as it may.
pub(crate) fn too_many_calls(limit: usize, connection: &str) -> Problem {
    let message = format!("There are {limit} calls under way on this {connection}.");
    let metadata = [("limit", limit.to_string())];
    // One of them ends at any moment.
    Problem::new(Code::RateLimited, message)
        .with_info("CALL_LIMIT", "gateway", metadata)
        .retry_after(seconds(1))
}

/// Takes the path's variables out of the fields, as text: that is what a path would hold.
pub(crate) fn split(entry: &Entry, mut fields: Fields) -> (Fields, Result<Fields, Problem>) {
    let path = entry.spec.variables().map(|name| match fields.remove(name) {
        Some(Node::Text(word)) if !word.is_empty() => Ok((name.to_owned(), Node::Texts(vec![word]))),
        // A document may say that it is a number.
        Some(Node::Int(number)) if entry.is_documented() => {
            Ok((name.to_owned(), Node::Texts(vec![number.to_string()])))
        }
        Some(Node::Null) | None => Err(Problem::field(name, "is missing")),
        Some(_) => Err(Problem::field(name, "must be a string that is not empty")),
    });
    let path = path.collect();
    (fields, path)
}

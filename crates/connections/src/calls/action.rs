//! Calling an action.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use portico_connectors::{Class, Reading};
use portico_engine::clock::Stopwatch;
use portico_engine::{Answer, Body, Ctx, Engine, Output, Spec};
use portico_kernel::{ConnectionUseId, Problem, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value};

use super::outcome::{CallError, outcome_unknown};
use super::record::{Ending, Use};
use super::send::{SendLimits, as_answer};
use super::{AccessError, Calls, Opened};
use crate::model::{ConnectionStatus, Consumer, ErrorClass, UseStatus, allows};
use crate::provider::{Provider, ProviderAction, Target};
use crate::records::{class_of, config_of, list_of};
use crate::sql::CallRow;
use crate::{limits, refusals};

/// What a provider answered to a call.
pub(crate) struct ActionAnswer {
    /// JSON, as it is to be sent.
    result: String,
    frame: Frame,
}

/// What stands around the result.
#[derive(Serialize)]
struct Frame {
    status_code: i32,
    next_cursor: String,
    use_id: ConnectionUseId,
}

/// What a provider answered to a call, as it is described.
#[derive(JsonSchema)]
#[schemars(rename = "ActionAnswer")]
#[expect(dead_code, reason = "the result is written as the provider wrote it, which no type can hold")]
struct DescribedAnswer {
    /// The result, as the provider wrote it; text as a string, other bytes as `{content_type, base64}`.
    result: Value,
    /// The status that the provider answered with.
    status_code: i32,
    /// Goes back as `params.cursor` for what follows; empty at the end.
    next_cursor: String,
    /// The use in the history.
    use_id: ConnectionUseId,
}

impl Answer for ActionAnswer {
    fn schema(_: &Spec, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<DescribedAnswer>()
    }

    fn write(self, _: &Ctx) -> Result<Output, Problem> {
        let frame = serde_json::to_string(&self.frame).map_err(Problem::internal)?;
        let rest = frame.strip_prefix('{').unwrap_or(&frame);
        let text = format!("{{\"result\":{},{rest}", self.result);
        Ok(Body::Json(text.into()).into())
    }
}

/// A call of an action that there is.
pub(crate) struct ActionCall {
    pub(crate) row: CallRow,
    pub(crate) provider: Provider,
    pub(crate) action: ProviderAction,
    pub(crate) consumer: Consumer,
    pub(crate) params: Map<String, Value>,
    pub(crate) at: Timestamp,
}

/// An answer and its status.
type Answered = (Reading, u16);

/// A call that may be sent, on its way.
struct Attempt<'a> {
    call: &'a ActionCall,
    config: BTreeMap<String, String>,
    params: Map<String, Value>,
    watch: Stopwatch,
}

impl ActionCall {
    fn class(&self) -> Class {
        self.action.spec().class
    }

    /// The use that it is.
    fn to_use(&self) -> Use {
        Use {
            account: self.row.connection.account_id,
            connection: Some(self.row.connection.id),
            provider: self.provider,
            action: self.action.spec().name.clone(),
            consumer: self.consumer.clone(),
            grant: self.row.grant.as_ref().map(|grant| grant.id),
            at: self.at,
        }
    }

    /// Refuses what may not be sent, in the order that the reference says; returns the parameters with their defaults.
    fn check(&self) -> Result<Map<String, Value>, CallError> {
        let action = self.action.spec();
        let is_granted =
            self.consumer.needs_no_grant()
                || self.row.grant.as_ref().is_some_and(|grant| {
                    allows(class_of(&grant.max_class), &list_of(&grant.actions), action)
                });
        if !is_granted {
            return Err(CallError::refused(ErrorClass::NoGrant, refusals::not_granted()));
        }
        let connection = &self.row.connection;
        match ConnectionStatus::of(connection.status, connection.paused) {
            ConnectionStatus::Active => {}
            ConnectionStatus::Paused => {
                return Err(CallError::refused(ErrorClass::Paused, refusals::paused()));
            }
            ConnectionStatus::NeedsReconnect => {
                let problem = refusals::needs_reconnect();
                return Err(CallError::refused(ErrorClass::NeedsReconnect, problem));
            }
        }
        let params = action.check_params(&self.params);
        params.map_err(|faults| CallError::refused(ErrorClass::BadParams, refusals::faults(faults)))
    }
}

impl Calls {
    /// Calls the action in a task of its own, which goes on and puts the use on record also when whoever called has gone.
    pub(crate) async fn call_action(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        call: ActionCall,
    ) -> Result<ActionAnswer, Problem> {
        let (calls, engine) = (self.clone(), engine.clone());
        let task = tokio::spawn(async move { calls.call_and_record(&engine, call).await });
        task.await.unwrap_or_else(|panic| Err(Problem::internal(panic)))
    }

    async fn call_and_record(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        call: ActionCall,
    ) -> Result<ActionAnswer, Problem> {
        let watch = Stopwatch::start();
        let result = match call.check() {
            Ok(params) => self.attempt(engine, &call, params, watch).await,
            Err(refused) => Err(refused),
        };
        let ending = match &result {
            Ok((reading, status)) => Ending::read(*status, reading),
            Err(error) => error.into(),
        };
        let recorded = self.record(engine, &call.to_use(), &ending, watch.elapsed()).await;
        let may_be_done = call.class() != Class::Read && ending.status != UseStatus::Refused;
        let ((reading, status), use_id) = match (result, recorded) {
            (Ok(answered), Ok(use_id)) => (answered, use_id),
            (Ok(_), Err(problem)) if may_be_done => return Err(unrecorded(&ending, problem)),
            (Err(error), Err(_)) if may_be_done => return Err(error.problem),
            (_, Err(problem)) => return Err(problem),
            (Err(error), Ok(_)) => return Err(error.problem),
        };
        let Reading { result, next_cursor, .. } = reading;
        let frame = Frame { status_code: status.into(), next_cursor, use_id };
        Ok(ActionAnswer { result, frame })
    }

    async fn attempt(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        call: &ActionCall,
        params: Map<String, Value>,
        watch: Stopwatch,
    ) -> Result<Answered, CallError> {
        let connection = &call.row.connection;
        let credential = call.row.credential.clone();
        let opened = self.usable(engine, connection, credential).await;
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.lose_with(engine, connection, call.row.credential.as_ref(), &error).await;
                return Err(CallError::of_access(error));
            }
        };
        let entering = self.gates.enter(connection.id).await;
        let _slot = entering.map_err(|problem| CallError::refused(ErrorClass::RateLimited, problem))?;
        let attempt = Attempt { call, config: config_of(&connection.config), params, watch };
        attempt.run(self, engine, opened).await
    }
}

/// A write that was done, and that could not be put on record: it must not look like one that can be repeated.
fn unrecorded(ending: &Ending, cause: Problem) -> Problem {
    outcome_unknown(ending.class, ending.status_code).because(cause)
}

impl Attempt<'_> {
    /// Sends the request, once more with a fresh token where the provider refuses the one it has, and once more where a
    /// provider that is only read failed for the moment.
    async fn run(
        &self,
        calls: &Arc<Calls>,
        engine: &Arc<Engine>,
        mut opened: Opened,
    ) -> Result<Answered, CallError> {
        let (call, connection) = (self.call, &self.call.row.connection);
        let (mut is_renewed, mut is_retried) = (false, false);
        loop {
            let failure = match self.send(calls, engine, &opened).await? {
                Ok(answered) => return Ok(answered),
                Err(failure) => failure,
            };
            if failure.expired {
                let error = CallError::of_failure(&failure, call.class());
                if matches!(call.provider, Provider::Endpoint) {
                    return Err(error);
                }
                if !is_renewed && opened.can_refresh() {
                    is_renewed = true;
                    match calls.renewed(engine, connection, &opened).await {
                        Ok(fresh) => {
                            opened = fresh;
                            continue;
                        }
                        Err(AccessError::Dead) => {}
                        Err(other) => return Err(CallError::of_access(other)),
                    }
                }
                calls.lose(engine, connection, &opened.id, opened.version).await;
                return Err(error);
            }
            let may_repeat = call.class() == Class::Read && matches!(failure.status_code, 502..=504);
            if !may_repeat || is_retried || self.time_left().is_zero() {
                return Err(CallError::of_failure(&failure, call.class()));
            }
            is_retried = true;
        }
    }

    fn time_left(&self) -> Duration {
        limits::CALLS_TIME_MAX.saturating_sub(self.watch.elapsed()).min(limits::CALL_TIME_MAX)
    }

    async fn send(
        &self,
        calls: &Calls,
        engine: &Engine,
        opened: &Opened,
    ) -> Result<Result<Answered, portico_connectors::Failure>, CallError> {
        let Attempt { call, config, params, .. } = self;
        let base_url = calls.overrides.get(&call.row.connection.kind);
        let target = Target { config, opened, base_url };
        let request = call.action.request(call.provider, &target, params).map_err(CallError::of_fault)?;
        let may_take = SendLimits { time: self.time_left(), bytes: limits::ANSWER_BYTES_MAX };
        let sending = calls.send(engine, call.row.connection.account_id, request, may_take).await;
        let response = sending.map_err(|error| CallError::of_send(error, call.class()))?;
        let scrubber = call.provider.scrubber(opened);
        let reading = call.action.read(&as_answer(&response), &scrubber);
        Ok(reading.map(|reading| (reading, response.status.as_u16())))
    }
}

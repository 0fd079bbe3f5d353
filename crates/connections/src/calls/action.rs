//! Calling an action.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use portico_connectors::{Class, Reading};
use portico_engine::clock::Stopwatch;
use portico_engine::{Answer, Body, Ctx, Engine, Output, Spec};
use portico_kernel::{Code, ConnectionUseId, Problem, Timestamp};
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
use crate::sql::{self, CallRow};
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
    /// How large these are as JSON.
    pub(crate) size: usize,
    pub(crate) at: Timestamp,
}

/// An answer and its status.
type Answered = (Reading, u16);

/// A call that may be sent, on its way.
struct Attempt<'a> {
    call: &'a ActionCall,
    config: BTreeMap<String, String>,
    watch: Stopwatch,
    /// Since it was looked whether it is allowed.
    read: Stopwatch,
}

/// Why a call came to nothing.
enum Stopped {
    Failed(CallError),
    /// The credential was replaced meanwhile, or the connection deleted.
    Replaced,
}

impl From<CallError> for Stopped {
    fn from(error: CallError) -> Self {
        Self::Failed(error)
    }
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

    /// Refuses what may not be sent, in the order that the reference says; gives the parameters their defaults.
    fn check(&mut self, calls: &Calls, engine: &Engine) -> Result<(), CallError> {
        self.check_allowed(&self.row)?;
        if self.size > limits::PARAMS_BYTES_MAX {
            let words = format!("are {} bytes as JSON, and may be {}", self.size, limits::PARAMS_BYTES_MAX);
            return Err(CallError::refused(ErrorClass::BadParams, Problem::field("params", words)));
        }
        let params = self.action.spec().check_params(&self.params);
        self.params =
            params.map_err(|faults| CallError::refused(ErrorClass::BadParams, refusals::faults(faults)))?;
        self.check_request(calls, engine)
    }

    /// Refuses what the row does not allow.
    fn check_allowed(&self, row: &CallRow) -> Result<(), CallError> {
        let is_granted = self.consumer.needs_no_grant()
            || row.grant.as_ref().is_some_and(|grant| {
                allows(class_of(&grant.max_class), &list_of(&grant.actions), self.action.spec())
            });
        if !is_granted {
            return Err(CallError::refused(ErrorClass::NoGrant, refusals::not_granted()));
        }
        match ConnectionStatus::of(row.connection.status, row.connection.paused) {
            ConnectionStatus::Active => Ok(()),
            ConnectionStatus::Paused => Err(CallError::refused(ErrorClass::Paused, refusals::paused())),
            ConnectionStatus::NeedsReconnect => {
                let problem = refusals::needs_reconnect();
                Err(CallError::refused(ErrorClass::NeedsReconnect, problem))
            }
        }
    }

    /// Refuses parameters that make no request, before anybody is asked for a fresh token. Whatever else is wrong with the
    /// request shows when it is made.
    fn check_request(&self, calls: &Calls, engine: &Engine) -> Result<(), CallError> {
        let connection = &self.row.connection;
        let opened = self.row.credential.as_ref().and_then(|row| Opened::of(engine, connection, row));
        let Some(opened) = opened else { return Ok(()) };
        let config = config_of(&connection.config);
        let base_url = calls.overrides.get(&connection.kind);
        let target = Target { config: &config, opened: &opened, base_url };
        match self.action.request(self.provider, &target, &self.params) {
            Err(fault) if fault.path.starts_with("params") => Err(CallError::of_fault(fault)),
            _ => Ok(()),
        }
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
        mut call: ActionCall,
    ) -> Result<ActionAnswer, Problem> {
        let watch = Stopwatch::start();
        let result = self.check_and_attempt(engine, &mut call, watch).await;
        let result = match result {
            // A connection that was deleted meanwhile has no uses any more.
            Err(error) if error.problem.code() == Code::NotFound => return Err(error.problem),
            result => result,
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

    /// Attempts a call that may be sent; once more where its connection got another credential meanwhile.
    async fn check_and_attempt(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        call: &mut ActionCall,
        watch: Stopwatch,
    ) -> Result<Answered, CallError> {
        call.check(self, engine)?;
        let account = call.row.connection.account_id;
        let room = self.gates.take_room(account, call.size);
        let _room = room.map_err(|problem| CallError::refused(ErrorClass::RateLimited, problem))?;
        match self.attempt(engine, call, watch).await {
            Err(Stopped::Replaced) => {}
            Err(Stopped::Failed(error)) => return Err(error),
            Ok(answered) => return Ok(answered),
        }
        call.row = self.read_again(engine, call).await?;
        call.check(self, engine)?;
        self.attempt(engine, call, watch).await.map_err(|stopped| match stopped {
            Stopped::Failed(error) => error,
            Stopped::Replaced => CallError::of_access(AccessError::Gone),
        })
    }

    /// The connection and the grant of a call as they are by now.
    async fn read_again(&self, engine: &Engine, call: &ActionCall) -> Result<CallRow, CallError> {
        let (account, id) = (call.row.connection.account_id, call.row.connection.id);
        let (from, consumer) = (&mut engine.db.query(), call.consumer.to_string());
        let row = sql::for_call(from, account, id, &consumer, engine.clock.now()).await;
        let gone = || CallError::refused(ErrorClass::NeedsReconnect, refusals::no_connection(id));
        row.map_err(CallError::fault)?.ok_or_else(gone)
    }

    async fn attempt(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        call: &ActionCall,
        watch: Stopwatch,
    ) -> Result<Answered, Stopped> {
        let connection = &call.row.connection;
        let read = Stopwatch::start();
        let attempt = Attempt { call, config: config_of(&connection.config), watch, read };
        let credential = call.row.credential.clone();
        let opened = match attempt.in_time(self.usable(engine, connection, credential)).await {
            Ok(opened) => opened,
            Err(AccessError::Gone) => return Err(Stopped::Replaced),
            Err(error) => {
                self.lose_with(engine, connection, call.row.credential.as_ref(), &error).await;
                return Err(CallError::of_access(error).into());
            }
        };
        let entering = self.gates.enter(connection.account_id, Some(connection.id)).await;
        let _slots = entering.map_err(|problem| CallError::refused(ErrorClass::RateLimited, problem))?;
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
        mut self,
        calls: &Arc<Calls>,
        engine: &Arc<Engine>,
        mut opened: Opened,
    ) -> Result<Answered, Stopped> {
        let call = self.call;
        let connection = &call.row.connection;
        let (mut is_renewed, mut is_retried) = (false, false);
        loop {
            self.check_again(calls, engine, &opened).await?;
            let failure = match self.send(calls, engine, &opened).await? {
                Ok(answered) => return Ok(answered),
                Err(failure) => failure,
            };
            if failure.expired {
                let error = CallError::of_failure(&failure, call.class());
                if matches!(call.provider, Provider::Endpoint) {
                    return Err(error.into());
                }
                if !is_renewed && opened.can_refresh() {
                    is_renewed = true;
                    match self.in_time(calls.renewed(engine, connection, &opened)).await {
                        Ok(fresh) => {
                            opened = fresh;
                            continue;
                        }
                        Err(AccessError::Dead) => {}
                        // What was refused was not done: all of it may come once more.
                        Err(AccessError::Gone) => return Err(Stopped::Replaced),
                        Err(other) => return Err(CallError::of_access(other).into()),
                    }
                }
                calls.lose(engine, connection, &opened.id, opened.version).await;
                return Err(error.into());
            }
            let may_repeat = call.class() == Class::Read && matches!(failure.status_code, 502..=504);
            if !may_repeat || is_retried || self.time_left() < limits::SEND_TIME_MIN {
                return Err(CallError::of_failure(&failure, call.class()).into());
            }
            is_retried = true;
        }
    }

    /// How long the next request may take, so that all of it ends before the operation's own time does.
    fn time_left(&self) -> Duration {
        limits::CALLS_TIME_MAX.saturating_sub(self.watch.elapsed()).min(limits::CALL_TIME_MAX)
    }

    /// Looks once more whether it is allowed, where that was some time ago: it waited for a fresh token, or for its turn.
    async fn check_again(&mut self, calls: &Calls, engine: &Engine, opened: &Opened) -> Result<(), Stopped> {
        if self.read.elapsed() < limits::CHECKED_AGAIN_AFTER {
            return Ok(());
        }
        self.read = Stopwatch::start();
        let row = calls.read_again(engine, self.call).await?;
        self.call.check_allowed(&row)?;
        let is_the_same = row.connection.credential_id == opened.id
            && row.connection.config == self.call.row.connection.config;
        if is_the_same { Ok(()) } else { Err(Stopped::Replaced) }
    }

    /// Waits for a credential as long as there is time.
    async fn in_time(
        &self,
        coming: impl Future<Output = Result<Opened, AccessError>>,
    ) -> Result<Opened, AccessError> {
        let ended = tokio::time::timeout(self.time_left(), coming).await;
        ended.unwrap_or(Err(AccessError::Failed { class: ErrorClass::Timeout, wait: None }))
    }

    async fn send(
        &self,
        calls: &Calls,
        engine: &Engine,
        opened: &Opened,
    ) -> Result<Result<Answered, portico_connectors::Failure>, CallError> {
        let Attempt { call, config, .. } = self;
        if self.time_left() < limits::SEND_TIME_MIN {
            let too_late = AccessError::Failed { class: ErrorClass::Timeout, wait: None };
            return Err(CallError::of_access(too_late));
        }
        let base_url = calls.overrides.get(&call.row.connection.kind);
        let target = Target { config, opened, base_url };
        let request =
            call.action.request(call.provider, &target, &call.params).map_err(CallError::of_fault)?;
        let may_take = SendLimits { time: self.time_left(), bytes: limits::ANSWER_BYTES_MAX };
        let sending = calls.send(engine, call.row.connection.account_id, request, may_take).await;
        let response = sending.map_err(|error| CallError::of_send(error, call.class()))?;
        let scrubber = call.provider.scrubber(opened);
        let reading = call.action.read(&as_answer(&response), &scrubber);
        Ok(reading.map(|reading| (reading, response.status.as_u16())))
    }
}

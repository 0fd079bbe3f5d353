//! Tests: one request that shows whether the provider takes a credential, and whose account it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use portico_connectors::{Class, Failure, Mode, TestFailure, TestReading};
use portico_engine::Engine;
use portico_engine::clock::Stopwatch;
use portico_kernel::{AccountId, ConnectionId, Problem, Timestamp};

use super::outcome::{CallError, credential_refused, provider_failed};
use super::record::{Ending, Use};
use super::send::{SendLimits, as_answer};
use super::tokens::with_jwt;
use super::{AccessError, Calls, Opened};
use crate::limits;
use crate::model::{Consumer, ErrorClass};
use crate::provider::{Provider, Target};
use crate::sql::{ConnectionRow, CredentialRow};

/// The name under which tests stand in the history.
pub(crate) const TEST: &str = "test";

/// What is tested.
#[derive(Clone)]
pub(crate) struct Trial {
    pub(crate) account: AccountId,
    /// `None` for a connection that is not made yet.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) provider: Provider,
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) consumer: Consumer,
    pub(crate) at: Timestamp,
    /// Since it began, with all that it waits for.
    pub(crate) watch: Stopwatch,
}

/// A test that passed.
pub(crate) struct Passed {
    pub(crate) reading: TestReading,
    /// The credential, with what the test said to keep.
    pub(crate) opened: Opened,
}

/// A test that did not pass.
pub(crate) struct NotPassed {
    pub(crate) class: ErrorClass,
    /// The provider refuses the credential.
    pub(crate) is_expired: bool,
    /// The credential reaches several sites.
    pub(crate) choose_site: bool,
    pub(crate) problem: Problem,
}

impl Calls {
    /// Sends the test of the kind with that credential, and puts it on record: in a task of its own, which does so also when
    /// whoever asked has gone.
    pub(crate) async fn test(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        trial: &Trial,
        opened: Opened,
    ) -> Result<Passed, NotPassed> {
        let (calls, engine, trial) = (self.clone(), engine.clone(), trial.clone());
        let task = tokio::spawn(async move { calls.test_and_record(&engine, &trial, opened).await });
        task.await.unwrap_or_else(|panic| Err(NotPassed::ours(ErrorClass::Network, Problem::internal(panic))))
    }

    async fn test_and_record(
        &self,
        engine: &Arc<Engine>,
        trial: &Trial,
        opened: Opened,
    ) -> Result<Passed, NotPassed> {
        let watch = Stopwatch::start();
        let tested = self.test_once(engine, trial, &opened).await;
        let ending = match &tested {
            Ok((_, status)) => Ending::ok(*status),
            Err((error, _)) => error.into(),
        };
        let of = trial.to_use();
        if let Err(problem) = self.record(engine, &of, &ending, watch.elapsed()).await {
            return Err(NotPassed::ours(ending.class, problem));
        }
        match tested {
            Ok((reading, _)) => {
                let mut opened = opened;
                for (name, value) in &reading.keep {
                    opened.values.insert(name.as_str(), value.as_str());
                }
                Ok(Passed { reading, opened })
            }
            Err((error, failure)) => Err(NotPassed::new(error, failure.as_ref())),
        }
    }

    /// Tests a connection with the credential that it has, refreshed where the provider wants that. Says why it did not pass;
    /// where the provider refuses the credential for good, the connection is marked.
    pub(crate) async fn test_stored(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        trial: &Trial,
        connection: &ConnectionRow,
        stored: Option<CredentialRow>,
    ) -> Result<TestReading, ErrorClass> {
        let usable = trial.in_time(self.usable(engine, connection, stored.clone())).await;
        let mut opened = match usable {
            Ok(opened) => opened,
            Err(error) => return Err(self.untested(engine, trial, connection, stored, error).await),
        };
        let mut is_renewed = false;
        loop {
            let (id, version) = (opened.id.clone(), opened.version);
            let (refused, can_refresh) = (opened.clone(), opened.can_refresh() && !is_renewed);
            let not_passed = match self.test(engine, trial, opened).await {
                Ok(passed) => return Ok(passed.reading),
                Err(not_passed) => not_passed,
            };
            if !not_passed.is_expired || matches!(trial.provider, Provider::Endpoint) {
                return Err(not_passed.class);
            }
            if !can_refresh {
                self.lose(engine, connection, &id, version).await;
                return Err(not_passed.class);
            }
            is_renewed = true;
            opened = match trial.in_time(self.renewed(engine, connection, &refused)).await {
                Ok(fresh) => fresh,
                Err(error) => return Err(self.untested(engine, trial, connection, stored, error).await),
            };
        }
    }

    /// Puts a test on record for which there was no credential.
    async fn untested(
        &self,
        engine: &Arc<Engine>,
        trial: &Trial,
        connection: &ConnectionRow,
        stored: Option<CredentialRow>,
        error: AccessError,
    ) -> ErrorClass {
        self.lose_with(engine, connection, stored.as_ref(), &error).await;
        let error = CallError::of_access(error);
        let recorded = self.record(engine, &trial.to_use(), &(&error).into(), Duration::ZERO).await;
        if let Err(problem) = recorded {
            tracing::error!(connection = %connection.id, %problem, "Failed to put a test on record");
        }
        error.class
    }

    async fn test_once(
        &self,
        engine: &Engine,
        trial: &Trial,
        opened: &Opened,
    ) -> Result<(TestReading, u16), (CallError, Option<TestFailure>)> {
        let sent = |error: CallError| (error, None);
        let signed = with_claims(engine, trial.provider, opened).map_err(sent)?;
        let target = Target {
            config: &trial.config,
            opened: signed.as_ref().unwrap_or(opened),
            base_url: self.overrides.get(trial.provider.name()),
        };
        let request = trial.provider.test_request(&target).map_err(CallError::of_fault).map_err(sent)?;
        let entering = self.gates.enter(trial.account, trial.connection).await;
        let entered = entering.map_err(|problem| CallError::refused(ErrorClass::RateLimited, problem));
        let _slots = entered.map_err(sent)?;
        let time = trial.time_left().min(limits::TEST_TIME_MAX);
        if time < limits::SEND_TIME_MIN {
            return Err(sent(CallError::of_access(too_late())));
        }
        let may_take = SendLimits { time, bytes: limits::ANSWER_BYTES_MAX };
        let response = self.send(engine, trial.account, request, may_take).await;
        // A test changes nothing, whatever its method.
        let response = response.map_err(|error| sent(CallError::of_send(error, Class::Read)))?;
        let scrubber = trial.provider.scrubber(target.opened);
        let read = trial.provider.read_test(&target, &as_answer(&response), &scrubber);
        let status = response.status.as_u16();
        read.map(|reading| (reading, status)).map_err(|failure| {
            let error = match &failure {
                TestFailure::Refused(refused) => CallError::of_failure(refused, Class::Read),
                TestFailure::ChooseSite => CallError {
                    status: crate::model::UseStatus::Failed,
                    class: ErrorClass::Provider4xx,
                    status_code: status,
                    problem: Problem::field(
                        "config.site",
                        "must name a site: the credential reaches several",
                    ),
                },
            };
            (error, Some(failure))
        })
    }
}

/// The credential with its signed claims, where the test needs them.
fn with_claims(engine: &Engine, provider: Provider, opened: &Opened) -> Result<Option<Opened>, CallError> {
    let (Provider::Connector(manifest), Some(mode @ Mode::App)) = (provider, opened.mode) else {
        return Ok(None);
    };
    let Some(app) = manifest.app().filter(|_| manifest.test_needs_jwt(mode)) else { return Ok(None) };
    let bad_key = || CallError::refused(ErrorClass::BadParams, super::tokens::bad_private_key(app));
    let values = with_jwt(app, &opened.values, engine.clock.now()).ok_or_else(bad_key)?;
    Ok(Some(Opened { values, ..opened.clone() }))
}

/// There was no time left for a credential, or for the test itself.
fn too_late() -> AccessError {
    AccessError::Failed { class: ErrorClass::Timeout, wait: None }
}

impl Trial {
    /// How much is left of the time of the operation that tests.
    fn time_left(&self) -> Duration {
        limits::CALLS_TIME_MAX.saturating_sub(self.watch.elapsed())
    }

    /// Waits for a credential as long as there is time.
    pub(crate) async fn in_time(
        &self,
        coming: impl Future<Output = Result<Opened, AccessError>>,
    ) -> Result<Opened, AccessError> {
        tokio::time::timeout(self.time_left(), coming).await.unwrap_or_else(|_| Err(too_late()))
    }

    fn to_use(&self) -> Use {
        Use {
            account: self.account,
            connection: self.connection,
            provider: self.provider,
            action: TEST.to_owned(),
            consumer: self.consumer.clone(),
            grant: None,
            at: self.at,
        }
    }
}

impl NotPassed {
    /// Something of ours does not work.
    fn ours(class: ErrorClass, problem: Problem) -> Self {
        Self { class, is_expired: false, choose_site: false, problem }
    }

    fn new(error: CallError, failure: Option<&TestFailure>) -> Self {
        let CallError { class, status_code, problem, .. } = error;
        let choose_site = matches!(failure, Some(TestFailure::ChooseSite));
        let is_expired = matches!(failure, Some(TestFailure::Refused(Failure { expired: true, .. })));
        // Whatever the provider says to a test that reached it, it is about the credential.
        let is_refusal = matches!(
            class,
            ErrorClass::Auth
                | ErrorClass::Permission
                | ErrorClass::NotFound
                | ErrorClass::Provider4xx
                | ErrorClass::Redirect
        );
        let problem = match class {
            _ if is_refusal && !choose_site => credential_refused(class, status_code),
            // Nobody who makes a connection cares in which way the provider was not there.
            ErrorClass::Timeout => provider_failed(None),
            _ => problem,
        };
        Self { class, is_expired, choose_site, problem }
    }
}

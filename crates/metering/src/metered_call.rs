//! One call, from its admission to its record in the journal. The same on every transport.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use portico_engine::clock::Stopwatch;
use portico_engine::ports::Charge;
use portico_engine::{Engine, Spec};
use portico_kernel::{AccountId, Caller, CallerKind, Code, Month, Problem, Timestamp};

use crate::account::AccountMeter;
use crate::journal::{REQUEST_ID_BYTES_MAX, Record};
use crate::metering::journal_failure;
use crate::rate_limit::{rate_limited, share_missing};
use crate::rate_limit_key::{RateLimitDecision, RateLimitKey};
use crate::window::{RateLimitStatus, WindowSlot};
use crate::{Metering, limits};

/// A call that is counted. It is recorded when it is [finished](MeteredCall::finish), or when the last `Arc` is dropped.
pub struct MeteredCall {
    metering: Arc<Metering>,
    engine: Arc<Engine>,
    key: Arc<RateLimitKey>,
    /// Is it refused when the account's units are used up? Persons are served all the same.
    refusable: bool,
    only_reads: bool,
    /// The plans that it is for, where it is not for all.
    plans: Option<&'static [&'static str]>,
    /// What a service may call in a minute, where that is who calls.
    service_limit: Option<u32>,
    operation: u16,
    price: u32,
    at: Timestamp,
    watch: Stopwatch,
    request_id: Arc<str>,
    state: Mutex<CallState>,
}

/// What has happened to the call so far.
#[derive(Default)]
struct CallState {
    /// The account that it counts against.
    account: Option<AccountId>,
    /// The account's units; `None` before the call is admitted.
    meter: Option<Arc<AccountMeter>>,
    /// Its slot in the window of the rate limit.
    slot: Option<WindowSlot>,
    rate_limit: Option<RateLimitStatus>,
    /// Units that it cost so far, and whether they were leased.
    units: u32,
    leased: bool,
    result: OperationResult,
    recorded: bool,
}

/// The result of the operation.
#[derive(Default)]
enum OperationResult {
    /// It has not ended, or never began.
    #[default]
    Pending,
    /// It answered.
    Success,
    /// It refused.
    Refused(Code),
}

/// A request that has just come in, and whose caller is known.
pub struct IncomingCall<'a> {
    /// Who calls.
    pub caller: &'a Caller,
    /// The rate limit of the caller.
    pub key: Arc<RateLimitKey>,
    /// The operation.
    pub spec: &'a Spec,
    /// The id of the request.
    pub request_id: Arc<str>,
    /// Runs since the request came in.
    pub watch: Stopwatch,
}

/// The same for a call that a service serves by itself, with its own front.
pub struct ServedCall<'a> {
    /// Who calls it.
    pub caller: &'a Caller,
    /// The rate limit of the caller.
    pub key: Arc<RateLimitKey>,
    /// `service.name`.
    pub name: &'a str,
    /// What it costs.
    pub units: u32,
    /// The id of the request.
    pub request_id: Arc<str>,
    /// Runs since the request came in.
    pub watch: Stopwatch,
}

/// What is counted of a call, whoever serves it.
struct Counted {
    operation: u16,
    price: u32,
    only_reads: bool,
    plans: Option<&'static [&'static str]>,
    request_id: Arc<str>,
    watch: Stopwatch,
}

impl MeteredCall {
    /// Begins to count a call; `None` for an operation that was not registered when the journal began.
    pub fn new(metering: &Arc<Metering>, engine: &Arc<Engine>, call: IncomingCall<'_>) -> Option<Arc<Self>> {
        let IncomingCall { caller, key, spec, request_id, watch } = call;
        let operation = metering.operation(spec.name)?;
        let (price, only_reads, plans) = (spec.price(), spec.only_reads(), spec.plans);
        let call = Counted { operation, price, only_reads, plans, request_id, watch };
        Some(Self::begin(metering, engine, caller, key, call))
    }

    /// Begins to count a call that a service serves by itself.
    pub fn of_service(
        metering: &Arc<Metering>,
        engine: &Arc<Engine>,
        call: ServedCall<'_>,
    ) -> Result<Arc<Self>, Problem> {
        let ServedCall { caller, key, name, units, request_id, watch } = call;
        let service = name.split('.').next().unwrap_or_default();
        let operation = metering.number_of(service, name)?;
        let call = Counted { operation, price: units, only_reads: false, plans: None, request_id, watch };
        Ok(Self::begin(metering, engine, caller, key, call))
    }

    fn begin(
        metering: &Arc<Metering>,
        engine: &Arc<Engine>,
        caller: &Caller,
        key: Arc<RateLimitKey>,
        call: Counted,
    ) -> Arc<Self> {
        metering.metrics.opened();
        let service_limit = |service| {
            let configured = metering.services.calls_per_minute(service);
            configured.unwrap_or(limits::SERVICE_CALLS_PER_MINUTE)
        };
        Arc::new(Self {
            operation: call.operation,
            metering: metering.clone(),
            engine: engine.clone(),
            key,
            only_reads: call.only_reads,
            plans: call.plans,
            service_limit: caller.service().map(service_limit),
            // An app that acts for a person has scopes, and is refused like a key.
            refusable: caller.kind == CallerKind::Client || caller.scopes.is_some(),
            price: call.price,
            at: engine.clock.now(),
            watch: call.watch,
            request_id: call.request_id,
            state: Mutex::new(CallState { account: caller.org, ..CallState::default() }),
        })
    }

    /// The name of the account's plan; empty before the call is admitted.
    pub fn plan(&self) -> Arc<str> {
        self.state().meter.as_ref().map_or_else(|| "".into(), |meter| meter.plan())
    }

    /// The plan of the account that the call was admitted to, and the units that remain, as far as this server knows.
    pub fn account_status(&self) -> Option<(Arc<str>, i64)> {
        let meter = self.state().meter.clone()?;
        Some((meter.plan(), meter.remaining()))
    }

    fn state(&self) -> MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits the call to `account`: refuses when the caller's rate limit is used up or the journal has no room.
    pub async fn admit(&self, account: Option<AccountId>) -> Result<(), Problem> {
        let meter = account.map(|account| self.metering.account(account, Month::of(self.at)));
        self.metering.make_room(meter.as_deref())?;
        let decision = match (&meter, self.service_limit) {
            (Some(meter), _) => {
                self.metering.decide_rate_limit(&self.engine, &self.key, meter, self.at).await?
            }
            (None, Some(limit)) => {
                self.metering.decide_within(&self.engine, &self.key, String::new, limit, self.at).await?
            }
            (None, None) => return Ok(()),
        };
        let plan = meter.as_ref().map(|meter| meter.plan()).filter(|_| self.plans.is_some());
        let mut state = self.state();
        (state.account, state.meter) = (account, meter);
        match decision {
            RateLimitDecision::Allowed(slot, status) => {
                (state.slot, state.rate_limit) = (Some(slot), Some(status));
                drop(state);
                match (self.plans, plan) {
                    (Some(plans), Some(plan)) if !plans.contains(&&*plan) => {
                        // A refused call uses up nothing.
                        self.refund();
                        Err(plan_required(plans, &plan))
                    }
                    _ => Ok(()),
                }
            }
            RateLimitDecision::Limited(status) => {
                state.rate_limit = Some(status);
                Err(rate_limited(status))
            }
            RateLimitDecision::NeedsShare => Err(share_missing()),
        }
    }

    /// Loads the rate limit of a caller who was refused before admission, so that the answer can tell it.
    pub async fn load_rate_limit(&self) {
        let account = self.state().account;
        let Some(meter) = account.map(|account| self.metering.account(account, Month::of(self.at))) else {
            return;
        };
        if !meter.has_plan()
            && let Err(problem) = Box::pin(self.metering.take_units(&self.engine, &meter, 0)).await
        {
            tracing::debug!(%problem, "Failed to load the rate limit of a refused caller");
        }
    }

    /// The caller's rate limit status; `None` while their limit is not loaded.
    pub fn rate_limit_status(&self) -> Option<RateLimitStatus> {
        let state = self.state();
        if state.rate_limit.is_some() {
            return state.rate_limit;
        }
        let meter = self.metering.accounts.get(&(state.account?, Month::of(self.at)))?.clone();
        let limit = meter.calls_per_minute();
        meter.has_plan().then(|| self.key.limiter().status(self.at, limit))
    }

    /// Gives back the units and the slot of a call that was refused after all.
    pub fn refund(&self) {
        let mut state = self.state();
        state.refund_units();
        if let (Some(slot), Some(meter)) = (state.slot.take(), state.meter.clone()) {
            let mut limiter = self.key.limiter();
            limiter.window.release(slot);
            state.rate_limit = Some(limiter.status(self.at, meter.calls_per_minute()));
        }
    }

    /// Records the call with the status of its answer, which must not be sent before. Returns whether it is worth a line
    /// in a log: one of many refusals is not.
    pub fn finish(&self, status: u16, code: Option<Code>) -> bool {
        let mut state = self.state();
        self.record(&mut state, status, code).unwrap_or_else(|problem| {
            // Seldom: admission made sure that the journal has room.
            self.metering.metrics.not_recorded(1);
            tracing::error!(cause = ?problem.cause(), request_id = &*self.request_id, "Failed to record a call in the journal");
            true
        })
    }

    /// Returns whether the call has a record of its own; the others are only counted.
    fn record(&self, state: &mut CallState, status: u16, code: Option<Code>) -> Result<bool, Problem> {
        let Some(account) = state.account.filter(|_| !state.recorded) else { return Ok(true) };
        state.recorded = true;
        if state.meter.is_none() {
            // The reserve of the journal is for calls that were admitted; a refusal need not be recorded.
            if self.metering.journal()?.make_room(limits::UNDER_WAY_MAX).is_err() {
                return Ok(true);
            }
        }
        // A fault of ours costs nothing, also where the operation itself went well.
        if status >= 500 {
            state.refund_units();
        }
        let code = code.and_then(|code| Code::ALL.iter().position(|known| *known == code));
        let end = self.request_id.len().min(REQUEST_ID_BYTES_MAX);
        let record = Record {
            at: self.at,
            account,
            subject: self.key.id,
            operation: self.operation,
            status,
            code: code.map_or(0, |at| u8::try_from(at + 1).unwrap_or(0)),
            leased: state.leased,
            micros: u32::try_from(self.watch.elapsed().as_micros()).unwrap_or(u32::MAX),
            units: state.units,
            tokens: 0,
            month: Month::of(self.at),
            repeats: 0,
            request_id: Cow::Borrowed(&self.request_id[..end]),
        };
        // Without a slot in the minute nothing limits how many of them there are.
        let is_unlimited = status >= 400 && state.slot.is_none();
        if is_unlimited && !self.key.limiter().refusals.take(self.at) {
            self.metering.refusals.add(&record);
            self.metering.metrics.refusal_counted();
            return Ok(false);
        }
        let number = self.metering.journal()?.append(&record).map_err(journal_failure)?;
        if let Some(meter) = &state.meter {
            meter.note_record(number, self.metering.metrics.counted());
        }
        self.metering.metrics.recorded(number);
        Ok(true)
    }

    /// Takes the price of the call out of the account's units, leasing more from the database.
    async fn lease_and_pay(&self, meter: &Arc<AccountMeter>) -> Result<(), Problem> {
        let leased = self.metering.take_units(&self.engine, meter, self.price.into()).await?;
        let mut state = self.state();
        if !leased && self.refusable && !meter.allows_at_zero() {
            // A refused call uses up nothing, not even its slot of the rate limit.
            drop(state);
            self.refund();
            return Err(quota_exceeded(meter.month, self.at));
        }
        (state.units, state.leased) = (self.price, leased);
        Ok(())
    }
}

impl CallState {
    fn refund_units(&mut self) {
        if let Some(meter) = self.meter.as_ref().filter(|_| self.leased) {
            meter.add(self.units.into());
        }
        (self.units, self.leased) = (0, false);
    }
}

impl Charge for MeteredCall {
    fn pay(&self) -> Option<BoxFuture<'_, Result<(), Problem>>> {
        let mut state = self.state();
        let meter = state.meter.clone().filter(|_| self.price > 0)?;
        if meter.has_plan() && meter.take(self.price.into()) {
            (state.units, state.leased) = (self.price, true);
            return None;
        }
        Some(Box::pin(async move { self.lease_and_pay(&meter).await }))
    }

    fn reprice(&self, units: u32) -> BoxFuture<'_, Result<(), Problem>> {
        Box::pin(async move {
            let (meter, held) = {
                let mut state = self.state();
                let Some(meter) = state.meter.clone() else { return Ok(()) };
                let held = std::mem::take(&mut state.units);
                // A price that was counted beyond the account's units took none of them.
                let held = if std::mem::take(&mut state.leased) { held } else { 0 };
                (meter, i64::from(held))
            };
            meter.add(held);
            let leased = units == 0 || self.metering.take_units(&self.engine, &meter, units.into()).await?;
            let mut state = self.state();
            (state.units, state.leased) = (units, leased);
            Ok(())
        })
    }

    fn settle(&self, code: Option<Code>) {
        let mut state = self.state();
        state.result = code.map_or(OperationResult::Success, OperationResult::Refused);
        // A cancelled write was rolled back, and costs nothing; a cancelled read was read.
        let rolled_back = code == Some(Code::Cancelled) && !self.only_reads;
        if rolled_back || code.is_some_and(|code| code.status() >= 500) {
            state.refund_units();
        }
    }
}

impl Drop for MeteredCall {
    /// The client has disconnected. What ran is recorded with its result; what did not end was rolled back.
    fn drop(&mut self) {
        let code = match self.state().result {
            OperationResult::Pending => Some(Code::Cancelled),
            OperationResult::Success => None,
            OperationResult::Refused(code) => Some(code),
        };
        self.finish(code.map_or(200, Code::status), code);
        self.metering.metrics.closed();
    }
}

/// 403: the account's plan does not include the operation.
fn plan_required(plans: &[&str], plan: &str) -> Problem {
    let plans = plans.join(", ");
    let message = format!("The plan {plan} does not include this; it takes one of: {plans}.");
    Problem::new(Code::Forbidden, message).with_info("PLAN_REQUIRED", "gateway", [("plans", plans)])
}

/// 429: the units of the month are spent. The message says until when: a wait of weeks looks like a fault otherwise.
fn quota_exceeded(month: Month, now: Timestamp) -> Problem {
    let resets_at = month.next().start();
    let message =
        format!("The account's units of {month} are spent; calls are served again from {resets_at} on.");
    Problem::new(Code::QuotaExceeded, message).retry_after(resets_at.since(now))
}

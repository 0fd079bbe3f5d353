//! One call, from its admission to its place in the journal. The same on every transport.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use portico_engine::clock::Stopwatch;
use portico_engine::ports::Charge;
use portico_engine::{Engine, Spec};
use portico_kernel::{AccountId, Caller, CallerKind, Code, Month, Problem, Timestamp};

use crate::account::AccountMeter;
use crate::journal::{REQUEST_ID_BYTES_MAX, Record};
use crate::metering::unreadable;
use crate::rate_limit_key::{Asked, RateLimitKey};
use crate::window::{Place, RateLimitStatus};
use crate::{Metering, limits};

/// A call that is counted. It is recorded when it is [finished](MeteredCall::finish), or when the last hand lets go of it.
pub struct MeteredCall {
    metering: Arc<Metering>,
    engine: Arc<Engine>,
    subject: Arc<RateLimitKey>,
    refusable: bool,
    only_reads: bool,
    operation: u16,
    price: u32,
    at: Timestamp,
    watch: Stopwatch,
    request_id: String,
    state: Mutex<State>,
}

/// How far the call has come.
#[derive(Default)]
struct State {
    /// The account that it counts against.
    account: Option<AccountId>,
    /// The account's units, once it was admitted.
    meter: Option<Arc<AccountMeter>>,
    /// Its place in the caller's minute.
    place: Option<Place>,
    standing: Option<RateLimitStatus>,
    /// Units that it cost so far, and whether they were leased.
    units: u32,
    leased: bool,
    ending: Ending,
    recorded: bool,
}

/// How the operation ended.
#[derive(Default)]
enum Ending {
    /// It did not, or it never began.
    #[default]
    None,
    /// With an answer.
    Answered,
    /// With a refusal.
    Refused(Code),
}

impl MeteredCall {
    /// A call of `caller`, whose minute is `subject`, that has just come.
    pub fn new(
        metering: &Arc<Metering>,
        engine: &Arc<Engine>,
        (caller, subject): (&Caller, Arc<RateLimitKey>),
        spec: &Spec,
        (request_id, watch): (&str, Stopwatch),
    ) -> Option<Arc<Self>> {
        let operation = metering.operation(spec.name)?;
        metering.metrics.opened();
        Some(Arc::new(Self {
            operation,
            metering: metering.clone(),
            engine: engine.clone(),
            subject,
            only_reads: spec.only_reads(),
            // Persons are served; what acts for them, by scopes, is not.
            refusable: caller.kind == CallerKind::Client || caller.scopes.is_some(),
            price: spec.category.map_or(0, |category| u32::try_from(category.units()).unwrap_or(u32::MAX)),
            at: engine.clock.now(),
            watch,
            request_id: request_id.to_owned(),
            state: Mutex::new(State { account: caller.org, ..State::default() }),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits the call to `account`: there must be a place in the caller's minute, and in the journal.
    pub async fn admit(&self, account: Option<AccountId>) -> Result<(), Problem> {
        self.metering.journal()?.make_room(limits::UNDER_WAY_MAX).map_err(unreadable)?;
        let Some(account) = account else { return Ok(()) };
        let meter = self.metering.account(account, Month::of(self.at));
        meter.note_call(self.at);
        if !meter.is_known() {
            // Boxed, because the way through the database is large and seldom taken.
            Box::pin(self.metering.take_units(&self.engine, &meter, 0)).await?;
        }
        let limit = meter.calls_per_minute();
        let asked = if self.metering.shared {
            let asked = self.subject.minute().take_shared(self.at, limit);
            match asked {
                Asked::NeedsShare => {
                    Box::pin(self.metering.ask_minute(&self.engine, &self.subject, account, limit)).await?
                }
                asked => asked,
            }
        } else {
            self.subject.minute().take(self.at, limit)
        };
        let mut state = self.state();
        (state.account, state.meter) = (Some(account), Some(meter));
        match asked {
            Asked::Admission(place, standing) => {
                (state.place, state.standing) = (Some(place), Some(standing));
                Ok(())
            }
            Asked::Full(standing) => {
                state.standing = Some(standing);
                Err(too_many(standing))
            }
            Asked::NeedsShare => Err(Problem::internal("a share was agreed on and is not there")),
        }
    }

    /// Learns the limit of a caller who was refused before it was looked at, so that they can be told.
    pub async fn look(&self) {
        let account = self.state().account;
        let Some(meter) = account.map(|account| self.metering.account(account, Month::of(self.at))) else {
            return;
        };
        if !meter.is_known()
            && let Err(problem) = Box::pin(self.metering.take_units(&self.engine, &meter, 0)).await
        {
            tracing::debug!(%problem, "The limit of a refused caller is not known");
        }
    }

    /// What to tell the caller of their minute; nothing while their limit is not known here.
    pub fn standing(&self) -> Option<RateLimitStatus> {
        let state = self.state();
        if state.standing.is_some() {
            return state.standing;
        }
        let meter = self.metering.accounts.get(&(state.account?, Month::of(self.at)))?.clone();
        let limit = meter.calls_per_minute();
        meter.is_known().then(|| self.subject.minute().standing(self.at, limit))
    }

    /// The call was refused after all, for want of a place: it has used up nothing.
    pub fn take_back(&self) {
        let mut state = self.state();
        state.refund();
        if let (Some(place), Some(meter)) = (state.place.take(), state.meter.clone()) {
            let mut minute = self.subject.minute();
            minute.window.give_back(place);
            state.standing = Some(minute.standing(self.at, meter.calls_per_minute()));
        }
    }

    /// Records the call as it was answered. Its answer must not leave before.
    pub fn finish(&self, status: u16, code: Option<Code>) {
        let mut state = self.state();
        if let Err(problem) = self.record(&mut state, status, code) {
            // Seldom: admission made sure of a place.
            self.metering.metrics.not_recorded();
            tracing::error!(cause = ?problem.cause(), request_id = self.request_id, "A call could not be recorded");
        }
    }

    fn record(&self, state: &mut State, status: u16, code: Option<Code>) -> Result<(), Problem> {
        let Some(account) = state.account.filter(|_| !state.recorded) else { return Ok(()) };
        state.recorded = true;
        if state.meter.is_none() {
            // The places that are kept free are for calls that were admitted; a refusal can do without.
            if self.metering.journal()?.make_room(limits::UNDER_WAY_MAX).is_err() {
                return Ok(());
            }
        }
        // A fault of ours costs nothing, also where the operation itself went well.
        if status >= 500 {
            state.refund();
        }
        let code = code.and_then(|code| Code::ALL.iter().position(|known| *known == code));
        let end = self.request_id.len().min(REQUEST_ID_BYTES_MAX);
        let record = Record {
            at: self.at,
            account,
            subject: self.subject.id,
            operation: self.operation,
            status,
            code: code.map_or(0, |at| u8::try_from(at + 1).unwrap_or(0)),
            leased: state.leased,
            micros: u32::try_from(self.watch.elapsed().as_micros()).unwrap_or(u32::MAX),
            units: state.units,
            tokens: 0,
            month: Month::of(self.at),
            request_id: Cow::Borrowed(&self.request_id[..end]),
        };
        let number = self.metering.journal()?.append(&record).map_err(unreadable)?;
        if let Some(meter) = &state.meter {
            meter.note_record(number);
        }
        self.metering.metrics.recorded(number);
        Ok(())
    }

    /// Takes the price of the call out of the account's units, asking the database for more.
    async fn pay_slowly(&self, meter: &Arc<AccountMeter>) -> Result<(), Problem> {
        let leased = self.metering.take_units(&self.engine, meter, self.price.into()).await?;
        let mut state = self.state();
        if !leased && self.refusable && !meter.allows_at_zero() {
            // A refused call uses up nothing, its place in the minute included.
            drop(state);
            self.take_back();
            return Err(spent(meter.month, self.at));
        }
        (state.units, state.leased) = (self.price, leased);
        Ok(())
    }
}

impl State {
    fn refund(&mut self) {
        if let Some(meter) = self.meter.as_ref().filter(|_| self.leased) {
            meter.put(self.units.into());
        }
        (self.units, self.leased) = (0, false);
    }
}

impl Charge for MeteredCall {
    fn pay(&self) -> Option<BoxFuture<'_, Result<(), Problem>>> {
        let mut state = self.state();
        let meter = state.meter.clone().filter(|_| self.price > 0)?;
        if meter.is_known() && meter.take(self.price.into()) {
            (state.units, state.leased) = (self.price, true);
            return None;
        }
        Some(Box::pin(async move { self.pay_slowly(&meter).await }))
    }

    fn ended(&self, code: Option<Code>) {
        let mut state = self.state();
        state.ending = code.map_or(Ending::Answered, Ending::Refused);
        // What was written and taken back is as if it had never been. What was read was read.
        let undone = code == Some(Code::Cancelled) && !self.only_reads;
        if undone || code.is_some_and(|code| code.status() >= 500) {
            state.refund();
        }
    }
}

impl Drop for MeteredCall {
    /// Nobody waits for the answer any more. What ran is recorded as it ended; what did not end was taken back.
    fn drop(&mut self) {
        let code = match self.state().ending {
            Ending::None => Some(Code::Cancelled),
            Ending::Answered => None,
            Ending::Refused(code) => Some(code),
        };
        self.finish(code.map_or(200, Code::status), code);
        self.metering.metrics.closed();
    }
}

/// 429: too many calls in the minute.
fn too_many(standing: RateLimitStatus) -> Problem {
    let words = format!("More than {} calls in 60 seconds.", standing.limit);
    Problem::new(Code::RateLimited, words).retry_after(Duration::from_secs(standing.reset_seconds))
}

/// 429: the units of the month are spent. The sentence says until when: a wait of weeks looks like a fault otherwise.
fn spent(month: Month, now: Timestamp) -> Problem {
    let resets_at = month.next().start();
    let words =
        format!("The account's units of {month} are spent; calls are served again from {resets_at} on.");
    Problem::new(Code::QuotaExceeded, words).retry_after(resets_at.since(now))
}

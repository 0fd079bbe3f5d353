//! A target as it stands: whether it may be asked, and what is under way there.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;

use crate::Timing;
use crate::breaker::Breaker;
use crate::figures::{Counters, TargetFigures};
use crate::http2::Http2Pool;
use crate::pool::Pool;
use crate::target::{Scheme, Target};
use crate::time::{Instant, now};

/// What the last probe of a target has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Health {
    /// There was none yet.
    Unknown,
    Passing,
    Failing,
}

#[derive(Debug)]
pub(crate) struct TargetState {
    pub(crate) target: Target,
    pub(crate) pool: Arc<Pool>,
    pub(crate) http2: Http2Pool,
    in_flight: AtomicUsize,
    breaker: Mutex<Breaker>,
    health: AtomicU8,
    counters: Counters,
}

impl TargetState {
    pub(crate) fn new(target: Target, timing: &Timing) -> Self {
        Self {
            target,
            pool: Arc::default(),
            http2: Http2Pool::default(),
            in_flight: AtomicUsize::new(0),
            breaker: Mutex::new(Breaker::new(timing.left_out)),
            health: AtomicU8::new(Health::Unknown as u8),
            counters: Counters::default(),
        }
    }

    /// May a call share a connection that is being opened?
    pub(crate) fn shares_connections(&self) -> bool {
        self.target.scheme == Scheme::H2c || self.http2.is_spoken()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_health(&self, health: Health) {
        self.health.store(health as u8, Ordering::Relaxed);
    }

    pub(crate) fn is_health(&self, health: Health) -> bool {
        self.health.load(Ordering::Relaxed) == health as u8
    }

    /// How long is to be waited before it may be asked, by how its calls ended; `None` if it may be now.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        self.breaker().wait(now)
    }

    /// Begins a call, if there may be one.
    pub(crate) fn enter(self: &Arc<Self>, now: Instant) -> Option<Ticket> {
        let is_trial = self.breaker().enter(now)?;
        let trial = Trial { state: self.clone(), is_trial };
        Some(Ticket { trial, in_flight: InFlight::new(self), started: now })
    }

    pub(crate) fn figures(&self, is_left_out: bool) -> TargetFigures {
        TargetFigures {
            target: self.target.name().clone(),
            classes: self.counters.classes(),
            in_flight: self.in_flight(),
            is_left_out,
            seconds: self.counters.seconds(),
            gateway_seconds: self.counters.gateway_seconds(),
        }
    }
}

/// How long a call waited for the target that answered it, and for one that was asked before.
#[derive(Debug)]
pub struct Waited {
    state: Arc<TargetState>,
    time: Duration,
}

impl Waited {
    /// The name of the target.
    pub(crate) fn target(&self) -> &Arc<str> {
        self.state.target.name()
    }

    /// Counts what of `whole`, the time since the call came, was not spent on waiting.
    pub fn count_rest(&self, whole: Duration) {
        self.state.counters.count_gateway_time(whole.saturating_sub(self.time));
    }
}

/// Counts as a call in flight while it lives.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<TargetState>);

impl InFlight {
    fn new(state: &Arc<TargetState>) -> Self {
        state.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(state.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The right to ask a target once. What becomes of it is remembered; dropping it says that the target has shown nothing.
#[derive(Debug)]
pub(crate) struct Ticket {
    trial: Trial,
    in_flight: InFlight,
    started: Instant,
}

/// Leaves the target to the next call that tries it, unless something was shown.
#[derive(Debug)]
struct Trial {
    state: Arc<TargetState>,
    is_trial: bool,
}

impl Drop for Trial {
    fn drop(&mut self) {
        if self.is_trial {
            self.state.breaker().abandoned(now());
        }
    }
}

impl Ticket {
    /// Is it the one call that tries a target that was left out?
    pub(crate) fn is_trial(&self) -> bool {
        self.trial.is_trial
    }

    /// Lets another call try the target. What becomes of this one shows nothing any more.
    pub(crate) fn give_up_trial(&mut self) {
        self.in_flight.0.breaker().abandoned(now());
        self.trial.is_trial = false;
    }

    /// The target answered with a whole head the call that began to wait at `begun`.
    pub(crate) fn answered(mut self, status: StatusCode, begun: Instant) -> (InFlight, Waited) {
        let (state, now) = (&self.in_flight.0, now());
        state.counters.answered(status, now - self.started);
        state.breaker().answered(self.trial.is_trial);
        self.trial.is_trial = false;
        let waited = Waited { state: state.clone(), time: now - begun };
        (self.in_flight, waited)
    }

    /// The target could not be reached, or gave no answer. Is it left out from now on?
    pub(crate) fn failed(mut self) -> bool {
        let state = &self.in_flight.0;
        state.counters.failed();
        let is_left_out = state.breaker().failed(self.trial.is_trial, now());
        self.trial.is_trial = false;
        is_left_out
    }
}

//! A call from its arrival to its end: counted, logged and measured exactly once, whoever ends it.

use std::sync::Arc;

use portico_engine::clock::Stopwatch;
use portico_engine::input::{Attachment, Fields};
use portico_engine::ports::Charge;
use portico_engine::{Admission, Call, CallOptions, Engine, IdempotencyKey, Reply, Spec};
use portico_kernel::Code;
use portico_metering::{IncomingCall, MeteredCall, Metering, RateLimitStatus};
use portico_store::Queries;
use tracing::field;

use crate::Metrics;
use crate::credential::Credential;
use crate::metrics::NOWHERE;
use crate::party::Party;

/// What is known of a call until it ends. [`finish`](Self::finish) ends it. When the client goes away first, the scope is
/// dropped, and the metered call records by itself how far the operation came.
pub(crate) struct CallScope {
    metrics: Arc<Metrics>,
    pub(crate) request_id: Arc<str>,
    watch: Stopwatch,
    /// The operation's name, once it is found.
    pub(crate) operation: Option<&'static str>,
    /// Whose refusals it counts among, once its caller is known.
    pub(crate) caller: Option<Party>,
    /// Who was admitted, for the log alone: what runs is given its own.
    pub(crate) admission: Option<Admission>,
    /// The call as it is counted, once its caller is known.
    metered: Option<Arc<MeteredCall>>,
    queries: Queries,
    /// The code of a refusal that the operation itself answered with.
    code: Option<Code>,
}

impl CallScope {
    /// A call that has just arrived.
    pub(crate) fn new(metrics: &Arc<Metrics>, request_id: Arc<str>) -> Self {
        Self {
            metrics: metrics.clone(),
            request_id,
            watch: Stopwatch::start(),
            operation: None,
            caller: None,
            admission: None,
            metered: None,
            queries: Queries::default(),
            code: None,
        }
    }

    /// From here on the call is counted; the platform's own are not.
    pub(crate) fn meter(
        &mut self,
        metering: &Arc<Metering>,
        engine: &Arc<Engine>,
        credential: &Credential,
        spec: &'static Spec,
    ) -> Option<&MeteredCall> {
        self.metered = credential.rate_limit_key().and_then(|key| {
            let (caller, key) = (credential.caller().as_ref(), key.clone());
            let (request_id, watch) = (self.request_id.clone(), self.watch);
            let call = IncomingCall { caller, key, spec, request_id, watch };
            MeteredCall::new(metering, engine, call)
        });
        self.metered.as_deref()
    }

    /// The call as the engine runs it, as `admission` says.
    pub(crate) fn call(
        &self,
        admission: Admission,
        fields: Fields,
        attachment: Option<Attachment>,
        idempotency_key: Option<IdempotencyKey>,
        options: CallOptions,
    ) -> Call {
        let charge = self.charge();
        let request_id = self.request_id.clone();
        Call {
            admitted: admission,
            request_id,
            fields,
            idempotency_key,
            charge,
            options,
            attachment,
            held: None,
        }
    }

    /// What the call costs, once its caller is known.
    pub(crate) fn charge(&self) -> Option<Arc<dyn Charge>> {
        self.metered.clone().map(|metered| metered as Arc<dyn Charge>)
    }

    /// The name of the account's plan; empty where it is not known.
    pub(crate) fn plan(&self) -> Arc<str> {
        self.metered.as_ref().map_or_else(|| "".into(), |metered| metered.plan())
    }

    /// Notes what the operation came to.
    pub(crate) fn note(&mut self, queries: Queries, code: Option<Code>) {
        (self.queries, self.code) = (queries, code);
    }

    /// Notes what the operation replied.
    pub(crate) fn note_reply(&mut self, reply: &Reply) {
        self.note(reply.queries, reply.refused.map(|(code, _)| code));
    }

    /// What ran was for nothing, and is not charged.
    pub(crate) fn refund(&self) {
        self.metered.as_ref().inspect(|metered| metered.refund());
    }

    /// How much of their minute the caller has left, if that is known.
    pub(crate) fn rate_limit(&self) -> Option<RateLimitStatus> {
        let status = self.metered.as_ref()?.rate_limit_status()?;
        self.metrics.window(status);
        Some(status)
    }

    /// Ends the call: records it, measures it and logs one line, but not for each of many refusals, nor of many calls of
    /// nobody. `status` counts where there is no code of a refusal: not every protocol shows the code in its status.
    pub(crate) fn finish(self, status: u16, code: Option<Code>) {
        // A refusal of the edge knows its code; the operation's own was noted.
        let code = code.or(self.code);
        let status = code.map_or(status, Code::status);
        let is_logged = match self.metered {
            Some(metered) => metered.finish(status, code),
            None => self.metrics.stranger_lines.take(),
        };
        let elapsed = self.watch.elapsed();
        let operation = self.operation.unwrap_or(NOWHERE);
        self.metrics.answered(operation, status, elapsed);
        if !is_logged {
            return;
        }
        let admission = self.admission.as_ref();
        tracing::info!(
            operation,
            caller = admission.map(|admission| admission.caller().subject.as_str()).unwrap_or_default(),
            account = admission.and_then(Admission::account).map(field::display),
            status,
            // To the microsecond; more digits would cost more than they say.
            ms = f64::from(u32::try_from(elapsed.as_micros()).unwrap_or(u32::MAX)) / 1e3,
            queries = self.queries.statements,
            round_trips = self.queries.round_trips,
            request_id = &*self.request_id,
            "Answered"
        );
    }
}

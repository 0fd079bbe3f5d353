//! Numbers for Prometheus, on a listener of their own.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::FixedState;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response};
use hyper::body::Incoming;
use portico_engine::{Buckets, Engine, Metric, MetricValue};
use portico_kernel::{Code, Problem};
use portico_metering::RateLimitStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::cors::Origins;
use crate::forward::{ServiceCollector, ServiceList};
use crate::incoming::IncomingRequest;
use crate::response::Refusal;
use crate::stranger_lines::StrangerLines;

const TEXT: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AnswerLabels {
    operation: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TokenLabels {
    known: &'static str,
}

/// The operation of a call that found none.
pub(crate) const NOWHERE: &str = "none";

/// What the gateway counts.
pub struct Metrics {
    registry: Registry,
    answers: Family<AnswerLabels, Counter>,
    seconds: Family<OperationLabels, Histogram, fn() -> Histogram>,
    /// The common case of each operation, so that it need not be looked for among all of them.
    operations: HashMap<&'static str, OperationMetrics, FixedState>,
    nowhere: OperationMetrics,
    known: Counter,
    verified: Counter,
    refusals: Family<ReasonLabels, Counter>,
    windows: Histogram,
    pub(crate) stranger_lines: StrangerLines,
}

/// The numbers of one operation.
struct OperationMetrics {
    ok: Counter,
    seconds: Histogram,
}

/// What the areas and the queues count of themselves.
struct AreaCollector(Arc<Engine>);

impl fmt::Debug for AreaCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AreaCollector")
    }
}

impl Collector for AreaCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for of_one_name in self.0.registry.metrics().chunk_by(|one, next| one.name == next.name) {
            let Metric { name, help, value, .. } = &of_one_name[0];
            let kind = match value {
                MetricValue::Counter(_) => MetricType::Counter,
                MetricValue::Gauge(_) => MetricType::Gauge,
                MetricValue::Histogram(_) => MetricType::Histogram,
            };
            let mut encoder = encoder.encode_descriptor(name, help, None, kind)?;
            for Metric { labels, value, .. } in of_one_name {
                let labels: Vec<_> = labels.iter().flatten().copied().collect();
                let mut encoder = encoder.encode_family(&labels)?;
                match value {
                    MetricValue::Counter(value) => ConstCounter::new(*value).encode(encoder)?,
                    MetricValue::Gauge(value) => ConstGauge::new(*value).encode(encoder)?,
                    MetricValue::Histogram(Buckets { bounds, counts, sum }) => {
                        // The encoder adds them up.
                        let bounds = bounds.iter().copied().chain([f64::INFINITY]);
                        let buckets: Vec<_> = bounds.zip(counts.iter().copied()).collect();
                        let exemplars = None::<&HashMap<usize, Exemplar<NoLabelSet, f64>>>;
                        encoder.encode_histogram(*sum, counts.iter().sum(), &buckets, exemplars)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// From 0.1 ms to 13 s.
fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 18))
}

impl Metrics {
    /// Numbers of the gateway for the engine's operations, those that areas keep of themselves, and those of services.
    pub fn new(engine: &Arc<Engine>, services: &Arc<ServiceList>) -> Self {
        let mut registry = Registry::with_prefix("portico");
        let answers: Family<AnswerLabels, Counter> = Family::default();
        registry.register("answers", "Answers by operation and status", answers.clone());
        let seconds: Family<OperationLabels, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(buckets as fn() -> Histogram);
        registry.register("answer_seconds", "Time from request to answer", seconds.clone());
        let tokens: Family<TokenLabels, Counter> = Family::default();
        registry.register(
            "tokens",
            "Tokens that were known already, and that had to be verified",
            tokens.clone(),
        );
        let refusals = Family::default();
        registry.register("refusals", "Calls that were refused before they ran, by reason", refusals.clone());
        let windows = Histogram::new([0.1, 0.25, 0.5, 0.75, 0.9, 1.0]);
        registry.register(
            "window_use",
            "How much of their minute's limit callers have used at each call",
            windows.clone(),
        );
        registry.register_collector(Box::new(AreaCollector(engine.clone())));
        registry.register_collector(Box::new(ServiceCollector(services.clone())));
        let of = |operation| OperationMetrics {
            ok: answers.get_or_create_owned(&AnswerLabels { operation, status: 200 }),
            seconds: seconds.get_or_create_owned(&OperationLabels { operation }),
        };
        Self {
            operations: engine
                .registry
                .catalog()
                .entries()
                .iter()
                .map(|entry| (entry.spec.name, of(entry.spec.name)))
                .collect(),
            nowhere: of(NOWHERE),
            known: tokens.get_or_create_owned(&TokenLabels { known: "yes" }),
            verified: tokens.get_or_create_owned(&TokenLabels { known: "no" }),
            registry,
            answers,
            seconds,
            refusals,
            windows,
            stranger_lines: StrangerLines::default(),
        }
    }

    pub(crate) fn answered(&self, operation: &'static str, status: u16, elapsed: Duration) {
        let of = if operation == NOWHERE { Some(&self.nowhere) } else { self.operations.get(operation) };
        match of {
            Some(of) => of.seconds.observe(elapsed.as_secs_f64()),
            // Of a service that was read anew.
            None => self.seconds.get_or_create(&OperationLabels { operation }).observe(elapsed.as_secs_f64()),
        }
        match of.filter(|_| status == 200) {
            Some(of) => of.ok.inc(),
            None => self.answers.get_or_create(&AnswerLabels { operation, status }).inc(),
        };
    }

    /// A call was refused before it ran.
    pub(crate) fn refused(&self, code: Code) {
        self.refusals.get_or_create(&ReasonLabels { reason: code.name() }).inc();
    }

    /// How full a caller's minute is.
    pub(crate) fn window(&self, status: RateLimitStatus) {
        let used = status.limit.saturating_sub(status.remaining);
        self.windows.observe(f64::from(used) / f64::from(status.limit.max(1)));
    }

    /// The counters of tokens that were known, and of those that were verified.
    pub(crate) fn tokens(&self) -> (Counter, Counter) {
        (self.known.clone(), self.verified.clone())
    }
}

/// Serves the numbers. The listener is its own, so that they are not shown to the world by accident.
pub struct MetricsServer {
    engine: Arc<Engine>,
    metrics: Arc<Metrics>,
}

impl MetricsServer {
    /// The listener of these numbers.
    pub fn new(engine: Arc<Engine>, metrics: Arc<Metrics>) -> Self {
        Self { engine, metrics }
    }

    pub(crate) fn answer(&self, request: Request<Incoming>) -> Response<Bytes> {
        let incoming = IncomingRequest::new(request, &self.engine);
        let result = self.page(&incoming.parts).map(|text| {
            let mut response = Response::new(Bytes::from(text));
            response.headers_mut().insert(CONTENT_TYPE, TEXT);
            response
        });
        incoming.finish(result, &Origins::default())
    }

    fn page(&self, parts: &Parts) -> Result<String, Refusal> {
        if parts.uri.path() != "/metrics" {
            return Err(Problem::new(Code::NotFound, "The metrics are at /metrics.").into());
        }
        if parts.method != Method::GET && parts.method != Method::HEAD {
            return Err(Refusal::method_not_allowed(&HeaderValue::from_static("GET, HEAD")));
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.metrics.registry)
            .map_err(Problem::internal)?;
        Ok(text)
    }
}

//! Numbers for Prometheus, on a listener of their own.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response};
use hyper::body::Incoming;
use portico_engine::Engine;
use portico_kernel::{Code, Problem};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::arrived::Arrived;
use crate::cors::Origins;
use crate::respond::Refusal;

const TEXT: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answer {
    operation: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Known {
    known: &'static str,
}

/// What the gateway counts.
pub struct Metrics {
    registry: Registry,
    answers: Family<Answer, Counter>,
    seconds: Family<Operation, Histogram, fn() -> Histogram>,
    tokens: Family<Known, Counter<u64, AtomicU64>>,
}

/// From 0.1 ms to 13 s.
fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 18))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("portico");
        let answers = Family::default();
        registry.register("answers", "Answers by operation and status", answers.clone());
        let seconds = Family::new_with_constructor(buckets as fn() -> Histogram);
        registry.register("answer_seconds", "Time from request to answer", seconds.clone());
        let tokens = Family::default();
        registry.register(
            "tokens",
            "Tokens that were known already, and that had to be verified",
            tokens.clone(),
        );
        Self { registry, answers, seconds, tokens }
    }
}

impl Metrics {
    pub(crate) fn answered(&self, operation: &'static str, status: u16, elapsed: Duration) {
        self.answers.get_or_create(&Answer { operation, status }).inc();
        self.seconds.get_or_create(&Operation { operation }).observe(elapsed.as_secs_f64());
    }

    pub(crate) fn token_known(&self, known: bool) {
        self.tokens.get_or_create(&Known { known: if known { "yes" } else { "no" } }).inc();
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
        let arrived = Arrived::new(request, &self.engine);
        let result = self.page(&arrived.parts).map(|text| {
            let mut response = Response::new(Bytes::from(text));
            response.headers_mut().insert(CONTENT_TYPE, TEXT);
            response
        });
        arrived.finish(result, &Origins::default())
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

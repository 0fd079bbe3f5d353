//! Numbers of services, each by its targets, for Prometheus.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use portico_upstream::{BOUNDS, CLASSES, SecondsFigures, TargetFigures};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::gauge::ConstGauge;

use super::ServiceList;

/// What the services that run now count of their targets.
pub(crate) struct ServiceCollector(pub(crate) Arc<ServiceList>);

impl fmt::Debug for ServiceCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceCollector")
    }
}

impl Collector for ServiceCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let services = self.0.all();
        let targets: Vec<_> = services
            .iter()
            .flat_map(|service| service.upstream.figures().into_iter().map(|figures| (service.name, figures)))
            .collect();
        if targets.is_empty() {
            return Ok(());
        }
        encode_calls(&mut encoder, &targets)?;
        let help = "Time from the call to the head of its answer, at the target";
        encode_seconds(&mut encoder, "service_seconds", help, &targets, |figures| &figures.seconds)?;
        let help = "Time from the request to the head of its answer, without that at the target";
        let name = "service_gateway_seconds";
        encode_seconds(&mut encoder, name, help, &targets, |figures| &figures.gateway_seconds)?;
        let help = "Calls whose answers have not ended";
        let in_flight = |figures: &TargetFigures| i64::try_from(figures.in_flight).unwrap_or(i64::MAX);
        encode_gauge(&mut encoder, "service_in_flight", help, &targets, in_flight)?;
        let help = "Whether the target is left out, because it failed or did not pass its probe";
        encode_gauge(&mut encoder, "service_left_out", help, &targets, |figures| figures.is_left_out.into())
    }
}

/// A service's name, and one of its targets.
type Named = (&'static str, TargetFigures);

fn labels(target: &Named) -> [(&str, &str); 2] {
    [("service", target.0), ("target", &target.1.target)]
}

fn encode_calls(encoder: &mut DescriptorEncoder<'_>, targets: &[Named]) -> fmt::Result {
    let help = "Calls of services by the class of their status, or `failure` where there was no answer";
    let mut encoder = encoder.encode_descriptor("service_calls", help, None, MetricType::Counter)?;
    for target in targets {
        for (class, count) in CLASSES.iter().zip(target.1.classes) {
            let [service, of] = labels(target);
            let labels = [service, of, ("class", *class)];
            ConstCounter::new(count).encode(encoder.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode_seconds(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    targets: &[Named],
    of: impl Fn(&TargetFigures) -> &SecondsFigures,
) -> fmt::Result {
    let mut encoder = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for target in targets {
        let figures = of(&target.1);
        // The encoder adds them up, and knows the largest number as the bucket of everything.
        let bounds = BOUNDS.into_iter().chain([f64::MAX]);
        let buckets: Vec<_> = bounds.zip(figures.buckets).collect();
        let exemplars = None::<&HashMap<usize, Exemplar<NoLabelSet, f64>>>;
        let labels = labels(target);
        let mut encoder = encoder.encode_family(&labels)?;
        encoder.encode_histogram(figures.sum, figures.buckets.iter().sum(), &buckets, exemplars)?;
    }
    Ok(())
}

fn encode_gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    targets: &[Named],
    of: impl Fn(&TargetFigures) -> i64,
) -> fmt::Result {
    let mut encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for target in targets {
        ConstGauge::new(of(&target.1)).encode(encoder.encode_family(&labels(target))?)?;
    }
    Ok(())
}

//! Looking after the targets while no call does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Uri};
use http_body_util::Empty;
use portico_egress::OUR_NAME;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::failure::Fault;
use crate::state::{Health, TargetState};
use crate::upstream::{Call, Upstream};

/// How often idle connections are looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Nobody is left to say so: that says it as well.
    let _ = stop.wait_for(|is_stopping| *is_stopping).await;
}

impl Upstream {
    /// Probes the targets, if there is a path for it, and closes connections that nobody uses; until `stop` says so. The
    /// server runs this once for each service.
    pub async fn watch(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = stopped(&mut stop) => {}
            () = self.sweep() => {}
            () = self.probe() => {}
        }
    }

    async fn sweep(&self) {
        let mut turns = interval(SWEEP_EVERY);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            for state in &self.targets {
                state.pool.sweep();
                state.http2.sweep();
            }
        }
    }

    async fn probe(self: &Arc<Self>) {
        let Some(path) = &self.health else { return std::future::pending().await };
        let mut turns = interval(self.timing.probe_every);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            let mut probes = JoinSet::new();
            for state in &self.targets {
                probes.spawn(self.clone().probe_target(state.clone(), path.clone()));
            }
            while probes.join_next().await.is_some() {}
        }
    }

    /// A target passes with any answer that is no error.
    async fn probe_target(self: Arc<Self>, state: Arc<TargetState>, path: PathAndQuery) {
        let mut request = Request::new(());
        *request.uri_mut() = Uri::from(path);
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(OUR_NAME));
        let (parts, ()) = request.into_parts();
        let body = Some(Empty::<Bytes>::new());
        let mut call = Call { parts, body, upgrades: false, timeout: self.timing.probe };
        let answer = timeout(self.timing.probe, self.exchange(&state, &mut call)).await;
        let status = answer.unwrap_or(Err(Fault::TimedOut)).map(|reply| reply.status());
        let passes = status.as_ref().is_ok_and(|status| status.is_success() || status.is_redirection());
        let health = if passes { Health::Passing } else { Health::Failing };
        if !state.is_health(health) {
            let name = state.target.name();
            match &status {
                Ok(_) if passes => {
                    tracing::info!(service = %self.name, address = %name, "target passes its probe");
                }
                Ok(status) => {
                    tracing::warn!(service = %self.name, address = %name, %status, "target fails its probe");
                }
                Err(fault) => {
                    tracing::warn!(service = %self.name, address = %name, %fault, "target fails its probe");
                }
            }
            state.set_health(health);
        }
    }
}

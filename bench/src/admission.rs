//! What admission costs: token, revocation, scope, account, minute, units and the record in the journal.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use portico_engine::clock::Stopwatch;
use portico_testkit::{Database, TestApp};

use crate::report::Report;

const CALLS: u32 = 200_000;
const ROUNDS: usize = 5;
const LIMIT_NS: f64 = 3_000.0;

fn request(path: &str, token: Option<&str>) -> Request<Full<Bytes>> {
    let builder = Request::get(path).header("host", "bench");
    let builder = match token {
        Some(token) => builder.header("authorization", format!("Bearer {token}")),
        None => builder,
    };
    builder.body(Full::new(Bytes::new())).unwrap()
}

/// Nanoseconds for each call, one after the other on one thread, where nothing waits: time is processor time.
async fn each(app: &TestApp, path: &str, token: Option<&str>) -> f64 {
    let requests: Vec<_> = (0..CALLS).map(|_| request(path, token)).collect();
    let watch = Stopwatch::start();
    for request in requests {
        assert_eq!(app.gateway.handle(request).await.status(), 200);
    }
    watch.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

/// The call of `GET /v1/me` beside `GET /healthz`, which has no caller. The difference is admission, and the little more
/// that it takes to write out who the caller is; so it is an upper bound.
pub(crate) async fn measure(report: &mut Report) {
    let app = Arc::new(TestApp::new(Database::Sqlite).await);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let open = each(&app, "/healthz", None).await;
        let admitted = each(&app, "/v1/me", Some(&app.token)).await;
        app.catch_up().await;
        rounds.push((admitted - open, admitted, open));
    }
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (more, admitted, open) = rounds[ROUNDS / 2];
    report.ratio("GET /v1/me in process, against GET /healthz", admitted, open, "ns", "no bar");
    report.ratio("admission: the difference, against the limit", more, LIMIT_NS, "ns", "bar: at most 1");
}

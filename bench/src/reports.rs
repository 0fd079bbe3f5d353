//! Reports over ten million calls of history.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use portico_engine::clock::Stopwatch;
use portico_testkit::{Database, TestApp, TestRequest};

use crate::report::Report;

const CALLS: u32 = 10_000_000;
/// All of it lies within one month, whose reports are read, and within the 30 days of the log.
const HOURS: u32 = 27 * 24;
const TOKENS: usize = 18;
const CALLERS: usize = 4;
const READS: usize = 300;
const LIMIT_US: f64 = 10_000.0;
const PATHS: [&str; 4] =
    ["/v1/me", "/v1/lab/costs/check", "/v1/lab/costs/narration", "/v1/lab/costs/generation"];

/// Makes the calls of one hour.
async fn call(app: &Arc<TestApp>, tokens: &Arc<Vec<String>>) {
    let each = CALLS / HOURS / u32::try_from(CALLERS).unwrap();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (app, tokens) = (app.clone(), tokens.clone());
            tokio::spawn(async move {
                for number in 0..each as usize {
                    let token = &tokens[(number + caller) % TOKENS];
                    let request = Request::get(PATHS[number % PATHS.len()])
                        .header("host", "bench")
                        .header("authorization", format!("Bearer {token}"))
                        .body(Full::new(Bytes::new()))
                        .unwrap();
                    assert_eq!(app.gateway.handle(request).await.status(), 200);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

/// The p99 of reading `path`, in microseconds.
async fn p99(app: &TestApp, path: &str) -> f64 {
    let mut times = Vec::new();
    for _ in 0..READS {
        let watch = Stopwatch::start();
        app.send(TestRequest::new("GET", path).bearer(&app.token)).await.ok();
        times.push(watch.elapsed());
    }
    times.sort_unstable();
    times[READS * 99 / 100].as_secs_f64() * 1e6
}

pub(crate) async fn measure(report: &mut Report, database: Database) {
    let mut app = TestApp::new(database).await;
    let mut tokens = Vec::new();
    for _ in 0..TOKENS {
        let made = app.new_token(app.account, app.all_scopes(), 90).await;
        tokens.push(made["token"].as_str().unwrap().to_owned());
    }
    app.token.clone_from(&tokens[0]);
    // The clock of a test stands at the end of a month; from the first on, all of it lies in one.
    app.advance(Duration::from_hours(24)).await;
    let (app, tokens) = (Arc::new(app), Arc::new(tokens));
    let watch = Stopwatch::start();
    for _ in 0..HOURS {
        call(&app, &tokens).await;
        app.advance(Duration::from_hours(1)).await;
    }
    let made = CALLS / HOURS * HOURS;
    let rate = f64::from(made) / watch.elapsed().as_secs_f64();
    report.figure(&format!("{database:?}: {made} calls of history, made and counted in process"), rate, "/s");
    let org = format!("/v1/accounts/orgs/{}", app.account);
    for (what, path) in [
        ("units", "units"),
        ("usage", "usage"),
        ("series by day", "units/series"),
        ("series by key", "units/series?by=key"),
        ("series by operation", "units/series?by=rpc"),
        ("a page of requests", "requests"),
        ("a page of requests of one operation", "requests?rpc=identity.me.get&status=200"),
    ] {
        let p99 = p99(&app, &format!("{org}/{path}")).await;
        report.ratio(
            &format!("{database:?}: p99 of {what}, against the limit"),
            p99,
            LIMIT_US,
            "µs",
            "bar: at most 1",
        );
    }
}

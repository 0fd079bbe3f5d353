//! Key exchanges, beside what their signatures alone would cost.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use portico_engine::clock::Stopwatch;
use portico_testkit::{Database, TestApp};

use crate::report::Report;
use crate::writes::rate;

const CALLERS: u32 = 64;
const EXCHANGES_EACH: u32 = 1_500;
const SIGNATURES: u32 = 100_000;
const ROUNDS: usize = 5;
/// About what a token of ours has to sign.
const MESSAGE_BYTES: usize = 420;
const FORM: &str = "grant_type=client_credentials&audience=platform-api&scope=identity%3Aread";

/// Signatures a second, on as many threads as the exchanges have.
async fn signatures() -> f64 {
    let key = Arc::new(Ed25519KeyPair::generate().unwrap());
    rate(CALLERS, SIGNATURES, move |_| {
        let key = key.clone();
        async move {
            std::hint::black_box(key.sign(&[7; MESSAGE_BYTES]));
        }
    })
    .await
}

/// The requests of the account's ten keys, ready to be sent.
async fn requests(app: &TestApp) -> Vec<Request<Full<Bytes>>> {
    let mut requests = Vec::new();
    for _ in 0..10 {
        let key = app.new_key(app.account, app.all_scopes()).await;
        let pair =
            format!("{}:{}", key["client_id"].as_str().unwrap(), key["client_secret"].as_str().unwrap());
        let request = Request::post("/oauth2/token")
            .header("host", "bench")
            .header("authorization", format!("Basic {}", BASE64_STANDARD.encode(pair)))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Full::new(Bytes::from_static(FORM.as_bytes())));
        requests.push(request.unwrap());
    }
    requests
}

/// Exchanges a second by all callers together, and how long each took.
async fn exchanges(app: &Arc<TestApp>, requests: &Arc<Vec<Request<Full<Bytes>>>>) -> (f64, Vec<Duration>) {
    let watch = Stopwatch::start();
    let callers: Vec<_> = (0..CALLERS as usize)
        .map(|caller| {
            let (app, requests) = (app.clone(), requests.clone());
            tokio::spawn(async move {
                let mut times = Vec::with_capacity(EXCHANGES_EACH as usize);
                for _ in 0..EXCHANGES_EACH {
                    let request = requests[caller % requests.len()].clone();
                    let watch = Stopwatch::start();
                    assert_eq!(app.auth.handle(request).await.status(), 200);
                    times.push(watch.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for caller in callers {
        times.extend(caller.await.unwrap());
    }
    (f64::from(CALLERS * EXCHANGES_EACH) / watch.elapsed().as_secs_f64(), times)
}

pub(crate) async fn measure(report: &mut Report, database: Database) {
    let app = Arc::new(TestApp::new(database).await);
    let requests = Arc::new(requests(&app).await);
    exchanges(&app, &requests).await;
    // Each round measures both, one after the other; the round in the middle counts.
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let limit = signatures().await;
        let (rate, times) = exchanges(&app, &requests).await;
        rounds.push((rate / limit, rate, limit, times));
    }
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (_, rate, limit, times) = &mut rounds[ROUNDS / 2];
    let what = format!("{database:?}: key exchanges, {CALLERS} callers, against Ed25519 signatures alone");
    report.ratio(&what, *rate, *limit, "/s", "bar: 0.33");
    times.sort_unstable();
    let p99 = times[times.len() * 99 / 100].as_secs_f64() * 1e6;
    report.figure(&format!("{database:?}: key exchanges, p99 of those"), p99, "µs");
}

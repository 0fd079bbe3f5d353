//! Key exchanges, beside what their signatures alone would cost.

use std::sync::{Arc, Mutex};

use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portico_engine::clock::Stopwatch;
use portico_kernel::ScopeSet;
use portico_testkit::{Database, Sent, TestApp};

use crate::report::Report;
use crate::writes::rate;

const CALLERS: u32 = 64;
const EXCHANGES: u32 = 100_000;
const SIGNATURES: u32 = 100_000;
/// About what a token of ours has to sign.
const MESSAGE_BYTES: usize = 420;

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

pub(crate) async fn measure(report: &mut Report, database: Database) {
    let app = Arc::new(TestApp::new(database).await);
    let mut keys = Vec::new();
    for _ in 0..10 {
        let key = app.new_key(app.account, ScopeSet::all()).await;
        let pair =
            format!("{}:{}", key["client_id"].as_str().unwrap(), key["client_secret"].as_str().unwrap());
        keys.push(format!("Basic {}", BASE64_STANDARD.encode(pair)));
    }
    let (keys, times) = (Arc::new(keys), Arc::new(Mutex::new(Vec::with_capacity(EXCHANGES as usize))));
    let exchange = move |number: u32| {
        let (app, keys, times) = (app.clone(), keys.clone(), times.clone());
        async move {
            let watch = Stopwatch::start();
            let sent = Sent::new("POST", "/oauth2/token")
                .header("authorization", &keys[number as usize % keys.len()])
                .form("grant_type=client_credentials&audience=platform-api&scope=identity%3Aread");
            assert_eq!(app.send_auth(sent).await.status, 200);
            times.lock().unwrap().push(watch.elapsed());
            times
        }
    };
    let limit = signatures().await;
    let last = Arc::new(Mutex::new(None));
    let keep = last.clone();
    let rate = rate(CALLERS, EXCHANGES, move |number| {
        let (exchange, keep) = (exchange(number), keep.clone());
        async move {
            let times = exchange.await;
            keep.lock().unwrap().get_or_insert(times);
        }
    })
    .await;
    let what = format!("{database:?}: key exchanges, {CALLERS} callers, against Ed25519 signatures alone");
    report.ratio(&what, rate, limit, "/s", "bar: 0.33");
    let times = last.lock().unwrap().take().unwrap();
    let mut times = times.lock().unwrap().clone();
    times.sort_unstable();
    let p99 = times[times.len() * 99 / 100].as_secs_f64() * 1e6;
    report.figure(&format!("{database:?}: key exchanges, p99 of those"), p99, "µs");
}

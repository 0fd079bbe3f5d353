//! Programs that call while people sign in: passwords take a core for long, and must not take them all.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use portico_engine::clock::Stopwatch;
use portico_testkit::{Browser, Database, TestApp, TestRequest};

use crate::report::Report;

const CALLS: u32 = 20_000;
const CALLERS: u32 = 8;
const PEOPLE: usize = 16;
/// Each of them is so many in turn: what one person may do in a minute is not what is measured.
const TURNS: usize = 16;
const ROUNDS: usize = 31;
const PASSWORD: &str = "violet anchor 94 teapot";

/// The median of the p99 of many rounds: one round alone tells more about the machine.
pub(crate) async fn typical_p99(app: &Arc<TestApp>) -> f64 {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(calls_p99(app).await);
    }
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// The p99 of calls to the API, in microseconds.
async fn calls_p99(app: &Arc<TestApp>) -> f64 {
    let tasks: Vec<_> = (0..CALLERS)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                for _ in 0..CALLS / CALLERS {
                    let watch = Stopwatch::start();
                    assert_eq!(
                        app.send(TestRequest::new("GET", "/v1/me").bearer(&app.token)).await.status,
                        200
                    );
                    times.push(watch.elapsed());
                    // As a server between two requests of a connection.
                    tokio::task::yield_now().await;
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    times.sort_unstable();
    times[times.len() * 99 / 100].as_secs_f64() * 1e6
}

fn email(number: usize) -> String {
    format!("p{number}@example.com")
}

pub(crate) async fn measure(report: &mut Report) {
    let app = Arc::new(TestApp::new(Database::Sqlite).await);
    for number in 0..PEOPLE * TURNS {
        app.new_person(&email(number), Some(PASSWORD)).await;
    }
    let alone = typical_p99(&app).await;
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let flood: Vec<_> = (0..PEOPLE)
        .map(|number| {
            let (app, stop, done) = (app.clone(), stop.clone(), done.clone());
            tokio::spawn(async move {
                // Each time from another address, for the same reason.
                for count in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let offset = u32::try_from(number * 0x10_0000 + count).unwrap();
                    let address = Ipv4Addr::from(0x0a00_0000 + offset).to_string();
                    let mut browser = Browser::at(&app, &address);
                    let answer = browser.sign_in(&email(number * TURNS + count % TURNS), PASSWORD).await;
                    assert_eq!(answer.status, 303);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let watch = Stopwatch::start();
    let beside = typical_p99(&app).await;
    stop.store(true, Ordering::Relaxed);
    let rate = f64::from(done.load(Ordering::Relaxed)) / watch.elapsed().as_secs_f64();
    for task in flood {
        task.await.unwrap();
    }
    report.figure("sign-ins by password meanwhile", rate, "/s");
    let what = format!("p99 of calls while {PEOPLE} people sign in without end, against alone");
    report.ratio(&what, beside, alone, "µs", "bar: below 2");
}

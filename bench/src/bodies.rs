//! What a stranger's worst body costs: refusing it must be about as cheap as taking it in.

use std::fmt::Write as _;

use portico_engine::clock::Stopwatch;
use portico_testkit::{Database, TestApp, TestRequest};

use crate::report::Report;

/// The largest body that any operation takes as JSON.
const BODY_BYTES: usize = 2 << 20;
const ROUNDS: u32 = 20;
/// A byte of a refused body may cost so much, the answer included.
const LIMIT_NS: f64 = 10.0;

/// Fills a body with `piece`, between a beginning and an end.
fn filled(begin: &str, piece: &str, end: &str) -> String {
    let room = BODY_BYTES - begin.len() - end.len();
    format!("{begin}{}{end}", piece.repeat(room / piece.len()))
}

/// Bodies on which parsers spend more than on others.
fn bodies() -> [(&'static str, String); 12] {
    let (mut names, mut alike) = (String::new(), String::new());
    for number in 0..150_000 {
        let _ = write!(names, "\"{number}\":0,");
    }
    let same = "n".repeat(200);
    for number in 0..9_900 {
        let _ = write!(alike, "\"{same}{number}\":0,");
    }
    let tag = format!("\"{}\",", "\\\"".repeat(100));
    [
        ("small objects", filled("{\"name\":[", "{\"\":0},", "0]}")),
        ("empty lists", filled("{\"name\":[", "[],", "0]}")),
        ("numbers", filled("{\"name\":[", "1e9,", "0]}")),
        ("one long number", filled("{\"name\":", "9", "}")),
        ("escapes", filled("{\"name\":\"", "\\u00e9", "\"}")),
        ("unknown names", format!("{{{names}\"name\":\"a\"}}")),
        ("names that begin alike", format!("{{{alike}\"name\":\"a\"}}")),
        ("names that are escaped", filled("{\"", "\\u00e9", "\":0}")),
        ("as many values as there may be", format!("{{\"tags\":[{}0]}}", tag.repeat(9_900))),
        ("lists in lists", filled("{\"name\":[", &format!("{}{},", "[".repeat(60), "]".repeat(60)), "0]}")),
        ("one long name", filled("{\"", "n", "\":0}")),
        ("no end", filled("{\"name\":\"", "x", "")),
    ]
}

pub(crate) async fn measure(report: &mut Report) {
    let app = TestApp::new(Database::Sqlite).await;
    let mut worst = ("", 0.0);
    for (kind, body) in bodies() {
        let sent: Vec<_> = (0..ROUNDS)
            .map(|_| TestRequest::new("POST", &app.things()).bearer(&app.token).text(&body))
            .collect();
        let bytes = f64::from(u32::try_from(body.len()).unwrap_or(u32::MAX));
        let watch = Stopwatch::start();
        for request in sent {
            assert_eq!(app.send(request).await.status, 400, "{kind}");
        }
        let each = watch.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS) / bytes;
        if each > worst.1 {
            worst = (kind, each);
        }
    }
    let (kind, each) = worst;
    let what = format!("a byte of the worst refused body ({kind}), against the limit");
    report.ratio(&what, each, LIMIT_NS, "ns", "bar: at most 1");
}

//! Targets that are probed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use portico_upstream::{Failure, Timing, Upstream, UpstreamConfig};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::fixture::{Fake, GOOD, SOON, ask, config, read_request};

/// A target that answers probes with a status that the test sets, and tells it of each.
async fn probed(status: &Arc<AtomicU16>) -> (Fake, mpsc::UnboundedReceiver<String>) {
    let (sender, probes) = mpsc::unbounded_channel();
    let status = status.clone();
    let fake = Fake::start(move |mut stream, _| {
        let (sender, status) = (sender.clone(), status.clone());
        async move {
            while let Some(head) = read_request(&mut stream).await {
                if !head.starts_with("GET /healthz HTTP/1.1\r\n") {
                    stream.write_all(GOOD).await.unwrap();
                    continue;
                }
                sender.send(head).unwrap();
                match status.load(Ordering::SeqCst) {
                    0 => {
                        let _ = tokio::io::AsyncReadExt::read_u8(&mut stream).await;
                    }
                    status => {
                        let answer = format!("HTTP/1.1 {status} It\r\ncontent-length: 0\r\n\r\n");
                        let _ = stream.write_all(answer.as_bytes()).await;
                    }
                }
            }
        }
    })
    .await;
    (fake, probes)
}

/// Until a probe that began from here on is through.
async fn two(probes: &mut mpsc::UnboundedReceiver<String>) {
    while probes.try_recv().is_ok() {}
    for _ in 0..3 {
        timeout(SOON, probes.recv()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_target_that_fails_its_probe_is_left_out_until_it_passes_one() {
    let status = [Arc::new(AtomicU16::new(200)), Arc::new(AtomicU16::new(503))];
    let (first, mut first_probes) = probed(&status[0]).await;
    let (second, mut second_probes) = probed(&status[1]).await;
    let timing = Timing {
        probe_every: Duration::from_millis(20),
        probe: Duration::from_millis(100),
        ..Timing::default()
    };
    let config = config(&[first.target(), second.target()]);
    let upstream =
        Upstream::new(UpstreamConfig { health: Some("/healthz".to_owned()), timing, ..config }).unwrap();
    assert!(!upstream.is_ready(), "nothing is known yet");
    let (stop, stopping) = watch::channel(false);
    let watching = tokio::spawn(upstream.clone().watch(stopping));
    two(&mut first_probes).await;
    two(&mut second_probes).await;
    assert!(upstream.is_ready());
    let left_out = || upstream.figures().iter().map(|figures| figures.is_left_out).collect::<Vec<_>>();
    assert_eq!(left_out(), [false, true]);
    for _ in 0..6 {
        assert_eq!(ask(&upstream).await.unwrap().unwrap(), "good");
    }
    assert_eq!(upstream.figures()[0].classes[1], 6, "probes are not counted");

    // Silence is no answer either.
    status[0].store(0, Ordering::SeqCst);
    two(&mut first_probes).await;
    assert_eq!((left_out(), upstream.is_ready()), (vec![true, true], false));
    let failure = ask(&upstream).await.unwrap_err();
    assert!(matches!(failure, Failure::NoTarget { .. }), "{failure}");

    status[1].store(302, Ordering::SeqCst);
    two(&mut second_probes).await;
    assert_eq!((left_out(), upstream.is_ready()), (vec![true, false], true));
    assert_eq!(ask(&upstream).await.unwrap().unwrap(), "good");

    stop.send(true).unwrap();
    timeout(SOON, watching).await.unwrap().unwrap();
}

#[tokio::test]
async fn without_a_path_nobody_is_probed() {
    let (fake, mut probes) = probed(&Arc::new(AtomicU16::new(500))).await;
    let upstream = Upstream::new(config(&[fake.target()])).unwrap();
    let (stop, stopping) = watch::channel(false);
    let watching = tokio::spawn(upstream.clone().watch(stopping));
    assert!(upstream.is_ready());
    assert_eq!(ask(&upstream).await.unwrap().unwrap(), "good");
    // Nobody is left to stop it, which stops it as well.
    drop(stop);
    timeout(SOON, watching).await.unwrap().unwrap();
    assert!(probes.try_recv().is_err());
}

#[tokio::test]
async fn what_is_known_of_a_target_outlives_a_new_description() {
    let status = Arc::new(AtomicU16::new(200));
    let (fake, mut probes) = probed(&status).await;
    let timing = Timing { probe_every: Duration::from_millis(20), ..Timing::default() };
    let described = |health: Option<&str>| UpstreamConfig {
        health: health.map(str::to_owned),
        timing,
        ..config(&[fake.target()])
    };
    let first = Upstream::new(described(Some("/healthz"))).unwrap();
    let (stop, stopping) = watch::channel(false);
    let watching = tokio::spawn(first.clone().watch(stopping));
    two(&mut probes).await;
    assert!(first.is_ready());
    assert_eq!(ask(&first).await.unwrap().unwrap(), "good");

    let second = first.succeeding(described(Some("/healthz"))).unwrap();
    assert!(second.is_ready(), "it need not be probed anew");
    assert_eq!(ask(&second).await.unwrap().unwrap(), "good");
    assert_eq!(second.figures()[0].classes[1], 2);

    status.store(500, Ordering::SeqCst);
    two(&mut probes).await;
    stop.send(true).unwrap();
    timeout(SOON, watching).await.unwrap().unwrap();
    assert!(!second.is_ready());
    let third = second.succeeding(described(None)).unwrap();
    assert!(third.is_ready() && !third.figures()[0].is_left_out, "nobody probes it any more");
    assert_eq!(ask(&third).await.unwrap().unwrap(), "good");
}

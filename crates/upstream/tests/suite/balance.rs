//! Which target is asked.

use std::collections::HashMap;

use portico_upstream::{Failure, Target, TargetError, Upstream, UpstreamError};
use tokio::io::AsyncReadExt;

use crate::fixture::{Fake, GOOD, ask, config, get, read_request, upstream};

/// A target whose answers go on for good.
async fn endless() -> Fake {
    Fake::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let _ = stream.read_u8().await;
    })
    .await
}

#[tokio::test]
async fn the_target_with_the_fewest_calls_is_asked_and_equals_have_turns() {
    let fakes = [endless().await, endless().await, endless().await];
    let targets = fakes.each_ref().map(Fake::target);
    let upstream = upstream(&targets);
    let mut answers = Vec::new();
    for _ in 0..9 {
        answers.push(upstream.send(get()).await.unwrap());
    }
    let mut by_target = HashMap::new();
    for answer in &answers {
        *by_target.entry(answer.target.clone()).or_insert(0) += 1;
    }
    assert_eq!(by_target, targets.iter().map(|target| (target.name().clone(), 3)).collect());
    // Two calls of the second have ended, so it has room for two more.
    for _ in 0..2 {
        let at = answers.iter().position(|answer| &answer.target == targets[1].name()).unwrap();
        answers.remove(at);
    }
    let figures = upstream.figures();
    assert_eq!(figures.iter().map(|figures| figures.in_flight).collect::<Vec<_>>(), [3, 1, 3]);
    for _ in 0..2 {
        answers.push(upstream.send(get()).await.unwrap());
        assert_eq!(&answers.last().unwrap().target, targets[1].name());
    }
}

#[tokio::test]
async fn idle_targets_have_turns() {
    let fakes = [Fake::keeping(GOOD).await, Fake::keeping(GOOD).await];
    let upstream = upstream(&fakes.each_ref().map(Fake::target));
    for _ in 0..10 {
        ask(&upstream).await.unwrap().unwrap();
    }
    assert_eq!(upstream.figures().iter().map(|figures| figures.classes[1]).collect::<Vec<_>>(), [5, 5]);
}

#[tokio::test]
async fn a_service_that_cannot_be_reached_as_described_is_refused() {
    let target = Target::parse("http://a").unwrap();
    let error = |config| Upstream::new(config).err();
    assert_eq!(error(config(&[])), Some(UpstreamError::NoTarget));
    let twice = [target.clone(), Target::parse("http://b").unwrap(), Target::parse("http://A:80/").unwrap()];
    assert_eq!(error(config(&twice)), Some(UpstreamError::Twice(target.name().clone())));
    for path in ["healthz", "", "http://a/healthz", "/a b", "/a#b"] {
        let mut config = config(std::slice::from_ref(&target));
        config.health = Some(path.to_owned());
        assert_eq!(error(config), Some(UpstreamError::HealthPath), "{path:?}");
    }
    assert_eq!(Target::parse("tcp://a").unwrap_err(), TargetError::Scheme);
}

#[tokio::test]
async fn a_connect_is_not_forwarded() {
    let fake = Fake::keeping(GOOD).await;
    let request = crate::fixture::with_method(http::Method::CONNECT);
    let failure = upstream(&[fake.target()]).send(request).await.unwrap_err();
    assert!(matches!(failure, Failure::RequestBroke { .. }), "{failure}");
    assert_eq!(fake.connections(), 0);
}

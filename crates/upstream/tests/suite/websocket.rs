//! A request that becomes a WebSocket.

use http::Request;
use portico_upstream::{Failure, Upgrade, splice};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::sync::mpsc;

use crate::fixture::{Fake, GOOD, counted, read_request, upstream, whole};

const SWITCHES: &str =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nconnection: upgrade\r\nx: y\r\n\r\n";

fn request() -> Request<()> {
    Request::get("/v1/feed").header("sec-websocket-key", "a key").body(()).unwrap()
}

#[tokio::test]
async fn both_sides_speak_until_both_have_ended() {
    let (sender, mut heads) = mpsc::unbounded_channel();
    let fake = Fake::start(move |mut stream, _| {
        let sender = sender.clone();
        async move {
            sender.send(read_request(&mut stream).await.unwrap()).unwrap();
            // The first bytes come with the head.
            stream.write_all(format!("{SWITCHES}first").as_bytes()).await.unwrap();
            let mut all = String::new();
            stream.read_to_string(&mut all).await.unwrap();
            // The caller has ended, and still hears this.
            stream.write_all(format!(" and {all}").as_bytes()).await.unwrap();
        }
    })
    .await;
    let upstream = upstream(&[fake.target()]);
    let Upgrade::Switched { response, mut io, target } = upstream.upgrade(request()).await.unwrap() else {
        panic!("it is refused");
    };
    assert_eq!((response.status(), &target), (101.try_into().unwrap(), fake.target().name()));
    assert_eq!(response.headers()["x"], "y");
    let head = heads.recv().await.unwrap();
    assert!(
        head.contains("\r\nsec-websocket-key: a key\r\nconnection: upgrade\r\nupgrade: websocket\r\n"),
        "{head}"
    );
    assert_eq!(counted(&upstream), ([1, 0, 0, 0, 0, 0], 1));

    let (mut caller, mut ours) = duplex(64);
    let splicing = tokio::spawn(async move { splice(&mut ours, &mut io).await });
    caller.write_all(b"a word").await.unwrap();
    caller.shutdown().await.unwrap();
    let mut all = String::new();
    caller.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "first and a word");
    assert_eq!(splicing.await.unwrap().unwrap(), (6, 16));
    assert_eq!(counted(&upstream).1, 0);
}

#[tokio::test]
async fn a_target_may_refuse() {
    let fake = Fake::saying("HTTP/1.1 403 No\r\ncontent-length: 2\r\n\r\nno").await;
    let Upgrade::Refused(answer) = upstream(&[fake.target()]).upgrade(request()).await.unwrap() else {
        panic!("it is not refused");
    };
    assert_eq!(answer.response.status(), 403);
    assert_eq!(whole(answer).await.unwrap(), "no");
}

#[tokio::test]
async fn another_protocol_is_none() {
    for answer in [
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ] {
        let fake = Fake::saying(answer).await;
        let failure = upstream(&[fake.target()]).upgrade(request()).await.unwrap_err();
        assert!(matches!(failure, Failure::BrokenHead { .. }), "{failure}");
    }
}

#[tokio::test]
async fn another_target_is_asked_as_for_any_get() {
    let good = Fake::saying(SWITCHES).await;
    let upstream = upstream(&[Fake::dead().await, good.target()]);
    assert!(matches!(upstream.upgrade(request()).await.unwrap(), Upgrade::Switched { .. }));
}

#[tokio::test]
async fn dropping_it_closes_the_connection() {
    let (sender, mut ended) = mpsc::unbounded_channel();
    let fake = Fake::start(move |mut stream, _| {
        let sender = sender.clone();
        async move {
            read_request(&mut stream).await;
            stream.write_all(SWITCHES.as_bytes()).await.unwrap();
            stream.read_u8().await.unwrap_err();
            sender.send(()).unwrap();
            let _ = stream.write_all(GOOD).await;
        }
    })
    .await;
    let upgrade = upstream(&[fake.target()]).upgrade(request()).await.unwrap();
    drop(upgrade);
    ended.recv().await.unwrap();
}

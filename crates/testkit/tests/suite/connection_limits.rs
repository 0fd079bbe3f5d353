//! What one stranger can do to everybody's connections.

use std::io::ErrorKind::WouldBlock;

use portico::Environment;
use portico_gateway::ConnectionSettings;
use portico_testkit::{Database, MqttClient, SocketClient, TestApp, TestAppOptions, TestServer, soon, until};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A server with room for `total` connections, of which one address may have `per_network`.
async fn served(total: usize, per_network: usize) -> TestServer {
    let connections = ConnectionSettings { total, per_network, ..ConnectionSettings::default() };
    let environment = Environment { connections, ..Environment::default() };
    let options = TestAppOptions { environment, ..TestAppOptions::default() };
    TestServer::new(TestApp::with(Database::Sqlite, options).await).await
}

/// Waits until the server has closed the connection.
async fn closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    // It may be reset instead, if bytes of the client's were still on their way.
    let _ = soon("the end of the connection", stream.read_to_end(&mut rest)).await;
}

/// Is a request on a new connection answered?
async fn is_served(served: &TestServer) -> bool {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let mut begin = [0; 12];
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.is_ok()
        && soon("an answer", stream.read_exact(&mut begin)).await.is_ok()
        && &begin == b"HTTP/1.1 200"
}

async fn silent(served: &TestServer, count: usize) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(TcpStream::connect(served.address).await.unwrap());
    }
    streams
}

#[tokio::test]
async fn silent_connections_shut_nobody_out() {
    let served = served(20, 20).await;
    let mut silent = silent(&served, 60).await;
    let mut socket = served.ready_socket().await;
    for stream in silent.drain(..40) {
        closed(stream).await;
    }
    assert_eq!(socket.call("identity.me.get", json!({})).await["result"]["kind"], "client");
}

/// Opens a connection whose request begins, and whose body never comes.
async fn endless_body(served: &TestServer) -> TcpStream {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let inbox = "/v1/webhooks/inboxes/inb_00000000000000000000000000/receive";
    let head =
        format!("POST {inbox} HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut begin = [0; 12];
    soon("that the body is waited for", stream.read_exact(&mut begin)).await.unwrap();
    assert_eq!(&begin, b"HTTP/1.1 100");
    stream
}

#[tokio::test]
async fn a_request_that_never_ends_is_worth_no_more_than_silence() {
    let served = served(20, 20).await;
    let mut slow = Vec::new();
    for _ in 0..20 {
        slow.push(endless_body(&served).await);
    }
    let mut honest = TcpStream::connect(served.address).await.unwrap();
    slow.push(endless_body(&served).await);
    for stream in slow.drain(..2) {
        closed(stream).await;
    }
    honest.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut begin = [0; 12];
    soon("an answer", honest.read_exact(&mut begin)).await.unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
}

#[tokio::test]
async fn a_client_that_authenticated_stays_while_strangers_come() {
    let served = served(20, 20).await;
    let mut sockets = Vec::new();
    for _ in 0..5 {
        sockets.push(served.ready_socket().await);
    }
    let first = TcpStream::connect(served.address).await.unwrap();
    let others = silent(&served, 60).await;
    closed(first).await;
    for socket in &mut sockets {
        assert_eq!(socket.call("identity.me.get", json!({})).await["result"]["kind"], "client");
    }
    drop(others);
}

#[tokio::test]
async fn sockets_that_wait_for_a_token_make_room_for_the_next() {
    let served = served(20, 20).await;
    let mut waiting = Vec::new();
    for _ in 0..40 {
        waiting.push(SocketClient::open(served.address, None, Some("platform.v1")).await.unwrap());
    }
    let mut socket = served.ready_socket().await;
    assert_eq!(socket.call("identity.me.get", json!({})).await["result"]["kind"], "client");
}

#[tokio::test]
async fn an_mqtt_client_gets_in_beside_silent_ones() {
    let served = served(20, 20).await;
    let mut silent = Vec::new();
    for _ in 0..60 {
        silent.push(TcpStream::connect(served.mqtt).await.unwrap());
    }
    assert!(is_served(&served).await, "the listeners share the limit");
    let client = MqttClient::open(served.mqtt, 5, "a", &served.app.token, 2, &[]).await.unwrap();
    for stream in silent.drain(..40) {
        closed(stream).await;
    }
    drop(client);
}

#[tokio::test]
async fn one_address_does_not_get_everything() {
    let served = served(100, 5).await;
    let mut sockets = Vec::new();
    for _ in 0..5 {
        sockets.push(served.ready_socket().await);
    }
    let sixth = TcpStream::connect(served.address).await.unwrap();
    closed(sixth).await;
    drop(sockets.pop());
    until("room for the next", async || is_served(&served).await).await;
}

/// How many bytes the system holds of what the server has sent to that client.
#[cfg(target_os = "linux")]
fn held(served: &TestServer, client: &TcpStream) -> u64 {
    let port = |address: std::net::SocketAddr| format!(":{:04X}", address.port());
    let (ours, theirs) = (port(served.address), port(client.local_addr().unwrap()));
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut row = rows.filter(|row| row[1].ends_with(&ours) && row[2].ends_with(&theirs));
    u64::from_str_radix(row.next().unwrap()[4].split(':').next().unwrap(), 16).unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_system_holds_little_for_a_client_that_reads_nothing() {
    let served = served(20, 20).await;
    let mut client = TcpStream::connect(served.address).await.unwrap();
    client.write_all(&b"GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n".repeat(64)).await.unwrap();
    until("something waits", async || held(&served, &client) > 64 << 10).await;
    // That gives the server time to send more.
    for _ in 0..20 {
        assert!(is_served(&served).await);
    }
    assert!(held(&served, &client) < 512 << 10, "{}", held(&served, &client));
}

#[tokio::test]
async fn an_account_with_too_many_connections_ends_an_idle_one_of_its_own() {
    let connections = ConnectionSettings { per_account: 3, ..ConnectionSettings::default() };
    let environment = Environment { connections, ..Environment::default() };
    let options = TestAppOptions { environment, ..TestAppOptions::default() };
    let served = TestServer::new(TestApp::with(Database::Sqlite, options).await).await;
    let called = async |token: &str| {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let request = format!("GET /v1/me HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            assert!(soon("an answer", stream.read_buf(&mut answer)).await.unwrap() > 0);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"));
        stream
    };
    let account = served.app.new_account("Other").await;
    let other = served.app.token_with(account, ["identity:read"].into_iter().collect()).await;
    let honest = called(&other).await;
    let mut greedy = Vec::new();
    for _ in 0..5 {
        greedy.push(called(&served.app.token).await);
    }
    for stream in greedy.drain(..2) {
        closed(stream).await;
    }
    let is_open =
        |stream: &TcpStream| stream.try_read(&mut [0]).is_err_and(|error| error.kind() == WouldBlock);
    assert!(is_open(&honest) && greedy.iter().all(is_open));
}

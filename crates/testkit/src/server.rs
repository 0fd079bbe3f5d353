//! The platform on a port of its own, and clients that stay connected to it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use futures_util::{SinkExt, StreamExt};
use jsonschema::Validator;
use portico_gateway::asyncapi;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::{Answer, TestApp, TestRequest, soon};

/// The gateway of `app` on a port of its own.
pub struct TestServer {
    /// The platform.
    pub app: Arc<TestApp>,
    /// Where the API is.
    pub address: SocketAddr,
    /// Where MQTT is.
    pub mqtt: SocketAddr,
    /// Tells the listeners to stop.
    pub stop: watch::Sender<bool>,
    /// The listener.
    pub server: JoinHandle<()>,
}

impl TestServer {
    /// Serves the app.
    pub async fn new(app: TestApp) -> Self {
        let app = Arc::new(app);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let (gateway, engine) = (app.gateway.clone(), app.app.engine.clone());
        let of_mqtt = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mqtt = of_mqtt.local_addr().unwrap();
        tokio::spawn(portico_gateway::serve_mqtt(of_mqtt, gateway.clone(), None, stopped.clone()));
        let limits = app.app.connections.limits.clone();
        let server = tokio::spawn(portico_gateway::serve(listener, gateway, engine, None, limits, stopped));
        Self { app, address, mqtt, stop, server }
    }

    /// Makes a thing of that id, and with it the event that tells of it.
    pub async fn make(&self, id: &str) {
        self.make_with(&self.app.token, id).await;
    }

    /// The same, with another token of the account.
    pub async fn make_with(&self, token: &str, id: &str) {
        let thing = json!({ "id": id, "name": "a" });
        self.app.send(TestRequest::new("POST", &self.app.things()).bearer(token).json(&thing)).await.ok();
    }

    /// Opens a stream of server-sent events with the account's token.
    pub async fn stream(&self, query: &str, last_event_id: Option<&str>) -> Result<SseClient, Answer> {
        SseClient::open(self.address, &self.app.token, query, last_event_id).await
    }

    /// Opens a socket with that token.
    pub async fn socket(&self, token: &str) -> Result<SocketClient, Answer> {
        SocketClient::open(self.address, Some(token), Some("platform.v1")).await
    }

    /// A socket of the account that is ready.
    pub async fn ready_socket(&self) -> SocketClient {
        let mut socket = self.socket(&self.app.token).await.unwrap();
        assert_eq!(socket.receive().await["type"], "ready");
        socket
    }
}

/// A block of server-sent events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    /// The `id` field.
    pub id: String,
    /// The `event` field.
    pub event: String,
    /// The `data` field.
    pub data: String,
    /// The `retry` field.
    pub retry: String,
    /// Comments.
    pub comments: usize,
}

impl Block {
    fn read(text: &str) -> Self {
        let mut block = Self::default();
        for line in text.trim_end().lines() {
            match line.split_once(':') {
                Some(("", _)) => block.comments += 1,
                Some((name, value)) => {
                    let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
                    match name {
                        "id" => block.id = value,
                        "event" => block.event = value,
                        "data" => block.data = value,
                        "retry" => block.retry = value,
                        other => panic!("a field {other}"),
                    }
                }
                None => panic!("a line {line}"),
            }
        }
        block
    }

    /// The data as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

/// A client of server-sent events.
pub struct SseClient {
    stream: TcpStream,
    raw: Vec<u8>,
    text: String,
    blocks: VecDeque<Block>,
    over: bool,
    /// The first block.
    pub first: Block,
    /// The head of the answer.
    pub head: String,
}

impl SseClient {
    /// Opens a stream and reads its first block; an answer that is no stream is given back.
    pub async fn open(
        address: SocketAddr,
        token: &str,
        query: &str,
        last_event_id: Option<&str>,
    ) -> Result<Self, Answer> {
        let last = last_event_id.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let request = format!(
            "GET /v1/events/stream{query} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n{last}\r\n"
        );
        Self::ask(address, &request).await
    }

    /// Sends a request and reads the first block of its answer; an answer that is no stream is given back.
    pub async fn ask(address: SocketAddr, request: &str) -> Result<Self, Answer> {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut raw = Vec::new();
        let end = loop {
            if let Some(end) = raw.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            assert!(soon("a head", stream.read_buf(&mut raw)).await.unwrap() > 0, "a head");
        };
        let head = String::from_utf8(raw[..end].to_vec()).unwrap();
        if !head.starts_with("HTTP/1.1 200") || !head.contains("text/event-stream") {
            while Answer::from_wire(&raw).is_none() {
                assert!(soon("a body", stream.read_buf(&mut raw)).await.unwrap() > 0, "a body");
            }
            return Err(Answer::from_wire(&raw).unwrap());
        }
        let raw = raw[end + 4..].to_vec();
        let (blocks, first) = (VecDeque::new(), Block::default());
        let mut client = Self { stream, raw, text: String::new(), blocks, over: false, first, head };
        client.first = client.next().await.unwrap();
        Ok(client)
    }

    /// The next block of any kind; nothing at the end.
    pub async fn next(&mut self) -> Option<Block> {
        loop {
            self.take_chunks();
            if let Some(block) = self.blocks.pop_front() {
                return Some(block);
            }
            if self.over || soon("a block", self.stream.read_buf(&mut self.raw)).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// Makes blocks of the chunks that have come.
    fn take_chunks(&mut self) {
        while let Some(end) = self.raw.windows(2).position(|window| window == b"\r\n") {
            let size = usize::from_str_radix(str::from_utf8(&self.raw[..end]).unwrap(), 16).unwrap();
            if self.raw.len() < end + 2 + size + 2 {
                return;
            }
            self.text.push_str(str::from_utf8(&self.raw[end + 2..end + 2 + size]).unwrap());
            self.raw.drain(..end + 2 + size + 2);
            self.over |= size == 0;
        }
        while let Some(end) = self.text.find("\n\n") {
            let rest = self.text.split_off(end + 2);
            self.blocks.push_back(Block::read(&std::mem::replace(&mut self.text, rest)));
        }
    }

    /// The next event.
    pub async fn event(&mut self) -> Block {
        loop {
            let block = self.next().await.expect("an event");
            if !block.data.is_empty() {
                return block;
            }
        }
    }

    /// The next so many things that are told of.
    pub async fn things(&mut self, count: usize) -> Vec<String> {
        let mut things = Vec::new();
        while things.len() < count {
            things.extend(thing(&self.event().await.json()));
        }
        things
    }
}

/// The thing that an event tells of, if it does.
pub fn thing(envelope: &Value) -> Option<String> {
    let made = envelope["type"] == "lab.thing.created";
    made.then(|| envelope["data"]["thing_id"].as_str().unwrap().to_owned())
}

/// A client of the socket. Every frame that it sees or sends is held against `/frames.json`.
pub struct SocketClient {
    /// The socket.
    pub ws: WebSocketStream<TcpStream>,
    /// How many pings came.
    pub pings: usize,
}

fn validator(side: &str) -> Validator {
    let mut schema = asyncapi::frames();
    schema["anyOf"] = json!([{ "$ref": format!("#/$defs/{side}") }]);
    jsonschema::validator_for(&schema).unwrap()
}

static CLIENT_FRAMES: LazyLock<Validator> = LazyLock::new(|| validator("ClientFrame"));
static SERVER_FRAMES: LazyLock<Validator> = LazyLock::new(|| validator("ServerFrame"));

fn check(frame: &Value, validator: &Validator) {
    let faults: Vec<_> = validator.iter_errors(frame).map(|error| error.to_string()).collect();
    assert!(faults.is_empty(), "{faults:?} in {frame}");
}

impl SocketClient {
    /// Opens a socket; an answer that is no upgrade is given back.
    pub async fn open(
        address: SocketAddr,
        token: Option<&str>,
        subprotocol: Option<&str>,
    ) -> Result<Self, Answer> {
        let mut request = format!("ws://{address}/v1/socket").into_client_request().unwrap();
        if let Some(token) = token {
            request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        if let Some(subprotocol) = subprotocol {
            request.headers_mut().insert("sec-websocket-protocol", subprotocol.parse().unwrap());
        }
        let stream = TcpStream::connect(address).await.unwrap();
        match soon("an answer", client_async(request, stream)).await {
            Ok((ws, _)) => Ok(Self { ws, pings: 0 }),
            Err(Error::Http(response)) => {
                let (parts, body) = response.into_parts();
                let body = body.unwrap_or_default().into();
                Err(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends a frame that a client may send.
    pub async fn send(&mut self, frame: Value) {
        check(&frame, &CLIENT_FRAMES);
        self.send_text(&frame.to_string()).await;
    }

    /// Sends any text.
    pub async fn send_text(&mut self, text: &str) {
        self.ws.send(Message::text(text)).await.unwrap();
    }

    /// The next frame, or the code that the server closed with.
    pub async fn receive_or_close(&mut self) -> Result<Value, u16> {
        loop {
            match soon("a frame", self.ws.next()).await {
                Some(Ok(Message::Text(text))) => {
                    let frame = serde_json::from_str(&text).unwrap();
                    check(&frame, &SERVER_FRAMES);
                    return Ok(frame);
                }
                Some(Ok(Message::Ping(_))) => self.pings += 1,
                Some(Ok(Message::Close(Some(close)))) => return Err(close.code.into()),
                Some(Ok(Message::Pong(_))) => {}
                None | Some(Err(_) | Ok(Message::Close(None))) => return Err(0),
                other => panic!("{other:?}"),
            }
        }
    }

    /// The next frame.
    pub async fn receive(&mut self) -> Value {
        self.receive_or_close().await.unwrap()
    }

    /// The next frame that has this id.
    pub async fn answer(&mut self, id: &str) -> Value {
        loop {
            let frame = self.receive().await;
            if frame["id"] == id {
                return frame;
            }
        }
    }

    /// Calls an operation.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({ "type": "call", "id": "call", "method": method, "params": params })).await;
        self.answer("call").await
    }

    /// Subscribes, and returns the cursor.
    pub async fn subscribe(&mut self, types: &[&str], after: Option<&str>) -> String {
        self.send(json!({ "type": "subscribe", "id": "s", "types": types, "after": after })).await;
        self.answer("s").await["result"]["cursor"].as_str().unwrap().to_owned()
    }

    /// The next so many things that are told of.
    pub async fn things(&mut self, count: usize) -> Vec<String> {
        let mut things = Vec::new();
        while things.len() < count {
            things.extend(thing(&self.receive().await["event"]));
        }
        things
    }

    /// Reads until the server closes; returns the frames before and the code.
    pub async fn closed(&mut self) -> (Vec<Value>, u16) {
        let mut frames = Vec::new();
        loop {
            match self.receive_or_close().await {
                Ok(frame) => frames.push(frame),
                Err(code) => return (frames, code),
            }
        }
    }
}

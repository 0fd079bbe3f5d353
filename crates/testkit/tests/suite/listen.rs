//! `portico listen`, with a test in the place of the API: it plays the stream, cuts it and refuses.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ExitStatus, Stdio};

use portico_testkit::{Database, Receiver, ReceiverReply, TestDatabase, soon};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::program::command;
use crate::webhooks::verifies;

const HOOK: &str = "/hook";
/// As the server begins every stream, but for a wait that suits a test.
const GREETING: &str = "retry: 20\nid: 1-0\n\n";

/// Waits for calls in the place of the API.
struct Api {
    listener: TcpListener,
}

impl Api {
    async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    /// The next call.
    async fn call(&self) -> Call {
        let (mut stream, _) = soon("a call", self.listener.accept()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        Call { head: String::from_utf8(head).unwrap(), stream }
    }

    /// The next call, answered with a stream that has said `text`.
    async fn stream(&self, text: &str) -> Call {
        let mut call = self.call().await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        call.stream.write_all(head.as_bytes()).await.unwrap();
        call.say(text).await;
        call
    }
}

/// A call. To drop it is to cut the connection.
struct Call {
    head: String,
    stream: TcpStream,
}

impl Call {
    fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    async fn say(&mut self, text: &str) {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.stream.write_all(chunk.as_bytes()).await.unwrap();
    }

    /// Ends the stream in order, as a server does that stops.
    async fn end(mut self) {
        self.say("").await;
    }

    async fn refuse(mut self, status: &str, body: &str) {
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
        self.stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

/// `portico listen` as a process.
struct Program {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
    _database: TestDatabase,
}

impl Program {
    async fn start(api: &Api, words: &[&str]) -> Self {
        let database = TestDatabase::create(Database::Sqlite).await;
        let mut child = command(&database)
            .env("PORTICO_TOKEN", "token-of-a-test")
            .args(["listen", "--url", &api.url()])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::unbounded_channel();
        let out = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines() {
                // The test has heard enough.
                let _ = sender.send(line.unwrap());
            }
        });
        Self { child, lines, _database: database }
    }

    async fn line(&mut self) -> String {
        soon("a line", self.lines.recv()).await.unwrap()
    }

    /// The next line that holds `part`.
    async fn line_with(&mut self, part: &str) -> String {
        loop {
            let line = self.line().await;
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Sends it a signal.
    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Waits for its end: how it ended, the last lines, and what it complained of.
    async fn end(mut self) -> (ExitStatus, Vec<String>, String) {
        let mut last = Vec::new();
        while let Some(line) = soon("a line", self.lines.recv()).await {
            last.push(line);
        }
        let mut error = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        (self.child.wait().unwrap(), last, error)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn envelope(id: &str) -> String {
    // Spaces and an order that nobody would write again: the bytes must stay as they are.
    format!(r#"{{"type": "token.created",  "id":"{id}", "data": {{"name":"ü\u00fc"}}}}"#)
}

fn event(cursor: &str, id: &str) -> String {
    format!("id: {cursor}\nevent: token.created\ndata: {}\n\n", envelope(id))
}

#[tokio::test]
async fn events_are_shown_and_forwarded_signed() {
    let (api, receiver) = (Api::start().await, Receiver::start().await);
    let forward = receiver.url(HOOK);
    let mut program =
        Program::start(&api, &["--forward", &forward, "--types", "token.created, token.revoked"]).await;
    assert!(program.line().await.contains(&api.url()));
    let introduced = program.line().await;
    let secret = introduced.split_whitespace().find(|word| word.starts_with("whsec_")).unwrap().to_owned();
    assert!(introduced.contains(&forward), "{introduced}");
    let mut call = api.stream(GREETING).await;
    assert!(
        call.head.starts_with("GET /v1/events/stream?types=token.created&types=token.revoked HTTP/1.1\r\n")
    );
    assert_eq!(call.header("authorization"), Some("Bearer token-of-a-test"));
    assert_eq!((call.header("accept"), call.header("last-event-id")), (Some("text/event-stream"), None));
    program.line_with("connected").await;

    call.say(&event("1-1", "evt_1")).await;
    let line = program.line().await;
    assert!(line.contains("  token.created  ") && line.contains("  evt_1  -> 200 in "), "{line}");
    assert_eq!((&line[2..3], &line[5..6], &line[8..10]), (":", ":", "  "), "{line}");
    let came = &receiver.received(HOOK)[0];
    assert!(verifies(&secret, came));
    assert_eq!(came.body, envelope("evt_1"));
    assert_eq!((came.method.as_str(), came.header("webhook-id")), ("POST", "evt_1"));
    assert_eq!(came.header("content-type"), "application/json");

    receiver.answer(HOOK, ReceiverReply::Status(500));
    call.say(&event("1-2", "evt_2")).await;
    assert!(program.line().await.contains("evt_2  -> 500 in "));
    receiver.answer(HOOK, ReceiverReply::With(302, "location", receiver.url("/other")));
    call.say(&event("1-3", "evt_3")).await;
    assert!(program.line().await.contains("-> 302 in "));
    assert!(receiver.received("/other").is_empty());
    call.say("data: {}\n\n").await;
    assert!(program.line().await.contains("cannot be read"));

    program.signal("-INT");
    let (status, last, error) = program.end().await;
    assert_eq!((status.code(), error.as_str()), (Some(0), ""));
    assert_eq!(last, ["Stopped after 3 events: 1 taken, 2 refused, 0 unanswered."]);
    assert_eq!(receiver.received(HOOK).len(), 3, "nothing is sent twice");
}

#[tokio::test]
async fn a_receiver_that_is_not_there_does_not_end_it() {
    let api = Api::start().await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let forward = format!("http://{}/", gone.local_addr().unwrap());
    drop(gone);
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let mut program = Program::start(&api, &["--forward", &forward, "--secret", secret]).await;
    let mut call = api.stream(GREETING).await;
    program.line().await;
    assert!(!program.line().await.contains("whsec_"), "whoever gave it knows it");
    for id in ["evt_1", "evt_2"] {
        call.say(&event("1-1", id)).await;
        let line = program.line_with(id).await;
        assert!(line.ends_with("-> no answer: the address cannot be reached"), "{line}");
    }
    program.signal("-TERM");
    let (status, last, _) = program.end().await;
    assert_eq!(status.code(), Some(0));
    assert_eq!(last, ["Stopped after 2 events: 0 taken, 0 refused, 2 unanswered."]);
}

#[tokio::test]
async fn types_that_name_nothing_end_it() {
    let api = Api::start().await;
    for types in ["", " , "] {
        let program = Program::start(&api, &["--types", types]).await;
        let (status, _, error) = program.end().await;
        assert!(!status.success() && error.contains("--types"), "{types:?}: {error}");
    }
    let program = Program::start(&api, &["--types", "no.such"]).await;
    let detail = json!({ "type": "field", "field": "types[0]", "description": "is no event type" });
    let problem = json!({ "code": "bad_request", "error": "No.", "details": [detail] });
    api.call().await.refuse("400 Bad Request", &problem.to_string()).await;
    let (status, _, error) = program.end().await;
    assert!(!status.success() && error.contains("types[0]: is no event type"), "{error}");
}

#[tokio::test]
async fn a_cut_stream_goes_on_where_it_was() {
    let api = Api::start().await;
    let mut program = Program::start(&api, &[]).await;
    // Before anything has come but the greeting.
    drop(api.stream(GREETING).await);
    assert!(program.line_with("trying again").await.contains("the stream was cut"));
    let call = api.stream(&event("1-4", "evt_4")).await;
    assert_eq!(call.header("last-event-id"), Some("1-0"));
    let line = program.line_with("evt_4").await;
    assert!(line.ends_with("evt_4"), "without a receiver it only shows: {line}");
    drop(call);
    // In the middle of an event, which is none then.
    let mut call = api.stream("id: 1-9\ndata: {\"id\"").await;
    assert_eq!(call.header("last-event-id"), Some("1-4"));
    call.stream.shutdown().await.unwrap();
    drop(call);
    // While the server is away for a moment.
    let call = api.call().await;
    assert_eq!(call.header("last-event-id"), Some("1-4"));
    let problem = json!({ "code": "unavailable", "error": "Not now.", "details": [] });
    call.refuse("503 Service Unavailable", &problem.to_string()).await;
    assert!(program.line_with("503").await.contains("Not now.; trying again in "));
    let mut call = api.stream(": hello\n\n").await;
    assert_eq!(call.header("last-event-id"), Some("1-4"));
    call.say("event: resync\ndata: {\"recovered\":false,\"oldest\":\"1-5\"}\n\n").await;
    assert!(program.line_with("resync").await.contains("lost"));
    call.say(&format!("id: 1-6\nevent: error\ndata: {problem}\n\n")).await;
    assert!(program.line_with("error").await.ends_with("error: Not now."));
    call.end().await;
    assert!(program.line_with("trying again").await.contains("the server ended the stream"));
    assert_eq!(api.call().await.header("last-event-id"), Some("1-6"));
    program.signal("-TERM");
    let (status, last, _) = program.end().await;
    assert_eq!((status.code(), last.last().unwrap().as_str()), (Some(0), "Stopped after 1 event."));
}

#[tokio::test]
async fn a_refusal_ends_it() {
    for (status, body, told) in [
        (
            "401 Unauthorized",
            r#"{"code":"unauthenticated","error":"No such token.","details":[],"request_id":"req_1"}"#,
            "portico: No such token.\n",
        ),
        (
            "403 Forbidden",
            r#"{"code":"forbidden","error":"Not with this one.","details":[{"type":"info","reason":"SCOPE_REQUIRED",
                "domain":"gateway","metadata":{"scope":"events:read"}}],"request_id":"req_1"}"#,
            "portico: Not with this one.\n  SCOPE_REQUIRED scope=events:read\n",
        ),
        ("404 Not Found", "<html>", "and not as the API does.\n"),
        ("200 OK", "{}", "without a stream of events.\n"),
    ] {
        let api = Api::start().await;
        let program = Program::start(&api, &["--token", "another"]).await;
        let call = api.call().await;
        assert_eq!(call.header("authorization"), Some("Bearer another"), "a flag wins over the environment");
        call.refuse(status, body).await;
        let (ended, last, error) = program.end().await;
        assert_eq!(ended.code(), Some(1), "{status}");
        assert!(error.ends_with(told), "{error}");
        assert_eq!(last.len(), 1, "{last:?}");
    }
}

#[tokio::test]
async fn revoked_in_the_middle_it_sums_up_and_ends() {
    let api = Api::start().await;
    let mut program = Program::start(&api, &[]).await;
    let problem = r#"{"code":"unauthenticated","error":"Revoked.","details":[]}"#;
    let first = event("1-1", "evt_1");
    drop(api.stream(&format!("{GREETING}{first}event: error\ndata: {problem}\n\n")).await);
    assert!(program.line_with("error").await.ends_with("Revoked."));
    api.call().await.refuse("401 Unauthorized", problem).await;
    let (ended, last, error) = program.end().await;
    assert_eq!((ended.code(), error.as_str()), (Some(1), "portico: Revoked.\n"));
    assert_eq!(last.last().unwrap(), "Stopped after 1 event.");
}

#[tokio::test]
async fn mistakes_are_told_before_anybody_is_called() {
    let api = Api::start().await;
    for (words, told) in [
        (&["--forward", "127.0.0.1:3000"][..], "--forward must be"),
        (&["--forward", "http://127.0.0.1:3000", "--secret", "whsec_short"], "--secret must be whsec_"),
        (&["--secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "--forward"),
    ] {
        let (ended, _, error) = Program::start(&api, words).await.end().await;
        assert!(!ended.success() && error.contains(told), "{words:?}: {error}");
        assert!(!error.contains("whsec_short"), "{error}");
    }
}

//! A caller that keeps its connection, and what it can ask for.

use std::sync::Arc;

use portico_kernel::{Entropy, SystemEntropy};
use portico_testkit::{Answer, TestDatabase};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::program::admin;

/// What calls cost that can be made with [`Target::head`].
pub(crate) const PRICES: [i64; 5] = [1, 5, 10, 100, 400];

/// A number below `end`.
pub(crate) fn below(end: usize) -> usize {
    let entropy: &dyn Entropy = &SystemEntropy;
    usize::try_from(u32::from_le_bytes(entropy.bytes())).unwrap() % end
}

/// An account, and a token of it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) org: Arc<str>,
    pub(crate) token: Arc<str>,
}

impl Target {
    pub(crate) fn create(database: &TestDatabase) -> Self {
        let account = admin(database, &["account", "create", "--name", "Acme"]);
        let org = account["account_id"].as_str().unwrap();
        let scopes = "identity:read usage:read events:read webhooks:read webhooks:write";
        let token = admin(database, &["token", "create", "--account", org, "--scopes", scopes]);
        Self { org: org.into(), token: token["token"].as_str().unwrap().into() }
    }

    /// The first line of a call that costs so much, and its body.
    pub(crate) fn call(&self, price: i64) -> (String, &'static str) {
        match price {
            1 => ("GET /v1/me".to_owned(), ""),
            5 => (format!("POST /v1/lab/orgs/{}/things", self.org), r#"{"name":"n"}"#),
            10 => ("GET /v1/lab/costs/check".to_owned(), ""),
            100 => ("GET /v1/lab/costs/narration".to_owned(), ""),
            400 => ("GET /v1/lab/costs/generation".to_owned(), ""),
            _ => unreachable!("nothing costs {price}"),
        }
    }

    /// The first line of a report, which costs 1.
    pub(crate) fn report(&self, rest: &str) -> String {
        format!("GET /v1/accounts/orgs/{}/{rest}", self.org)
    }
}

/// A connection to a server.
pub(crate) struct Client {
    stream: TcpStream,
    target: Target,
    bytes: Vec<u8>,
}

impl Client {
    /// Nothing when nobody listens.
    pub(crate) async fn connect(api: &str, target: &Target) -> Option<Self> {
        let stream = TcpStream::connect(api).await.ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Self { stream, target: target.clone(), bytes: Vec::new() })
    }

    /// Sends a request, and does not wait.
    pub(crate) async fn send(&mut self, line: &str, body: &str, id: &str) -> Option<()> {
        let (token, length) = (&self.target.token, body.len());
        let request = format!(
            "{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nx-request-id: {id}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await.ok()
    }

    /// The whole answer; `None` when the server went away before.
    pub(crate) async fn receive(&mut self) -> Option<Answer> {
        self.bytes.clear();
        loop {
            if let Some(answer) = Answer::from_wire(&self.bytes) {
                // The server ends a connection after many refusals, for example.
                if answer.header("connection") == "close"
                    && let Ok(stream) = TcpStream::connect(self.stream.peer_addr().ok()?).await
                {
                    self.stream = stream;
                }
                return Some(answer);
            }
            if self.stream.read_buf(&mut self.bytes).await.ok()? == 0 {
                return None;
            }
        }
    }

    pub(crate) async fn call(&mut self, line: &str, body: &str, id: &str) -> Option<Answer> {
        self.send(line, body, id).await?;
        self.receive().await
    }

    /// The call that costs so much.
    pub(crate) async fn spend(&mut self, price: i64, id: &str) -> Option<Answer> {
        let (line, body) = self.target.call(price);
        self.call(&line, body, id).await
    }

    /// A report of the account.
    pub(crate) async fn report(&mut self, rest: &str, id: &str) -> Value {
        let line = self.target.report(rest);
        self.call(&line, "", id).await.unwrap().ok()
    }
}

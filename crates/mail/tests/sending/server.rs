//! A mail server that says what it is told to.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// A mail server, or a handle on one; it takes every message unless it was told otherwise.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Told when a client waits in vain.
    pub(crate) silence: Arc<Notify>,
    /// Tells it to take the receiver after all.
    pub(crate) speak: Arc<Notify>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    answers: VecDeque<&'static str>,
    tries: usize,
    messages: Vec<String>,
}

impl Server {
    /// Instead of an answer.
    pub(crate) const SILENCE: &str = "";

    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { address, silence: Arc::default(), speak: Arc::default(), state: Arc::default() };
        let shared = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(shared.clone().talk(stream));
            }
        });
        server
    }

    /// One that does not listen any more.
    pub(crate) async fn gone() -> Self {
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        Self { address, silence: Arc::default(), speak: Arc::default(), state: Arc::default() }
    }

    /// What it says to the next receivers that are named to it.
    pub(crate) fn will_say<const N: usize>(&self, answers: [&'static str; N]) {
        self.state.lock().unwrap().answers.extend(answers);
    }

    /// How many receivers were named to it.
    pub(crate) fn tries(&self) -> usize {
        self.state.lock().unwrap().tries
    }

    /// The messages it took.
    pub(crate) fn messages(&self) -> Vec<String> {
        self.state.lock().unwrap().messages.clone()
    }

    async fn talk(self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        stream.write_all(b"220 mail.test ready\r\n").await.ok()?;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let mut answer = match line.get(..4)? {
                "RCPT" => self.next_answer(),
                "DATA" => {
                    stream.write_all(b"354 go on\r\n").await.ok()?;
                    let message = read_message(&mut stream).await?;
                    self.state.lock().unwrap().messages.push(message);
                    "250 taken"
                }
                "QUIT" => "221 bye",
                _ => "250 ok",
            };
            if answer == Self::SILENCE {
                self.silence.notify_one();
                self.speak.notified().await;
                answer = "250 ok";
            }
            stream.write_all(format!("{answer}\r\n").as_bytes()).await.ok()?;
        }
    }

    fn next_answer(&self) -> &'static str {
        let mut state = self.state.lock().unwrap();
        state.tries += 1;
        state.answers.pop_front().unwrap_or("250 ok")
    }
}

async fn read_message(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut message = String::new();
    while !message.ends_with("\r\n.\r\n") {
        if stream.read_line(&mut message).await.ok()? == 0 {
            return None;
        }
    }
    Some(message)
}

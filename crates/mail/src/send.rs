//! Sends what is in the outbox: the queue `mail.send`.

use std::sync::Arc;
use std::time::Duration;

use lettre::AsyncTransport;
use lettre::transport::smtp;
use portico_engine::queue::{QueueItem, WorkResult, Worker, run_due};
use portico_engine::{Engine, JobOutcome};
use portico_kernel::{MailId, Problem};

use crate::model::{Outcome, Reason, is_final};
use crate::{Mail, Post, letter, limits};

/// Sends mail that is due.
pub(crate) struct SendMail(pub(crate) Arc<Mail>);

impl Worker for SendMail {
    const QUEUE: &'static str = "mail.send";
    const PARALLEL: usize = limits::PARALLEL;
    const LEASE: Duration = limits::LEASE;

    fn is_ready(&self) -> bool {
        self.0.0.is_some()
    }

    /// One attempt. The log names the message by its id alone.
    async fn run(&self, engine: &Arc<Engine>, item: &QueueItem) -> WorkResult {
        let outcome = match (&self.0.0, item.id.parse()) {
            (Some(post), Ok(id)) => post.send(engine, id, item).await,
            _ => Outcome::Refused(Reason { words: "it is no mail", code: 0 }),
        };
        let (id, attempts) = (item.id.as_str(), item.attempts);
        let result = outcome.result(attempts, engine.clock.now());
        let (reason, code) = outcome.reason();
        match result {
            WorkResult::Done | WorkResult::RepeatAt(_) => tracing::info!(id, attempts, "Sent mail"),
            WorkResult::RetryAt(next) => {
                tracing::warn!(id, attempts, reason, code, %next, "Failed to send mail; it is tried again");
            }
            WorkResult::GiveUp => {
                tracing::warn!(id, attempts, reason, code, "Failed to send mail; it is given up")
            }
        }
        result
    }
}

impl Mail {
    /// Sends what is due, now; for tests.
    pub async fn send_due(self: &Arc<Self>, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        run_due(Arc::new(SendMail(self.clone())), engine).await
    }
}

impl Post {
    /// One attempt, outside of any transaction.
    async fn send(&self, engine: &Engine, id: MailId, item: &QueueItem) -> Outcome {
        // A key that is missing today may be back tomorrow.
        let Some(letter) = letter::open(engine, id, &item.payload) else {
            tracing::error!(%id, "Failed to open sealed mail");
            return Outcome::Failed(Reason { words: "it does not open", code: 0 });
        };
        let Some(message) = letter::message(&self.from, id, item.created_at, &letter) else {
            return Outcome::Refused(Reason { words: "its address is none", code: 0 });
        };
        match tokio::time::timeout(limits::SEND_TIME_MAX, self.transport.send(message)).await {
            Ok(Ok(_)) => Outcome::Sent,
            Ok(Err(error)) => outcome_of(&error),
            Err(_) => Outcome::Failed(Reason { words: "the server took too long", code: 0 }),
        }
    }
}

fn outcome_of(error: &smtp::Error) -> Outcome {
    let Some(code) = error.status().map(u16::from) else {
        let words = if error.is_tls() { "no secure connection" } else { "the server cannot be reached" };
        return Outcome::Failed(Reason { words, code: 0 });
    };
    let reason = Reason { words: "the server refused", code };
    if is_final(code) { Outcome::Refused(reason) } else { Outcome::Failed(reason) }
}

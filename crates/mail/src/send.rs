//! Sends what is in the outbox: the queue `mail.send`.

use std::sync::Arc;
use std::time::Duration;

use lettre::AsyncTransport;
use lettre::transport::smtp;
use portico_engine::queue::{QueueItem, WorkResult, Worker, run_due};
use portico_engine::{Engine, JobOutcome};
use portico_kernel::{MailId, Problem};

use crate::model::{Reason, SendOutcome, is_final};
use crate::{Mail, SmtpClient, limits, message};

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
            (Some(client), Ok(id)) => client.send(engine, id, item).await,
            _ => SendOutcome::Refused(Reason { message: "its id is malformed", code: 0 }),
        };
        let (id, attempts) = (item.id.as_str(), item.attempts);
        let result = outcome.result(attempts, engine.clock.now());
        let Some(Reason { message: reason, code }) = outcome.reason() else {
            tracing::info!(id, attempts, "Sent mail");
            return result;
        };
        if let WorkResult::RetryAt(next) = result {
            tracing::warn!(id, attempts, reason, code, %next, "Failed to send mail");
        } else {
            tracing::warn!(id, attempts, reason, code, "Gave up sending mail");
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

impl SmtpClient {
    /// One attempt, outside of any transaction.
    async fn send(&self, engine: &Engine, id: MailId, item: &QueueItem) -> SendOutcome {
        // It stays in the outbox: a key that is missing in the keyring may be put back.
        let Some(mail) = message::open(engine, id, &item.payload) else {
            tracing::error!(%id, "Failed to open sealed mail");
            return SendOutcome::Failed(Reason { message: "it cannot be opened", code: 0 });
        };
        let Some(mime) = message::to_mime(&self.sender, id, item.created_at, &mail) else {
            return SendOutcome::Refused(Reason { message: "its address is malformed", code: 0 });
        };
        match tokio::time::timeout(limits::SEND_TIME_MAX, self.transport.send(mime)).await {
            Ok(Ok(_)) => SendOutcome::Sent,
            Ok(Err(error)) => outcome_of(&error),
            Err(_) => SendOutcome::Failed(Reason { message: "the server took too long", code: 0 }),
        }
    }
}

fn outcome_of(error: &smtp::Error) -> SendOutcome {
    let Some(code) = error.status().map(u16::from) else {
        let message = if error.is_tls() { "no secure connection" } else { "the server cannot be reached" };
        return SendOutcome::Failed(Reason { message, code: 0 });
    };
    let reason = Reason { message: "the server refused", code };
    if is_final(code) { SendOutcome::Refused(reason) } else { SendOutcome::Failed(reason) }
}

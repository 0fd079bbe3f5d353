//! Sends what is in the outbox.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lettre::AsyncTransport;
use lettre::transport::smtp;
use portico_engine::{Engine, Job, JobOutcome};
use portico_kernel::{Problem, hex};

use crate::model::{NextStep, Reason, SendOutcome, is_final};
use crate::sql::MailRow;
use crate::{Mail, SmtpClient, limits, message, sql};

/// Sends mail that is due.
pub(crate) struct SendMail(pub(crate) Arc<Mail>);

impl Job for SendMail {
    const NAME: &'static str = "mail.send";
    const EVERY: Duration = limits::SEND_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        self.0.send_due(engine).await
    }
}

impl Mail {
    /// Claims some messages that are due, and sends them concurrently, so that a slow one delays no other.
    pub async fn send_due(&self, engine: &Engine) -> Result<JobOutcome, Problem> {
        let Some(client) = &self.0 else { return Ok(JobOutcome::Idle) };
        let claim = hex(&engine.entropy.bytes::<16>());
        let mut tx = engine.db.write().await?;
        let claimed = sql::claim(&mut tx, &claim, engine.clock.now()).await?;
        tx.commit().await?;
        let more = i64::try_from(claimed.len()).is_ok_and(|count| count == limits::BATCH_MAX);
        let sent = join_all(claimed.iter().map(async |row| {
            let outcome = client.send(engine, row).await;
            finish(engine, row, &claim, outcome).await
        }));
        sent.await.into_iter().collect::<Result<(), Problem>>()?;
        Ok(if more { JobOutcome::MoreWork } else { JobOutcome::Idle })
    }
}

impl SmtpClient {
    /// One attempt, outside of any transaction.
    async fn send(&self, engine: &Engine, row: &MailRow) -> SendOutcome {
        // It stays in the outbox: a key that is missing in the keyring may be put back.
        let Some(mail) = message::open(engine, row.id, &row.sealed) else {
            tracing::error!(id = %row.id, "Failed to open sealed mail");
            return SendOutcome::Failed(Reason { message: "it cannot be opened", code: 0 });
        };
        let Some(mime) = message::to_mime(&self.from, row.id, row.created_at, &mail) else {
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

/// Records the outcome. The log names the message by its id alone.
async fn finish(engine: &Engine, row: &MailRow, claim: &str, outcome: SendOutcome) -> Result<(), Problem> {
    let (id, attempts, now) = (row.id, row.attempts, engine.clock.now());
    let mut tx = engine.db.write().await?;
    let next = outcome.next(attempts, now);
    let ours = match next {
        NextStep::Remove => sql::remove(&mut tx, id, claim).await?,
        NextStep::RetryAt(at) => sql::reschedule(&mut tx, id, claim, at).await?,
        NextStep::GiveUp => sql::give_up(&mut tx, id, claim, now).await?,
    };
    tx.commit().await?;
    let (reason, code) = match outcome {
        SendOutcome::Sent => ("", 0),
        SendOutcome::Failed(reason) | SendOutcome::Refused(reason) => (reason.message, reason.code),
    };
    match next {
        _ if !ours => tracing::warn!(%id, attempts, "Lost the claim on mail to another server"),
        NextStep::Remove => tracing::info!(%id, attempts, "Sent mail"),
        NextStep::RetryAt(next) => tracing::warn!(%id, attempts, reason, code, %next, "Failed to send mail"),
        NextStep::GiveUp => tracing::warn!(%id, attempts, reason, code, "Gave up sending mail"),
    }
    Ok(())
}

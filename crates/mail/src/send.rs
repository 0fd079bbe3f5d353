//! Sends what is in the outbox.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lettre::AsyncTransport;
use lettre::transport::smtp;
use portico_engine::{Engine, Job, JobOutcome};
use portico_kernel::{Problem, hex};

use crate::model::{Next, Outcome, Reason, is_final};
use crate::sql::Claimed;
use crate::{Mail, Post, letter, limits, sql};

/// Sends letters that are due.
pub(crate) struct SendMail(pub(crate) Arc<Mail>);

impl Job for SendMail {
    const NAME: &'static str = "mail.send";
    const EVERY: Duration = limits::SEND_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        self.0.send_due(engine).await
    }
}

impl Mail {
    /// Claims some letters that are due, and sends them side by side, so that a slow one holds no other back.
    pub async fn send_due(&self, engine: &Engine) -> Result<JobOutcome, Problem> {
        let Some(post) = &self.0 else { return Ok(JobOutcome::Idle) };
        let claim = hex(&engine.entropy.bytes::<16>());
        let mut tx = engine.db.write().await?;
        let claimed = sql::claim(&mut tx, &claim, engine.clock.now()).await?;
        tx.commit().await?;
        let more = i64::try_from(claimed.len()).is_ok_and(|count| count == limits::BATCH_MAX);
        let sent = join_all(claimed.iter().map(async |row| {
            let outcome = post.send(engine, row).await;
            finish(engine, row, &claim, outcome).await
        }));
        sent.await.into_iter().collect::<Result<(), Problem>>()?;
        Ok(if more { JobOutcome::MoreWork } else { JobOutcome::Idle })
    }
}

impl Post {
    /// One try, outside of any transaction.
    async fn send(&self, engine: &Engine, row: &Claimed) -> Outcome {
        // A key that is missing today may be back tomorrow.
        let Some(letter) = letter::open(engine, row.id, &row.sealed) else {
            tracing::error!(id = %row.id, "A letter does not open");
            return Outcome::Failed(Reason { words: "it does not open", code: 0 });
        };
        let Some(message) = letter::message(&self.from, row.id, row.created_at, &letter) else {
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

/// Notes what became of the letter. The log names it by its id alone.
async fn finish(engine: &Engine, row: &Claimed, claim: &str, outcome: Outcome) -> Result<(), Problem> {
    let (id, attempts, now) = (row.id, row.attempts, engine.clock.now());
    let mut tx = engine.db.write().await?;
    let next = outcome.next(attempts, now);
    let ours = match next {
        Next::Done => sql::remove(&mut tx, id, claim).await?,
        Next::At(at) => sql::put_off(&mut tx, id, claim, at).await?,
        Next::GiveUp => sql::give_up(&mut tx, id, claim, now).await?,
    };
    tx.commit().await?;
    let (reason, code) = match outcome {
        Outcome::Sent => ("", 0),
        Outcome::Failed(reason) | Outcome::Refused(reason) => (reason.words, reason.code),
    };
    match next {
        _ if !ours => tracing::warn!(%id, attempts, "A letter took so long that another server took it over"),
        Next::Done => tracing::info!(%id, attempts, "Sent a letter"),
        Next::At(next) => tracing::warn!(%id, attempts, reason, code, %next, "A letter was not sent"),
        Next::GiveUp => tracing::warn!(%id, attempts, reason, code, "Gave a letter up"),
    }
    Ok(())
}

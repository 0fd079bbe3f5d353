//! Questions on their way to clients with a handshake: they go out on the stream of a call, and the answer comes
//! with a request of its own.

use std::time::Duration;

use dashmap::DashMap;
use portico_kernel::{AccountId, Caller, Entropy, hex};
use serde_json::Value;
use tokio::sync::oneshot;

/// How long a person may take to answer.
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_mins(5);

/// How many questions may wait: of an account, and of all.
const WAITING_EACH_MAX: usize = 32;
const WAITING_MAX: usize = 10_000;

/// Questions that wait for an answer, by the id that each was sent under.
#[derive(Default)]
pub(super) struct Questions(DashMap<String, QuestionEntry>);

struct QuestionEntry {
    /// Who was asked: nobody else may answer.
    actor: String,
    account: Option<AccountId>,
    answer: oneshot::Sender<Option<Value>>,
}

/// A question that was asked; it is forgotten when this is dropped.
pub(super) struct PendingQuestion<'a> {
    questions: &'a Questions,
    pub(super) id: String,
    answer: oneshot::Receiver<Option<Value>>,
}

impl Questions {
    /// A question to whoever calls, under an id that nobody guesses; `None` when too many wait already.
    pub(super) fn ask(&self, entropy: &dyn Entropy, caller: &Caller) -> Option<PendingQuestion<'_>> {
        let of_account = self.0.iter().filter(|waiting| waiting.account == caller.org).count();
        if self.0.len() >= WAITING_MAX || of_account >= WAITING_EACH_MAX {
            return None;
        }
        let id = hex(&entropy.bytes::<16>());
        let (sender, answer) = oneshot::channel();
        self.0.insert(
            id.clone(),
            QuestionEntry { actor: caller.actor().into_owned(), account: caller.org, answer: sender },
        );
        Some(PendingQuestion { questions: self, id, answer })
    }

    /// Takes what `actor` answers; returns whether something waited for it.
    pub(super) fn answer(&self, actor: &str, id: &str, result: Option<Value>) -> bool {
        let waiting = self.0.remove_if(id, |_, waiting| waiting.actor == actor);
        waiting.is_some_and(|(_, waiting)| waiting.answer.send(result).is_ok())
    }
}

impl PendingQuestion<'_> {
    /// The answer, if there is one in time and it is no error.
    pub(super) async fn answer(&mut self) -> Option<Value> {
        tokio::time::timeout(ANSWER_TIME_MAX, &mut self.answer).await.ok()?.ok()?
    }
}

impl Drop for PendingQuestion<'_> {
    fn drop(&mut self) {
        self.questions.0.remove(&self.id);
    }
}

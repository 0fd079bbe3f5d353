//! Answers that nobody reads: how much of them is kept for one tenant.
//!
//! An answer is in memory until its client has taken it. A tenant whose clients read nothing asks for no more once so much
//! of theirs waits; somebody who reads as answers come never notices.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use portico_engine::Metric;
use portico_kernel::{Code, Problem, seconds};

use crate::party::Party;

/// Bytes of answers that wait for the clients of one tenant.
const UNREAD_BYTES_MAX: usize = 32 << 20;
/// Smaller answers are not counted: what a connection holds anyway is as much.
const COUNTED_BYTES: usize = 16 << 10;

/// Counts the answers that wait.
#[derive(Debug, Default)]
pub(crate) struct UnreadAnswers {
    bytes: Mutex<HashMap<Party, usize>>,
    refused: AtomicU64,
}

/// An answer, which counts until it is dropped.
struct Counted {
    answer: Bytes,
    party: Party,
    answers: Arc<UnreadAnswers>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

impl UnreadAnswers {
    /// 429 once too much waits for that party.
    pub(crate) fn check(&self, party: &Party) -> Result<(), Problem> {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.get(party).is_none_or(|bytes| *bytes < UNREAD_BYTES_MAX) {
            return Ok(());
        }
        drop(bytes);
        self.refused.fetch_add(1, Ordering::Relaxed);
        let message = "Too many answers wait to be read: the account's clients must take them first.";
        let metadata = [("limit", UNREAD_BYTES_MAX.to_string())];
        let problem = Problem::new(Code::RateLimited, message);
        Err(problem.with_info("UNREAD_ANSWERS", "gateway", metadata).retry_after(seconds(1)))
    }

    /// The same answer, which counts for that party for as long as anybody has it.
    pub(crate) fn count(self: &Arc<Self>, party: Party, answer: Bytes) -> Bytes {
        if answer.len() < COUNTED_BYTES {
            return answer;
        }
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *bytes.entry(party.clone()).or_default() += answer.len();
        drop(bytes);
        Bytes::from_owner(Counted { answer, party, answers: self.clone() })
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> [Metric; 2] {
        let bytes: usize = self.bytes.lock().unwrap_or_else(PoisonError::into_inner).values().sum();
        let refused = self.refused.load(Ordering::Relaxed);
        [
            Metric::gauge(
                "unread_answer_bytes",
                "Bytes of large answers that their clients have not taken yet",
                i64::try_from(bytes).unwrap_or(i64::MAX),
            ),
            Metric::counter(
                "calls_refused_unread",
                "Calls that were refused, because too many answers to their tenant were not read",
                refused,
            ),
        ]
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut bytes = self.answers.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut entry) = bytes.entry(self.party.clone()) {
            *entry.get_mut() = entry.get().saturating_sub(self.answer.len());
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_count_until_they_are_taken() {
        let (answers, party) =
            (Arc::new(UnreadAnswers::default()), |name: &str| Party::Caller(name.to_owned()));
        let large = Bytes::from(vec![0; 4 << 20]);
        let count = |name: &str| answers.count(party(name), large.clone());
        let mut waiting: Vec<_> = (0..8).map(|_| count("greedy")).collect();
        assert_eq!(waiting[0], large);
        assert_eq!(answers.check(&party("greedy")).unwrap_err().code(), Code::RateLimited);
        answers.check(&party("honest")).unwrap();
        let copy = waiting[0].clone();
        drop(waiting.remove(0));
        answers.check(&party("greedy")).unwrap_err();
        drop(copy);
        answers.check(&party("greedy")).unwrap();
        drop(waiting);
        assert!(answers.bytes.lock().unwrap().is_empty());
        let small = answers.count(party("greedy"), Bytes::from_static(b"{}"));
        assert!(answers.bytes.lock().unwrap().is_empty() && small == "{}");
    }
}

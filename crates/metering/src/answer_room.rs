//! What is left of the bytes of an answer, for reports that would be larger than an answer may be.

use portico_engine::ANSWER_BYTES_MAX;
use portico_kernel::Problem;
use serde::Serialize;

/// The bytes that are left for the items of a report.
pub(crate) struct AnswerRoom(usize);

impl AnswerRoom {
    /// The room beside `frame`, which is the answer without its items, and `rest`, which are bytes to keep free.
    pub(crate) fn beside(frame: &impl Serialize, rest: usize) -> Result<Self, Problem> {
        Ok(Self(ANSWER_BYTES_MAX.saturating_sub(length(frame)?).saturating_sub(rest)))
    }

    /// Takes the room of an item; returns whether there was enough. Once there was not, there is none for any other.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// The bytes of `item` in a list, with the comma behind it.
pub(crate) fn item_length(item: &impl Serialize) -> Result<usize, Problem> {
    Ok(length(item)? + 1)
}

fn length(value: &impl Serialize) -> Result<usize, Problem> {
    Ok(serde_json::to_vec(value).map_err(Problem::internal)?.len())
}

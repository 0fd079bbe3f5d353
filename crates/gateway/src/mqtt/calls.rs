//! Calls: what a client publishes to `rpc/<method>`, and the answers.

use bytes::Bytes;
use portico_engine::input::{Fields, parse_object};
use portico_kernel::{Code, Problem};

use super::codec::PubackReasonCode as Puback;
use super::filters::REPLIES;
use super::packets::Publish;
use super::run::Client;
use super::written::{self, Published};
use crate::calls::{Named, Outcome};

/// Calls of one client under way at once.
pub(super) const CALLS_MAX: usize = 32;
/// The topics of calls.
const CALLS: &str = "rpc/";

/// The answer to a call.
pub(super) struct Reply {
    topic: String,
    correlation: Option<Bytes>,
    /// With quality of service 1, as the call was?
    pub(super) assured: bool,
    is_answer: bool,
    payload: Bytes,
}

impl Reply {
    fn refuse(&mut self, problem: &Problem) {
        (self.is_answer, self.payload) = (false, problem.to_json("").into());
    }
}

/// The fields of a call; nothing sent means none.
fn fields(payload: &[u8]) -> Result<Fields, Problem> {
    if payload.is_empty() { Ok(Fields::new()) } else { parse_object(payload).map_err(Problem::from) }
}

impl Client {
    /// The client has published. Where it may is for calls alone.
    pub(super) fn published(&mut self, publish: Publish) {
        let id = publish.id;
        let code = self.call(publish);
        if let Some(id) = id {
            written::puback(&mut self.out, id, code);
        }
    }

    fn call(&mut self, publish: Publish) -> Puback {
        let method = publish.topic.strip_prefix(CALLS);
        let Some(method) = method.filter(|_| !publish.topic.starts_with(REPLIES)) else {
            return Puback::NotAuthorized;
        };
        let is_ours = |topic: &String| topic.starts_with(REPLIES) && !topic.contains(['#', '+', '\0']);
        let Some(topic) = publish.response_topic.filter(is_ours) else {
            return Puback::ImplementationSpecificError;
        };
        // Its answers wait for a client that takes none.
        if self.replies.len() >= CALLS_MAX {
            return Puback::QuotaExceeded;
        }
        let assured = publish.id.is_some();
        let correlation = publish.correlation;
        let mut reply = Reply { topic, correlation, assured, is_answer: true, payload: Bytes::new() };
        let fields = match fields(&publish.payload) {
            Ok(_) if self.running.len() >= CALLS_MAX => Err(too_many()),
            fields => fields,
        };
        match fields {
            Ok(fields) => {
                let (calls, bearer) = (self.calls.clone(), self.line.bearer().clone());
                let (method, key) = (method.to_owned(), publish.idempotency_key);
                self.running.spawn(async move {
                    let named = Named { method: &method, fields, idempotency_key: key.as_deref() };
                    match calls.call(&bearer, named).await {
                        Ok(Outcome::Answer(answer)) => reply.payload = answer,
                        Ok(Outcome::Refusal(problem)) => (reply.is_answer, reply.payload) = (false, problem),
                        Err(problem) => reply.refuse(&problem),
                    }
                    reply
                });
            }
            Err(problem) => {
                reply.refuse(&problem);
                self.replies.push_back(reply);
            }
        }
        Puback::Success
    }

    /// Sends an answer. The client said how large a packet it takes; what is larger becomes a refusal.
    pub(super) fn send_reply(&mut self, mut reply: Reply) {
        for _ in 0..2 {
            let outcome = if reply.is_answer { "answer" } else { "error" };
            let properties = written::reply_properties(reply.correlation.as_deref(), outcome);
            let published = Published { topic: (&reply.topic, ""), rest: (&properties, &reply.payload) };
            if published.size(u8::from(reply.assured)) <= self.packet_max {
                let id = reply.assured.then(|| self.window.send(None, 0));
                return published.put(&mut self.out, id, false);
            }
            let words =
                format!("The answer is larger than the {} bytes that the client takes.", self.packet_max);
            reply.refuse(&Problem::new(Code::PayloadTooLarge, words));
        }
    }
}

fn too_many() -> Problem {
    let words = format!("There are {CALLS_MAX} calls under way on this connection.");
    let metadata = [("limit", CALLS_MAX.to_string())];
    Problem::new(Code::RateLimited, words).with_info("CALL_LIMIT", "gateway", metadata)
}

//! Calls: what a client publishes to `rpc/<method>`, and the answers.

use bytes::Bytes;
use portico_engine::input::{Fields, VALUES_MAX, parse_object};
use portico_kernel::{Caller, Code, Problem};

use super::client::{CALLS_MAX, Client, RpcReply};
use super::encode::{self, PublishPacket};
use super::filters::REPLIES;
use crate::calls::{RpcAnswer, RpcCall, too_many_calls};
use crate::message::parse;
use portico_mqtt::codec::PubackReasonCode as Puback;
use portico_mqtt::packets::Publish;

/// The topics of calls.
const CALLS: &str = "rpc/";

/// The fields of a call; nothing sent means none.
async fn fields(caller: &Caller, payload: Bytes) -> Result<Fields, Problem> {
    if payload.is_empty() {
        return Ok(Fields::new());
    }
    Ok(parse(caller, payload, |text| parse_object(text, VALUES_MAX)).await??)
}

impl Client {
    /// The client has published. Where it may is for calls alone.
    pub(super) fn published(&mut self, publish: Publish) {
        let id = publish.id;
        let code = self.call(publish);
        if code != Puback::Success {
            self.connection.refusals.note(true);
        }
        if let Some(id) = id {
            encode::puback(&mut self.out, id, code);
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
        let (is_answer, counted, payload) = (true, true, Bytes::new());
        let mut reply = RpcReply { topic, correlation, assured, is_answer, counted, payload };
        if self.running.len() >= CALLS_MAX {
            reply.counted = false;
            reply.refuse(too_many_calls(CALLS_MAX, "connection").to_json("").into());
            self.replies.push_back(reply);
            return Puback::Success;
        }
        let (calls, credential) = (self.calls.clone(), self.connection.credential().clone());
        let (method, key, payload) = (method.to_owned(), publish.idempotency_key, publish.payload);
        self.running.spawn(async move {
            let answer = match fields(credential.caller(), payload).await {
                Ok(fields) => {
                    let rpc = RpcCall { method: &method, fields, idempotency_key: key.as_deref() };
                    calls.call(&credential, rpc).await
                }
                Err(problem) => RpcAnswer::Refusal { problem: problem.to_json("").into(), counted: false },
            };
            match answer {
                RpcAnswer::Answer(answer) => reply.payload = answer,
                RpcAnswer::Refusal { problem, counted } => {
                    reply.counted = counted;
                    reply.refuse(problem);
                }
            }
            reply
        });
        Puback::Success
    }

    /// Sends an answer. The client said how large a packet it takes; what is larger becomes a refusal.
    pub(super) fn send_reply(&mut self, mut reply: RpcReply) {
        for _ in 0..2 {
            let outcome = if reply.is_answer { "answer" } else { "error" };
            let properties = encode::reply_properties(reply.correlation.as_deref(), outcome);
            let packet = PublishPacket { topic: [&reply.topic, ""], rest: [&properties, &reply.payload] };
            if packet.size(u8::from(reply.assured)) <= self.packet_max {
                let id = reply.assured.then(|| self.window.send(None, 0));
                self.connection.refusals.note(!reply.counted);
                return packet.put(&mut self.out, id, false);
            }
            let message =
                format!("The answer is larger than the {} bytes that the client takes.", self.packet_max);
            reply.refuse(Problem::new(Code::PayloadTooLarge, message).to_json("").into());
        }
    }
}

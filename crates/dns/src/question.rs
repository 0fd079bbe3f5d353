//! One question to one server, never answered from a cache: over UDP, and over TCP where the answer was cut.
//!
//! Every try has a random id and a random source port, of a socket of its own.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use hickory_net::NetError;
use hickory_net::runtime::TokioRuntimeProvider;
use hickory_net::tcp::TcpClientStream;
use hickory_net::udp::UdpClientStream;
use hickory_net::xfer::{DnsHandle, DnsRequestSender};
use hickory_proto::op::{
    DnsRequest, DnsRequestOptions, DnsResponse, Message, MessageType, OpCode, Query, ResponseCode,
};
use hickory_proto::rr::{Name, RecordType};
use tokio::time::timeout;

use crate::Outcome;

/// How long to wait for the answer to one try.
const TRY_TIME: Duration = Duration::from_secs(2);
/// How often a question is asked.
const TRIES: usize = 2;
/// What an answer over UDP may hold: what no network on the way has to cut in pieces.
const PAYLOAD_BYTES: u16 = 1232;

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// The name.
    pub(crate) name: Name,
    /// The type of records.
    pub(crate) kind: RecordType,
    /// Shall the server ask others?
    pub(crate) recursion: bool,
    /// Shall it answer what it finds to be badly signed, too?
    pub(crate) unchecked: bool,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// None came in time, or the server was not reached.
    Timeout,
    /// What came is no answer to the question.
    Garbled,
}

impl Question {
    /// Asks the server at the first of its addresses, and once more at the next.
    pub(crate) async fn ask(&self, addresses: &[SocketAddr]) -> Result<Message, Failure> {
        let mut failure = Failure::Timeout;
        for address in addresses.iter().cycle().take(TRIES) {
            match timeout(TRY_TIME, self.ask_once(*address)).await {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = Failure::Timeout,
            }
        }
        Err(failure)
    }

    async fn ask_once(&self, address: SocketAddr) -> Result<Message, Failure> {
        let mut udp = UdpClientStream::builder(address, TokioRuntimeProvider::new())
            .with_timeout(Some(TRY_TIME))
            .with_max_retries(1)
            .build();
        let reply = self.checked(first(udp.send_message(self.request())).await?)?;
        if !reply.metadata.truncation {
            return Ok(reply);
        }
        // The task behind the connection ends when this is dropped.
        let runtime = TokioRuntimeProvider::new();
        let tcp = TcpClientStream::exchange(address, None, TRY_TIME, None, runtime.clone());
        let reply =
            self.checked(first(tcp.await.map_err(|error| failure(&error))?.send(self.request())).await?);
        reply.and_then(|reply| if reply.metadata.truncation { Err(Failure::Garbled) } else { Ok(reply) })
    }

    fn query(&self) -> Query {
        Query::query(self.name.clone(), self.kind)
    }

    /// A message with an id of its own.
    fn request(&self) -> DnsRequest {
        let mut options = DnsRequestOptions::default();
        options.edns_payload_len = PAYLOAD_BYTES;
        options.edns_set_dnssec_ok = true;
        options.recursion_desired = self.recursion;
        let mut request = DnsRequest::from_query(self.query(), options);
        request.metadata.authentic_data = true;
        request.metadata.checking_disabled = self.unchecked;
        request
    }

    /// The answer, if it is one to this question.
    fn checked(&self, reply: DnsResponse) -> Result<Message, Failure> {
        let reply = reply.into_message();
        let is_answer =
            reply.metadata.message_type == MessageType::Response && reply.metadata.op_code == OpCode::Query;
        if is_answer && reply.queries == [self.query()] { Ok(reply) } else { Err(Failure::Garbled) }
    }

    /// What came of it, as far as a question knows: records of its type are found, whatever they say.
    pub(crate) fn outcome(&self, reply: Result<&Message, Failure>) -> Outcome {
        match reply {
            Err(Failure::Timeout) => Outcome::Timeout,
            Err(Failure::Garbled) => Outcome::Error,
            Ok(reply) => match reply.metadata.response_code {
                ResponseCode::NoError
                    if reply.answers.iter().any(|record| record.record_type() == self.kind) =>
                {
                    Outcome::Found
                }
                ResponseCode::NoError => Outcome::NoRecord,
                ResponseCode::NXDomain => Outcome::NxDomain,
                ResponseCode::ServFail => Outcome::ServFail,
                _ => Outcome::Error,
            },
        }
    }
}

/// The first answer; a stream that ends without one has waited long enough.
async fn first(
    mut replies: impl Stream<Item = Result<DnsResponse, NetError>> + Unpin,
) -> Result<DnsResponse, Failure> {
    match replies.next().await {
        Some(Ok(reply)) => Ok(reply),
        Some(Err(error)) => Err(failure(&error)),
        None => Err(Failure::Timeout),
    }
}

fn failure(error: &NetError) -> Failure {
    match error {
        NetError::Io(_) | NetError::Timeout | NetError::NoConnections | NetError::Busy => Failure::Timeout,
        _ => Failure::Garbled,
    }
}

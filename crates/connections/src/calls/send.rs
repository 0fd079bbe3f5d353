//! Sending a request, if its host may be called.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use portico_connectors::{Answer, Destination, HttpRequest};
use portico_egress::{EgressError, FetchResponse, Limits, Request, SendFailure};
use portico_engine::Engine;
use portico_kernel::AccountId;
use portico_store::StoreError;

use super::Calls;
use crate::limits;

/// Why no whole answer came.
#[derive(Debug, Clone)]
pub(crate) enum SendError {
    /// The host is in no verified domain of the account; nothing was sent.
    NotVerified(String),
    /// The call did not succeed.
    Egress(SendFailure),
    /// It cannot be asked whether the host may be called.
    Store(StoreError),
}

impl From<EgressError> for SendError {
    fn from(error: EgressError) -> Self {
        Self::Egress(SendFailure { error, may_have_arrived: false })
    }
}

/// What one request may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendLimits {
    pub(crate) time: Duration,
    pub(crate) bytes: usize,
}

impl Calls {
    /// Sends a request for the account. A host that the account chose must be in a verified domain of theirs, now.
    pub(crate) async fn send(
        &self,
        engine: &Engine,
        account: AccountId,
        request: HttpRequest,
        may_take: SendLimits,
    ) -> Result<FetchResponse, SendError> {
        if request.destination == Destination::Chosen {
            let host = request.host();
            let may = self.may_choose(engine, account, host).await.map_err(SendError::Store)?;
            if !may {
                return Err(SendError::NotVerified(host.to_owned()));
            }
        }
        let HttpRequest { method, url, mut headers, body, .. } = request;
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let SendLimits { time, bytes } = may_take;
        let sent = engine.egress.send(Request {
            url: url.as_str(),
            method,
            headers,
            body: Bytes::from(body),
            limits: Limits { time, bytes },
            connect_time: limits::CONNECT_TIME_MAX,
        });
        readable(sent.await.map_err(SendError::Egress)?)
    }
}

/// The answer, unless it is compressed, which was not asked for: a credential in it could not be seen. Of one that tells of a
/// failure, the status is enough.
fn readable(response: FetchResponse) -> Result<FetchResponse, SendError> {
    let is_plain = response.headers.get_all(CONTENT_ENCODING).iter().all(|encoding| encoding == "identity");
    if is_plain {
        return Ok(response);
    }
    if response.status.is_success() {
        let failure = SendFailure { error: EgressError::Protocol, may_have_arrived: true };
        return Err(SendError::Egress(failure));
    }
    Ok(FetchResponse { body: Bytes::new(), ..response })
}

/// The answer as manifests read it.
pub(crate) fn as_answer(response: &FetchResponse) -> Answer<'_> {
    Answer { status: response.status.as_u16(), headers: &response.headers, body: &response.body }
}

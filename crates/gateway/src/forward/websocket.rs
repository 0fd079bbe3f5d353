//! Connections of a service that change to `WebSocket`: passed through, byte by byte, for as long as their caller may hold a stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use portico_kernel::{Code, Problem};
use portico_upstream::{Upgrade, splice, strip_answer};
use tokio::io::AsyncWriteExt;

use super::CallerAtService;
use super::Service;
use super::answer::problem_of;
use crate::body::HttpBody;
use crate::calls::Calls;
use crate::connections::Connection;
use crate::incoming::IncomingRequest;
use crate::on_wake::OnWake;
use crate::outgoing::HttpAnswer;
use crate::response::Refusal;
use crate::scope::CallScope;
use crate::transport::{Transport, wait};
use crate::websocket::upgraded;

/// How long a WebSocket of somebody without a token may last.
const OPEN_LIFE_MAX: Duration = Duration::from_hours(1);
/// What is told to a caller whose connection cannot change.
const CANNOT_UPGRADE: &str = "The connection cannot become a WebSocket.";

impl Calls {
    /// Asks the service for a WebSocket and joins its end with the caller's. It counts as a stream of the caller.
    pub(super) async fn pass_websocket<B: HttpBody>(
        self: &Arc<Self>,
        service: &Service,
        head: Request<()>,
        incoming: &mut IncomingRequest<B>,
        (admission, credential, in_flight): CallerAtService<'_>,
        scope: &mut CallScope,
    ) -> Result<HttpAnswer, Refusal> {
        let upgrade = incoming.parts.extensions.remove::<OnUpgrade>();
        let upgrade = upgrade.ok_or_else(|| Problem::new(Code::BadRequest, CANNOT_UPGRADE))?;
        let connection = match (credential, admission.account()) {
            (Some(credential), Some(account)) => {
                Some(self.connections.open(&self.engine, credential, account, None).await?)
            }
            _ => None,
        };
        let answered = service.upstream.upgrade(head).await;
        let (mut response, target) = match answered.map_err(|failure| problem_of(&failure, service.name))? {
            Upgrade::Switched { response, io, .. } => (response, io),
            Upgrade::Refused(answer) => {
                return self.pass_on(service, answer, (credential, in_flight), incoming, scope).await;
            }
        };
        strip_answer(response.headers_mut());
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let transport = incoming.parts.extensions.get::<Transport>().cloned().unwrap_or_default();
        tokio::spawn(async move {
            let Some((mut client, read)) = upgraded(upgrade).await else { return };
            let mut target = target;
            // A stranger's may be ended for room, and is one of so many from there.
            let _in_flight = connection.is_none().then_some(in_flight);
            if connection.is_some() {
                transport.set_lasting();
            }
            let joined = async {
                target.write_all(&read).await?;
                splice(&mut client, &mut target).await
            };
            let ended = std::pin::pin!(transport.ended_for_room());
            tokio::select! {
                biased;
                result = joined => {
                    if let Err(error) = result {
                        tracing::debug!(%error, "WebSocket of a service broke off");
                    }
                }
                () = ended_by_us(connection) => {}
                () = OnWake::new(ended) => {}
            }
        });
        let response: Response<Bytes> = response.map(|()| Bytes::new());
        Ok(response.into())
    }
}

/// Resolves when the caller's stream is to end, because the token or the server does.
async fn ended_by_us(connection: Option<Connection>) {
    match connection {
        Some(mut connection) => drop(connection.ended().await),
        None => wait(OPEN_LIFE_MAX).await,
    }
}

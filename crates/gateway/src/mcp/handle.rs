//! What comes of a message: the way from its arrival to the answer, or to the stream that ends with it.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Response, StatusCode};
use portico_engine::input::Fields;
use portico_engine::{Entry, EntryPoint, cancelled};
use portico_kernel::{Code, Problem};
use portico_store::Queries;
use rmcp::model::ErrorCode;

use super::call::{self, OfferedOperation, ToolError};
use super::message::{self, Id, Message, RpcError, RpcOutcome};
use super::request::{RequestContext, RpcRequest};
use super::stream::{AnswerMode, first_message};
use super::{Mcp, methods, revision};
use crate::body::HttpBody;
use crate::incoming::IncomingRequest;
use crate::message::{parse, read_json};
use crate::outgoing::HttpAnswer;
use crate::party::Party;
use crate::response::Refusal;
use crate::scope::CallScope;

impl Mcp {
    /// Answers a message of an assistant.
    pub(crate) async fn handle_mcp<B: HttpBody>(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        incoming: &mut IncomingRequest<B>,
        scope: &mut CallScope,
    ) -> Result<HttpAnswer, Refusal> {
        self.check_origin(&incoming.parts.headers)?;
        let refuse = |refusal: &Refusal, scope: &CallScope| {
            self.calls.not_admitted(&refusal.problem, entry, &scope.request_id);
        };
        let credential = self.authenticate(&incoming.parts.headers).await;
        let credential = credential.inspect_err(|refusal| refuse(refusal, scope))?;
        scope.caller = Some(Party::of(credential.caller()));
        let counted = incoming.mark_authenticated(credential.caller()).map_err(Refusal::from);
        counted.inspect_err(|refusal| refuse(refusal, scope))?;
        if let Err(refusal) = self.require_any_scope(credential.caller()) {
            let context = RequestContext { entry, credential: &credential, parts: &incoming.parts };
            self.admit_message(context, scope).await?;
            refuse(&refusal, scope);
            return Err(refusal);
        }
        self.calls.check_minute(entry, &credential, scope).await?;
        let text = read_json(incoming, entry.spec.body_limit).await;
        incoming.mark_working();
        let message = match text {
            Ok(text) => parse(credential.caller(), text, Message::read)
                .await
                .unwrap_or_else(|problem| Err((None, problem))),
            Err(problem) => Err((None, problem)),
        };
        let context = RequestContext { entry, credential: &credential, parts: &incoming.parts };
        match message {
            Ok(Message::Request { id, method, params }) => {
                let answer = self.answer_request(context, id.clone(), method, params, scope).await;
                Ok(answer.unwrap_or_else(|error| refused(error, &id, scope)))
            }
            Ok(message) => {
                self.admit_message(context, scope).await?;
                self.take(context, message)?;
                let mut response = Response::new(Bytes::new());
                *response.status_mut() = StatusCode::ACCEPTED;
                Ok(response.into())
            }
            Err((id, problem)) => {
                // What is no message counts like one.
                self.admit_message(context, scope).await?;
                match id {
                    Some(id) => Ok(refused(RpcError::new(ErrorCode::INVALID_REQUEST, problem), &id, scope)),
                    None => Err(problem.into()),
                }
            }
        }
    }

    /// Counts a message that is no call of a tool.
    async fn admit_message(
        &self,
        RequestContext { entry, credential, .. }: RequestContext<'_>,
        scope: &mut CallScope,
    ) -> Result<(), Problem> {
        self.calls.admit(entry, EntryPoint::Api, credential, &Fields::new(), scope).await.map(drop)
    }

    /// Takes a message that is not answered.
    fn take(&self, context: RequestContext<'_>, message: Message) -> Result<(), Problem> {
        let (headers, actor) = (&context.parts.headers, context.credential.caller().actor());
        match message {
            Message::Notification { method, params } => {
                revision::check_notification(headers, &method, &params).map_err(|error| error.problem)?;
                if method == "notifications/cancelled" {
                    let named = params.get("requestId").and_then(Id::read);
                    named.inspect(|id| self.running.cancel(&actor, id));
                }
                Ok(())
            }
            Message::Answer { id, result } => {
                revision::check_version(headers).map_err(|error| error.problem)?;
                let id: String = serde_json::from_str(&id.0).unwrap_or_default();
                if self.questions.answer(&actor, &id, result.map(message::value)) {
                    return Ok(());
                }
                Err(Problem::new(Code::NotFound, "Nothing waits for this answer."))
            }
            Message::Request { .. } => Err(Problem::internal("a request is answered, not taken")),
        }
    }

    async fn answer_request(
        self: &Arc<Self>,
        context: RequestContext<'_>,
        id: Id,
        method: String,
        params: Fields,
        scope: &mut CallScope,
    ) -> Result<HttpAnswer, RpcError> {
        let request = match RpcRequest::new(self, context, id, method, params) {
            Ok(request) => request,
            Err(error) => {
                self.admit_message(context, scope).await?;
                return Err(error);
            }
        };
        let is_stateless = request.is_stateless();
        self.answer(request, scope).await.map_err(|error| error.for_revision(is_stateless))
    }

    async fn answer(
        self: &Arc<Self>,
        request: RpcRequest<'_>,
        scope: &mut CallScope,
    ) -> Result<HttpAnswer, RpcError> {
        let (is_call, name) = (request.method == "tools/call", request.params.get("name"));
        if is_call && self.is_own(name) {
            return self.call_tool(request, None, scope).await;
        }
        if is_call && let Some(offered) = self.offered_operation(name, request.context.credential.caller()) {
            return self.call_tool(request, Some(offered), scope).await;
        }
        self.admit_message(request.context, scope).await?;
        // Boxed, like what is offered: a call of a tool should not carry them along.
        if let Some(response) = Box::pin(self.own_method(&request)).await? {
            return Ok(response.into());
        }
        if is_call && !Box::pin(self.is_offered(&request)).await? {
            return Err(call::no_tool(request.params.get("name")));
        }
        if self.offers.is_empty() {
            return Err(RpcError::no_method(&request.method));
        }
        Ok(Box::pin(self.call_offer(request, scope)).await)
    }

    async fn call_tool(
        self: &Arc<Self>,
        mut request: RpcRequest<'_>,
        offered: Option<OfferedOperation>,
        scope: &mut CallScope,
    ) -> Result<HttpAnswer, RpcError> {
        let admitted = match offered {
            None => self.admit_tool(&mut request, scope).await,
            Some(offered) => Box::pin(self.admit_offered(offered, &mut request, scope)).await,
        };
        match admitted {
            Ok(call) => {
                let work = Box::pin(call::run(request.exchange.clone(), call));
                Ok(self.respond(request, work, scope).await)
            }
            Err(ToolError::Protocol(error)) => Err(error),
            Err(ToolError::Result(problem)) => {
                let outcome = self.refusal(&problem, &request.id, &scope.request_id, request.is_stateless());
                Ok(whole(outcome, scope))
            }
        }
    }

    /// Lets the areas answer what they offer.
    async fn call_offer(&self, mut request: RpcRequest<'_>, scope: &mut CallScope) -> HttpAnswer {
        let (id, request_id, exchange) =
            (request.id.clone(), scope.request_id.clone(), request.exchange.clone());
        let method = std::mem::take(&mut request.method);
        let params = message::object(std::mem::take(&mut request.params));
        let mut running = request.running(self);
        let work = async move {
            let answered = tokio::select! {
                answered = methods::offered(&exchange, &id, &method, &params) => answered,
                () = running.cancelled() => Err(cancelled().into()),
            };
            answered.map_or_else(
                |error| {
                    RpcOutcome::refused(&error.for_revision(exchange.revision.is_stateless), &id, &request_id)
                },
                |result| RpcOutcome::done(&id, &result),
            )
        };
        self.respond(request, Box::pin(work), scope).await
    }

    /// Does the work, and answers with what comes of it, or with the stream that ends so.
    async fn respond(
        &self,
        request: RpcRequest<'_>,
        work: BoxFuture<'static, RpcOutcome>,
        scope: &mut CallScope,
    ) -> HttpAnswer {
        let RpcRequest { exchange, context, .. } = request;
        match first_message(work, exchange).await {
            AnswerMode::Whole(outcome) => whole(outcome, scope),
            AnswerMode::Streamed(stream) => {
                let (calls, credential) = (self.calls.clone(), context.credential.clone());
                let is_valid = Arc::new(move || calls.is_valid(&credential));
                stream.answer(context.parts.extensions.get().cloned(), is_valid)
            }
        }
    }
}

fn refused(error: RpcError, id: &Id, scope: &mut CallScope) -> HttpAnswer {
    scope.note(Queries::default(), Some(error.problem.code()));
    error.response(id, &scope.request_id).into()
}

fn whole(outcome: RpcOutcome, scope: &mut CallScope) -> HttpAnswer {
    scope.note(outcome.queries, outcome.code);
    outcome.response().into()
}

//! A tool is called: the operation runs as over REST, and what it answers becomes a result.

use std::sync::Arc;

use futures_util::future::OptionFuture;
use http::StatusCode;
use portico_engine::input::{Fields, Node};
use portico_engine::{
    Call, CallOptions, Entry, EntryPoint, IdempotencyKey, Offer, OperationTool, ToolOperation, cancelled,
};
use portico_kernel::{Code, Problem};
use rmcp::model::ErrorCode;

use super::approval::{self, Approval, ElicitationReply, IrreversibleCall};
use super::exchange::Exchange;
use super::message::{Id, RpcError, RpcOutcome};
use super::request::RpcRequest;
use super::results::ResultWriter;
use super::running::RunningCall;
use super::schema::{IDEMPOTENCY_KEY, PAGE_ITEMS};
use super::{Mcp, auth, results};
use crate::calls::{NO_FIELDS, split};
use crate::credential::Credential;
use crate::scope::CallScope;

/// The operation that a tool is a call of, and the area that offers the tool.
pub(super) type OfferedOperation = (Arc<dyn Offer>, ToolOperation);

/// A call that was admitted.
pub(super) struct ToolCall {
    id: Id,
    entry: Arc<Entry>,
    call: Call,
    /// What the person is asked about, if it cannot be undone, and what they said.
    approval: Option<(IrreversibleCall, ElicitationReply)>,
    /// Does it change something?
    is_write: bool,
    /// Held until the call has ended.
    _running: RunningCall,
}

/// Why a call of a tool gives no answer.
pub(super) enum ToolError {
    /// The protocol or the platform failed, which is an error of JSON-RPC.
    Protocol(RpcError),
    /// The call was refused, which is a result that a model can read.
    Result(Problem),
}

impl From<Problem> for ToolError {
    fn from(problem: Problem) -> Self {
        if is_fault(&problem) { Self::Protocol(problem.into()) } else { Self::Result(problem) }
    }
}

impl From<RpcError> for ToolError {
    fn from(error: RpcError) -> Self {
        Self::Protocol(error)
    }
}

/// Is it a failure of the protocol or of the platform, and not of what was asked?
fn is_fault(problem: &Problem) -> bool {
    matches!(problem.code(), Code::RateLimited | Code::Unavailable | Code::Internal)
}

impl Mcp {
    /// Admits a call of the tool that the request names: its scope, the account, the minute.
    pub(super) async fn admit_tool(
        &self,
        request: &mut RpcRequest<'_>,
        scope: &mut CallScope,
    ) -> Result<ToolCall, ToolError> {
        let (credential, params) = (request.context.credential, &mut request.params);
        let tools = self.tools.load_full();
        let tool = match params.remove("name") {
            Some(Node::Text(name)) if let Some(tool) = tools.get(&name) => tool,
            name => return Err(no_tool(name.as_ref()).into()),
        };
        scope.operation = Some(tool.entry.spec.name);
        self.require_scopes(&tool.entry, EntryPoint::Tool, credential, scope).await?;
        let (mut fields, fits) = take_arguments(params);
        let irreversible =
            tool.tool.irreversible.then(|| IrreversibleCall::new(tool.tool.name, tool.tool.title, &fields));
        let key = (!tool.entry.spec.only_reads()).then(|| fields.remove(IDEMPOTENCY_KEY)).flatten();
        tool.fill_account(credential.caller(), &mut fields);
        let admitted = self.calls.admit_named(&tool.entry, EntryPoint::Tool, credential, fields, scope).await;
        let (admission, message) = fitting(admitted, fits)?;
        let key = idempotency_key(key)?;
        // Nobody is asked about what cannot be done anyway.
        if irreversible.is_some() {
            tool.checked(&message)?;
        }
        let approval = irreversible.map(|call| (call, ElicitationReply::take(params)));
        let mut running = request.running(self);
        let options = CallOptions {
            page_size: PAGE_ITEMS,
            page_bytes: results::ANSWER_BYTES,
            progress: Some(request.exchange.clone()),
            gone: running.gone_from(tool.entry.spec),
        };
        let call = scope.call(admission, message, None, key, options);
        let (id, entry) = (request.id.clone(), tool.entry.clone());
        let is_write = !entry.spec.only_reads();
        Ok(ToolCall { id, entry, call, approval, is_write, _running: running })
    }

    /// Admits a call of a tool that an area offers and that is a call of an operation. Nothing is looked up for whoever is not
    /// admitted; the tool is looked for once the call has its place in the caller's minute.
    pub(super) async fn admit_offered(
        &self,
        (offer, of): OfferedOperation,
        request: &mut RpcRequest<'_>,
        scope: &mut CallScope,
    ) -> Result<ToolCall, ToolError> {
        let (credential, params) = (request.context.credential, &mut request.params);
        let catalog = self.calls.engine.registry.catalog();
        let entry = catalog.entry(of.operation).cloned();
        let entry = entry.ok_or_else(|| Problem::internal("a tool of an operation that there is not"))?;
        scope.operation = Some(entry.spec.name);
        let entry_point = EntryPoint::Offered(of.scopes);
        self.require_scopes(&entry, entry_point, credential, scope).await?;
        let admitted = self.calls.admit(&entry, entry_point, credential, &NO_FIELDS, scope).await;
        let (arguments, fits) = take_arguments(params);
        let admission = fitting(admitted, fits)?;
        let name = match params.remove("name") {
            Some(Node::Text(name)) => name,
            name => return Err(no_tool(name.as_ref()).into()),
        };
        let tool = self.offered_tool(&*offer, &name, (&entry, credential), &scope.request_id).await?;
        let irreversible = tool.irreversible.then(|| IrreversibleCall::new(&name, &tool.title, &arguments));
        let mut fields = tool.fields;
        fields.insert(tool.arguments.to_owned(), Node::Object(arguments));
        let (mut message, path) = split(&entry, fields);
        message.extend(path?);
        let approval = irreversible.map(|call| (call, ElicitationReply::take(params)));
        let mut running = request.running(self);
        let options = CallOptions {
            progress: Some(request.exchange.clone()),
            gone: running.gone_from(entry.spec),
            ..CallOptions::default()
        };
        let call = scope.call(admission, message, None, None, options);
        let (id, is_write) = (request.id.clone(), !tool.only_reads);
        Ok(ToolCall { id, entry, call, approval, is_write, _running: running })
    }

    /// The caller's tool of that name, whose scopes they hold.
    async fn offered_tool(
        &self,
        offer: &dyn Offer,
        name: &str,
        (entry, credential): (&Entry, &Credential),
        request_id: &str,
    ) -> Result<OperationTool, ToolError> {
        let found = offer.operation_tool(&self.calls.engine, credential.caller(), name).await;
        let found = found.inspect_err(|problem| self.calls.not_admitted(problem, entry, request_id))?;
        let Some(tool) = found else {
            return Err(no_tool(Some(&Node::Text(name.to_owned()))).into());
        };
        let checked = self.check_scopes(entry, EntryPoint::Offered(tool.scopes), credential);
        checked.inspect_err(|error| self.calls.not_admitted(&error.problem, entry, request_id))?;
        Ok(tool)
    }

    /// Refuses a caller that lacks a scope of the tool.
    async fn require_scopes(
        &self,
        entry: &Entry,
        entry_point: EntryPoint,
        credential: &Credential,
        scope: &mut CallScope,
    ) -> Result<(), ToolError> {
        let checked = self.check_scopes(entry, entry_point, credential);
        if let Err(error) = &checked {
            self.calls.refuse(entry, credential, &error.problem, scope).await;
        }
        Ok(checked?)
    }

    /// Names all the scopes that the caller lacks: admission would name only the first.
    fn check_scopes(
        &self,
        entry: &Entry,
        entry_point: EntryPoint,
        credential: &Credential,
    ) -> Result<(), RpcError> {
        let missing = entry_point.missing(entry.spec, credential.caller());
        if missing.is_empty() {
            return Ok(());
        }
        let problem = auth::missing_scopes(&missing);
        let challenge = self.step_up(credential.caller(), &missing);
        Err(RpcError { challenge, ..RpcError::new(ErrorCode::INVALID_REQUEST, problem) })
    }

    /// The result of a call that was refused, as an answer.
    pub(super) fn refusal(
        &self,
        problem: &Problem,
        id: &Id,
        request_id: &str,
        is_stateless: bool,
    ) -> RpcOutcome {
        let writer = ResultWriter { is_stateless, id, server: &self.server };
        match writer.refused(&problem.to_json(request_id)) {
            Ok(text) => RpcOutcome { code: Some(problem.code()), ..RpcOutcome::answered(text) },
            Err(problem) => RpcOutcome::refused(&problem.into(), id, request_id),
        }
    }
}

/// The arguments, and whether they are an object.
fn take_arguments(params: &mut Fields) -> (Fields, bool) {
    match params.remove("arguments") {
        None | Some(Node::Null) => (Fields::new(), true),
        Some(Node::Object(arguments)) => (arguments, true),
        Some(_) => (Fields::new(), false),
    }
}

/// What was admitted, if its arguments are an object too.
fn fitting<T>(admitted: Result<T, Problem>, fits: bool) -> Result<T, ToolError> {
    if !fits && !admitted.as_ref().is_err_and(is_fault) {
        let problem = Problem::field("params.arguments", "must be an object");
        return Err(RpcError::params(problem).into());
    }
    Ok(admitted?)
}

/// Refuses a call of a tool that there is not.
pub(super) fn no_tool(name: Option<&Node>) -> RpcError {
    let Some(Node::Text(name)) = name else {
        return RpcError::params(Problem::field("params.name", "must be the name of a tool"));
    };
    let name: String = name.chars().take(100).collect();
    let message = format!("There is no tool `{name}`; `tools/list` lists those that there are.");
    // The protocol answers such a call; only its own faults have a status.
    let status = Some(StatusCode::OK);
    RpcError { status, ..RpcError::params(Problem::new(Code::NotFound, message)) }
}

/// Runs a call that was admitted. Dropped, it rolls back what is not committed yet.
pub(super) async fn run(exchange: Arc<Exchange>, call: ToolCall) -> RpcOutcome {
    let (id, request_id) = (call.id.clone(), call.call.request_id.clone());
    let is_stateless = exchange.revision.is_stateless;
    match run_tool(&exchange, call).await {
        Ok(outcome) => outcome,
        Err(ToolError::Protocol(error)) => {
            RpcOutcome::refused(&error.for_revision(is_stateless), &id, &request_id)
        }
        Err(ToolError::Result(problem)) => exchange.mcp.refusal(&problem, &id, &request_id, is_stateless),
    }
}

/// The key that makes the call safe to repeat.
fn idempotency_key(sent: Option<Node>) -> Result<Option<IdempotencyKey>, Problem> {
    let malformed = || Problem::field(IDEMPOTENCY_KEY, "must be 1 to 255 visible characters, without spaces");
    match sent {
        None | Some(Node::Null) => Ok(None),
        Some(Node::Text(key)) => IdempotencyKey::parse(key.as_bytes()).map(Some).map_err(|_| malformed()),
        Some(_) => Err(malformed()),
    }
}

async fn run_tool(exchange: &Exchange, tool: ToolCall) -> Result<RpcOutcome, ToolError> {
    let ToolCall { id, entry, mut call, approval, is_write, _running } = tool;
    let mcp = &exchange.mcp;
    if let Some((irreversible, reply)) = approval {
        let approval = tokio::select! {
            approval = Box::pin(approval::request_approval(exchange, &irreversible, reply)) => approval?,
            Some(_) = OptionFuture::from(call.options.gone.as_mut()) => return Err(cancelled().into()),
        };
        match approval {
            Approval::Granted(own) => {
                let own = own.map(|own| IdempotencyKey::parse(own.as_bytes())).transpose()?;
                call.idempotency_key = call.idempotency_key.or(own);
            }
            Approval::Declined => return Err(approval::declined().into()),
            Approval::Unavailable(problem) => return Err(problem.into()),
            Approval::InputRequired(mut question) => {
                question["_meta"] = serde_json::from_str(&mcp.server).map_err(Problem::internal)?;
                return Ok(RpcOutcome::done(&id, &question.to_string()));
            }
        }
    }
    let reply = mcp.calls.run(&entry, call).await?;
    let is_stateless = exchange.revision.is_stateless;
    let writer = ResultWriter { is_stateless, id: &id, server: &mcp.server };
    let (code, queries) = (reply.refused.map(|(code, _)| code), reply.queries);
    let is_refusal = code.is_some() && reply.replayed;
    let next_page_token = reply.next_page_token.clone();
    let body = reply.into_json()?;
    let text = if is_refusal {
        writer.refused(&body)?
    } else {
        writer.done(&body, next_page_token.as_deref(), is_write)?
    };
    Ok(RpcOutcome { code, queries, ..RpcOutcome::answered(text) })
}

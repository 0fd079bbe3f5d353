//! A tool is called: the operation runs as over REST, and what it answers becomes a result.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use portico_engine::clock::Stopwatch;
use portico_engine::input::{Fields, Node};
use portico_engine::{Admission, CallOptions, EntryPoint, IdempotencyKey, cancelled};
use portico_kernel::{Code, Problem};
use portico_metering::MeteredCall;
use rmcp::model::ErrorCode;
use tokio::sync::oneshot;

use super::approval::{self, Approval, Brought, Deed};
use super::exchange::Exchange;
use super::message::{Fault, Id, answer};
use super::results::Frame;
use super::running::UnderWay;
use super::tools::{IDEMPOTENCY_KEY, PAGE_ITEMS};
use super::{Mcp, door, results};
use crate::calls::{CallMessage, Calls, NO_FIELDS, Trace};
use crate::tokens::Bearer;

/// How a request ended.
pub(super) struct Ended {
    /// The whole answer.
    pub(super) text: Bytes,
    pub(super) status: StatusCode,
    /// How it ended for the request log.
    pub(super) code: Option<Code>,
    pub(super) queries: u32,
    pub(super) retry_seconds: Option<i64>,
}

impl Ended {
    pub(super) fn done(id: &Id, result: &str) -> Self {
        let text = answer(id, "result", result);
        Self { text, status: StatusCode::OK, code: None, queries: 0, retry_seconds: None }
    }

    pub(super) fn refused(fault: &Fault, id: &Id, request_id: &str) -> Self {
        let (problem, text) = (&fault.problem, fault.text(id, request_id));
        let (code, retry_seconds) = (Some(problem.code()), problem.retry_seconds());
        Self { text, status: fault.status(), code, queries: 0, retry_seconds }
    }

    /// The status of the request log, where a refusal of the operation is one.
    pub(super) fn logged(&self) -> u16 {
        self.code.map_or(self.status.as_u16(), Code::status)
    }
}

/// A call that was admitted.
pub(super) struct ToolCall {
    pub(super) id: Id,
    pub(super) request_id: String,
    name: String,
    message: Fields,
    key: Option<IdempotencyKey>,
    /// What the person is asked about, if it cannot be undone, and what they said.
    deed: Option<(Deed, Brought)>,
    admitted: Option<Admission>,
    ticket: Option<Arc<MeteredCall>>,
    /// Until it is taken back.
    pub(super) running: UnderWay,
}

/// Is it a failure of the protocol or of the platform, and not of what was asked?
fn is_fault(problem: &Problem) -> bool {
    matches!(problem.code(), Code::RateLimited | Code::Unavailable | Code::Internal)
}

impl Mcp {
    /// Admits a call of the tool that `params` name: its scope, the account, the minute. What comes of it before it runs
    /// is an error of the protocol, or a result.
    pub(super) async fn admit(
        &self,
        calls: &Calls,
        (id, mut params): (&Id, Fields),
        bearer: &Bearer,
        (request_id, watch): (&str, Stopwatch),
        trace: &mut Trace,
    ) -> Result<Result<ToolCall, Problem>, Fault> {
        let name = params.remove("name");
        let (name, tool) = match name {
            Some(Node::Text(name)) if let Some(tool) = self.tools.get(&name) => (name, tool),
            name => return Err(no_tool(name.as_ref())),
        };
        trace.operation = Some(tool.entry.spec.name);
        let missing = tool.missing(bearer.caller());
        if !missing.is_empty() {
            let problem = door::lacking(&missing);
            // It is refused there too, and counted; here it says all that is missing.
            let call = (request_id, watch);
            let _ = calls.admit(&tool.entry, EntryPoint::Tool, bearer, call, &NO_FIELDS, trace).await;
            calls.not_admitted(&problem, &tool.entry, request_id);
            let challenge = self.step_up(bearer.caller(), &missing);
            return Err(Fault { challenge, ..Fault::new(ErrorCode::INVALID_REQUEST, problem) });
        }
        let (mut fields, fits) = match params.remove("arguments") {
            None | Some(Node::Null) => (Fields::new(), true),
            Some(Node::Object(arguments)) => (arguments, true),
            Some(_) => (Fields::new(), false),
        };
        let about = tool.tool.irreversible.then(|| Deed::new(tool, &fields));
        let key = (!tool.entry.spec.only_reads()).then(|| fields.remove(IDEMPOTENCY_KEY)).flatten();
        tool.fill_account(bearer.caller(), &mut fields);
        let call = (request_id, watch);
        let admitted = calls.admit_named(&tool.entry, EntryPoint::Tool, bearer, fields, call, trace).await;
        let message = match admitted {
            Err(problem) if is_fault(&problem) => return Err(problem.into()),
            _ if !fits => {
                return Err(Fault::params(Problem::field("params.arguments", "must be an object")));
            }
            Ok(message) => message,
            Err(problem) => return Ok(Err(problem)),
        };
        let key = match idempotency_key(key) {
            Ok(key) => key,
            Err(problem) => return Ok(Err(problem)),
        };
        // Nobody is asked about what cannot be done anyway.
        if let (Some(_), Err(problem)) = (&about, tool.checked(&message)) {
            return Ok(Err(problem));
        }
        Ok(Ok(ToolCall {
            id: id.clone(),
            request_id: request_id.to_owned(),
            name,
            message,
            key,
            deed: about.map(|deed| (deed, Brought::take(&mut params))),
            admitted: trace.admitted.clone(),
            ticket: trace.ticket.clone(),
            running: UnderWay::default(),
        }))
    }

    /// The result of a call that was refused, as an answer.
    pub(super) fn refusal(&self, problem: &Problem, id: &Id, request_id: &str, modern: bool) -> Ended {
        let frame = Frame { modern, server: &self.server };
        match frame.refused(&problem.to_json(request_id)) {
            Ok(text) => Ended { code: Some(problem.code()), ..Ended::done(id, &text) },
            Err(problem) => Ended::refused(&problem.into(), id, request_id),
        }
    }
}

/// Refuses a call of a tool that there is not.
pub(super) fn no_tool(name: Option<&Node>) -> Fault {
    let Some(Node::Text(name)) = name else {
        return Fault::params(Problem::field("params.name", "must be the name of a tool"));
    };
    let name: String = name.chars().take(100).collect();
    let words = format!("There is no tool `{name}`; `tools/list` lists those that there are.");
    // The protocol answers such a call; only its own faults have a status.
    let status = Some(StatusCode::OK);
    Fault { status, ..Fault::params(Problem::new(Code::NotFound, words)) }
}

/// Runs a call that was admitted. Dropped, it takes back what is not done yet.
pub(super) async fn run(calls: Arc<Calls>, exchange: Arc<Exchange>, call: ToolCall) -> Ended {
    let (id, request_id) = (call.id.clone(), call.request_id.clone());
    let (mcp, modern) = (exchange.mcp.clone(), exchange.era.modern);
    let mut trace =
        Trace { admitted: call.admitted.clone(), ticket: call.ticket.clone(), ..Trace::default() };
    let result = run_tool(&calls, &exchange, call, &mut trace).await;
    let ended = match result {
        Ok(text) => Ended { code: trace.code, ..Ended::done(&id, &text) },
        Err(fault) if is_fault(&fault.problem) || fault.code == ErrorCode::INVALID_PARAMS => {
            Ended::refused(&fault.for_era(modern), &id, &request_id)
        }
        Err(fault) => mcp.refusal(&fault.problem, &id, &request_id, modern),
    };
    Ended { queries: trace.queries, ..ended }
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

async fn run_tool(
    calls: &Calls,
    exchange: &Arc<Exchange>,
    mut call: ToolCall,
    trace: &mut Trace,
) -> Result<String, Fault> {
    let (mcp, modern) = (&exchange.mcp, exchange.era.modern);
    let tool = mcp.tools.get(&call.name).ok_or_else(|| Problem::internal("a tool that was there is gone"))?;
    let mut gone = call.running.gone_from(&tool.entry.spec);
    let mut key = call.key;
    if let Some((deed, brought)) = call.deed {
        let approval = tokio::select! {
            approval = Box::pin(approval::seek(exchange, &deed, brought)) => approval?,
            () = ended(&mut gone) => return Err(cancelled().into()),
        };
        match approval {
            Approval::Given(own) => {
                let own = own.map(|own| IdempotencyKey::parse(own.as_bytes())).transpose()?;
                key = key.or(own);
            }
            Approval::Declined => return Err(approval::declined().into()),
            Approval::Unasked(problem) => return Err(problem.into()),
            Approval::Asked(mut question) => {
                question["_meta"] = serde_json::from_str(&mcp.server).map_err(Problem::internal)?;
                return Ok(question.to_string());
            }
        }
    }
    let options = CallOptions {
        page_size: PAGE_ITEMS,
        page_bytes: results::ANSWER_BYTES,
        progress: Some(exchange.clone()),
        gone,
    };
    let message = CallMessage { fields: call.message, attachment: None, idempotency_key: key };
    let reply = calls.run(&tool.entry, message, options, &call.request_id, trace).await?;
    let frame = Frame { modern, server: &mcp.server };
    let is_refusal = reply.refused.is_some() && reply.replayed;
    let next_page_token = reply.next_page_token.clone();
    let body = reply.into_json()?;
    if is_refusal {
        return Ok(frame.refused(&body)?);
    }
    Ok(frame.done(&body, next_page_token.as_deref())?)
}

/// Ends when nobody waits any more.
async fn ended(gone: &mut Option<oneshot::Receiver<()>>) {
    match gone {
        Some(gone) => drop(gone.await),
        None => std::future::pending().await,
    }
}

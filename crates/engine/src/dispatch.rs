//! How a call runs, on every transport.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use portico_kernel::{AccountId, Code, Problem, Secret};
use portico_store::Queries;
use tokio::sync::oneshot;

use crate::idempotency::{Claim, ClaimOutcome, is_kept, lost_claim};
use crate::input::{Attachment, Fields};
use crate::operation::Ready;
use crate::paging::Paging;
use crate::ports::{Charge, Progress};
use crate::{
    ANSWER_BYTES_MAX, Admission, Body, Ctx, Engine, Entry, IdempotencyKey, Method, Output, PageSize, within,
};

/// The longest that an operation may run. Shorter than the lease of an Idempotency-Key.
pub const OPERATION_TIME_MAX: Duration = Duration::from_secs(30);
/// What a call may take beyond that, to claim its key and to commit or roll back.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(3);

/// A call that was admitted.
pub struct Call {
    /// Who calls, in which account.
    pub admitted: Admission,
    /// The call's id.
    pub request_id: Arc<str>,
    /// The message.
    pub fields: Fields,
    /// What comes beside the message: the raw request, or an upload.
    pub attachment: Option<Attachment>,
    /// The caller's Idempotency-Key, if the operation takes one.
    pub idempotency_key: Option<IdempotencyKey>,
    /// What it costs, if it counts against an account.
    pub charge: Option<Arc<dyn Charge>>,
    /// What the transport asks for.
    pub options: CallOptions,
    /// What is given back once the call has ended, also when its caller has gone meanwhile, or when it only waits for
    /// somebody else ([`Ctx::give_back`]).
    pub held: Option<Box<dyn Send + Sync>>,
}

/// What a transport asks for beside the call itself.
pub struct CallOptions {
    /// The number of items of a page when the caller names none.
    pub page_size: u16,
    /// Byte budget of a page; a page always holds at least one item.
    pub page_bytes: usize,
    /// Is told how far the operation is.
    pub progress: Option<Arc<dyn Progress>>,
    /// Resolves when the client disconnects; uncommitted work is then rolled back. Without it, a write that was begun is
    /// finished whether or not the client waits.
    pub gone: Option<oneshot::Receiver<()>>,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self { page_size: PageSize::DEFAULT, page_bytes: ANSWER_BYTES_MAX, progress: None, gone: None }
    }
}

/// How a kept answer that is no refusal says so.
const OK: &str = "ok";

/// What goes back to the caller.
#[derive(Debug)]
pub struct Reply {
    /// The answer, or the `Problem` of a refusal that was kept.
    pub body: Body,
    /// The code and the `Retry-After` of a refusal that was kept.
    pub refused: Option<(Code, Option<i64>)>,
    /// Is this an answer that was kept?
    pub replayed: bool,
    /// The token of the next page.
    pub next_page_token: Option<String>,
    /// What the `ETag` is made of, where that is not the whole answer.
    pub tagged: Option<Bytes>,
    /// What it cost the database.
    pub queries: Queries,
}

impl Reply {
    fn new(output: Output, queries: Queries) -> Self {
        let Output { body, next_page_token, refused, tagged } = output;
        let refused = refused.map(|code| (code, None));
        Self { body, refused, replayed: false, next_page_token, tagged, queries }
    }

    /// The text of an answer that is JSON; any other answer cannot be given where this is asked.
    pub fn into_json(self) -> Result<Bytes, Problem> {
        self.body.into_json()
    }

    /// How an answer is kept: a line that says how it ended, when to come back, and in which account the call acted, then
    /// the text as it went out.
    fn keep(refused: Option<&Problem>, account: Option<AccountId>, body: &[u8]) -> Secret<Vec<u8>> {
        let outcome = refused.map_or(OK, |problem| problem.code().name());
        let retry = refused.and_then(Problem::retry_seconds).map(|seconds| seconds.to_string());
        let account = account.map(|account| account.to_string());
        let line = [outcome, &retry.unwrap_or_default(), &account.unwrap_or_default()].join(" ");
        Secret::new([line.as_bytes(), b"\n", body].concat())
    }

    /// The answer that was kept, and the account that the call acted in.
    pub(crate) fn from_kept(kept: &[u8]) -> Option<(Self, Option<AccountId>)> {
        let end = kept.iter().position(|byte| *byte == b'\n')?;
        let mut words = str::from_utf8(&kept[..end]).ok()?.split(' ');
        let (outcome, retry) = (words.next()?, words.next().unwrap_or_default());
        let refused = match outcome {
            OK => None,
            code => Some((*Code::ALL.iter().find(|known| known.name() == code)?, retry.parse().ok())),
        };
        let account = match words.next() {
            None | Some("") => None,
            Some(account) => Some(account.parse().ok()?),
        };
        let body = Body::Json(Bytes::copy_from_slice(&kept[end + 1..]));
        let queries = Queries::default();
        let reply = Self { body, refused, replayed: true, next_page_token: None, tagged: None, queries };
        Some((reply, account))
    }
}

/// Runs a call. What it writes is kept if and only if it succeeds; a panic is a refusal like any other.
pub async fn dispatch(engine: &Arc<Engine>, entry: &Arc<Entry>, call: Call) -> Result<Reply, Problem> {
    // Beyond the operation's own time only a database that does not answer takes so long. What is dropped then is
    // rolled back by the database, and a claim ends with its lease.
    let limit = engine.time_limit(entry.spec) + SETTLE_TIME_MAX;
    if entry.spec.method == Method::Get {
        return within(limit, pin!(run(engine, entry, call))).await.unwrap_or_else(|| Err(timed_out()));
    }
    // A caller that goes away does not stop a write half-way, nor leave its answer unkept. Where going away cancels
    // the call, it is rolled back in order.
    let (engine, entry) = (engine.clone(), entry.clone());
    let task = tokio::spawn(async move { tokio::time::timeout(limit, run(&engine, &entry, call)).await });
    match task.await {
        Ok(ended) => ended.unwrap_or_else(|_| Err(timed_out())),
        Err(panic) => Err(Problem::internal(panic)),
    }
}

/// 504.
pub fn timed_out() -> Problem {
    Problem::new(Code::Timeout, "The call took too long.").retry_after(Duration::from_secs(1))
}

/// 499, which hardly anybody hears: it stands in the request log.
pub fn cancelled() -> Problem {
    Problem::new(Code::Cancelled, "The call was taken back before it was done.")
}

async fn run(engine: &Arc<Engine>, entry: &Entry, mut call: Call) -> Result<Reply, Problem> {
    let (spec, now) = (entry.spec, engine.clock.now());
    let held = call.held.take();
    let whole = call.idempotency_key.is_some().then(|| call.fields.clone());
    let paging = match spec.list {
        Some(_) => {
            let Admission { caller, account } = &call.admitted;
            let binding = (spec, &**caller, *account);
            let fields = &mut call.fields;
            Some(Paging::take(binding, fields, call.options.page_size, &engine.keyring, now)?)
        }
        None => None,
    };
    let ready = entry.prepare(call.fields)?;
    let CallOptions { page_bytes, progress, gone, .. } = call.options;
    let ctx = Ctx::new(engine, spec, call.admitted, call.request_id.clone(), now)
        .with_paging(paging.map(|paging| (paging, page_bytes)))
        .with_progress(progress)
        .with_attachment(call.attachment)
        .with_held(held);
    let step = Step { ready, charge: call.charge.clone(), gone };
    let result = match (call.idempotency_key, whole) {
        // Boxed, because it is large and seldom taken.
        (Some(key), Some(fields)) => {
            Box::pin(run_once(engine, ctx, step, &key, &fields, &call.request_id)).await
        }
        _ => run_always(ctx, step).await,
    };
    if let Some(charge) = call.charge {
        charge.settle(match &result {
            Ok(reply) => reply.refused.map(|(code, _)| code),
            Err(problem) => Some(problem.code()),
        });
    }
    if let Err(problem) = &result {
        log_failure(problem, spec.name, &call.request_id);
    }
    result
}

/// Logs what lies behind a refusal. Once, where it is handled: here, or where a transport refuses before it gets here.
pub fn log_failure(problem: &Problem, operation: &str, request_id: &str) {
    if let Some(cause) = problem.cause() {
        tracing::error!(operation, request_id, code = problem.code().name(), %cause, "A call failed");
    }
}

/// An operation that may run, once it is paid for.
struct Step {
    ready: Box<dyn Ready>,
    charge: Option<Arc<dyn Charge>>,
    gone: Option<oneshot::Receiver<()>>,
}

async fn run_always(mut ctx: Ctx, step: Step) -> Result<Reply, Problem> {
    let result = match attempt(&mut ctx, step).await {
        Ok(output) => match ctx.write_records().await {
            Ok(()) => Ok(output),
            Err(error) => Err(error.into()),
        },
        Err(problem) => Err(problem),
    };
    match result {
        Ok(output) => {
            ctx.commit().await?;
            Ok(Reply::new(output, ctx.queries()))
        }
        Err(problem) => {
            ctx.rollback();
            Err(problem)
        }
    }
}

async fn run_once(
    engine: &Arc<Engine>,
    mut ctx: Ctx,
    step: Step,
    key: &IdempotencyKey,
    fields: &Fields,
    request_id: &str,
) -> Result<Reply, Problem> {
    let spec = ctx.spec();
    let claim = match Claim::take(engine, spec, &mut ctx, key, fields).await? {
        ClaimOutcome::Ours(claim, steps) => {
            let claim = Arc::new(claim);
            ctx.set_claim(claim.clone(), steps);
            claim
        }
        ClaimOutcome::Kept(reply, account) => {
            // An operation may have chosen its account itself, where admission did not look.
            if let Some(account) = account {
                ctx.account(Some(account.into())).await?;
            }
            return Ok(reply);
        }
    };
    let problem = match attempt(&mut ctx, step).await {
        Ok(output) => match keep_answer(engine, &mut ctx, &claim, output).await {
            Ok(reply) => return Ok(reply),
            Err(problem) => problem,
        },
        Err(problem) if is_kept(problem.code()) => {
            ctx.rollback();
            match keep_refusal(engine, &mut ctx, &claim, &problem, request_id).await {
                Ok(()) => return Err(problem),
                Err(problem) => problem,
            }
        }
        Err(problem) => problem,
    };
    ctx.rollback();
    claim.release(engine).await;
    Err(problem)
}

async fn keep_answer(
    engine: &Engine,
    ctx: &mut Ctx,
    claim: &Claim,
    output: Output,
) -> Result<Reply, Problem> {
    // The registry takes no operation that accepts a key and answers with anything but JSON.
    let Body::Json(text) = &output.body else {
        return Err(Problem::internal("an answer that cannot be kept"));
    };
    let kept = Reply::keep(None, ctx.current_account(), text);
    claim.keep(engine, ctx, &kept).await?;
    ctx.write_records().await?;
    ctx.commit().await.map_err(lost_claim)?;
    Ok(Reply::new(output, ctx.queries()))
}

/// A refusal by the operation is an answer too. It is kept in a transaction of its own, since its own was rolled back.
async fn keep_refusal(
    engine: &Engine,
    ctx: &mut Ctx,
    claim: &Claim,
    problem: &Problem,
    request_id: &str,
) -> Result<(), Problem> {
    let kept = Reply::keep(Some(problem), ctx.current_account(), &problem.to_json(request_id));
    claim.keep(engine, ctx, &kept).await?;
    ctx.commit().await.map_err(lost_claim)
}

/// Takes the price and runs the operation itself, within its time, and turns a panic into a refusal.
async fn attempt(ctx: &mut Ctx, step: Step) -> Result<Output, Problem> {
    if let Some(paying) = step.charge.as_ref().and_then(|charge| charge.pay()) {
        paying.await?;
    }
    let limit = ctx.engine().time_limit(ctx.spec());
    let ended = {
        let running = pin!(AssertUnwindSafe(step.ready.run(ctx)).catch_unwind());
        match step.gone {
            None => within(limit, running).await,
            Some(gone) => tokio::select! {
                biased;
                ended = within(limit, running) => ended,
                _ = gone => return Err(cancelled()),
            },
        }
    };
    if let (Some(units), Some(charge)) = (ctx.take_units(), &step.charge) {
        charge.reprice(units).await?;
    }
    match ended {
        Some(Ok(result)) => result,
        Some(Err(panic)) => {
            let message = panic.downcast_ref::<&str>().map(|message| (*message).to_owned());
            let message = message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(Problem::internal(format!("a panic: {message}")))
        }
        None => Err(timed_out()),
    }
}

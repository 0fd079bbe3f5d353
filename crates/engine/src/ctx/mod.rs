//! What an operation may use while it runs.

mod records;
mod step;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use portico_kernel::{
    AccountId, Caller, CallerKind, Code, EndpointId, EventId, Id, Kind, Problem, Timestamp,
};
use portico_store::{Queries, StoreError, Tx};
use serde_json::{Value, json};

use crate::event::AuditWritten;
use crate::input::{Attachment, RawRequest, Upload};
use crate::paging::{self, Paging};
use crate::ports::{AfterCommit, NewEvent, Progress, account_closed};

use crate::{AccountRef, Admission, Cursor, Engine, Event, Method, PageRequest, Spec};
pub use records::Publication;
pub(crate) use records::{AuditRecord, Record};
use step::KeyedSteps;

/// The limit of an event's data, in bytes; with its envelope a delivery stays within 64 KiB.
pub const EVENT_BYTES_MAX: usize = 63 << 10;

/// What an operation may use while it runs: the caller, the time, ids, and the transaction.
pub struct Ctx {
    engine: Arc<Engine>,
    spec: &'static Spec,
    caller: Arc<Caller>,
    account: Option<AccountId>,
    request_id: Arc<str>,
    now: Timestamp,
    paging: Option<(Paging, usize)>,
    progress: Option<Arc<dyn Progress>>,
    attachment: Option<Attachment>,
    /// What is given back when the call has ended.
    held: Option<Box<dyn Send + Sync>>,
    /// With an Idempotency-Key, what has been committed of the call.
    steps: Option<Box<KeyedSteps>>,
    /// The steps that were begun in this run.
    step_names: Vec<&'static str>,
    tx: Option<Tx>,
    records: Vec<Record>,
    after_commit: Vec<AfterCommit>,
    await_before_reply: Option<BeforeReply>,
    units: Option<u32>,
    queries: Queries,
}

/// An account whose row is locked until the commit, and in which the caller may act.
#[derive(Debug, Clone, Copy)]
pub struct LockedAccount {
    /// The account.
    pub id: AccountId,
    is_active: bool,
}

impl LockedAccount {
    /// The account; refuses one that is suspended or about to be erased, to which nothing may be added.
    pub fn active(self) -> Result<AccountId, Problem> {
        if self.is_active { Ok(self.id) } else { Err(account_closed()) }
    }
}

/// What is waited for between the commit and the answer.
type BeforeReply = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

impl Ctx {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        spec: &'static Spec,
        admitted: Admission,
        request_id: Arc<str>,
        now: Timestamp,
    ) -> Self {
        Self {
            engine: engine.clone(),
            spec,
            caller: admitted.caller,
            account: admitted.account,
            request_id,
            now,
            paging: None,
            progress: None,
            attachment: None,
            held: None,
            steps: None,
            step_names: Vec::new(),
            tx: None,
            records: Vec::new(),
            after_commit: Vec::new(),
            await_before_reply: None,
            units: None,
            queries: Queries::default(),
        }
    }

    /// What the call costs, where only its answer tells; otherwise it is the price of the operation.
    pub fn set_units(&mut self, units: u32) {
        self.units = Some(units);
    }

    pub(crate) fn take_units(&mut self) -> Option<u32> {
        self.units.take()
    }

    /// For the operator at the command line, outside of any call. Ends with [`Ctx::finish`].
    pub fn operator(engine: &Arc<Engine>) -> Self {
        const OPERATOR: &Spec = &Spec::post("operator", "/");
        let admitted = Admission { caller: Arc::new(Caller::operator()), account: None };
        Self::new(engine, OPERATOR, admitted, "".into(), engine.clock.now())
    }

    /// For what the platform does by itself. Ends with [`Ctx::finish`].
    pub fn platform(engine: &Arc<Engine>) -> Self {
        Self::acting(engine, Caller::platform(), "")
    }

    /// For whoever acts through a page, outside of any operation. Ends with [`Ctx::finish`]; dropped before that,
    /// nothing of it remains.
    pub fn acting(engine: &Arc<Engine>, caller: Caller, request_id: &str) -> Self {
        const PAGE: &Spec = &Spec::post("page", "/");
        let admitted = Admission { caller: Arc::new(caller), account: None };
        Self::new(engine, PAGE, admitted, request_id.into(), engine.clock.now())
    }

    /// The page that is asked for, and how many bytes it may take.
    pub(crate) fn with_paging(mut self, paging: Option<(Paging, usize)>) -> Self {
        self.paging = paging;
        self
    }

    pub(crate) fn with_progress(mut self, progress: Option<Arc<dyn Progress>>) -> Self {
        self.progress = progress;
        self
    }

    pub(crate) fn with_attachment(mut self, attachment: Option<Attachment>) -> Self {
        self.attachment = attachment;
        self
    }

    pub(crate) fn with_held(mut self, held: Option<Box<dyn Send + Sync>>) -> Self {
        self.held = held;
        self
    }

    /// Gives back the turn in which the call runs: from here on it mostly waits for somebody outside, and others need not
    /// wait for that.
    pub fn give_back(&mut self) {
        self.held = None;
    }

    /// The request as it arrived; only in operations whose `Spec` says `raw_body`.
    pub fn raw_request(&mut self) -> Result<RawRequest, Problem> {
        match self.attachment.take() {
            Some(Attachment::Raw(request)) => Ok(request),
            _ => Err(Problem::internal("no raw request came with the call")),
        }
    }

    /// The bytes that are uploaded, to be read as they arrive; only in operations whose `Spec` says `upload`.
    pub fn upload(&mut self) -> Result<Upload, Problem> {
        match self.attachment.take() {
            Some(Attachment::Upload(upload)) => Ok(upload),
            _ => Err(Problem::internal("no upload came with the call")),
        }
    }

    /// Tells whoever waits how far it is: so many of so many, for work that takes seconds.
    pub fn progress(&self, done: u64, total: u64, words: &str) {
        if let Some(progress) = &self.progress {
            progress.tell(done, total, words);
        }
    }

    /// The id of the call.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// The operation's own `Spec`.
    pub fn spec(&self) -> &'static Spec {
        self.spec
    }

    /// Who calls.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The same, for whoever keeps it.
    pub fn shared_caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// When the call began; the same however often it is asked.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// A new id.
    pub fn new_id<K: Kind>(&self) -> Id<K> {
        self.engine.entropy.id(self.now)
    }

    /// What every call needs: randomness, the keyring, the registry.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The account to act in: the one that the request names, if the caller may act in it, or else the call's own. Begins
    /// no transaction.
    pub async fn account(&mut self, named: Option<AccountRef>) -> Result<AccountId, Problem> {
        let account = match (named, self.account) {
            (Some(AccountRef(named)), Some(own)) if named == own => own,
            (Some(AccountRef(named)), _) => {
                self.engine.check_access(&self.caller, named, self.spec.role, self.tx.as_mut()).await?;
                named
            }
            (None, Some(own)) => own,
            (None, None) => return Err(Problem::new(Code::Forbidden, "The token belongs to no account.")),
        };
        self.account = Some(account);
        Ok(account)
    }

    /// Locks the account's row until the commit, and checks again that the caller may act in it: what was true when the
    /// call was admitted may have changed while it waited for the row. 404 if there is no such account.
    pub async fn lock_account(&mut self, named: impl Into<AccountRef>) -> Result<LockedAccount, Problem> {
        let AccountRef(id) = named.into();
        let (engine, caller, least) = (self.engine.clone(), self.caller.clone(), self.spec.role);
        let tx = self.tx().await?;
        let is_active = engine.memberships.lock(tx, id).await?;
        let is_active = is_active.ok_or_else(|| Problem::not_found("account", id))?;
        engine.check_access(&caller, id, least, Some(tx)).await?;
        self.account = Some(id);
        Ok(LockedAccount { id, is_active })
    }

    /// Acts in `account` from here on without a check: for what makes an account, and for what acts in one by a right of
    /// its own.
    pub fn set_account(&mut self, account: AccountId) {
        self.account = Some(account);
    }

    /// The account that the call acts in so far.
    pub fn current_account(&self) -> Option<AccountId> {
        self.account
    }

    /// The name of the account's plan.
    pub async fn plan(&mut self, account: AccountId) -> Result<String, Problem> {
        let memberships = self.engine.memberships.clone();
        let plan = memberships.plan(self.tx().await?, account).await?;
        plan.ok_or_else(|| Problem::not_found("account", account))
    }

    /// The transaction, begun at its first use: one that only reads for an operation that reads.
    pub async fn tx(&mut self) -> Result<&mut Tx, StoreError> {
        let tx = match self.tx.take() {
            Some(tx) => tx,
            None if self.spec.method == Method::Get => self.engine.db.read().await?,
            None => self.engine.db.write().await?,
        };
        Ok(self.tx.insert(tx))
    }

    /// The page that the caller asks for; only in operations whose `Spec` says `list`.
    pub fn page(&self) -> Result<PageRequest, Problem> {
        self.paging.as_ref().map(|(paging, _)| paging.request.clone()).ok_or_else(paging::missing)
    }

    /// How many bytes a page may take.
    pub(crate) fn page_bytes(&self) -> Result<usize, Problem> {
        self.paging.as_ref().map(|(_, bytes)| *bytes).ok_or_else(paging::missing)
    }

    pub(crate) fn seal_page_token(&self, cursor: &Cursor) -> Result<String, Problem> {
        let (paging, _) = self.paging.as_ref().ok_or_else(paging::missing)?;
        Ok(paging.seal(cursor, &self.engine.keyring, self.engine.entropy.as_ref(), self.now))
    }

    /// Sends an event of the account that the call acts in, with the commit.
    pub fn emit<E: Event>(&mut self, event: &E) -> Result<EventId, Problem> {
        self.record(event, None, None)
    }

    /// The same, to that endpoint alone, whatever it subscribes.
    pub fn emit_to<E: Event>(&mut self, event: &E, endpoint: EndpointId) -> Result<EventId, Problem> {
        self.record(event, None, Some(endpoint))
    }

    /// Does this once the transaction is committed, and not without it. Whoever relies on it looks again by itself: a
    /// server may fail in between.
    pub fn after_commit(&mut self, act: AfterCommit) {
        self.after_commit.push(act);
    }

    /// Writes what was done to the audit log, with the commit.
    pub fn audit(&mut self, action: &'static str, target: &dyn fmt::Display) -> Result<(), Problem> {
        self.audit_with(action, target, json!({}))
    }

    /// The same, with values that belong to the entry. They are ids and names, never content.
    pub fn audit_with(
        &mut self,
        action: &'static str,
        target: &dyn fmt::Display,
        metadata: Value,
    ) -> Result<(), Problem> {
        let id = self.new_id();
        let event = AuditWritten {
            audit_event_id: id.to_string(),
            action: action.to_owned(),
            actor: self.caller.subject.clone(),
        };
        let mut metadata = metadata;
        // What an app did in a person's name says so.
        if let (CallerKind::Person, Some(_), Some(client)) =
            (self.caller.kind, &self.caller.scopes, &self.caller.client_id)
        {
            metadata["client_id"] = json!(client);
        }
        let (actor, request_id) = (self.caller.clone(), self.request_id.clone());
        let audit = AuditRecord { actor, request_id, id, action, target: target.to_string(), metadata };
        self.record(&event, Some(audit), None).map(drop)
    }

    fn record<E: Event>(
        &mut self,
        event: &E,
        audit: Option<AuditRecord>,
        only_to: Option<EndpointId>,
    ) -> Result<EventId, Problem> {
        let account = self
            .account
            .ok_or_else(|| Problem::internal("an event or audit entry outside of any account"))?;
        let data = serde_json::to_string(event).map_err(Problem::internal)?;
        if data.len() > EVENT_BYTES_MAX {
            return Err(Problem::internal(format!("an event of {} bytes", data.len())));
        }
        let id = self.new_id();
        let (event_type, occurred_at) = (E::TYPE.into(), self.now);
        let event = NewEvent { behind: 0, id, event_type, occurred_at, data, only_to };
        self.records.push(Record { account, event, audit });
        Ok(id)
    }

    /// Waits for this after the commit and before the answer: for what the caller will ask for next. It must end soon
    /// by itself.
    pub fn await_before_reply(&mut self, wait: impl Future<Output = ()> + Send + Sync + 'static) {
        self.await_before_reply = Some(Box::pin(wait));
    }

    /// Ends the transaction, if one was begun, and keeps what it did.
    pub(crate) async fn commit(&mut self) -> Result<(), StoreError> {
        let Some(tx) = self.tx.take() else { return Ok(()) };
        self.note_queries(&tx);
        Box::pin(tx.commit()).await?;
        for act in self.after_commit.drain(..) {
            act();
        }
        if let Some(wait) = self.await_before_reply.take() {
            wait.await;
        }
        Ok(())
    }

    /// Ends the transaction, if one was begun, and forgets what it did.
    pub(crate) fn rollback(&mut self) {
        self.records.clear();
        self.after_commit.clear();
        self.await_before_reply = None;
        let Some(tx) = self.tx.take() else { return };
        self.note_queries(&tx);
        tx.rollback();
    }

    /// Counts what a transaction cost that is about to end.
    pub(crate) fn note_queries(&mut self, tx: &Tx) {
        self.queries += tx.queries();
    }

    pub(crate) fn queries(&self) -> Queries {
        self.queries
    }

    /// Ends what [`Ctx::operator`] began, and keeps what it did.
    pub async fn finish(mut self) -> Result<(), Problem> {
        self.write_records().await?;
        Ok(self.commit().await?)
    }
}

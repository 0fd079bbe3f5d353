//! Accounts: who they are, what a call costs them, and what happened in them.
//!
//! A personal account belongs to one person; a team has members with roles. Everything else on the platform belongs to
//! an account, and its id is the `org_id` of paths.

mod audit;
mod categories;
mod events;
pub mod limits;
mod me;
mod model;
mod sql;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use portico_engine::ports::{Directory, Memberships};
use portico_engine::{Area, Ctx};
use portico_kernel::{AccountId, Code, PersonId, Problem, Role};
use portico_store::{OnConflict, StoreError, Tx};

pub use model::{AccountKind, AccountStatus, Plan};

/// What the area holds.
pub struct Accounts {
    directory: Arc<dyn Directory>,
}

impl Accounts {
    /// The area's state; `directory` knows people and credentials.
    pub fn new(directory: Arc<dyn Directory>) -> Self {
        Self { directory }
    }

    /// Makes an account and acts in it from here on.
    pub async fn create(
        &self,
        ctx: &mut Ctx,
        kind: AccountKind,
        name: &str,
        plan: Plan,
    ) -> Result<AccountId, Problem> {
        let length = name.chars().count();
        if name.trim().is_empty() || length > limits::NAME_CHARACTERS_MAX || name.contains(char::is_control) {
            let words = format!("must have 1 to {} printable characters", limits::NAME_CHARACTERS_MAX);
            return Err(Problem::field("name", words));
        }
        let id: AccountId = ctx.new_id();
        let row = model::NewAccount { id, kind, slug: model::slug(name, id), name: name.to_owned(), plan };
        let now = ctx.now();
        sql::insert_account(ctx.tx().await?, &row, now)
            .await
            .on_conflict(|| Problem::new(Code::AlreadyExists, "An account with this slug exists already."))?;
        ctx.account(Some(id)).await?;
        ctx.audit("account.created", &id)?;
        Ok(id)
    }

    /// Makes `person` a member of `account`.
    pub async fn add_member(
        &self,
        ctx: &mut Ctx,
        account: AccountId,
        person: PersonId,
        role: Role,
    ) -> Result<(), Problem> {
        let now = ctx.now();
        let tx = ctx.tx().await?;
        if self.directory.person(tx, &person.to_string()).await?.is_none() {
            return Err(Problem::not_found("person", person));
        }
        sql::insert_member(tx, account, person, role, now)
            .await
            .on_conflict(|| Problem::new(Code::AlreadyExists, "The person is a member already."))?;
        ctx.audit("member.joined", &person)?;
        let actor = ctx.caller().subject.clone();
        ctx.emit(&events::MemberJoined { user_id: person.to_string(), actor })
    }

    /// Holds back other changes to the account until the commit; 404 where there is no such account.
    pub async fn lock(&self, ctx: &mut Ctx, account: AccountId) -> Result<(), Problem> {
        if sql::lock_account(ctx.tx().await?, account).await? {
            return ctx.account(Some(account)).await.map(drop);
        }
        Err(Problem::not_found("account", account))
    }
}

/// The area's operations and events.
pub fn area(accounts: &Arc<Accounts>) -> Area {
    Area::builder("accounts", accounts.clone())
        .op::<me::GetAccountMe>()
        .op::<categories::ListCategories>()
        .op::<audit::ListAuditEntries>()
        .event::<events::MemberInvited>()
        .event::<events::MemberJoined>()
        .event::<events::MemberRemoved>()
        .event::<events::UsageThreshold>()
        .probe(sql::PROBE)
        .build()
}

/// Keeps who belongs where; a struct of its own, because the engine needs it before the area stands.
pub struct Members;

impl Memberships for Members {
    fn role<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<Option<Role>, StoreError>> {
        Box::pin(sql::role(tx, account, subject))
    }

    fn plan<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
    ) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        Box::pin(async move { Ok(sql::account(tx, account).await?.map(|row| row.plan)) })
    }
}

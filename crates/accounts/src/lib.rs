//! Accounts: who they are, what a call costs them, and what happened in them.
//!
//! A personal account belongs to one person; a team has members with roles. Everything else on the platform belongs to
//! an account, and its id is the `org_id` of paths.

mod account;
mod account_events;
mod audit;
mod categories;
mod copies;
mod entitlements;
mod events;
mod invitations;
mod jobs;
pub mod limits;
mod me;
mod member_resources;
mod members;
mod model;
mod orgs;
mod sql;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use portico_engine::ports::{
    ConfiguredServices, CreatedCredentials, CreatedResources, Directory, Enrolment, Mailer, Membership,
    Memberships, PendingInvitation, Units, account_closed,
};
use portico_engine::{Area, Ctx, Engine};
use portico_kernel::{AccountId, Code, PersonId, Plans, Problem, Role, Timestamp};
use portico_store::{OnConflict, StoreError, Tx};
use serde_json::json;

pub use limits::FreeTeamsPerPerson;
pub use model::{AccountKind, AccountStatus};

/// The state of the area.
pub struct Accounts {
    directory: Arc<dyn Directory>,
    mailer: Arc<dyn Mailer>,
    /// Keys and API tokens by who made them,
    credentials: Arc<dyn CreatedCredentials>,
    /// and webhook endpoints.
    endpoints: Arc<dyn CreatedResources>,
    units: Arc<dyn Units>,
    services: Arc<dyn ConfiguredServices>,
    /// The address of the identity provider, where people take up invitations.
    auth_url: String,
    free_teams: FreeTeamsPerPerson,
}

/// What the area asks of others.
pub struct AccountsPorts {
    /// Knows people and credentials.
    pub directory: Arc<dyn Directory>,
    /// Sends invitations.
    pub mailer: Arc<dyn Mailer>,
    /// Knows who made which key and API token.
    pub credentials: Arc<dyn CreatedCredentials>,
    /// Knows who made which webhook endpoint.
    pub endpoints: Arc<dyn CreatedResources>,
    /// Knows what is left of units.
    pub units: Arc<dyn Units>,
    /// Knows which services there are.
    pub services: Arc<dyn ConfiguredServices>,
}

impl Accounts {
    /// The area's state, which asks the other areas through `ports`.
    pub fn new(ports: AccountsPorts, auth_url: impl Into<String>, free_teams: FreeTeamsPerPerson) -> Self {
        let AccountsPorts { directory, mailer, credentials, endpoints, units, services } = ports;
        let auth_url = auth_url.into();
        Self { directory, mailer, credentials, endpoints, units, services, auth_url, free_teams }
    }

    /// Creates an account, and lets `ctx` act in it from here on. Without a slug one is made from the name.
    pub async fn create(
        &self,
        ctx: &mut Ctx,
        kind: AccountKind,
        name: &str,
        slug: Option<String>,
        plan: &str,
    ) -> Result<AccountId, Problem> {
        model::check_name(name)?;
        slug.as_deref().map_or(Ok(()), model::check_slug)?;
        check_plan(ctx, plan)?;
        let id: AccountId = ctx.new_id();
        let slug = slug.unwrap_or_else(|| model::slug(name, id));
        let (now, row) =
            (ctx.now(), model::NewAccount { id, kind, slug, name: name.to_owned(), plan: plan.to_owned() });
        sql::insert_account(ctx.tx().await?, &row, now).await.on_conflict(orgs::slug_taken)?;
        copies::note_change(ctx, id).await?;
        ctx.set_account(id);
        ctx.audit("account.created", &id)?;
        Ok(id)
    }

    /// Puts the account on another plan.
    pub async fn set_plan(&self, ctx: &mut Ctx, account: AccountId, plan: &str) -> Result<(), Problem> {
        check_plan(ctx, plan)?;
        ctx.lock_account(account).await?;
        sql::set_plan(ctx.tx().await?, account, plan).await?;
        copies::note_change(ctx, account).await?;
        ctx.audit_with("account.plan_set", &account, json!({ "plan": plan }))
    }

    /// Refuses to start when an account is on a plan that the configuration does not have: its limits would be unknown.
    pub async fn check_plans(&self, engine: &Engine) -> Result<(), Problem> {
        let used = sql::plans(&mut engine.db.query()).await?;
        match used.iter().find(|plan| engine.plans.get(plan).is_none()) {
            None => Ok(()),
            Some(plan) => {
                let message =
                    format!("There are accounts on the plan {plan}, which the configuration does not have.");
                Err(Problem::new(Code::FailedPrecondition, message))
            }
        }
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
        ctx.emit(&events::MemberJoined { user_id: person.to_string(), actor }).map(drop)
    }

    /// Locks the person's own account until the commit, and refuses when they belong to the maximum of teams already.
    pub(crate) async fn lock_for_new_team(&self, ctx: &mut Ctx, person: PersonId) -> Result<(), Problem> {
        let rows = sql::accounts_of(ctx.tx().await?, person).await?;
        let own = rows.iter().find(|row| row.kind == AccountKind::Personal);
        let own = own.ok_or_else(|| Problem::not_found("person", person))?.id;
        if sql::lock_account(ctx.tx().await?, own).await? != Some(true) {
            return Err(account_closed());
        }
        if sql::accounts_of(ctx.tx().await?, person).await?.len() > limits::TEAMS_MAX {
            let message = format!("You already belong to {} teams, the maximum.", limits::TEAMS_MAX);
            return Err(Problem::limit_reached("accounts", message, limits::TEAMS_MAX));
        }
        Ok(())
    }

    /// Refuses when the person owns as many teams on the first plan as one may. Those that are about to be erased count,
    /// since they can be taken back.
    pub(crate) async fn check_free_teams(&self, ctx: &mut Ctx, person: PersonId) -> Result<(), Problem> {
        let rows = sql::accounts_of(ctx.tx().await?, person).await?;
        let is_free = |row: &sql::AccountRow| row.kind == AccountKind::Team && row.plan == Plans::FIRST;
        let owned = rows.iter().filter(|row| is_free(row) && row.role == Some(Role::Owner)).count();
        let FreeTeamsPerPerson(limit) = self.free_teams;
        if owned >= usize::from(limit) {
            let message = format!("A person may own at most {limit} teams on the plan {}.", Plans::FIRST);
            return Err(Problem::limit_reached("accounts", message, limit));
        }
        Ok(())
    }

    /// The same for a person who is to own `account`, if that is on the first plan.
    pub(crate) async fn check_new_owner(
        &self,
        ctx: &mut Ctx,
        account: AccountId,
        person: PersonId,
    ) -> Result<(), Problem> {
        if ctx.plan(account).await? == Plans::FIRST {
            self.check_free_teams(ctx, person).await
        } else {
            Ok(())
        }
    }
}

fn check_plan(ctx: &Ctx, plan: &str) -> Result<(), Problem> {
    let plans = &ctx.engine().plans;
    if plans.get(plan).is_none() {
        let names: Vec<_> = plans.names().collect();
        return Err(Problem::field("plan", format!("must be one of {}", names.join(", "))));
    }
    Ok(())
}

/// The area's operations and events.
pub fn area(accounts: &Arc<Accounts>) -> Area {
    Area::builder("accounts", accounts.clone())
        // `identity:read` is asked for by the identity area; it stands here because it comes first in the documents.
        .scope("identity:read", "See who calls: the id, the name and the e-mail address.")
        .scope("account:read", "Read the account and its entitlements.")
        .scope("account:audit", "Read the audit log.")
        .scope("account:keys", "Make and revoke keys below the caller's own.")
        .op::<me::GetAccountMe>()
        .op::<categories::ListCategories>()
        .op::<audit::ListAuditEntries>()
        .op::<entitlements::GetEntitlements>()
        .op::<account_events::ListEvents>()
        .op::<orgs::ListOrgs>()
        .op::<orgs::CreateOrg>()
        .op::<orgs::UpdateOrg>()
        .op::<orgs::DeleteOrg>()
        .op::<copies::GetCopy>()
        .op::<copies::ListCopies>()
        .op::<members::ListMembers>()
        .op::<members::UpdateMember>()
        .op::<members::DeleteMember>()
        .op::<member_resources::ListMemberResources>()
        .op::<invitations::ListInvitations>()
        .op::<invitations::CreateInvitation>()
        .op::<invitations::DeleteInvitation>()
        .op::<invitations::AcceptInvitation>()
        .event::<events::MemberInvited>()
        .event::<events::MemberJoined>()
        .event::<events::MemberRemoved>()
        .job(jobs::EraseAccounts::new(accounts))
        .job(jobs::PruneInvitations)
        .tool_subjects(&["events", "the audit log"])
        .probe(sql::PROBE)
        .erases(&sql::ERASE)
        .erases(&sql::ERASE_CHANGES)
        .build()
}

/// The members of accounts, for the engine. A type of its own, because the engine needs it before the area is built.
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

    fn statuses<'a>(
        &'a self,
        tx: &'a mut Tx,
        accounts: Vec<AccountId>,
    ) -> BoxFuture<'a, Result<Vec<(AccountId, bool)>, StoreError>> {
        Box::pin(async move {
            let rows = sql::statuses(tx, accounts).await?;
            Ok(rows.into_iter().map(|row| (row.id, row.status == AccountStatus::Active)).collect())
        })
    }

    fn lock<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
    ) -> BoxFuture<'a, Result<Option<bool>, StoreError>> {
        Box::pin(sql::lock_account(tx, account))
    }
}

impl Enrolment for Accounts {
    fn open_personal<'a>(
        &'a self,
        ctx: &'a mut Ctx,
        name: &'a str,
    ) -> BoxFuture<'a, Result<AccountId, Problem>> {
        Box::pin(self.create(ctx, AccountKind::Personal, name, None, Plans::FIRST))
    }

    fn own<'a>(
        &'a self,
        ctx: &'a mut Ctx,
        account: AccountId,
        person: PersonId,
    ) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(self.add_member(ctx, account, person, Role::Owner))
    }

    fn invitation<'a>(
        &'a self,
        tx: &'a mut Tx,
        token: &'a str,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<PendingInvitation>, StoreError>> {
        Box::pin(self.find_invitation(tx, token, now))
    }

    fn accept<'a>(
        &'a self,
        ctx: &'a mut Ctx,
        token: &'a str,
        person: PersonId,
    ) -> BoxFuture<'a, Result<AccountId, Problem>> {
        Box::pin(self.accept_invitation(ctx, token, person))
    }

    fn memberships<'a>(
        &'a self,
        tx: &'a mut Tx,
        person: PersonId,
    ) -> BoxFuture<'a, Result<Vec<Membership>, StoreError>> {
        Box::pin(async move {
            let mut rows = sql::accounts_of(tx, person).await?;
            rows.retain(|row| row.status == AccountStatus::Active);
            rows.sort_by_key(|row| row.kind != AccountKind::Personal);
            let membership = |row: sql::AccountRow| {
                let personal = row.kind == AccountKind::Personal;
                Some(Membership { account: row.id, name: row.name, personal, role: row.role? })
            };
            Ok(rows.into_iter().filter_map(membership).collect())
        })
    }
}

//! The operations on the members of a team.

use std::collections::HashMap;

use portico_engine::{AccountRef, Ctx, Cursor, Operation, Page, PageRequest, ROLE_REQUIRED, Spec};
use portico_kernel::{AccountId, Category, Code, PersonId, Problem, Role, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::member_resources::{EndpointsChoice, KeysChoice, RemainingResource, RemovalChoice, ResourceState};
use crate::orgs::person;
use crate::{Accounts, events, sql};

/// A member of an account.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Member {
    /// The person's id.
    user_id: PersonId,
    /// The e-mail address.
    email: String,
    /// Has the person shown that the address is theirs?
    email_verified: bool,
    /// The display name.
    name: String,
    /// `owner`, `admin` or `member`.
    role: Role,
    /// When they joined.
    joined_at: Timestamp,
}

impl Accounts {
    /// The members of these rows, in the same order, with the names and addresses of the people behind them.
    async fn members(&self, ctx: &mut Ctx, rows: Vec<sql::MemberRow>) -> Result<Vec<Member>, Problem> {
        let ids: Vec<_> = rows.iter().map(|row| row.person_id).collect();
        let people = self.directory.people(ctx.tx().await?, &ids).await?;
        let mut people: HashMap<_, _> = people.into_iter().map(|person| (person.id, person)).collect();
        let member = |row: sql::MemberRow| {
            let person = people.remove(&row.person_id);
            let email_verified = person.as_ref().is_some_and(|person| person.email_verified);
            let (email, name) = person.map(|person| (person.email, person.name)).unwrap_or_default();
            let (user_id, role, joined_at) = (row.person_id, row.role, row.created_at);
            Member { user_id, email, email_verified, name, role, joined_at }
        };
        Ok(rows.into_iter().map(member).collect())
    }
}

/// The member of that id; 404 when there is none. The caller holds the lock of the account.
async fn find(ctx: &mut Ctx, account: AccountId, person: PersonId) -> Result<sql::MemberRow, Problem> {
    let row = sql::member(ctx.tx().await?, account, person).await?;
    row.ok_or_else(|| Problem::not_found("member", person))
}

/// A team is never left without an owner.
async fn check_owners(ctx: &mut Ctx, account: AccountId, leaving: Role) -> Result<(), Problem> {
    if leaving == Role::Owner && sql::count_owners(ctx.tx().await?, account).await? < 2 {
        let message = "The last owner of an account cannot be removed or given another role.";
        return Err(Problem::failed_precondition("LAST_OWNER", "accounts", message, []));
    }
    Ok(())
}

/// Where the previous page ended; for the first page, a time after every member.
fn before(page: &PageRequest) -> Result<(Timestamp, String), Problem> {
    let Some(cursor) = &page.after else { return Ok((Timestamp::from_micros(i64::MAX), String::new())) };
    let parts = cursor.0.split_once(' ').and_then(|(at, person)| Some((at.parse().ok()?, person.to_owned())));
    let (at, person) = parts.ok_or_else(|| Problem::internal("a cursor of members that does not parse"))?;
    Ok((Timestamp::from_micros(at), person))
}

/// List the members of an account, those who joined last first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListMembers {
    /// The account.
    org_id: AccountRef,
}

impl Operation for ListMembers {
    const SPEC: Spec = Spec::get("accounts.members.list", "/v1/accounts/orgs/{org_id}/members")
        .persons()
        .category(Category::List)
        .list("members");
    type Area = Accounts;
    type Answer = Page<Member>;

    async fn run(self, accounts: &Accounts, ctx: &mut Ctx) -> Result<Page<Member>, Problem> {
        let page = ctx.page()?;
        let (joined_at, person) = before(&page)?;
        let account = ctx.account(Some(self.org_id)).await?;
        let rows = sql::members_before(ctx.tx().await?, account, joined_at, person, page.rows()).await?;
        Ok(page.page(
            accounts.members(ctx, rows).await?,
            |member| Cursor(format!("{} {}", member.joined_at.as_micros(), member.user_id)),
            |member| member,
        ))
    }
}

/// Give a member another role. The last owner keeps theirs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateMember {
    /// The account.
    org_id: AccountRef,
    /// The person.
    user_id: PersonId,
    /// `owner`, `admin` or `member`.
    #[schemars(example = &"admin")]
    role: Role,
}

impl Operation for UpdateMember {
    const SPEC: Spec = Spec::patch("accounts.members.update", "/v1/accounts/orgs/{org_id}/members/{user_id}")
        .persons()
        .role(Role::Owner)
        .category(Category::Write);
    type Area = Accounts;
    type Answer = Member;

    async fn run(self, accounts: &Accounts, ctx: &mut Ctx) -> Result<Member, Problem> {
        let account = ctx.lock_account(self.org_id).await?.id;
        let row = find(ctx, account, self.user_id).await?;
        let was = row.role;
        if was != self.role {
            check_owners(ctx, account, was).await?;
            if self.role == Role::Owner {
                accounts.check_new_owner(ctx, account, self.user_id).await?;
            }
            sql::set_role(ctx.tx().await?, account, self.user_id, self.role).await?;
            if self.role < was {
                // Their invitations may give a role that they can no longer give.
                sql::delete_invitations_by(ctx.tx().await?, account, self.user_id).await?;
            }
            let roles = json!({ "from": was.name(), "to": self.role.name() });
            ctx.audit_with("member.role_changed", &self.user_id, roles)?;
        }
        let row = find(ctx, account, self.user_id).await?;
        let member = accounts.members(ctx, vec![row]).await?.pop();
        member.ok_or_else(|| Problem::not_found("member", self.user_id))
    }
}

/// Remove a member, or leave a team. Their access ends at once, and so do their invitations. What they made is in the
/// answer: keys and API tokens are the account's and stay unless `keys` says otherwise; webhook endpoints that they made,
/// or set the address of, are disabled unless `endpoints` says otherwise. An admin cannot remove an owner, and the last
/// owner stays.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteMember {
    /// The account.
    org_id: AccountRef,
    /// The person.
    user_id: PersonId,
    /// What becomes of the keys and API tokens that they made; without it they are kept. For admins and owners.
    #[serde(default)]
    keys: Option<KeysChoice>,
    /// What becomes of the webhook endpoints that they made; without it they are disabled. For admins and owners.
    #[serde(default)]
    endpoints: Option<EndpointsChoice>,
}

/// A member who was removed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RemovedMember {
    /// What they made in the account and was in use, and what became of it.
    resources: Vec<RemainingResource>,
}

fn role_required(least: Role, message: &'static str) -> Problem {
    let role = [("role", least.name().to_owned())];
    Problem::new(Code::Forbidden, message).with_info(ROLE_REQUIRED, "accounts", role)
}

impl Operation for DeleteMember {
    const SPEC: Spec =
        Spec::delete("accounts.members.delete", "/v1/accounts/orgs/{org_id}/members/{user_id}")
            .persons()
            .category(Category::Write);
    type Area = Accounts;
    type Answer = RemovedMember;

    async fn run(self, accounts: &Accounts, ctx: &mut Ctx) -> Result<RemovedMember, Problem> {
        let caller = person(ctx)?;
        let account = ctx.lock_account(self.org_id).await?.id;
        let own = find(ctx, account, caller).await?.role;
        if self.user_id != caller && own < Role::Admin {
            return Err(role_required(Role::Admin, "Only an owner or admin removes others."));
        }
        if (self.keys.is_some() || self.endpoints.is_some()) && own < Role::Admin {
            let message = "Only an owner or admin chooses what becomes of keys and endpoints.";
            return Err(role_required(Role::Admin, message));
        }
        let removed = find(ctx, account, self.user_id).await?.role;
        if removed > own {
            return Err(role_required(Role::Owner, "Only an owner removes an owner."));
        }
        check_owners(ctx, account, removed).await?;
        let choice = RemovalChoice {
            keys: self.keys.unwrap_or_default(),
            endpoints: self.endpoints.unwrap_or_default(),
        };
        let resources = accounts.remove_member(ctx, account, self.user_id, choice).await?;
        Ok(RemovedMember { resources })
    }
}

impl Accounts {
    /// Removes a member of the account that `ctx` acts in, their invitations, and what apps may do there for them; ends
    /// or keeps what they made.
    pub(crate) async fn remove_member(
        &self,
        ctx: &mut Ctx,
        account: AccountId,
        person: PersonId,
        choice: RemovalChoice,
    ) -> Result<Vec<RemainingResource>, Problem> {
        // First, while somebody who leaves may still act here.
        let resources = self.end_resources(ctx, account, person, choice).await?;
        let now = ctx.now();
        let tx = ctx.tx().await?;
        sql::delete_member(tx, account, person).await?;
        if let Some(record) = self.directory.person(tx, &person.to_string()).await? {
            sql::delete_invitations_of(tx, account, &record.email).await?;
        }
        sql::delete_invitations_by(tx, account, person).await?;
        self.directory.left(tx, account, person, now).await?;
        ctx.audit_with("member.removed", &person, ids_by_state(&resources))?;
        let actor = ctx.caller().subject.clone();
        ctx.emit(&events::MemberRemoved { user_id: person.to_string(), actor })?;
        Ok(resources)
    }
}

/// The ids of what a removed member made, by what became of it, for the audit log.
fn ids_by_state(resources: &[RemainingResource]) -> Value {
    let ids = |state: ResourceState| -> Vec<_> {
        resources.iter().filter(|each| each.state == state).map(|each| &each.resource.id).collect()
    };
    let states = [
        ("kept", ResourceState::Kept),
        ("revoked", ResourceState::Revoked),
        ("disabled", ResourceState::Disabled),
    ];
    let groups = states.map(|(name, state)| (name, ids(state)));
    groups
        .into_iter()
        .filter(|(_, ids)| !ids.is_empty())
        .map(|(name, ids)| (name.to_owned(), json!(ids)))
        .collect()
}

//! What members made in an account: listed, and ended or kept when they are removed.

use portico_engine::ports::CreatedResource;
use portico_engine::{AccountRef, Ctx, Operation, Page, Spec};
use portico_kernel::{AccountId, Category, PersonId, Problem, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Accounts, sql};

/// What becomes of keys and API tokens when whoever made them is removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeysChoice {
    /// They stay, since they are the account's.
    #[default]
    Keep,
    /// They are revoked, with the keys below them.
    Revoke,
}

/// What becomes of endpoints when whoever made them is removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndpointsChoice {
    /// They are disabled, since the account's events may go where only that member can read them.
    #[default]
    Disable,
    /// They stay.
    Keep,
}

/// What becomes of what a member made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RemovalChoice {
    pub(crate) keys: KeysChoice,
    pub(crate) endpoints: EndpointsChoice,
}

/// What became of something that a removed member made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResourceState {
    /// It goes on.
    Kept,
    /// The key or API token is refused.
    Revoked,
    /// Nothing is sent to the endpoint.
    Disabled,
}

/// Something that a removed member made.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RemainingResource {
    #[serde(flatten)]
    pub(crate) resource: CreatedResource,
    /// What became of it.
    pub(crate) state: ResourceState,
}

/// What a member made.
struct MemberResources {
    credentials: Vec<CreatedResource>,
    /// Those that the member made, and those that their keys and tokens made, also those that have ended.
    endpoints: Vec<CreatedResource>,
}

impl Accounts {
    async fn resources_of(
        &self,
        ctx: &mut Ctx,
        account: AccountId,
        person: PersonId,
    ) -> Result<MemberResources, Problem> {
        let (now, mut creators) = (ctx.now(), vec![person.to_string()]);
        let tx = ctx.tx().await?;
        let credentials = self.credentials.created_by(tx, account, &creators, now).await?;
        creators.extend(self.credentials.all_created_by(tx, account, &creators).await?);
        let endpoints = self.endpoints.created_by(tx, account, &creators, now).await?;
        Ok(MemberResources { credentials, endpoints })
    }

    /// Ends or keeps what the member made. Endpoints that a key or API token made go with it, as long as it is in use: they
    /// are kept with those that are kept.
    pub(crate) async fn end_resources(
        &self,
        ctx: &mut Ctx,
        account: AccountId,
        person: PersonId,
        choice: RemovalChoice,
    ) -> Result<Vec<RemainingResource>, Problem> {
        let made = self.resources_of(ctx, account, person).await?;
        let revokes = choice.keys == KeysChoice::Revoke;
        if revokes {
            self.credentials.end(ctx, account, &made.credentials).await?;
        }
        let goes_on = |id: &str| !revokes && made.credentials.iter().any(|key| key.id == id);
        let is_ended = |endpoint: &CreatedResource| {
            choice.endpoints == EndpointsChoice::Disable && !goes_on(&endpoint.created_by)
        };
        let (disabled, kept): (Vec<_>, Vec<_>) = made.endpoints.into_iter().partition(is_ended);
        if !disabled.is_empty() {
            self.endpoints.end(ctx, account, &disabled).await?;
        }
        let of_keys = if revokes { ResourceState::Revoked } else { ResourceState::Kept };
        let groups =
            [(made.credentials, of_keys), (disabled, ResourceState::Disabled), (kept, ResourceState::Kept)];
        let remaining = groups.into_iter().flat_map(|(resources, state)| {
            resources.into_iter().map(move |resource| RemainingResource { resource, state })
        });
        Ok(remaining.collect())
    }
}

/// List what a member made in the account and is in use: API keys and API tokens, enabled webhook endpoints that they
/// made or set the address of, and endpoints that their keys and tokens made; newest first. Look at it before the member
/// is removed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListMemberResources {
    /// The account.
    org_id: AccountRef,
    /// The person; one who was removed may have left something.
    user_id: PersonId,
}

impl Operation for ListMemberResources {
    const SPEC: Spec =
        Spec::get("accounts.member_resources.list", "/v1/accounts/orgs/{org_id}/members/{user_id}/resources")
            .persons()
            .role(Role::Admin)
            .category(Category::List)
            .list("resources");
    type Area = Accounts;
    type Answer = Page<CreatedResource>;

    async fn run(self, accounts: &Accounts, ctx: &mut Ctx) -> Result<Page<CreatedResource>, Problem> {
        let page = ctx.page()?;
        let account = ctx.account(Some(self.org_id)).await?;
        let MemberResources { credentials, endpoints } =
            accounts.resources_of(ctx, account, self.user_id).await?;
        if credentials.is_empty()
            && endpoints.is_empty()
            && sql::member(ctx.tx().await?, account, self.user_id).await?.is_none()
        {
            return Err(Problem::not_found("member", self.user_id));
        }
        let mut all: Vec<_> = credentials.into_iter().chain(endpoints).collect();
        all.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        page.slice(all)
    }
}

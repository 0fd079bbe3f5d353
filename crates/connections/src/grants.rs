//! Grants: what a person lets a key, an API token or an app do with a connection.

use portico_connectors::{ActionSpec, Class};
use portico_engine::{AccountRef, Ctx, Cursor, Done, Operation, Page, Spec};
use portico_kernel::{AccountId, Category, Code, ConnectionId, GrantId, Problem, Role, Timestamp, text_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::events::{GrantCreated, GrantRevoked};
use crate::model::{Consumer, ConsumerKind, Labels, allows, has_trifecta, optional_time};
use crate::provider::{Provider, ProviderAction};
use crate::records::{class_of, list_of, to_text};
use crate::sql::{self, GrantRow};
use crate::{Connections, limits, refusals};

/// The warning about a consumer that can read what is private, read what strangers wrote, and send something out.
const TRIFECTA: &str = "trifecta";

text_enum! {
    /// The strictest sort of action that a grant allows.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    pub(crate) enum MaxClass {
        /// Those that change nothing.
        Read = "read",
        /// Also those whose change can be taken back.
        WriteReversible = "write_reversible",
        /// All of them.
        WriteIrreversible = "write_irreversible",
    }
}

impl MaxClass {
    fn class(self) -> Class {
        class_of(self.name())
    }

    fn of(class: Class) -> Self {
        Self::parse(class.name()).unwrap_or(Self::Read)
    }
}

/// What a consumer may do with a connection.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Grant {
    /// The grant's id.
    id: GrantId,
    /// The connection.
    connection_id: ConnectionId,
    /// Who may: `key:` with the id of a key or API token, `agent:` with the id of an app.
    consumer: String,
    /// The actions; none means all that `max_class` lets pass.
    actions: Vec<String>,
    /// The strictest sort of action that it allows.
    max_class: MaxClass,
    /// Who made it.
    created_by: String,
    /// When it was made.
    created_at: Timestamp,
    /// When it ends; empty when it does not.
    expires_at: String,
    /// When it was revoked; empty while it stands.
    revoked_at: String,
    /// When it was last used; empty before the first time.
    last_used_at: String,
}

impl From<GrantRow> for Grant {
    fn from(row: GrantRow) -> Self {
        Self {
            id: row.id,
            connection_id: row.connection_id,
            consumer: row.consumer,
            actions: list_of(&row.actions),
            max_class: MaxClass::of(class_of(&row.max_class)),
            created_by: row.created_by,
            created_at: row.created_at,
            expires_at: optional_time(row.expires_at),
            revoked_at: optional_time(row.revoked_at),
            last_used_at: optional_time(row.last_used_at),
        }
    }
}

/// List the grants of a connection, newest first, with those that were revoked or are over.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListGrants {
    /// The account.
    org_id: AccountRef,
    /// The connection.
    connection_id: ConnectionId,
}

impl Operation for ListGrants {
    const SPEC: Spec =
        Spec::get("connections.grants.list", "/v1/accounts/orgs/{org_id}/connections/{connection_id}/grants")
            .scope("connections:read")
            .category(Category::List)
            .list("grants");
    type Area = Connections;
    type Answer = Page<Grant>;

    async fn run(self, _: &Connections, ctx: &mut Ctx) -> Result<Page<Grant>, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let page = ctx.page()?;
        let tx = ctx.tx().await?;
        let known = sql::connection(tx, account, self.connection_id).await?;
        known.ok_or_else(|| refusals::no_connection(self.connection_id))?;
        let before = page.after.as_ref().map(|cursor| cursor.0.as_str());
        let rows = sql::grants_before(tx, self.connection_id, before, page.rows()).await?;
        Ok(page.page(rows, |row| Cursor(row.id.to_string()), Grant::from))
    }
}

/// Let a key, an API token or an app call actions of a connection. A person does this; what is named neither by action nor
/// by class is not allowed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateGrant {
    /// The account.
    org_id: AccountRef,
    /// The connection.
    connection_id: ConnectionId,
    /// Who may: `key:` with the id of a key or API token of the account, or `agent:` with the id of an app.
    #[schemars(example = &"key:tok_01KN2MGCG0B9D5MPJTB9D5MPJT")]
    consumer: String,
    /// The actions; left out, all of them as far as `max_class` goes.
    #[serde(default)]
    #[schemars(length(max = 100))]
    actions: Vec<String>,
    /// The strictest sort of action that it allows; left out, that of the strictest of `actions`, or `read`.
    #[serde(default)]
    max_class: Option<MaxClass>,
    /// When it ends; left out, it does not.
    #[serde(default)]
    expires_at: Option<Timestamp>,
}

/// A grant that was made.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CreatedGrant {
    /// The grant.
    grant: Grant,
    /// What to know of it: `trifecta` where all grants of this consumer together let it read what is private, read what
    /// strangers wrote, and send something out.
    warnings: Vec<String>,
}

impl CreateGrant {
    /// The class up to which it allows; refuses actions that there are not, or that are above it.
    fn max_class(&self, provider: Provider) -> Result<Class, Problem> {
        let named: Vec<Option<ProviderAction>> =
            self.actions.iter().map(|name| provider.action(name)).collect();
        if let Some(at) = named.iter().position(Option::is_none) {
            let words = "is not an action of the connection; GET /v1/connections/kinds lists them";
            return Err(Problem::field(format!("actions[{at}]"), words));
        }
        let classes: Vec<_> = named.iter().flatten().map(|action| action.spec().class).collect();
        let Some(most) = self.max_class.map(MaxClass::class) else {
            return Ok(classes.into_iter().max().unwrap_or(Class::Read));
        };
        match classes.iter().position(|class| *class > most) {
            Some(at) => Err(Problem::field(format!("actions[{at}]"), "is stricter than `max_class` allows")),
            None => Ok(most),
        }
    }
}

impl Operation for CreateGrant {
    const SPEC: Spec = Spec::post(
        "connections.grants.create",
        "/v1/accounts/orgs/{org_id}/connections/{connection_id}/grants",
    )
    .persons()
    .role(Role::Admin)
    .category(Category::Write);
    type Area = Connections;
    type Answer = CreatedGrant;

    async fn run(mut self, connections: &Connections, ctx: &mut Ctx) -> Result<CreatedGrant, Problem> {
        let now = ctx.now();
        let malformed = || Problem::field("consumer", "must be `key:` or `agent:` and an id");
        let consumer = Consumer::parse(&self.consumer).ok_or_else(malformed)?;
        if self.expires_at.is_some_and(|end| end <= now) {
            return Err(Problem::field("expires_at", "must be in the future"));
        }
        let account = ctx.lock_account(self.org_id).await?.active()?;
        let row = sql::lock_connection(ctx.tx().await?, account, self.connection_id).await?;
        let row = row.ok_or_else(|| refusals::no_connection(self.connection_id))?;
        let provider = Provider::of(&row.kind).ok_or_else(|| refusals::no_connection(row.id))?;
        let max_class = self.max_class(provider)?;
        find_consumer(connections, ctx, account, &consumer).await?;
        let live = sql::live_grants(ctx.tx().await?, row.id, now).await?;
        if live.iter().any(|grant| grant.consumer == self.consumer) {
            let words = "The consumer has a grant of this connection; revoke it to make another.";
            return Err(Problem::new(Code::AlreadyExists, words));
        }
        if i64::try_from(live.len()).is_ok_and(|live| live >= limits::GRANTS_MAX) {
            let words = format!("A connection has at most {} grants.", limits::GRANTS_MAX);
            return Err(Problem::limit_reached(refusals::DOMAIN, words, limits::GRANTS_MAX));
        }
        self.actions.sort_unstable();
        self.actions.dedup();
        let grant = GrantRow {
            id: ctx.new_id(),
            account_id: account,
            connection_id: row.id,
            consumer: self.consumer,
            actions: to_text(&self.actions)?,
            max_class: max_class.name().to_owned(),
            created_by: ctx.caller().subject.clone(),
            created_at: now,
            expires_at: self.expires_at,
            revoked_at: None,
            last_used_at: None,
        };
        sql::insert_grant(ctx.tx().await?, &grant).await?;
        connections.tools_changed(ctx, account).await?;
        ctx.audit("grant.created", &grant.id)?;
        let (grant_id, connection_id) = (grant.id.to_string(), row.id.to_string());
        let actor = ctx.caller().subject.clone();
        ctx.emit(&GrantCreated { grant_id, connection_id, actor })?;
        let warnings = warnings(ctx, account, &grant.consumer).await?;
        Ok(CreatedGrant { grant: grant.into(), warnings })
    }
}

/// 404 for a consumer that is not the account's, or that has ended.
async fn find_consumer(
    connections: &Connections,
    ctx: &mut Ctx,
    account: AccountId,
    consumer: &Consumer,
) -> Result<(), Problem> {
    let now = ctx.now();
    let directory = connections.directory.clone();
    let tx = ctx.tx().await?;
    let is_there = match consumer.kind {
        ConsumerKind::Key => {
            let key = directory.credential(tx, account, &consumer.id).await?;
            let is_over = |end: &str| end.parse::<Timestamp>().is_ok_and(|end| end <= now);
            key.is_some_and(|key| key.revoked_at.is_empty() && !is_over(&key.expires_at))
        }
        ConsumerKind::Agent => directory.has_app(tx, account, &consumer.id, now).await?,
        ConsumerKind::Person | ConsumerKind::Product => {
            let words = "must be `key:` or `agent:` and an id: people and the platform itself need no grant";
            return Err(Problem::field("consumer", words));
        }
    };
    if is_there { Ok(()) } else { Err(Problem::not_found("consumer", consumer)) }
}

/// What to know of everything that the consumer may do now, over all connections.
async fn warnings(ctx: &mut Ctx, account: AccountId, consumer: &str) -> Result<Vec<String>, Problem> {
    let now = ctx.now();
    let tx = ctx.tx().await?;
    let mut labels = Labels::default();
    for grant in sql::grants_of(tx, account, consumer, now).await? {
        let connection = sql::connection(tx, account, grant.connection_id).await?;
        let provider = connection.and_then(|row| Provider::of(&row.kind));
        let (most, named) = (class_of(&grant.max_class), list_of(&grant.actions));
        for action in provider.map(Provider::actions).unwrap_or_default() {
            let action: &ActionSpec = action.spec();
            if allows(most, &named, action) {
                labels = labels.and(action);
            }
        }
    }
    Ok(if has_trifecta(labels) { vec![TRIFECTA.to_owned()] } else { Vec::new() })
}

/// Revoke a grant. The next call that it would have allowed is refused.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "they are the names of the path")]
pub(crate) struct RevokeGrant {
    /// The account.
    org_id: AccountRef,
    /// The connection.
    connection_id: ConnectionId,
    /// The grant.
    grant_id: GrantId,
}

impl Operation for RevokeGrant {
    const SPEC: Spec = Spec::delete(
        "connections.grants.delete",
        "/v1/accounts/orgs/{org_id}/connections/{connection_id}/grants/{grant_id}",
    )
    .scope("connections:write")
    .role(Role::Admin)
    .category(Category::Write);
    type Area = Connections;
    type Answer = Done;

    async fn run(self, connections: &Connections, ctx: &mut Ctx) -> Result<Done, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let known = revoke(connections, ctx, account, self.connection_id, self.grant_id).await?;
        if known { Ok(Done {}) } else { Err(Problem::not_found("grant", self.grant_id)) }
    }
}

/// Revokes a grant, if it still stands; returns whether there is one of that id.
pub(crate) async fn revoke(
    connections: &Connections,
    ctx: &mut Ctx,
    account: AccountId,
    connection: ConnectionId,
    id: GrantId,
) -> Result<bool, Problem> {
    let now = ctx.now();
    let stood = sql::revoke_grant(ctx.tx().await?, account, connection, id, now).await?;
    if stood == Some(true) {
        connections.tools_changed(ctx, account).await?;
        tell_revoked(ctx, connection, id)?;
    }
    Ok(stood.is_some())
}

/// Says that a grant was revoked.
pub(crate) fn tell_revoked(ctx: &mut Ctx, connection: ConnectionId, id: GrantId) -> Result<(), Problem> {
    ctx.audit("grant.revoked", &id)?;
    let (grant_id, connection_id) = (id.to_string(), connection.to_string());
    let actor = ctx.caller().subject.clone();
    ctx.emit(&GrantRevoked { grant_id, connection_id, actor })?;
    Ok(())
}

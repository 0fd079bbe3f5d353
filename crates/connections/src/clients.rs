//! OAuth clients that an account brings for a connector.

use portico_connectors::{ActionDefinition, FieldDefinition, Manifest};
use portico_engine::{AccountRef, Ctx, Operation, Page, Spec};
use portico_kernel::{AccountId, Category, Problem, Role, text_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Connections;
use crate::calls::seal_client;
use crate::connections::secret_field;
use crate::model::optional_time;
use crate::provider::Provider;
use crate::sql::{self, ClientRow};

/// Bytes of the id of an OAuth client.
const CLIENT_ID_BYTES_MAX: usize = 512;

text_enum! {
    /// Who brought an OAuth client.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    pub(crate) enum OwnerOfClient {
        /// The account.
        Account = "account",
        /// The operator.
        Operator = "operator",
        /// There is none.
        None = "none",
    }
}

text_enum! {
    /// Where a connector comes from.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    pub(crate) enum ConnectorSource {
        /// Every account has it.
        BuiltIn = "built_in",
    }
}

/// The OAuth client of a connector. Its secret is not part of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConnectorClient {
    /// Its id at the provider; empty where there is none, and for the operator's.
    client_id: String,
    /// Who brought it.
    source: OwnerOfClient,
    /// When the account brought it; empty where it did not.
    set_at: String,
}

/// A connector.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Connector {
    /// Its name.
    id: String,
    /// Its name for people.
    title: String,
    /// What it is.
    description: String,
    /// Where it comes from.
    source: ConnectorSource,
    /// Grows with every change.
    version: i32,
    /// How it proves who it is; of several, separated by spaces, the default is first.
    auth: String,
    /// The hosts that it calls; one that begins with a dot stands for every name below it.
    hosts: Vec<String>,
    /// The fields of its configuration.
    config: Vec<FieldDefinition>,
    /// Its actions.
    actions: Vec<ActionDefinition>,
    /// The OAuth client by which people sign in.
    client: ConnectorClient,
    /// When it was made; empty for one that every account has.
    created_at: String,
    /// When it was last changed; empty for one that every account has.
    updated_at: String,
}

impl Connector {
    fn new(connections: &Connections, manifest: &Manifest, own: Option<&ClientRow>) -> Self {
        let kind = manifest.kind();
        let is_operators =
            manifest.oauth().is_some() && connections.calls.operator_client(&kind.name).is_some();
        let source = match own {
            Some(_) => OwnerOfClient::Account,
            None if is_operators => OwnerOfClient::Operator,
            None => OwnerOfClient::None,
        };
        Self {
            id: kind.name,
            title: kind.title,
            description: kind.description,
            source: ConnectorSource::BuiltIn,
            version: 1,
            auth: kind.auth,
            hosts: manifest.hosts().to_vec(),
            config: kind.config,
            actions: kind.actions,
            client: ConnectorClient {
                client_id: own.map(|own| own.client_id.clone()).unwrap_or_default(),
                source,
                set_at: optional_time(own.map(|own| own.set_at)),
            },
            created_at: String::new(),
            updated_at: String::new(),
        }
    }
}

/// A connector.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConnectorAnswer {
    /// The connector.
    connector: Connector,
}

/// The connector of that name.
fn connector(name: &str) -> Result<&'static Manifest, Problem> {
    match Provider::of(name) {
        Some(Provider::Connector(manifest)) => Ok(manifest),
        _ => Err(Problem::not_found("connector", name)),
    }
}

async fn answer(
    connections: &Connections,
    ctx: &mut Ctx,
    account: AccountId,
    manifest: &Manifest,
) -> Result<ConnectorAnswer, Problem> {
    let own = sql::client(ctx.tx().await?, account, manifest.id()).await?;
    Ok(ConnectorAnswer { connector: Connector::new(connections, manifest, own.as_ref()) })
}

/// List the connectors, by name, each with the OAuth client by which people of the account sign in.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListConnectors {
    /// The account.
    org_id: AccountRef,
}

impl Operation for ListConnectors {
    const SPEC: Spec =
        Spec::get("connections.connectors.list", "/v1/accounts/orgs/{org_id}/connections/connectors")
            .scope("connections:read")
            .category(Category::List)
            .list("connectors");
    type Area = Connections;
    type Answer = Page<Connector>;

    async fn run(self, connections: &Connections, ctx: &mut Ctx) -> Result<Page<Connector>, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let own = sql::clients(ctx.tx().await?, account).await?;
        let record = |manifest: &Manifest| {
            let own = own.iter().find(|row| row.connector == manifest.id());
            Connector::new(connections, manifest, own)
        };
        ctx.page()?.slice(portico_connectors::builtins().iter().map(record))
    }
}

/// Read a connector, with the OAuth client by which people of the account sign in.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetConnector {
    /// The account.
    org_id: AccountRef,
    /// The connector.
    #[schemars(example = &"gitlab")]
    connector: String,
}

impl Operation for GetConnector {
    const SPEC: Spec = Spec::get(
        "connections.connectors.get",
        "/v1/accounts/orgs/{org_id}/connections/connectors/{connector}",
    )
    .scope("connections:read")
    .category(Category::Read);
    type Area = Connections;
    type Answer = ConnectorAnswer;

    async fn run(self, connections: &Connections, ctx: &mut Ctx) -> Result<ConnectorAnswer, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        answer(connections, ctx, account, connector(&self.connector)?).await
    }
}

/// Bring the account's own OAuth client for a connector. Sign-ins and refreshes use it in place of the operator's; its
/// secret is sealed and never answered.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetClient {
    /// The account.
    org_id: AccountRef,
    /// The connector.
    #[schemars(example = &"gitlab")]
    connector: String,
    /// The client's id at the provider.
    #[schemars(length(min = 1, max = CLIENT_ID_BYTES_MAX))]
    client_id: String,
    /// Its secret.
    #[schemars(length(min = 1))]
    client_secret: String,
}

impl Operation for SetClient {
    const SPEC: Spec = Spec::put(
        "connections.clients.replace",
        "/v1/accounts/orgs/{org_id}/connections/connectors/{connector}/client",
    )
    .scope("connections:write")
    .role(Role::Admin)
    .category(Category::Write);
    type Area = Connections;
    type Answer = ConnectorAnswer;

    async fn run(self, connections: &Connections, ctx: &mut Ctx) -> Result<ConnectorAnswer, Problem> {
        let manifest = connector(&self.connector)?;
        if manifest.oauth().is_none() {
            return Err(Problem::field("connector", "is no connector at which people sign in"));
        }
        let is_plain = self.client_id.bytes().all(|byte| byte.is_ascii_graphic());
        if self.client_id.is_empty() || self.client_id.len() > CLIENT_ID_BYTES_MAX || !is_plain {
            let words = format!("must be 1 to {CLIENT_ID_BYTES_MAX} visible characters");
            return Err(Problem::field("client_id", words));
        }
        secret_field("client_secret", &self.client_secret)?;
        let account = ctx.lock_account(self.org_id).await?.active()?;
        let row = ClientRow {
            secret: seal_client(ctx.engine(), account, manifest.id(), &self.client_secret),
            connector: self.connector,
            client_id: self.client_id,
            set_at: ctx.now(),
        };
        sql::set_client(ctx.tx().await?, account, &row).await?;
        ctx.audit("connector.client_set", &row.connector)?;
        answer(connections, ctx, account, manifest).await
    }
}

/// Remove the account's own OAuth client for a connector. What was signed in to by it cannot be refreshed any more, unless
/// the operator's is the same.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveClient {
    /// The account.
    org_id: AccountRef,
    /// The connector.
    #[schemars(example = &"gitlab")]
    connector: String,
}

impl Operation for RemoveClient {
    const SPEC: Spec = Spec::delete(
        "connections.clients.delete",
        "/v1/accounts/orgs/{org_id}/connections/connectors/{connector}/client",
    )
    .scope("connections:write")
    .role(Role::Admin)
    .category(Category::Write);
    type Area = Connections;
    type Answer = ConnectorAnswer;

    async fn run(self, connections: &Connections, ctx: &mut Ctx) -> Result<ConnectorAnswer, Problem> {
        let manifest = connector(&self.connector)?;
        let account = ctx.account(Some(self.org_id)).await?;
        if sql::remove_client(ctx.tx().await?, account, manifest.id()).await? {
            ctx.audit("connector.client_removed", &manifest.id())?;
        }
        answer(connections, ctx, account, manifest).await
    }
}

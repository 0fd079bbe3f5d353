//! Making a connection.

use std::collections::BTreeMap;

use portico_connectors::{Destination, Executor, Manifest, Mode};
use portico_engine::clock::Stopwatch;
use portico_engine::{AccountRef, Ctx, Engine, Operation, Spec};
use portico_kernel::{AccountId, Category, Problem, Role};
use schemars::JsonSchema;
use serde::Deserialize;

use super::input::{
    Given, check_config_sizes, check_secret_ref, check_texts, connector_credential, not_taken, own_secret,
    own_service,
};
use super::store::{NewConnection, check_limit, insert_new};
use crate::calls::{Opened, Trial};
use crate::model::Consumer;
use crate::provider::Provider;
use crate::records::{ConnectionAnswer, connection_record};
use crate::{Connections, limits, refusals, sql};

/// Who is to send a connection's requests.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecutorChoice {
    /// `cloud` for this server, `agent` for a program in the customer's network.
    #[serde(default)]
    kind: Option<ExecutorKind>,
    /// The agent.
    #[serde(default)]
    agent_id: Option<String>,
}

/// What can send requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum ExecutorKind {
    /// This server.
    Cloud,
    /// A program in the customer's network.
    Agent,
}

/// Connect a provider, or a service of the account's own. A connector's test runs first: a credential that the provider
/// refuses stores nothing. The credential is sealed and never answered.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateConnection {
    /// The account.
    org_id: AccountRef,
    /// `endpoint` for a service of the account's own, or the name of a connector; `GET /v1/connections/kinds` lists them.
    #[schemars(example = &"github")]
    kind: String,
    /// What it is called; left out, it is called after the account at the provider.
    #[serde(default)]
    #[schemars(length(min = 1, max = limits::NAME_CHARACTERS_MAX))]
    name: Option<String>,
    /// What there is to know about it.
    #[serde(default)]
    #[schemars(length(max = limits::DESCRIPTION_CHARACTERS_MAX))]
    description: String,
    /// How it proves who it is; may be left out where the fields of `credentials` fit one mode only.
    #[serde(default)]
    auth_mode: Option<String>,
    /// The fields of a connector's credential.
    #[serde(default)]
    credentials: BTreeMap<String, String>,
    /// The configuration.
    #[serde(default)]
    config: BTreeMap<String, String>,
    /// The secret of a service of the account's own.
    #[serde(default)]
    secret: Option<String>,
    /// Where an agent finds the secret: `vault:…`, `k8s:…`, `env:…` or `file:…`.
    #[serde(default)]
    secret_ref: Option<String>,
    /// Who sends its requests; left out, this server.
    #[serde(default)]
    executor: Option<ExecutorChoice>,
}

/// An input that fits.
struct Checked {
    provider: Provider,
    given: Given,
    /// The host of an account's own service.
    label: String,
}

impl CreateConnection {
    fn check(&self, engine: &Engine) -> Result<Checked, Problem> {
        check_texts(self.name.as_deref(), Some(&self.description))?;
        check_config_sizes(&self.config)?;
        let unknown = || Problem::field("kind", "is no kind; GET /v1/connections/kinds lists them");
        match Provider::of(&self.kind).ok_or_else(unknown)? {
            Provider::Connector(manifest) => self.check_connector(manifest),
            Provider::Endpoint => self.check_own_service(engine),
        }
    }

    fn check_connector(&self, manifest: &'static Manifest) -> Result<Checked, Problem> {
        for (field, is_given) in
            [("secret", self.secret.is_some()), ("secret_ref", self.secret_ref.is_some())]
        {
            if is_given {
                return Err(not_taken(field));
            }
        }
        if self.by_agent().is_some() {
            return Err(Problem::field("executor.kind", "must be `cloud` for this kind of connection"));
        }
        let given = connector_credential(manifest, self.auth_mode.as_deref(), &self.credentials)?;
        let mode = given.mode.unwrap_or(Mode::ApiKey);
        manifest.check_config(mode, &self.config).map_err(refusals::faults)?;
        if mode == Mode::OAuth2 {
            return Err(refusals::sign_in_required());
        }
        Ok(Checked { provider: Provider::Connector(manifest), given, label: String::new() })
    }

    fn check_own_service(&self, engine: &Engine) -> Result<Checked, Problem> {
        if let Some(name) = self.credentials.keys().next() {
            return Err(not_taken(&format!("credentials.{name}")));
        }
        if self.auth_mode.as_deref().is_some_and(|mode| mode != crate::provider::SECRET) {
            return Err(Problem::field("auth_mode", "must be `secret` for this kind of connection"));
        }
        if let Some(agent) = self.by_agent() {
            own_service(engine, &self.config, Executor::Agent)?;
            if self.secret.is_some() {
                return Err(Problem::field("secret", "is not taken by an agent, which has `secret_ref`"));
            }
            let reference = self.secret_ref.as_deref();
            check_secret_ref(reference.ok_or_else(|| Problem::field("secret_ref", "is missing"))?)?;
            return Err(Problem::not_found("agent", agent));
        }
        let endpoint = own_service(engine, &self.config, Executor::Cloud)?;
        if self.secret_ref.is_some() {
            return Err(Problem::field("secret_ref", "is for agents; this server takes `secret`"));
        }
        let given = own_secret(&endpoint, self.secret.as_deref())?;
        Ok(Checked { provider: Provider::Endpoint, given, label: endpoint.host().to_owned() })
    }

    /// The agent that is to send its requests.
    fn by_agent(&self) -> Option<&str> {
        let chosen = self.executor.as_ref().filter(|chosen| chosen.kind == Some(ExecutorKind::Agent));
        chosen.map(|chosen| chosen.agent_id.as_deref().unwrap_or_default())
    }
}

impl Connections {
    /// Refuses hosts that the account chose and has not proven to be its own.
    pub(crate) async fn check_hosts(
        &self,
        engine: &Engine,
        account: AccountId,
        provider: Provider,
        mode: Option<Mode>,
        config: &BTreeMap<String, String>,
    ) -> Result<(), Problem> {
        let hosts = match (provider, mode) {
            (Provider::Connector(manifest), Some(mode)) => {
                // The operator put something else in the place of this one; no host of the manifest is called.
                if self.calls.overrides.get(manifest.id()).is_some() {
                    return Ok(());
                }
                let all = manifest.destinations(mode, config).map_err(refusals::fault)?;
                let chosen = all.into_iter().filter(|(_, by)| *by == Destination::Chosen);
                chosen.map(|(host, _)| host).collect()
            }
            _ => vec![own_service(engine, config, Executor::Cloud)?.host().to_owned()],
        };
        for host in hosts {
            if !self.calls.may_choose(engine, account, &host).await? {
                return Err(refusals::domain_not_verified(&host));
            }
        }
        Ok(())
    }
}

impl Operation for CreateConnection {
    const SPEC: Spec = Spec::post("connections.connections.create", "/v1/accounts/orgs/{org_id}/connections")
        .scope("connections:write")
        .role(Role::Admin)
        .category(Category::Write)
        .accepts_idempotency_key();
    type Area = Connections;
    type Answer = ConnectionAnswer;

    async fn run(self, connections: &Connections, ctx: &mut Ctx) -> Result<ConnectionAnswer, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let engine = ctx.engine().clone();
        let Checked { provider, given, label } = self.check(&engine)?;
        connections.check_hosts(&engine, account, provider, given.mode, &self.config).await?;
        check_limit(sql::count_connections(&mut engine.db.query(), account).await?)?;
        let mut opened = Opened::new(given.mode, given.values);
        let (mut tested, mut scopes) = (None, Vec::new());
        if matches!(provider, Provider::Connector(_)) {
            ctx.egress()?;
            ctx.give_back();
            let trial = Trial {
                account,
                connection: None,
                provider,
                config: self.config.clone(),
                consumer: Consumer::of(ctx.caller()),
                at: ctx.now(),
                watch: Stopwatch::start(),
            };
            let passed = connections.calls.test(&engine, &trial, opened).await;
            let passed = passed.map_err(|not_passed| not_passed.problem)?;
            opened = passed.opened;
            scopes = passed.reading.scopes.clone().unwrap_or_default();
            tested = Some(passed.reading);
        }
        let auth_mode = given.mode.map_or(crate::provider::SECRET, Mode::name).to_owned();
        let new = NewConnection {
            account,
            kind: self.kind,
            provider,
            name: self.name,
            description: self.description,
            auth_mode,
            config: self.config,
            credential_kind: given.kind,
            opened,
            expires_at: None,
            tested,
            label,
            scopes,
        };
        let row = insert_new(connections, ctx, new).await?;
        Ok(ConnectionAnswer { connection: connection_record(ctx, row).await? })
    }
}

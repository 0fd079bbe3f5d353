//! Changing a connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use portico_connectors::endpoint::Endpoint;
use portico_connectors::{Executor, Fault, Manifest, Mode, TestReading};
use portico_engine::clock::Stopwatch;
use portico_engine::{AccountRef, Ctx, Engine, Operation, Spec};
use portico_kernel::{AccountId, Category, ConnectionId, Problem, Role};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::input::{
    Given, check_config_sizes, check_texts, connector_credential, not_taken, own_secret, own_service,
};
use super::store::{external_id, host_of, is_other_workspace, replace_credential, tested};
use crate::calls::{AccessError, CallError, Opened, Trial};
use crate::model::Consumer;
use crate::provider::{Provider, mode_of};
use crate::records::{ConnectionAnswer, config_of, connection_record, to_text};
use crate::sql::{self, ConnectionRow, CredentialRow, Workspace};
use crate::{Connections, limits, refusals};

/// Change a connection. What is left out stays. A connector's new credential or configuration is tested first; where the
/// provider refuses it, nothing of the call is done. A credential that passes makes the connection active again.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateConnection {
    /// The account.
    org_id: AccountRef,
    /// The connection.
    connection_id: ConnectionId,
    /// Another name.
    #[serde(default)]
    #[schemars(length(min = 1, max = limits::NAME_CHARACTERS_MAX))]
    name: Option<String>,
    /// Another description.
    #[serde(default)]
    #[schemars(length(max = limits::DESCRIPTION_CHARACTERS_MAX))]
    description: Option<String>,
    /// Is it to be paused? Nothing is sent while it is.
    #[serde(default)]
    paused: Option<bool>,
    /// Another configuration, all of it.
    #[serde(default)]
    config: Option<BTreeMap<String, String>>,
    /// Another credential of a connector, all its fields.
    #[serde(default)]
    credentials: Option<BTreeMap<String, String>>,
    /// The mode of that credential, where its fields fit several.
    #[serde(default)]
    auth_mode: Option<String>,
    /// Another secret of a service of the account's own.
    #[serde(default)]
    secret: Option<String>,
    /// Where an agent finds the secret. This server takes `secret`.
    #[serde(default)]
    secret_ref: Option<String>,
}

/// A change that fits.
struct Change {
    given: Option<Given>,
    config: Option<BTreeMap<String, String>>,
    /// The host of an account's own service.
    label: Option<String>,
}

impl Change {
    /// Is it another configuration of an account's own service, for the secret that it has?
    fn keeps_secret(&self, row: &ConnectionRow) -> bool {
        self.given.is_none() && self.config.is_some() && row.credential_kind == crate::provider::SECRET
    }
}

/// Refuses a configuration by which the secret that is kept could not be sent.
fn check_kept(
    engine: &Engine,
    row: &ConnectionRow,
    change: &Change,
    stored: Option<&CredentialRow>,
) -> Result<(), Problem> {
    let opened = stored.and_then(|stored| Opened::of(engine, row, stored));
    let (Some(opened), Some(config)) = (opened, &change.config) else { return Ok(()) };
    let Some(secret) = opened.values.get(crate::provider::SECRET) else { return Ok(()) };
    let endpoint = own_service(engine, config, Executor::Cloud)?;
    let injected = endpoint.injection().inject(secret, &mut HeaderMap::new());
    injected.map_err(|fault| {
        refusals::fault(Fault {
            path: "config.auth".to_owned(),
            message: format!("wants another `secret`, which {}", fault.message),
        })
    })
}

/// What the provider said to a change that was tested.
type Tested = Option<(TestReading, Opened)>;

impl UpdateConnection {
    fn check(&self, engine: &Engine, row: &ConnectionRow) -> Result<Change, Problem> {
        check_texts(self.name.as_deref(), self.description.as_deref())?;
        if let Some(config) = &self.config {
            check_config_sizes(config)?;
        }
        match Provider::of(&row.kind) {
            Some(Provider::Connector(manifest)) => self.check_connector(manifest, row),
            _ => self.check_own_service(engine, row),
        }
    }

    fn check_connector(&self, manifest: &'static Manifest, row: &ConnectionRow) -> Result<Change, Problem> {
        for (field, is_given) in
            [("secret", self.secret.is_some()), ("secret_ref", self.secret_ref.is_some())]
        {
            if is_given {
                return Err(not_taken(field));
            }
        }
        if self.auth_mode.is_some() && self.credentials.is_none() {
            return Err(Problem::field("auth_mode", "goes with `credentials`"));
        }
        let given = self.credentials.as_ref();
        let given = given.map(|fields| connector_credential(manifest, self.auth_mode.as_deref(), fields));
        let given = given.transpose()?;
        let old_mode = mode_of(&row.auth_mode).unwrap_or(Mode::ApiKey);
        let mode = given.as_ref().and_then(|given| given.mode).unwrap_or(old_mode);
        if let Some(config) = &self.config {
            manifest.check_config(mode, config).map_err(refusals::faults)?;
            if given.is_none() && manifest.moves_host(mode, &config_of(&row.config), config) {
                let words = "must come with a configuration that leads to another host";
                return Err(Problem::field("credentials", words));
            }
        } else if given.is_some() {
            manifest.check_config(mode, &config_of(&row.config)).map_err(refusals::faults)?;
        }
        if given.is_some() && mode == Mode::OAuth2 {
            return Err(refusals::sign_in_required());
        }
        Ok(Change { given, config: self.config.clone(), label: None })
    }

    fn check_own_service(&self, engine: &Engine, row: &ConnectionRow) -> Result<Change, Problem> {
        for (field, is_given) in
            [("credentials", self.credentials.is_some()), ("auth_mode", self.auth_mode.is_some())]
        {
            if is_given {
                return Err(not_taken(field));
            }
        }
        if self.secret_ref.is_some() {
            return Err(Problem::field("secret_ref", "is for agents; this server takes `secret`"));
        }
        let old_config = config_of(&row.config);
        let config = self.config.as_ref().unwrap_or(&old_config);
        if self.config.is_none() && self.secret.is_none() {
            return Ok(Change { given: None, config: None, label: None });
        }
        let endpoint = own_service(engine, config, Executor::Cloud)?;
        let (label, had_secret) = (endpoint.host().to_owned(), row.credential_kind != "none");
        let given = if let Some(secret) = &self.secret {
            Some(own_secret(&endpoint, Some(secret))?)
        } else {
            match (own_secret(&endpoint, None), had_secret) {
                // Another configuration, the same secret: to the same place alone.
                (Err(_), true) if is_same_place(&old_config, &endpoint) => None,
                (Err(_), true) => {
                    return Err(Problem::field("secret", "must come with a `base_url` of another host"));
                }
                (Err(missing), false) => return Err(missing),
                (Ok(none), true) => Some(none),
                (Ok(_), false) => None,
            }
        };
        Ok(Change { given, config: self.config.clone(), label: Some(label) })
    }

    /// Which fields change, for the audit log.
    fn fields(&self) -> Vec<&'static str> {
        let all = [
            ("name", self.name.is_some()),
            ("description", self.description.is_some()),
            ("config", self.config.is_some()),
            ("credentials", self.credentials.is_some()),
            ("secret", self.secret.is_some()),
        ];
        all.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }
}

impl Connections {
    /// Tests what a connector would be after the change.
    async fn test_change(
        &self,
        ctx: &mut Ctx,
        engine: &Arc<Engine>,
        row: &ConnectionRow,
        change: &Change,
    ) -> Result<Tested, Problem> {
        let provider = Provider::of(&row.kind);
        let Some(provider @ Provider::Connector(_)) = provider else { return Ok(None) };
        if change.given.is_none() && change.config.is_none() {
            return Ok(None);
        }
        ctx.egress()?;
        ctx.give_back();
        let trial = Trial {
            account: row.account_id,
            connection: Some(row.id),
            provider,
            config: change.config.clone().unwrap_or_else(|| config_of(&row.config)),
            consumer: Consumer::of(ctx.caller()),
            at: ctx.now(),
            watch: Stopwatch::start(),
        };
        let opened = if let Some(given) = &change.given {
            Opened::new(given.mode, given.values.clone())
        } else {
            let stored = sql::credential(&mut engine.db.query(), &row.credential_id).await?;
            trial.in_time(self.calls.usable(engine, row, stored)).await.map_err(unusable)?
        };
        let may_renew = change.given.is_none() && opened.can_refresh();
        let passed = match self.calls.test(engine, &trial, opened.clone()).await {
            Err(refused) if refused.is_expired && may_renew => {
                let fresh =
                    trial.in_time(self.calls.renewed(engine, row, &opened)).await.map_err(unusable)?;
                self.calls.test(engine, &trial, fresh).await
            }
            tested => tested,
        };
        let passed = passed.map_err(|not_passed| not_passed.problem)?;
        let mode = passed.opened.mode;
        let host = host_of(provider, mode.map_or("", Mode::name), &trial.config);
        if is_other_workspace(row, mode, &host, &passed.reading) {
            return Err(refusals::other_workspace());
        }
        Ok(Some((passed.reading, passed.opened)))
    }
}

impl Operation for UpdateConnection {
    const SPEC: Spec = Spec::patch(
        "connections.connections.update",
        "/v1/accounts/orgs/{org_id}/connections/{connection_id}",
    )
    .scope("connections:write")
    .role(Role::Admin)
    .category(Category::Write);
    type Area = Connections;
    type Answer = ConnectionAnswer;

    async fn run(self, connections: &Connections, ctx: &mut Ctx) -> Result<ConnectionAnswer, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let engine = ctx.engine().clone();
        let missing = || refusals::no_connection(self.connection_id);
        let seen = sql::connection(&mut engine.db.query(), account, self.connection_id).await?;
        let seen = seen.ok_or_else(missing)?;
        let change = self.check(&engine, &seen)?;
        if change.keeps_secret(&seen) {
            let stored = sql::credential(&mut engine.db.query(), &seen.credential_id).await?;
            check_kept(&engine, &seen, &change, stored.as_ref())?;
        }
        connections.check_change(&engine, account, &seen, &change).await?;
        let passed = connections.test_change(ctx, &engine, &seen, &change).await?;
        let row = sql::lock_connection(ctx.tx().await?, account, self.connection_id).await?;
        let row = row.ok_or_else(missing)?;
        let is_changed = row.version != seen.version;
        if is_changed && (change.given.is_some() || change.config.is_some()) {
            return Err(refusals::changed_meanwhile());
        }
        let row = self.apply(ctx, row, change, passed).await?;
        connections.tools_changed(ctx, account).await?;
        Ok(ConnectionAnswer { connection: connection_record(ctx, row).await? })
    }
}

impl Connections {
    /// Refuses a change to hosts that the account has not proven to be its own.
    async fn check_change(
        &self,
        engine: &Engine,
        account: AccountId,
        row: &ConnectionRow,
        change: &Change,
    ) -> Result<(), Problem> {
        if change.given.is_none() && change.config.is_none() {
            return Ok(());
        }
        let Some(provider) = Provider::of(&row.kind) else { return Ok(()) };
        let mode = change.given.as_ref().and_then(|given| given.mode).or_else(|| mode_of(&row.auth_mode));
        let old = config_of(&row.config);
        let config = change.config.as_ref().unwrap_or(&old);
        self.check_hosts(engine, account, provider, mode, config).await
    }
}

impl UpdateConnection {
    async fn apply(
        self,
        ctx: &mut Ctx,
        mut row: ConnectionRow,
        change: Change,
        passed: Tested,
    ) -> Result<ConnectionRow, Problem> {
        let (now, fields) = (ctx.now(), self.fields());
        if let Some(given) = &change.given {
            let opened = match &passed {
                Some((_, opened)) => opened.clone(),
                None => Opened::new(given.mode, given.values.clone()),
            };
            replace_credential(ctx, &mut row, given.kind, &opened, None).await?;
        }
        if let Some(config) = &change.config {
            row.config = to_text(config)?;
        }
        let external_id = passed.as_ref().map(|(reading, _)| external_id(reading));
        move_to(ctx, &mut row, external_id).await?;
        if let Some(label) = change.label {
            row.label = label;
        }
        if let Some((reading, _)) = &passed {
            tested(&mut row, reading, now)?;
        }
        row.name = self.name.unwrap_or(row.name);
        row.description = self.description.unwrap_or(row.description);
        let was_paused = row.paused;
        row.paused = self.paused.unwrap_or(was_paused);
        row.updated_at = now;
        sql::update_connection(ctx.tx().await?, &row).await?;
        if was_paused != row.paused {
            let action = if row.paused { "connection.paused" } else { "connection.resumed" };
            ctx.audit(action, &row.id)?;
        }
        if change.given.is_some() {
            ctx.audit_with("connection.reconnected", &row.id, json!({ "fields": fields }))?;
        } else if !fields.is_empty() {
            ctx.audit_with("connection.updated", &row.id, json!({ "fields": fields }))?;
        }
        Ok(row)
    }
}

/// Does the secret go where it went before? Another port or scheme may be another service, but for plain HTTP that is given up.
fn is_same_place(old_config: &BTreeMap<String, String>, endpoint: &Endpoint) -> bool {
    let Ok(old) = Endpoint::new(old_config, Executor::Cloud) else { return false };
    let (old, new) = (old.base_url(), endpoint.base_url());
    let has_port = old.port().is_some() || new.port().is_some();
    let is_secured = old.scheme() == "http" && new.scheme() == "https" && !has_port;
    old.host_str() == new.host_str() && (old.origin() == new.origin() || is_secured)
}

/// Why a change cannot be tested with the credential that there is.
fn unusable(error: AccessError) -> Problem {
    match error {
        AccessError::Gone => refusals::changed_meanwhile(),
        error => CallError::of_access(error).problem,
    }
}

/// Notes which account at which host a change leads to; refuses where the account has a connection to it already.
async fn move_to(ctx: &mut Ctx, row: &mut ConnectionRow, external_id: Option<String>) -> Result<(), Problem> {
    let Some(provider) = Provider::of(&row.kind) else { return Ok(()) };
    let host = host_of(provider, &row.auth_mode, &config_of(&row.config));
    let external_id = external_id.unwrap_or_else(|| row.external_id.clone());
    let at = Workspace { kind: &row.kind, host: &host, external_id: &external_id };
    match sql::connection_to(ctx.tx().await?, row.account_id, at).await? {
        Some(known) if known.id != row.id => Err(refusals::workspace_connected(known.id)),
        _ => {
            (row.host, row.external_id) = (host, external_id);
            Ok(())
        }
    }
}

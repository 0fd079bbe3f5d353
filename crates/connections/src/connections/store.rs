//! Writing connections and their credentials.

use std::collections::BTreeMap;

use portico_connectors::{Executor, Mode, TestReading};
use portico_engine::{Ctx, Engine};
use portico_kernel::{AccountId, ConnectionCredentialId, Problem, Timestamp};

use crate::calls::Opened;
use crate::events::ConnectionCreated;
use crate::model::{Health, handle_of, is_clash};
use crate::provider::{Provider, ProviderAction, mode_of};
use crate::records::to_text;
use crate::sql::{self, ConnectionRow, CredentialRow, Workspace};
use crate::{Connections, limits, refusals};

/// Characters of a label and of an id of an account at a provider that are kept.
const LABEL_CHARACTERS_MAX: usize = 200;

/// A connection that is to be made.
pub(crate) struct NewConnection {
    pub(crate) account: AccountId,
    pub(crate) kind: String,
    pub(crate) provider: Provider,
    /// Left out, it is called after its label.
    pub(crate) name: Option<String>,
    pub(crate) description: String,
    pub(crate) auth_mode: String,
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) credential_kind: &'static str,
    pub(crate) opened: Opened,
    /// When its token ends.
    pub(crate) expires_at: Option<Timestamp>,
    /// What a test said, if there was one.
    pub(crate) tested: Option<TestReading>,
    /// The label, where no test says one.
    pub(crate) label: String,
    pub(crate) scopes: Vec<String>,
}

fn short(text: &str, most: usize) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(most).collect()
}

/// Writes a new connection with its credential. Locks the account; refuses one too many, and a workspace that is connected.
pub(crate) async fn insert_new(
    connections: &Connections,
    ctx: &mut Ctx,
    new: NewConnection,
) -> Result<ConnectionRow, Problem> {
    let account = ctx.lock_account(new.account).await?.active()?;
    let count = sql::count_connections(ctx.tx().await?, account).await?;
    check_limit(count)?;
    let external_id = new.tested.as_ref().map(external_id).unwrap_or_default();
    let host = host_of(new.provider, &new.auth_mode, &new.config);
    let at = Workspace { kind: &new.kind, host: &host, external_id: &external_id };
    let known = sql::connection_to(ctx.tx().await?, account, at).await?;
    if let Some(known) = known {
        return Err(refusals::workspace_connected(known.id));
    }
    let label = new.tested.as_ref().map_or(&new.label, |tested| &tested.label);
    let label = short(label, LABEL_CHARACTERS_MAX);
    let named = [new.name.clone(), Some(short(&label, limits::NAME_CHARACTERS_MAX))];
    let name = named.into_iter().flatten().find(|name| !name.is_empty()).unwrap_or_else(|| new.kind.clone());
    let (now, credential_id): (_, ConnectionCredentialId) = (ctx.now(), ctx.new_id());
    let row = ConnectionRow {
        id: ctx.new_id(),
        account_id: account,
        handle: free_handle(ctx, account, &name, new.provider).await?,
        kind: new.kind,
        name,
        description: new.description,
        auth_mode: new.auth_mode,
        label,
        external_id,
        host,
        status: Health::Active,
        paused: false,
        config: to_text(&new.config)?,
        scopes: to_text(&new.scopes)?,
        executor: Executor::Cloud.name().to_owned(),
        agent_id: String::new(),
        owner: ctx.caller().subject.clone(),
        credential_id: credential_id.to_string(),
        credential_kind: new.credential_kind.to_owned(),
        credential_set_at: Some(now),
        last_test_at: new.tested.as_ref().map(|_| now),
        last_test_ok: new.tested.is_some(),
        last_test_error: String::new(),
        created_at: now,
        updated_at: now,
        version: 1,
    };
    let credential = credential_row(ctx.engine(), &row, &new.opened, now, new.expires_at);
    let tx = ctx.tx().await?;
    sql::insert_connection(tx, &row).await?;
    sql::insert_handle(tx, &row).await?;
    sql::insert_credential(tx, account, row.id, &credential).await?;
    connections.tools_changed(ctx, account).await?;
    ctx.audit("connection.created", &row.id)?;
    let actor = ctx.caller().subject.clone();
    ctx.emit(&ConnectionCreated { connection_id: row.id.to_string(), actor })?;
    Ok(row)
}

fn credential_row(
    engine: &Engine,
    row: &ConnectionRow,
    opened: &Opened,
    now: Timestamp,
    expires_at: Option<Timestamp>,
) -> CredentialRow {
    CredentialRow::new(engine, row, &opened.values, now, expires_at)
}

/// What the configuration says of the provider's host: with the id of an account there, it tells which account that is.
pub(crate) fn host_of(provider: Provider, auth_mode: &str, config: &BTreeMap<String, String>) -> String {
    match (provider, mode_of(auth_mode)) {
        (Provider::Connector(manifest), Some(mode)) => manifest.chosen_host(mode, config),
        _ => String::new(),
    }
}

/// Refuses one connection too many.
pub(crate) fn check_limit(count: i64) -> Result<(), Problem> {
    if count < limits::CONNECTIONS_MAX {
        return Ok(());
    }
    let words = format!("An account has at most {} connections.", limits::CONNECTIONS_MAX);
    Err(Problem::limit_reached(refusals::DOMAIN, words, limits::CONNECTIONS_MAX))
}

/// A handle of that name that no connection of the account ever had, and under which no two tools have one name.
async fn free_handle(
    ctx: &mut Ctx,
    account: AccountId,
    name: &str,
    provider: Provider,
) -> Result<String, Problem> {
    let names = |provider: Provider| -> Vec<String> {
        let name = |action: ProviderAction| action.spec().name.clone();
        provider.actions().into_iter().map(name).collect()
    };
    let catalog = ctx.engine().registry.catalog();
    let platform: Vec<_> = catalog.entries().iter().filter_map(|entry| entry.spec.tool).collect();
    let taken: Vec<(String, Vec<String>)> = sql::handles(ctx.tx().await?, account)
        .await?
        .into_iter()
        .map(|row| (row.handle, Provider::of(&row.kind).map(names).unwrap_or_default()))
        .collect();
    let own = names(provider);
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let is_free = |handle: &str| {
        let meets = |(other, of_other): &(String, Vec<String>)| {
            let of_other: Vec<&str> = of_other.iter().map(String::as_str).collect();
            is_clash((handle, &own), (other, &of_other))
        };
        // The platform may have a tool of that name tomorrow.
        let begins_one = platform
            .iter()
            .any(|tool| tool.name.strip_prefix(handle).is_some_and(|rest| rest.starts_with('_')));
        !begins_one && !taken.iter().any(meets)
    };
    let mut number = first_free(ctx, account, name).await?;
    loop {
        let handle = handle_of(name, number);
        if is_free(&handle) && !sql::is_handle_taken(ctx.tx().await?, account, &handle).await? {
            return Ok(handle);
        }
        number += 1;
    }
}

/// A number under which the name's handle was never given out. Those of a name are given out one after the other, so it is
/// found in few steps, however many there were.
async fn first_free(ctx: &mut Ctx, account: AccountId, name: &str) -> Result<usize, Problem> {
    let (mut taken, mut free) = (0, 1);
    while sql::is_handle_taken(ctx.tx().await?, account, &handle_of(name, free)).await? {
        (taken, free) = (free, free * 2);
    }
    while taken + 1 < free {
        let middle = taken.midpoint(free);
        if sql::is_handle_taken(ctx.tx().await?, account, &handle_of(name, middle)).await? {
            taken = middle;
        } else {
            free = middle;
        }
    }
    Ok(free)
}

/// Puts another credential in the place of the one that a connection has, whose row is locked.
pub(crate) async fn replace_credential(
    ctx: &mut Ctx,
    row: &mut ConnectionRow,
    kind: &'static str,
    opened: &Opened,
    expires_at: Option<Timestamp>,
) -> Result<(), Problem> {
    let (now, id): (_, ConnectionCredentialId) = (ctx.now(), ctx.new_id());
    let old = std::mem::replace(&mut row.credential_id, id.to_string());
    kind.clone_into(&mut row.credential_kind);
    row.credential_set_at = Some(now);
    if let Some(mode) = opened.mode {
        mode.name().clone_into(&mut row.auth_mode);
    }
    row.status = Health::Active;
    let credential = credential_row(ctx.engine(), row, opened, now, expires_at);
    let tx = ctx.tx().await?;
    sql::delete_credential(tx, &old).await?;
    sql::insert_credential(tx, row.account_id, row.id, &credential).await?;
    Ok(())
}

/// Notes what a test said that passed.
pub(crate) fn tested(row: &mut ConnectionRow, reading: &TestReading, now: Timestamp) -> Result<(), Problem> {
    row.last_test_at = Some(now);
    row.last_test_ok = true;
    row.last_test_error = String::new();
    row.label = short(&reading.label, LABEL_CHARACTERS_MAX);
    // Of a sign-in the token answer said it, or what was asked for.
    if row.auth_mode != Mode::OAuth2.name() {
        row.scopes = to_text(&reading.scopes.clone().unwrap_or_default())?;
    }
    row.status = Health::Active;
    Ok(())
}

/// Is the credential of that mode for another account at the provider than the connection? Where another mode's test calls an
/// account by an id of another sort, nobody can say.
pub(crate) fn is_other_workspace(
    row: &ConnectionRow,
    mode: Option<Mode>,
    host: &str,
    reading: &TestReading,
) -> bool {
    let can_tell = match (Provider::of(&row.kind), mode_of(&row.auth_mode), mode) {
        (Some(Provider::Connector(manifest)), Some(old), Some(new)) => manifest.have_same_test(old, new),
        _ => true,
    };
    // Another host may call somebody else by the same id.
    let is_other = row.external_id != external_id(reading) || row.host != host;
    can_tell && !row.external_id.is_empty() && is_other
}

/// The id of the account at the provider, as it is kept.
pub(crate) fn external_id(reading: &TestReading) -> String {
    short(&reading.external_id, LABEL_CHARACTERS_MAX)
}

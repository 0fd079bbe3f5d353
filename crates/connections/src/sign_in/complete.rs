//! Completing a sign-in: the code is exchanged, the credential tested, the connection written.

use std::collections::BTreeMap;
use std::sync::Arc;

use portico_connectors::{Credentials, Manifest, Mode, TestReading, Tokens};
use portico_engine::clock::Stopwatch;
use portico_engine::{AccountRef, Ctx, Engine, Operation, Spec};
use portico_kernel::{AccountId, Category, Code as ProblemCode, ConnectionId, Problem, Role, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::connect::state_hash;
use super::{SignInRequest, SignInStatus, person};
use crate::calls::{Code, Opened, TokenError, Trial, open_verifier};
use crate::connections::{
    NewConnection, external_id, host_of, insert_new, is_other_workspace, replace_credential, tested,
};
use crate::model::Consumer;
use crate::provider::Provider;
use crate::records::{ConnectionAnswer, config_of, connection_record, to_text};
use crate::sql::{self, ConnectionRow, SignInRow, Workspace};
use crate::{Connections, limits, refusals};

/// Characters of a provider's error that are kept as the reason.
const REASON_CHARACTERS_MAX: usize = 64;

/// Complete a sign-in with what the provider sent the person back with: its code, or its error. A workspace that the account
/// has connected already gets the new credential, and is not connected twice.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteSignIn {
    /// The account.
    org_id: AccountRef,
    /// The state of the address; it works once.
    #[schemars(length(max = limits::SIGN_IN_CHARACTERS_MAX))]
    state: String,
    /// The provider's code.
    #[serde(default)]
    #[schemars(length(max = limits::SIGN_IN_CHARACTERS_MAX))]
    code: String,
    /// The provider's error, in place of a code.
    #[serde(default)]
    #[schemars(length(max = limits::SIGN_IN_CHARACTERS_MAX))]
    error: String,
    /// What the provider says about its error. It is not kept.
    #[serde(default)]
    #[schemars(length(max = limits::SIGN_IN_CHARACTERS_MAX))]
    error_description: String,
}

/// Why a sign-in ends without a connection.
enum Ended {
    /// It failed for this reason. Tokens that the provider gave all the same are revoked.
    Failed(String, Option<Credentials>),
    /// Something of ours does not work; nobody knows more about the sign-in than before.
    Problem(Problem),
}

impl From<Problem> for Ended {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<portico_store::StoreError> for Ended {
    fn from(error: portico_store::StoreError) -> Self {
        Self::Problem(error.into())
    }
}

/// What a provider gave for a code, tested.
struct Obtained {
    tokens: Tokens,
    opened: Opened,
    reading: TestReading,
}

/// A provider's error as a reason.
fn reason(error: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
    if error.len() <= REASON_CHARACTERS_MAX && error.bytes().all(plain) {
        error.to_owned()
    } else {
        "provider_error".to_owned()
    }
}

impl CompleteSignIn {
    fn check(&self) -> Result<(), Problem> {
        if self.code.is_empty() && self.error.is_empty() {
            return Err(Problem::field("code", "is missing, and so is `error`"));
        }
        let long = [
            ("state", &self.state),
            ("code", &self.code),
            ("error", &self.error),
            ("error_description", &self.error_description),
        ];
        match long.iter().find(|(_, text)| text.chars().count() > limits::SIGN_IN_CHARACTERS_MAX) {
            Some((field, _)) => {
                let words = format!("is longer than {} characters", limits::SIGN_IN_CHARACTERS_MAX);
                Err(Problem::field(*field, words))
            }
            None => Ok(()),
        }
    }
}

impl Operation for CompleteSignIn {
    const SPEC: Spec = Spec::post(
        "connections.sign_ins.complete",
        "/v1/accounts/orgs/{org_id}/connections/connect/complete",
    )
    .scope("connections:write")
    .role(Role::Admin)
    .category(Category::Check);
    type Area = Connections;
    type Answer = ConnectionAnswer;

    async fn run(self, connections: &Connections, ctx: &mut Ctx) -> Result<ConnectionAnswer, Problem> {
        let person = person(ctx.caller())?.to_owned();
        self.check()?;
        let account = ctx.account(Some(self.org_id)).await?;
        let hash = state_hash(&self.state);
        let mut taken = None;
        ctx.step("take", async |ctx| {
            let now = ctx.now();
            taken = sql::take_sign_in(ctx.tx().await?, account, &person, &hash, now).await?;
            Ok(())
        })
        .await?;
        let sign_in = taken.ok_or_else(refusals::state_invalid)?;
        let engine = ctx.engine().clone();
        ctx.give_back();
        let ended = connections.complete(ctx, &engine, &sign_in, &self).await;
        let (reason, tokens) = match ended {
            Ok(row) => return Ok(ConnectionAnswer { connection: connection_record(ctx, row).await? }),
            Err(Ended::Problem(problem)) => return Err(problem),
            Err(Ended::Failed(reason, tokens)) => (reason, tokens),
        };
        ctx.step("fail", async |ctx| {
            let failed = SignInStatus::Failed.name();
            sql::end_sign_in(ctx.tx().await?, sign_in.id, failed, &reason, &sign_in.connection_id).await?;
            ctx.audit_with("sign_in.failed", &sign_in.id, json!({ "reason": reason }))
        })
        .await?;
        if let Some(tokens) = tokens {
            connections.revoke_unused(ctx, &sign_in, &tokens).await?;
        }
        Err(refusals::sign_in_failed(&reason))
    }
}

/// A sign-in that is completed, and what it is to make.
struct Completing<'a> {
    sign_in: &'a SignInRow,
    manifest: &'static Manifest,
    request: SignInRequest,
    /// The configuration that was sent, or that of the connection which the sign-in is for.
    config: BTreeMap<String, String>,
}

impl Connections {
    /// Exchanges the code, and writes what comes of it.
    async fn complete(
        &self,
        ctx: &mut Ctx,
        engine: &Arc<Engine>,
        sign_in: &SignInRow,
        brought: &CompleteSignIn,
    ) -> Result<ConnectionRow, Ended> {
        if !brought.error.is_empty() {
            return Err(Ended::Failed(reason(&brought.error), None));
        }
        let Some(Provider::Connector(manifest)) = Provider::of(&sign_in.connector) else {
            return Err(Ended::Failed("exchange_refused".to_owned(), None));
        };
        let request: SignInRequest = serde_json::from_str(&sign_in.request).map_err(Problem::internal)?;
        let config = self.config_for(engine, sign_in, &request).await?;
        let completing = Completing { sign_in, manifest, request, config };
        let obtained = self.obtain(ctx, engine, &completing, &brought.code).await?;
        let (unused, config) = (obtained.opened.values.clone(), completing.config.clone());
        let stored = self.store(ctx, completing, obtained).await;
        if let Err(Ended::Problem(_)) = &stored {
            // A transaction of this call may still be open, so it is a task of its own.
            let (calls, engine, account) = (self.calls.clone(), engine.clone(), sign_in.account_id);
            tokio::spawn(async move { calls.revoke(&engine, account, manifest, &config, &unused).await });
        }
        stored
    }

    /// The configuration that a sign-in is completed with.
    async fn config_for(
        &self,
        engine: &Engine,
        sign_in: &SignInRow,
        request: &SignInRequest,
    ) -> Result<BTreeMap<String, String>, Ended> {
        if let Some(config) = &request.config {
            return Ok(config.clone());
        }
        let Ok(id) = sign_in.connection_id.parse() else { return Ok(BTreeMap::new()) };
        let row = sql::connection(&mut engine.db.query(), sign_in.account_id, id).await?;
        // It was deleted meanwhile: nothing is exchanged for it.
        let row = row.ok_or_else(|| Ended::Failed("other_workspace".to_owned(), None))?;
        Ok(config_of(&row.config))
    }

    /// Revokes tokens of a sign-in that came to nothing, as well as that can be done.
    async fn revoke_unused(
        &self,
        ctx: &Ctx,
        sign_in: &SignInRow,
        tokens: &Credentials,
    ) -> Result<(), Problem> {
        ctx.egress()?;
        let Some(Provider::Connector(manifest)) = Provider::of(&sign_in.connector) else { return Ok(()) };
        let request: SignInRequest = serde_json::from_str(&sign_in.request).map_err(Problem::internal)?;
        let Ok(config) = self.config_for(ctx.engine(), sign_in, &request).await else { return Ok(()) };
        self.calls.revoke(ctx.engine(), sign_in.account_id, manifest, &config, tokens).await;
        Ok(())
    }

    /// Tokens for a code, and whose account they are for.
    async fn obtain(
        &self,
        ctx: &Ctx,
        engine: &Arc<Engine>,
        completing: &Completing<'_>,
        code: &str,
    ) -> Result<Obtained, Ended> {
        ctx.egress()?;
        let Completing { sign_in, manifest, ref config, .. } = *completing;
        let verifier = open_verifier(engine, sign_in)?;
        let redirect_uri = self.redirect_uri();
        let code = Code { text: code, verifier: &verifier, redirect_uri: &redirect_uri };
        let account = sign_in.account_id;
        let given = self.calls.exchange(engine, account, manifest, config, &code).await;
        let (tokens, values) = given.map_err(|error| match error {
            TokenError::Store(error) => Ended::Problem(error.into()),
            TokenError::Failed { .. } | TokenError::Unanswered(_) => {
                Ended::Failed("provider_failed".to_owned(), None)
            }
            TokenError::Dead
            | TokenError::Refused
            | TokenError::BadCredential
            | TokenError::NoClient
            | TokenError::NotVerified(_) => Ended::Failed("exchange_refused".to_owned(), None),
        })?;
        let trial = Trial {
            account,
            connection: sign_in.connection_id.parse().ok(),
            provider: Provider::Connector(manifest),
            config: config.clone(),
            consumer: Consumer::of(ctx.caller()),
            at: ctx.now(),
            watch: Stopwatch::start(),
        };
        let tested = self.calls.test(engine, &trial, Opened::new(Some(Mode::OAuth2), values.clone())).await;
        match tested {
            Ok(passed) => Ok(Obtained { tokens, opened: passed.opened, reading: passed.reading }),
            Err(not_passed) => {
                let failed = not_passed.problem.code();
                let reason = match failed {
                    _ if not_passed.choose_site => "choose_site",
                    ProblemCode::Unavailable
                    | ProblemCode::Timeout
                    | ProblemCode::RateLimited
                    | ProblemCode::Internal => "provider_failed",
                    _ => "test_refused",
                };
                Err(Ended::Failed(reason.to_owned(), Some(values)))
            }
        }
    }

    /// Writes the connection: the one that the sign-in is for, the one that the account has to that workspace, or a new one.
    async fn store(
        &self,
        ctx: &mut Ctx,
        completing: Completing<'_>,
        obtained: Obtained,
    ) -> Result<ConnectionRow, Ended> {
        let Completing { sign_in, manifest, request, config } = completing;
        let Obtained { tokens, opened, reading } = obtained;
        let account = ctx.lock_account(sign_in.account_id).await?.active()?;
        let asked = if request.scopes.is_empty() {
            manifest.oauth().map(|oauth| oauth.scopes().to_vec()).unwrap_or_default()
        } else {
            request.scopes.clone()
        };
        let scopes = tokens.scopes.unwrap_or(asked);
        let host = host_of(Provider::Connector(manifest), Mode::OAuth2.name(), &config);
        let at = Workspace { kind: manifest.id(), host: &host, external_id: &reading.external_id };
        let same = sql::connection_to(ctx.tx().await?, account, at).await?;
        let meant: Option<ConnectionId> = sign_in.connection_id.parse().ok();
        let values = opened.values.clone();
        let other = || Ended::Failed("other_workspace".to_owned(), Some(values.clone()));
        if meant.is_some() && same.as_ref().is_some_and(|row| Some(row.id) != meant) {
            return Err(other());
        }
        let row = if let Some(id) = meant.or(same.map(|row| row.id)) {
            let renewed = Renewed { scopes, host, expires_at: tokens.expires_at, opened, reading };
            self.renew(ctx, (account, id), request.config.as_ref(), renewed).await?.ok_or_else(other)?
        } else {
            let new = NewConnection {
                account,
                kind: manifest.id().to_owned(),
                provider: Provider::Connector(manifest),
                name: request.name,
                description: request.description,
                auth_mode: Mode::OAuth2.name().to_owned(),
                config,
                credential_kind: Mode::OAuth2.name(),
                opened,
                expires_at: tokens.expires_at,
                tested: Some(reading),
                label: String::new(),
                scopes,
            };
            insert_new(self, ctx, new).await?
        };
        let (completed, id) = (SignInStatus::Completed.name(), row.id.to_string());
        sql::end_sign_in(ctx.tx().await?, sign_in.id, completed, "", &id).await?;
        ctx.audit("sign_in.completed", &sign_in.id)?;
        Ok(row)
    }
}

/// What a connection gets by a sign-in.
struct Renewed {
    scopes: Vec<String>,
    host: String,
    expires_at: Option<Timestamp>,
    opened: Opened,
    reading: TestReading,
}

impl Connections {
    /// Gives a connection that there is the new credential, and the configuration, if one was sent; `None` where it leads to
    /// another account at the provider.
    async fn renew(
        &self,
        ctx: &mut Ctx,
        (account, id): (AccountId, ConnectionId),
        config: Option<&BTreeMap<String, String>>,
        renewed: Renewed,
    ) -> Result<Option<ConnectionRow>, Problem> {
        let Renewed { scopes, host, expires_at, opened, reading } = renewed;
        let mode = Mode::OAuth2;
        let row = sql::lock_connection(ctx.tx().await?, account, id).await?;
        let row = row.filter(|row| !is_other_workspace(row, Some(mode), &host, &reading));
        let Some(mut row) = row else { return Ok(None) };
        let Some(provider) = Provider::of(&row.kind) else { return Ok(None) };
        // It may have been changed while the person was at the provider.
        if config.is_none() && host_of(provider, mode.name(), &config_of(&row.config)) != host {
            return Ok(None);
        }
        replace_credential(ctx, &mut row, mode.name(), &opened, expires_at).await?;
        let mut fields = vec!["credentials"];
        if let Some(config) = config {
            row.config = to_text(config)?;
            fields.push("config");
        }
        (row.host, row.external_id) = (host, external_id(&reading));
        row.scopes = to_text(&scopes)?;
        let now = ctx.now();
        tested(&mut row, &reading, now)?;
        row.updated_at = now;
        sql::update_connection(ctx.tx().await?, &row).await?;
        self.tools_changed(ctx, account).await?;
        ctx.audit_with("connection.reconnected", &row.id, json!({ "fields": fields }))?;
        Ok(Some(row))
    }
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn an_error_of_a_provider_is_a_reason_where_it_is_plain() {
        assert_eq!(reason("access_denied"), "access_denied");
        for odd in ["Access denied", "<script>", &"a".repeat(65), "\u{e9}"] {
            assert_eq!(reason(odd), "provider_error");
        }
    }
}

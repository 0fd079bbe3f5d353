//! Refresh tokens. Each is spent by its use, and all of one authorization are derived from its sealed secret: the
//! database holds the generation of the current one, and nothing that could be used.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use portico_engine::{Ctx, Engine};
use portico_kernel::{AuthorizationId, Caller, Problem, ScopeSet, Timestamp};
use portico_store::{Context, SealedColumn, Tx, sealed_column};

use super::client::Client;
use super::metadata::OFFLINE_ACCESS;
use super::token::TokenResponse;
use super::{EndpointError, OAuthError};
use crate::http::{Params, RequestContext};
use crate::people::ending;
use crate::sql::oauth::{AuthorizationRow, Ending};
use crate::{Identity, limits, sql};

const PREFIX: &str = "prt_";
const SECRET_BYTES: usize = 32;

/// How many days after a person let an app in its refresh tokens end, however often they were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefreshTokenDays(u16);

impl RefreshTokenDays {
    /// What may be configured.
    pub const RANGE: RangeInclusive<u16> = 1..=3650;

    /// So many days; `None` when that is out of range.
    pub fn new(days: u16) -> Option<Self> {
        Self::RANGE.contains(&days).then_some(Self(days))
    }

    pub(crate) fn life(self) -> Duration {
        Duration::from_hours(24 * u64::from(self.0))
    }
}

impl Default for RefreshTokenDays {
    fn default() -> Self {
        Self(limits::REFRESH_TOKEN_DAYS)
    }
}

impl fmt::Display for RefreshTokenDays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const PURPOSE: &str = "refresh tokens";

/// What the refresh tokens of authorizations are derived from.
pub(crate) const SEALED: SealedColumn = sealed_column!(
    "authorizations", "sealed_secret", key "id", account "''", row "id", purpose PURPOSE
);

fn context(id: &str) -> Context<'_> {
    Context { account: "", row: id, purpose: PURPOSE }
}

/// The sealed secret of a new authorization.
pub(crate) fn new_family(engine: &Engine, id: AuthorizationId) -> Vec<u8> {
    let entropy = engine.entropy.as_ref();
    engine.keyring.seal(entropy, context(&id.to_string()), &entropy.bytes::<SECRET_BYTES>())
}

fn key(engine: &Engine, row: &AuthorizationRow) -> Result<hmac::Key, Problem> {
    let opened =
        engine.keyring.open(context(&row.id.to_string()), &row.sealed_secret).map_err(Problem::internal)?;
    Ok(hmac::Key::new(hmac::HMAC_SHA256, opened.expose()))
}

/// The current refresh token.
pub(crate) fn token(engine: &Engine, row: &AuthorizationRow) -> Result<String, Problem> {
    let body = format!("{PREFIX}{}.{}", row.id, row.generation);
    let proof = hmac::sign(&key(engine, row)?, body.as_bytes());
    Ok(format!("{body}.{}", BASE64_URL_SAFE_NO_PAD.encode(proof)))
}

/// The parts of a refresh token, whose signature is not checked yet.
pub(crate) struct RefreshToken<'t> {
    pub(crate) authorization: AuthorizationId,
    generation: i64,
    body: &'t str,
    proof: Vec<u8>,
}

impl<'t> RefreshToken<'t> {
    pub(crate) fn parse(token: &'t str) -> Option<Self> {
        let (body, proof) = token.rsplit_once('.')?;
        let (id, generation) = body.strip_prefix(PREFIX)?.split_once('.')?;
        let number: i64 = generation.parse().ok()?;
        Some(Self {
            authorization: id.parse().ok()?,
            // One spelling only, so that a token has one form.
            generation: (number.to_string() == generation).then_some(number)?,
            body,
            proof: BASE64_URL_SAFE_NO_PAD.decode(proof).ok()?,
        })
    }

    /// Is its signature ours?
    pub(crate) fn is_genuine(&self, engine: &Engine, row: &AuthorizationRow) -> Result<bool, Problem> {
        Ok(hmac::verify(&key(engine, row)?, self.body.as_bytes(), &self.proof).is_ok())
    }

    /// Is it the current one of its authorization?
    pub(crate) fn is_current(&self, row: &AuthorizationRow) -> bool {
        self.generation == row.generation
    }
}

/// What came of rotating a genuine refresh token.
enum RotationOutcome {
    /// It was the current one, or was spent within the grace period: this is its successor's generation.
    Successor(i64),
    /// It was spent before: someone else has it.
    Reused,
}

impl Identity {
    /// Until when the refresh token that is given out now can be used.
    pub(super) fn refresh_end(&self, row: &AuthorizationRow, now: Timestamp) -> Timestamp {
        (now + limits::REFRESH_LIFE).min(row.created_at + self.refresh_token_life)
    }

    /// Exchanges a refresh token for a new pair. Of any number of calls with one token, one moves on; the others get
    /// the same successor for a moment, and after that end everything.
    pub(crate) async fn refresh(
        &self,
        context: &RequestContext<'_>,
        client: &Client,
        form: &Params,
    ) -> Result<TokenResponse, EndpointError> {
        let (engine, now) = (context.engine, context.now);
        let token = form.required("refresh_token")?;
        let presented = RefreshToken::parse(token).ok_or_else(OAuthError::invalid_grant)?;
        let mut tx = engine.db.read().await?;
        let row = sql::oauth::authorization(&mut tx, presented.authorization).await?;
        tx.rollback();
        let row = row.filter(|row| row.client_id == client.id).ok_or_else(OAuthError::invalid_grant)?;
        if !presented.is_genuine(engine, &row)? {
            return Err(OAuthError::invalid_grant().into());
        }
        self.write_limits.count_refresh(row.id, now).map_err(OAuthError::from)?;
        let scopes = narrowed(form, &row)?;
        if self.named_audience(engine, form)?.is_some_and(|named| named != row.audience) {
            return Err(
                OAuthError::new("invalid_target", "The refresh token is for another audience.").into()
            );
        }
        let mut ctx = Ctx::acting(engine, Caller::person(row.person_id, ""), &context.request_id);
        let tx = ctx.tx().await?;
        let closed = row.scopes.is_some() && sql::is_closed(tx, row.account_id).await?;
        // The console lasts as long as the browser is signed in.
        let signed_out = match row.session_id {
            Some(session) => !sql::people::is_session_active(tx, session, now).await?,
            None => false,
        };
        if row.revoked_at.is_some() || row.ends_at(self.refresh_token_life) <= now || closed || signed_out {
            return Err(OAuthError::invalid_grant().into());
        }
        let RotationOutcome::Successor(generation) =
            rotate(tx, &presented, &row, now, self.refresh_end(&row, now)).await?
        else {
            tracing::warn!(authorization = %row.id, "Refresh token reused; authorization revoked");
            ending::end(&mut ctx, &Ending::One(row.id)).await?;
            ctx.set_account(row.account_id);
            ctx.audit("app.refresh_token_reused", &row.id)?;
            ctx.finish().await?;
            return Err(OAuthError::invalid_grant().into());
        };
        let person = sql::people::person(tx, &row.person_id.to_string()).await?;
        let person = person.ok_or_else(OAuthError::invalid_grant)?;
        let refresh_token = self::token(engine, &AuthorizationRow { generation, ..row.clone() })?;
        // The narrower scopes are for this token alone; the refresh token keeps what the person said.
        let issued = self.issue_for(engine, &AuthorizationRow { scopes, ..row }, &person, now)?;
        ctx.finish().await?;
        Ok(TokenResponse { refresh_token: Some(refresh_token), ..issued })
    }
}

/// When the last tokens were spent, oldest first.
fn spent_times(row: &AuthorizationRow) -> Vec<Timestamp> {
    row.spent.split(' ').filter_map(|time| time.parse().ok()).map(Timestamp::from_micros).collect()
}

async fn rotate(
    tx: &mut Tx,
    presented: &RefreshToken<'_>,
    row: &AuthorizationRow,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<RotationOutcome, EndpointError> {
    let recent = spent_times(row).into_iter().filter(|time| now.since(*time) <= limits::REFRESH_GRACE);
    let spent: Vec<_> = recent.chain([now]).map(|time| time.as_micros().to_string()).collect();
    // Nobody refreshes that often who is not playing.
    let spent = &spent[spent.len().saturating_sub(limits::REFRESH_SPENT_MAX)..];
    let generation = presented.generation;
    if row.generation == generation
        && sql::oauth::rotate_authorization(tx, row.id, generation, &spent.join(" "), now, expires_at).await?
    {
        return Ok(RotationOutcome::Successor(generation + 1));
    }
    // Someone else was faster, or it was long ago: what is there now says which.
    let row = sql::oauth::authorization(tx, row.id).await?.ok_or_else(OAuthError::invalid_grant)?;
    if row.revoked_at.is_some() {
        return Err(OAuthError::invalid_grant().into());
    }
    // The last time is that of the token before the one whose turn it is, and so on backwards.
    let back = usize::try_from(row.generation - generation).unwrap_or(0);
    let times = spent_times(&row);
    let spent = times.len().checked_sub(back).filter(|_| back > 0).and_then(|index| times.get(index));
    let just_now = spent.is_some_and(|spent| now.since(*spent) <= limits::REFRESH_GRACE);
    Ok(if just_now { RotationOutcome::Successor(generation + 1) } else { RotationOutcome::Reused })
}

/// The scopes that the request asks to keep, if it asks.
fn narrowed(form: &Params, row: &AuthorizationRow) -> Result<Option<String>, OAuthError> {
    let names = form.text("scope").split(' ').filter(|name| !name.is_empty() && *name != OFFLINE_ACCESS);
    let asked = names.collect::<Vec<_>>().join(" ");
    let beyond = || OAuthError::new("invalid_scope", "The refresh token does not hold all of these scopes.");
    match &row.scopes {
        _ if asked.is_empty() => Ok(row.scopes.clone()),
        None => Err(beyond()),
        Some(held) => {
            let (asked, held) = (ScopeSet::from(&*asked), ScopeSet::from(&**held));
            if asked.is_within(&held) { Ok(Some(asked.to_string())) } else { Err(beyond()) }
        }
    }
}

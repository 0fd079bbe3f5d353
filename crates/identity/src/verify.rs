//! Verifies tokens: are they valid, and whose are they?

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, Validation};
use portico_engine::Engine;
use portico_kernel::{AuthorizationId, Caller, CallerKind, Code, PersonId, Problem, Timestamp, TokenId};

use crate::claims::{AUDIENCE, Claims};
use crate::signing::TOKEN_TYPE;
use crate::{Identity, limits, sql};

/// What a token opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// The API, and with the scopes for it the tools of assistants.
    Api,
    /// The tools of assistants alone.
    Tools,
    /// This service alone, which checks tokens by itself.
    Service(Arc<str>),
}

/// A token that was verified. [`Identity::is_valid`] must be checked before each use.
#[derive(Debug)]
pub struct VerifiedToken {
    /// Who calls with it.
    pub caller: Arc<Caller>,
    /// What it opens.
    pub audience: Audience,
    /// When it was issued.
    issued_at: Timestamp,
    /// When it ends.
    expires_at: Timestamp,
    /// What it names that can be revoked.
    revocable: Vec<String>,
    /// The key that signed it.
    signing_key: String,
    /// Until when an API token counts as listed without asking again.
    listed_until: Option<Timestamp>,
    /// The last minute in which a use was noted, in seconds since 1970.
    noted: AtomicI64,
}

impl VerifiedToken {
    /// Is it an API token, or what a key or a service's credential was exchanged for?
    fn is_of_a_credential(&self) -> bool {
        self.caller.key.is_some() || self.caller.service().is_some()
    }

    /// The end of an API token, which is a credential itself.
    fn api_token_ends(&self) -> Option<Timestamp> {
        self.listed_until.map(|_| self.expires_at)
    }

    /// The authorization that an app's token came from.
    fn authorization(&self) -> Option<AuthorizationId> {
        self.revocable.iter().find_map(|id| id.parse().ok())
    }
}

/// Who is behind a token.
#[derive(Debug)]
pub struct CredentialHolder {
    /// The person: themselves, or whoever made the key or API token. `None` for what the operator made.
    pub person: Option<PersonId>,
    /// When the credential ends, if it does.
    pub ends_at: Option<Timestamp>,
}

/// Status 401. The message never says which check failed: that would help only someone who forges.
pub fn refused() -> Problem {
    Problem::new(Code::Unauthenticated, "The token is missing, invalid, expired or revoked.")
}

impl Identity {
    /// Checks signature, type, issuer, audience and time, then that the credential behind it is not revoked.
    pub async fn verify(&self, engine: &Engine, token: &str) -> Result<VerifiedToken, Problem> {
        let now = engine.clock.now();
        let (claims, signing_key) = self.decode(engine, token, now).ok_or_else(refused)?;
        let audience = self.audience_of(engine, &claims).ok_or_else(refused)?;
        let (issued_at, expires_at) = (Timestamp::from_seconds(claims.iat), claims.expires_at());
        let revocable = claims.revocable();
        let is_api_token = claims.sub.parse::<TokenId>().is_ok();
        if is_api_token && !self.is_listed(engine, &claims, &signing_key, now).await? {
            return Err(refused());
        }
        let caller = claims.caller().ok_or_else(refused)?;
        let listed_until = is_api_token.then(|| now + limits::LISTED_LIFE);
        let verified = VerifiedToken {
            caller: Arc::new(caller),
            audience,
            issued_at,
            expires_at,
            revocable,
            signing_key,
            listed_until,
            noted: AtomicI64::new(0),
        };
        if self.is_valid(&verified, now)? { Ok(verified) } else { Err(refused()) }
    }

    /// Has the token neither expired nor been revoked since it was verified? Reads no database.
    pub fn is_valid(&self, verified: &VerifiedToken, now: Timestamp) -> Result<bool, Problem> {
        let in_time = now < verified.expires_at && verified.listed_until.is_none_or(|until| now < until);
        // A signing key that was removed takes its tokens with it.
        let signed = self.keys.current().verifier(&verified.signing_key).is_some();
        Ok(in_time && signed && !self.revocations.any(&verified.revocable, verified.issued_at, now)?)
    }

    /// Is the credential behind the token valid? For a connection that outlives the token it was opened with: only a
    /// revocation, or the end of an API token, makes it invalid. Reads no database; [`Identity::holder`] says
    /// when the connection must end in any case.
    pub fn is_credential_valid(&self, verified: &VerifiedToken, now: Timestamp) -> Result<bool, Problem> {
        let in_time = verified.api_token_ends().is_none_or(|end| now < end);
        Ok(in_time && !self.revocations.any(&verified.revocable, verified.issued_at, now)?)
    }

    /// Who is behind the token, and when that credential ends by itself: an API token, a key below one, or what a person
    /// let an app do. A connection outlives the token that it was opened with, but not this.
    pub async fn holder(
        &self,
        engine: &Engine,
        verified: &VerifiedToken,
    ) -> Result<CredentialHolder, Problem> {
        let mut query = engine.db.query();
        if let Some(key) = &verified.caller.key {
            let row = sql::active_credential(&mut query, &key.id).await?.ok_or_else(refused)?;
            let mut creator = Some(row.created_by);
            // A key that another one made is of whoever made that one.
            while let Some(id) = creator.as_ref().filter(|id| id.parse::<PersonId>().is_err()) {
                creator = sql::creator(&mut query, id).await?;
            }
            let person = creator.and_then(|id| id.parse().ok());
            return Ok(CredentialHolder { person, ends_at: row.expires_at });
        }
        let person = verified.caller.subject.parse().ok();
        let Some(id) = verified.authorization() else {
            return Ok(CredentialHolder { person, ends_at: None });
        };
        let row = sql::oauth::authorization(&mut query, id).await?.ok_or_else(refused)?;
        Ok(CredentialHolder { person, ends_at: Some(row.ends_at(self.refresh_token_life)) })
    }

    /// Notes that the key or API token is used, once a minute.
    pub fn note_use(&self, verified: &VerifiedToken, now: Timestamp) {
        let minute = now.as_seconds() / 60 * 60;
        if verified.noted.swap(minute, Ordering::Relaxed) != minute && verified.is_of_a_credential() {
            self.uses.note(&verified.caller.subject, now);
        }
    }

    /// The claims of a token that is ours, for one of our audiences, and not over; and the key that signed it.
    pub(crate) fn decode(&self, engine: &Engine, token: &str, now: Timestamp) -> Option<(Claims, String)> {
        let header = jsonwebtoken::decode_header(token).ok()?;
        if header.alg != Algorithm::EdDSA || header.typ.as_deref() != Some(TOKEN_TYPE) || has_critical(token)
        {
            return None;
        }
        let keys = self.keys.current();
        let signing_key = header.kid?;
        let verifier = keys.verifier(&signing_key)?;
        let mut validation = Validation::new(Algorithm::EdDSA);
        // Which audiences there are, we know better; see below.
        validation.validate_aud = false;
        validation.set_issuer(&[&self.issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        // Our own clock decides, below.
        validation.validate_exp = false;
        let claims: Claims = jsonwebtoken::decode(token, &verifier.key, &validation).ok()?.claims;
        self.audience_of(engine, &claims)?;
        let issued_at = Timestamp::from_seconds(claims.iat);
        let in_time = issued_at <= now + limits::CLOCK_SKEW_MAX && now < claims.expires_at();
        // API tokens live long and are on a list. Every other token is short, and of a key while that one signed: so a
        // key that was followed and then stolen makes none.
        let is_api_token = claims.sub.parse::<TokenId>().is_ok();
        let short = claims.expires_at().since(issued_at) <= limits::ACCESS_TOKEN_LIFE;
        let of_its_time = verifier.superseded_at.is_none_or(|end| issued_at <= end + limits::CLOCK_SKEW_MAX);
        (in_time && (is_api_token || (short && of_its_time))).then_some((claims, signing_key))
    }

    /// What a token with these claims opens; `None` when it is for nothing that is here.
    fn audience_of(&self, engine: &Engine, claims: &Claims) -> Option<Audience> {
        match claims.aud.as_str() {
            AUDIENCE => Some(Audience::Api),
            audience if audience == self.mcp_audience() => Some(Audience::Tools),
            audience => {
                let catalog = engine.registry.catalog();
                let service = catalog.audience(audience)?;
                Some(Audience::Service(service.service.clone()))
            }
        }
    }

    /// Is the API token on the list of those that were made and not revoked, and does it say what was written down then?
    /// One that was forged with a stolen signing key does not: it can name nothing that the list does not give it.
    async fn is_listed(
        &self,
        engine: &Engine,
        claims: &Claims,
        signing_key: &str,
        now: Timestamp,
    ) -> Result<bool, Problem> {
        let row = sql::active_credential(&mut engine.db.query(), &claims.sub).await?;
        let Some(row) = row else { return Ok(false) };
        Ok(row.expires_at.is_some_and(|end| now < end && end == claims.expires_at())
            && row.signing_key.as_deref().is_none_or(|key| key == signing_key)
            && claims.org == Some(row.account_id)
            && claims.scope.as_deref() == Some(&row.scopes)
            && claims.kind == CallerKind::Client.name()
            && claims.key.as_deref() == Some(&row.id))
    }
}

/// Does the header ask for something that must be understood (RFC 7515, section 4.1.11)? We understand nothing beyond
/// what every token has.
fn has_critical(token: &str) -> bool {
    let header = token.split('.').next().and_then(|header| BASE64_URL_SAFE_NO_PAD.decode(header).ok());
    let header = header.and_then(|header| serde_json::from_slice::<serde_json::Value>(&header).ok());
    header.is_none_or(|header| header.get("crit").is_some())
}

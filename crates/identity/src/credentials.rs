//! Keys and API tokens: made, and revoked.

use portico_engine::Ctx;
use portico_kernel::{AccountId, CallerKind, KeyId, Problem, ScopeSet, Secret, Timestamp, TokenId, seconds};

use crate::claims::{Claims, Issue};
use crate::events::{KeyCreated, KeyRevoked, TokenCreated, TokenRevoked};
use crate::sql::{self, CredentialRow};
use crate::{Identity, limits, secret};

/// The two kinds of credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    Key,
    Token,
}

impl CredentialKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Token => "token",
        }
    }

    const fn limit(self) -> i64 {
        match self {
            Self::Key => limits::KEYS_MAX,
            Self::Token => limits::TOKENS_MAX,
        }
    }
}

/// What a new key or API token is to be.
pub struct NewCredential {
    /// The account that it is for.
    pub account: AccountId,
    /// A name by which its maker knows it.
    pub name: String,
    /// What it may call.
    pub scopes: ScopeSet,
}

/// A new key. Its secret is here and nowhere else.
pub struct CreatedKey {
    /// The key's id, which is its client id too.
    pub id: KeyId,
    /// The client secret, shown once.
    pub secret: Secret<String>,
}

/// A new API token. The token is here and nowhere else.
pub struct CreatedToken {
    /// The token's id.
    pub id: TokenId,
    /// The token itself, shown once.
    pub token: Secret<String>,
    /// When it ends.
    pub expires_at: Timestamp,
}

impl NewCredential {
    fn check(&self) -> Result<(), Problem> {
        if self.scopes.is_empty() {
            return Err(Problem::field("scopes", "must name at least one scope"));
        }
        if self.name.chars().count() > limits::NAME_CHARACTERS_MAX {
            return Err(Problem::field(
                "name",
                format!("must have at most {} characters", limits::NAME_CHARACTERS_MAX),
            ));
        }
        Ok(())
    }

    /// The row, once there is room for one more of its kind in the account, whose row the caller holds.
    async fn row(self, ctx: &mut Ctx, kind: CredentialKind, id: String) -> Result<CredentialRow, Problem> {
        self.check()?;
        let (now, created_by) = (ctx.now(), ctx.caller().subject.clone());
        let active = sql::count_active(ctx.tx().await?, self.account, kind.name(), now).await?;
        if active >= kind.limit() {
            let words = format!("The account has {active} {}s, which is the most it may have.", kind.name());
            let limit = [("limit", kind.limit().to_string())];
            return Err(Problem::failed_precondition("LIMIT_REACHED", "identity", words, limit));
        }
        Ok(CredentialRow {
            id,
            account_id: self.account,
            kind: kind.name().to_owned(),
            name: self.name,
            scopes: self.scopes.to_string(),
            secret_hash: None,
            secret_hint: String::new(),
            parent: None,
            created_by,
            created_at: now,
            last_used_at: None,
            expires_at: None,
            revoked_at: None,
        })
    }
}

impl Identity {
    /// Makes a key. The caller has locked the account's row, so that the limit holds.
    pub async fn create_key(&self, ctx: &mut Ctx, new: NewCredential) -> Result<CreatedKey, Problem> {
        let id: KeyId = ctx.new_id();
        let secret = secret::generate(ctx.engine().entropy.as_ref());
        let mut row = new.row(ctx, CredentialKind::Key, id.to_string()).await?;
        row.secret_hash = Some(secret::hash(secret.expose()));
        row.secret_hint = secret::hint(&secret);
        sql::insert_credential(ctx.tx().await?, &row).await?;
        ctx.audit("key.created", &id)?;
        let actor = ctx.caller().subject.clone();
        ctx.emit(&KeyCreated { key_id: id.to_string(), actor })?;
        Ok(CreatedKey { id, secret })
    }

    /// Makes an API token that lives `days`. The caller has locked the account's row, so that the limit holds.
    pub async fn create_token(
        &self,
        ctx: &mut Ctx,
        new: NewCredential,
        days: u16,
    ) -> Result<CreatedToken, Problem> {
        if !limits::TOKEN_DAYS.contains(&days) {
            return Err(Problem::field("days", format!("must be one of {:?}", limits::TOKEN_DAYS)));
        }
        let id: TokenId = ctx.new_id();
        let mut row = new.row(ctx, CredentialKind::Token, id.to_string()).await?;
        let issue = Issue {
            subject: id.to_string(),
            kind: CallerKind::Client,
            at: ctx.now(),
            life: seconds(u64::from(days) * 24 * 3600),
            id: id.to_string(),
        };
        let claims = Claims {
            client_id: Some(id.to_string()),
            scope: Some(row.scopes.clone()),
            org: Some(row.account_id),
            key: Some(id.to_string()),
            ..Claims::new(&self.issuer, issue).named(&row.name)
        };
        let token = Secret::new(self.keys.sign(&claims)?);
        row.expires_at = Some(claims.expires_at());
        sql::insert_credential(ctx.tx().await?, &row).await?;
        ctx.audit("token.created", &id)?;
        let actor = ctx.caller().subject.clone();
        ctx.emit(&TokenCreated { token_id: id.to_string(), actor })?;
        Ok(CreatedToken { id, token, expires_at: claims.expires_at() })
    }

    /// Revokes a key or API token, and the keys below it; answers what was revoked. Once more changes nothing.
    pub async fn revoke(&self, ctx: &mut Ctx, id: &str) -> Result<Vec<String>, Problem> {
        let known = sql::credential(ctx.tx().await?, id).await?;
        let account = known.ok_or_else(|| Problem::not_found("key or API token", id))?.account_id;
        ctx.account(Some(account)).await?;
        let now = ctx.now();
        let revoked = sql::revoke(ctx.tx().await?, id, now).await?;
        let actor = ctx.caller().subject.clone();
        for row in &revoked {
            let (actor, id) = (actor.clone(), row.id.clone());
            if row.kind == CredentialKind::Key.name() {
                ctx.audit("key.revoked", &id)?;
                ctx.emit(&KeyRevoked { key_id: id, actor })?;
            } else {
                ctx.audit("token.revoked", &id)?;
                ctx.emit(&TokenRevoked { token_id: id, actor })?;
            }
        }
        Ok(revoked.into_iter().map(|row| row.id).collect())
    }
}

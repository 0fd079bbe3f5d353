//! Keys and API tokens: made, and revoked.

use std::collections::HashSet;

use futures_util::future::BoxFuture;
use portico_engine::ports::{CreatedCredentials, CreatedResource, CreatedResources, Key, ResourceKind};
use portico_engine::{Ctx, Cursor, Page};
use portico_kernel::{
    AccountId, CallerKind, KeyId, Problem, ScopeSet, Secret, Timestamp, TokenId, check_name, seconds,
    text_enum,
};
use portico_store::{StoreError, Tx, text_value};

use crate::claims::{AUDIENCE, Claims, Issue};
use crate::events::{KeyCreated, KeyRevoked, TokenCreated, TokenRevoked};
use crate::sql::{self, CredentialRow};
use crate::{Identity, People, limits, secret};

text_enum! {
    /// The two kinds of credential.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum CredentialKind {
        Key = "key",
        Token = "token",
    }
}

text_value!(CredentialKind);

impl CredentialKind {
    const fn title(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Token => "API token",
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
    /// What it may call, as it was asked for.
    pub scopes: Vec<String>,
    /// The key or API token that it is to be below.
    pub parent: Option<String>,
    /// When the one above it ends.
    ends_at: Option<Timestamp>,
}

/// A new key. Its secret is here and nowhere else.
pub struct CreatedKey {
    /// The key, whose id is its client id too.
    pub key: Key,
    /// The client secret, shown once.
    pub secret: Secret<String>,
}

/// A new API token. The token is here and nowhere else.
pub struct CreatedToken {
    /// Its record.
    pub key: Key,
    /// The token itself, shown once.
    pub token: Secret<String>,
}

impl NewCredential {
    /// A credential of `account`.
    pub fn new(account: AccountId, name: String, scopes: Vec<String>, parent: Option<String>) -> Self {
        Self { account, name, scopes, parent, ends_at: None }
    }

    /// Its scopes, if they are scopes, and the name is one.
    fn check(&self, ctx: &Ctx) -> Result<ScopeSet, Problem> {
        if self.scopes.is_empty() {
            return Err(Problem::field("scopes", "must name at least one scope"));
        }
        let scopes = ctx.engine().registry.catalog().scopes().read(&self.scopes)?;
        check_name(&self.name, 0..=limits::NAME_CHARACTERS_MAX)
            .map_err(|message| Problem::field("name", message))?;
        Ok(scopes)
    }

    /// Refuses the first of its scopes that may not be among them.
    fn refuse_scope(&self, may_not: impl Fn(&str) -> bool, why: &str) -> Result<(), Problem> {
        match self.scopes.iter().position(|name| may_not(name)) {
            Some(index) => Err(Problem::field(format!("scopes[{index}]"), why)),
            None => Ok(()),
        }
    }

    /// Nobody gives more than they hold; a key makes keys below itself, and none that makes keys.
    async fn place(&mut self, ctx: &mut Ctx) -> Result<(), Problem> {
        let caller = ctx.caller().clone();
        if let Some(own) = &caller.key {
            if self.parent.as_ref().is_some_and(|parent| *parent != own.id) {
                return Err(Problem::field("parent", "must be the key or API token that calls"));
            }
            self.parent = Some(own.id.clone());
        }
        let of_parent = match &self.parent {
            None => None,
            Some(id) => {
                let parent = sql::active_credential(ctx.tx().await?, id).await?;
                let now = ctx.now();
                let parent = parent.filter(|parent| {
                    parent.account_id == self.account && parent.expires_at.is_none_or(|end| now < end)
                });
                let parent = parent.ok_or_else(|| {
                    Problem::field("parent", "must be a key or API token of this account that is not revoked")
                })?;
                // What is below another ends with it, at the latest.
                self.ends_at = parent.expires_at;
                Some(parent.scope_set())
            }
        };
        let bounds = [of_parent, caller.scopes.clone()];
        let is_beyond = |name: &str| bounds.iter().flatten().any(|held| !held.contains(name));
        self.refuse_scope(is_beyond, "must be a scope that the parent holds")?;
        let is_below = bounds.iter().any(Option::is_some);
        let why = "must not be `account:keys`, since the key is below another one";
        self.refuse_scope(|name| is_below && name == "account:keys", why)
    }

    /// The row, once there is room for one more of its kind in the account.
    async fn row(
        mut self,
        ctx: &mut Ctx,
        kind: CredentialKind,
        id: String,
    ) -> Result<CredentialRow, Problem> {
        let scopes = self.check(ctx)?;
        ctx.lock_account(self.account).await?.active()?;
        self.place(ctx).await?;
        let (now, created_by) = (ctx.now(), ctx.caller().subject.clone());
        let active = sql::count_active(ctx.tx().await?, self.account, kind, now).await?;
        if active >= kind.limit() {
            let message = format!("The account already has {active} {}s, the maximum.", kind.name());
            return Err(Problem::limit_reached("identity", message, kind.limit()));
        }
        Ok(CredentialRow {
            id,
            account_id: self.account,
            kind,
            name: self.name,
            scopes: scopes.to_string(),
            secret_hash: None,
            secret_hint: String::new(),
            parent: self.parent,
            created_by,
            created_at: now,
            last_used_at: None,
            expires_at: self.ends_at,
            revoked_at: None,
            signing_key: None,
        })
    }
}

impl Identity {
    /// Makes a key.
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
        Ok(CreatedKey { key: row.into_key(), secret })
    }

    /// Makes an API token that lives `days`.
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
            audience: AUDIENCE.to_owned(),
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
        let signed = self.keys.sign(&claims, ctx.now())?;
        row.expires_at = Some(claims.expires_at());
        row.signing_key = Some(signed.key_id);
        sql::insert_credential(ctx.tx().await?, &row).await?;
        ctx.audit("token.created", &id)?;
        let actor = ctx.caller().subject.clone();
        ctx.emit(&TokenCreated { token_id: id.to_string(), actor })?;
        Ok(CreatedToken { key: row.into_key(), token: Secret::new(signed.token) })
    }

    /// Revokes a key or API token, and the keys below it; returns what was revoked. A second time changes nothing.
    pub async fn revoke(&self, ctx: &mut Ctx, id: &str) -> Result<Vec<String>, Problem> {
        revoke(ctx, id).await
    }

    /// Revokes the credential `id` of that kind, if it is the account's and the caller's to revoke.
    pub(crate) async fn revoke_in(
        &self,
        ctx: &mut Ctx,
        account: AccountId,
        kind: CredentialKind,
        id: &str,
    ) -> Result<(), Problem> {
        let below = ctx.caller().key.as_ref().map(|key| key.id.clone());
        let row = sql::credential(ctx.tx().await?, id).await?;
        let row = row.filter(|row| row.account_id == account && row.kind == kind);
        let row = row.filter(|row| below.is_none() || row.parent == below);
        let row = row.ok_or_else(|| Problem::not_found(kind.title(), id))?;
        self.revoke(ctx, &row.id).await.map(drop)
    }

    /// The account's credentials of that kind, newest first; for a key, those below it.
    pub(crate) async fn list_credentials(
        &self,
        ctx: &mut Ctx,
        account: AccountId,
        kind: CredentialKind,
    ) -> Result<Page<Key>, Problem> {
        let page = ctx.page()?;
        let parent = ctx.caller().key.as_ref().map(|key| key.id.clone());
        let before = page.after.as_ref().map(|cursor| cursor.0.clone());
        let rows =
            sql::credentials_before(ctx.tx().await?, account, kind, parent, before, page.rows()).await?;
        let keys = rows.into_iter().map(CredentialRow::into_key).collect();
        Ok(page.page(keys, |key| Cursor(key.id.clone()), |key| key))
    }
}

async fn revoke(ctx: &mut Ctx, id: &str) -> Result<Vec<String>, Problem> {
    let known = sql::credential(ctx.tx().await?, id).await?;
    let account = known.ok_or_else(|| Problem::not_found("key or API token", id))?.account_id;
    // Locked, so that no key can be made below it meanwhile.
    ctx.lock_account(account).await?;
    let now = ctx.now();
    let revoked = sql::revoke(ctx.tx().await?, id, now).await?;
    let actor = ctx.caller().subject.clone();
    for row in &revoked {
        sql::add_revocation(ctx.tx().await?, &row.id, false, now).await?;
        let (actor, id) = (actor.clone(), row.id.clone());
        if row.kind == CredentialKind::Key {
            ctx.audit("key.revoked", &id)?;
            ctx.emit(&KeyRevoked { key_id: id, actor })?;
        } else {
            ctx.audit("token.revoked", &id)?;
            ctx.emit(&TokenRevoked { token_id: id, actor })?;
        }
    }
    Ok(revoked.into_iter().map(|row| row.id).collect())
}

impl CreatedResources for People {
    fn created_by<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        creators: &'a [String],
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<CreatedResource>, StoreError>> {
        Box::pin(async move {
            let mut created: Vec<CredentialRow> = Vec::new();
            // Oldest first, so that a key comes after the one that it is below.
            for row in sql::active_credentials(tx, account, now).await? {
                let is_below = created.iter().any(|above| row.parent.as_ref() == Some(&above.id));
                if is_below || creators.contains(&row.created_by) {
                    created.push(row);
                }
            }
            Ok(created.into_iter().map(CreatedResource::from).collect())
        })
    }

    fn end<'a>(
        &'a self,
        ctx: &'a mut Ctx,
        _: AccountId,
        resources: &'a [CreatedResource],
    ) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(async move {
            for resource in resources {
                revoke(ctx, &resource.id).await?;
            }
            Ok(())
        })
    }
}

impl CreatedCredentials for People {
    fn all_created_by<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        creators: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            let mut created: HashSet<String> = HashSet::new();
            // Oldest first, so that whoever made one comes before it.
            for row in sql::credential_creators(tx, account).await? {
                if creators.contains(&row.created_by) || created.contains(&row.created_by) {
                    created.insert(row.id);
                }
            }
            Ok(created.into_iter().collect())
        })
    }
}

impl From<CredentialRow> for CreatedResource {
    fn from(row: CredentialRow) -> Self {
        let kind = match row.kind {
            CredentialKind::Key => ResourceKind::Key,
            CredentialKind::Token => ResourceKind::Token,
        };
        Self { kind, id: row.id, name: row.name, created_by: row.created_by, created_at: row.created_at }
    }
}

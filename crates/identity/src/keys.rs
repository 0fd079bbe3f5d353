//! The operations on keys and API tokens.

use portico_engine::ports::Key;
use portico_engine::{AccountRef, Ctx, Done, Operation, Page, Spec};
use portico_kernel::{Category, KeyId, Problem, Role, ScopeSet, TokenId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::credentials::{CredentialKind, NewCredential};
use crate::{Identity, limits};

const fn of_keys(spec: Spec) -> Spec {
    spec.scope("account:keys").role(Role::Admin)
}

const fn of_tokens(spec: Spec) -> Spec {
    spec.persons().role(Role::Admin)
}

/// Listing and revoking, which are the same for keys and API tokens.
macro_rules! list_and_delete {
    (
        $kind:ident, $noun:literal, $access:path;
        $(#[$list_doc:meta])+ $list:ident;
        $(#[$delete_doc:meta])+ $delete:ident { $(#[$id_doc:meta])+ key_id: $id:ty }
    ) => {
        $(#[$list_doc])+
        #[derive(Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $list {
            /// The account.
            org_id: AccountRef,
        }

        impl Operation for $list {
            const SPEC: Spec = $access(Spec::get(
                concat!("identity.", $noun, ".list"),
                concat!("/v1/accounts/orgs/{org_id}/", $noun),
            ))
            .category(Category::List)
            .list($noun);
            type Area = Identity;
            type Answer = Page<Key>;

            async fn run(self, identity: &Identity, ctx: &mut Ctx) -> Result<Page<Key>, Problem> {
                let account = ctx.account(Some(self.org_id)).await?;
                identity.list_credentials(ctx, account, CredentialKind::$kind).await
            }
        }

        $(#[$delete_doc])+
        #[derive(Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $delete {
            /// The account.
            org_id: AccountRef,
            $(#[$id_doc])+
            key_id: $id,
        }

        impl Operation for $delete {
            const SPEC: Spec = $access(Spec::delete(
                concat!("identity.", $noun, ".delete"),
                concat!("/v1/accounts/orgs/{org_id}/", $noun, "/{key_id}"),
            ))
            .category(Category::Write);
            type Area = Identity;
            type Answer = Done;

            async fn run(self, identity: &Identity, ctx: &mut Ctx) -> Result<Done, Problem> {
                let id = self.key_id.to_string();
                let account = ctx.account(Some(self.org_id)).await?;
                identity.revoke_in(ctx, account, CredentialKind::$kind, &id).await.map(|()| Done {})
            }
        }
    };
}

list_and_delete! {
    Key, "keys", of_keys;
    /// List the account's keys, newest first; revoked ones stay on record. A key sees those below itself.
    ListKeys;
    /// Revoke a key and the keys below it. New tokens are refused at once, and those already issued within seconds; the
    /// record stays.
    DeleteKey {
        /// The key.
        key_id: KeyId
    }
}

list_and_delete! {
    Token, "tokens", of_tokens;
    /// List the account's API tokens, newest first; revoked and expired ones stay on record.
    ListTokens;
    /// Revoke an API token, and the keys below it. It is refused within seconds; the record stays.
    DeleteToken {
        /// The API token.
        key_id: TokenId
    }
}

/// Make an API key. Its client secret is in this answer only. A key or API token that holds `account:keys` makes keys
/// below itself, with scopes of its own.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateKey {
    /// The account that the key is for.
    org_id: AccountRef,
    /// A name to know it by.
    #[serde(default)]
    #[schemars(length(max = limits::NAME_CHARACTERS_MAX))]
    name: String,
    /// What it may call; at least one scope, for its whole life.
    #[schemars(with = "ScopeSet", length(min = 1), example = ["identity:read"])]
    scopes: Vec<String>,
    /// The key or API token that it is to be below: it holds no more than that one, and ends with it.
    #[serde(default)]
    parent: Option<String>,
}

/// A new key.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NewKey {
    /// The key.
    key: Key,
    /// The client secret, shown once.
    client_secret: String,
}

impl Operation for CreateKey {
    const SPEC: Spec = of_keys(Spec::post("identity.keys.create", "/v1/accounts/orgs/{org_id}/keys"))
        .category(Category::Write);
    type Area = Identity;
    type Answer = NewKey;

    async fn run(self, identity: &Identity, ctx: &mut Ctx) -> Result<NewKey, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let new = NewCredential::new(account, self.name, self.scopes, self.parent);
        let made = identity.create_key(ctx, new).await?;
        Ok(NewKey { key: made.key, client_secret: made.secret.expose().clone() })
    }
}

/// Make an API token. The token is in this answer only.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateToken {
    /// The account that the token is for.
    org_id: AccountRef,
    /// A name to know it by.
    #[serde(default)]
    #[schemars(length(max = limits::NAME_CHARACTERS_MAX))]
    name: String,
    /// What it may call; at least one scope, for its whole life.
    #[schemars(with = "ScopeSet", length(min = 1), example = ["identity:read"])]
    scopes: Vec<String>,
    /// How many days it lives: 7, 30, 90 or 365.
    #[schemars(extend("enum" = limits::TOKEN_DAYS))]
    #[serde(default = "shortest")]
    days: u16,
}

const fn shortest() -> u16 {
    limits::TOKEN_DAYS[0]
}

/// A new API token.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NewToken {
    /// Its record.
    key: Key,
    /// The token itself, shown once.
    token: String,
}

impl Operation for CreateToken {
    const SPEC: Spec = of_tokens(Spec::post("identity.tokens.create", "/v1/accounts/orgs/{org_id}/tokens"))
        .category(Category::Write);
    type Area = Identity;
    type Answer = NewToken;

    async fn run(self, identity: &Identity, ctx: &mut Ctx) -> Result<NewToken, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let new = NewCredential::new(account, self.name, self.scopes, None);
        let made = identity.create_token(ctx, new, self.days).await?;
        Ok(NewToken { key: made.key, token: made.token.expose().clone() })
    }
}

//! The caller's account.

use portico_engine::ports::CredentialRecord;
use portico_engine::{Ctx, Operation, Spec};
use portico_kernel::{CallerKind, Category, Problem, Scope, ScopeSet, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sql::{self, AccountRow};
use crate::{AccountKind, Accounts};

/// See the caller's account. For a key or API token it shows the account and the key itself; for a person also the
/// teams that they belong to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetAccountMe {}

/// The caller and its account.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AccountMe {
    /// The person's id; empty for a key.
    user_id: String,
    /// The id of the key, API token or person.
    subject: String,
    /// The person's e-mail address; empty for a key.
    email: String,
    /// The display name of the person or the key.
    name: String,
    /// Was the address confirmed?
    email_verified: bool,
    /// The teams that the person belongs to.
    teams: Vec<Account>,
    /// Is there only an account so far, and no person behind it?
    stub: bool,
    /// The account that calls count against.
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<Account>,
    /// The key or API token that calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Key>,
}

/// An account.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Account {
    /// The account's id: the `org_id` of paths.
    id: String,
    /// `personal` or `team`.
    kind: String,
    /// A short name for addresses.
    slug: String,
    /// The account's name.
    name: String,
    /// The plan: `free`, `team` or `scale`.
    plan: String,
    /// `active`, `suspended` or `erasing`.
    status: String,
    /// The caller's role: `owner`, `admin` or `member`; empty for a key.
    role: String,
    /// When it was made.
    created_at: String,
    /// When it will be erased; empty while it stays.
    erase_after: String,
    /// Is it one of the platform's own test accounts?
    probe: bool,
}

/// A key or API token. The secret itself is never in it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Key {
    /// The id of the key or API token.
    id: String,
    /// The client id to exchange it with.
    client_id: String,
    /// The name that its maker gave it.
    name: String,
    /// The last characters of the secret.
    secret_hint: String,
    /// Who made it.
    created_by: String,
    /// When it was made.
    created_at: String,
    /// When it was last used, to the minute; empty for never.
    last_used_at: String,
    /// When it was revoked; empty while it stands.
    revoked_at: String,
    /// What it may call.
    scopes: ScopeSet,
    /// `key` or `token`.
    kind: String,
    /// When it ends; empty for a key, which does not.
    expires_at: String,
}

/// A required string that has no value is empty.
fn text(time: Option<Timestamp>) -> String {
    time.map(|time| time.to_string()).unwrap_or_default()
}

impl From<AccountRow> for Account {
    fn from(row: AccountRow) -> Self {
        Self {
            id: row.id,
            kind: row.kind,
            slug: row.slug,
            name: row.name,
            plan: row.plan,
            status: row.status,
            role: row.role,
            created_at: row.created_at.to_string(),
            erase_after: text(row.erase_after),
            probe: row.probe,
        }
    }
}

impl From<CredentialRecord> for Key {
    fn from(record: CredentialRecord) -> Self {
        Self {
            client_id: record.id.clone(),
            id: record.id,
            name: record.name,
            secret_hint: record.secret_hint,
            created_by: record.created_by,
            created_at: record.created_at.to_string(),
            last_used_at: text(record.last_used_at),
            revoked_at: text(record.revoked_at),
            scopes: record.scopes,
            kind: record.kind,
            expires_at: text(record.expires_at),
        }
    }
}

impl Operation for GetAccountMe {
    const SPEC: Spec =
        Spec::get("accounts.me.get", "/v1/accounts/me").scope(Scope::AccountRead).category(Category::Read);
    type Area = Accounts;
    type Answer = AccountMe;

    async fn run(self, accounts: &Accounts, ctx: &mut Ctx) -> Result<AccountMe, Problem> {
        let account_id = ctx.account(None).await?;
        let caller = ctx.caller().clone();
        let tx = ctx.tx().await?;
        if caller.kind == CallerKind::Person {
            let person = accounts.directory.person(tx, &caller.subject).await?;
            let person = person.ok_or_else(|| Problem::not_found("person", &caller.subject))?;
            let (personal, teams): (Vec<_>, Vec<_>) = sql::accounts_of(tx, &caller.subject)
                .await?
                .into_iter()
                .partition(|row| row.kind == AccountKind::Personal.name());
            return Ok(AccountMe {
                user_id: person.id,
                subject: caller.subject,
                email: person.email,
                name: person.name,
                email_verified: person.email_verified,
                teams: teams.into_iter().map(Account::from).collect(),
                stub: false,
                account: personal.into_iter().next().map(Account::from),
                key: None,
            });
        }
        let account = sql::account(tx, account_id).await?;
        let key = accounts.directory.credential(tx, account_id, &caller.subject).await?.map(Key::from);
        Ok(AccountMe {
            user_id: String::new(),
            subject: caller.subject,
            email: String::new(),
            name: key.as_ref().map(|key| key.name.clone()).unwrap_or_default(),
            email_verified: false,
            teams: Vec::new(),
            stub: false,
            account: account.map(Account::from),
            key,
        })
    }
}

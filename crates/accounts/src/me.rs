//! The caller's account.

use portico_engine::ports::Key;
use portico_engine::{Ctx, Operation, Spec, Tool};
use portico_kernel::{CallerKind, Category, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::{AccountKind, Accounts, sql};

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

impl Operation for GetAccountMe {
    const SPEC: Spec = Spec::get("accounts.me.get", "/v1/accounts/me")
        .tool(Tool::new("accounts_get_account", "See the account and its plan"))
        .scope("account:read")
        .category(Category::Read);
    type Area = Accounts;
    type Answer = AccountMe;

    async fn run(self, accounts: &Accounts, ctx: &mut Ctx) -> Result<AccountMe, Problem> {
        let account_id = ctx.account(None).await?;
        let caller = ctx.caller().clone();
        let tx = ctx.tx().await?;
        if caller.kind == CallerKind::Person {
            let person = accounts.directory.person(tx, &caller.subject).await?;
            let person = person.ok_or_else(|| Problem::not_found("person", &caller.subject))?;
            let rows = sql::accounts_of(tx, person.id).await?;
            let account = rows.iter().find(|row| row.id == account_id).cloned();
            // An app sees the account that the person chose for it, and no other.
            let seen = |row: &sql::AccountRow| caller.scopes.is_none() || row.id == account_id;
            let teams = rows.into_iter().filter(|row| row.kind == AccountKind::Team && seen(row));
            return Ok(AccountMe {
                user_id: person.id.to_string(),
                subject: caller.subject,
                email: person.email,
                name: person.name,
                email_verified: person.email_verified,
                teams: teams.map(Account::from).collect(),
                stub: false,
                account: account.map(Account::from),
                key: None,
            });
        }
        let account = sql::account(tx, account_id).await?;
        let key = accounts.directory.credential(tx, account_id, &caller.subject).await?;
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

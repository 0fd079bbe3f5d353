//! What one area needs of another, as small traits that `portico` wires. An area never names another.

use futures_util::future::BoxFuture;
use portico_kernel::{AccountId, Problem, Role, ScopeSet, Timestamp};
use portico_store::{StoreError, Tx};

use crate::Engine;

/// Who belongs to which account, and what the account may use. Kept by accounts.
pub trait Memberships: Send + Sync {
    /// The role of the person `subject` in `account`; nothing for a stranger.
    fn role<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<Option<Role>, StoreError>>;

    /// The name of the account's plan.
    fn plan<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
    ) -> BoxFuture<'a, Result<Option<String>, StoreError>>;
}

/// A key or API token as its account sees it. The secret is never in it.
#[derive(Debug, Clone)]
pub struct CredentialRecord {
    /// The id.
    pub id: String,
    /// The name that its maker gave it.
    pub name: String,
    /// The last characters of a key's secret.
    pub secret_hint: String,
    /// Who made it.
    pub created_by: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When an API token ends.
    pub expires_at: Option<Timestamp>,
    /// What it may call.
    pub scopes: ScopeSet,
    /// `key` or `token`.
    pub kind: String,
}

/// A person as an account sees them.
#[derive(Debug, Clone)]
pub struct PersonRecord {
    /// The person's id.
    pub id: String,
    /// The e-mail address.
    pub email: String,
    /// The display name.
    pub name: String,
    /// Was the address confirmed?
    pub email_verified: bool,
}

/// Who there is, and with which credentials. Kept by identity.
pub trait Directory: Send + Sync {
    /// The key or API token of that id in `account`.
    fn credential<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<CredentialRecord>, StoreError>>;

    /// The person of that id.
    fn person<'a>(
        &'a self,
        tx: &'a mut Tx,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<PersonRecord>, StoreError>>;
}

/// A letter to one person. It may hold a one-time link, so it has no `Debug`.
#[derive(Clone)]
pub struct Letter {
    /// The e-mail address.
    pub to: String,
    /// The subject.
    pub subject: String,
    /// The text, plain.
    pub text: String,
}

/// Letters that must arrive. Kept by mail.
pub trait Mailer: Send + Sync {
    /// Can letters be sent at all? Whoever would send one asks first.
    fn is_configured(&self) -> bool;

    /// Puts the letter into the outbox. It goes out after the commit of `tx`, and not without it; should a server fail
    /// in the moment of sending, it goes out twice.
    fn post<'a>(
        &'a self,
        engine: &'a Engine,
        tx: &'a mut Tx,
        letter: &'a Letter,
    ) -> BoxFuture<'a, Result<(), Problem>>;
}

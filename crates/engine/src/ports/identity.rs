//! What identity gives to the others: who there is, and with which credentials.

use std::time::Duration;

use futures_util::future::BoxFuture;
use portico_kernel::{AccountId, PersonId, Problem, ScopeSet, Timestamp};
use portico_store::{StoreError, Tx};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Engine;

/// A key or API token. The secret itself is never in it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Key {
    /// The id of the key or API token.
    pub id: String,
    /// The client id to exchange it with.
    pub client_id: String,
    /// The name that its maker gave it.
    pub name: String,
    /// The last characters of the secret.
    pub secret_hint: String,
    /// Who made it.
    pub created_by: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last used, to the minute; empty for never.
    pub last_used_at: String,
    /// When it was revoked; empty while it stands.
    pub revoked_at: String,
    /// What it may call.
    pub scopes: ScopeSet,
    /// `key` or `token`.
    pub kind: String,
    /// When it ends; empty for a key, which does not.
    pub expires_at: String,
    /// The key or API token that it is below, and ends with; empty for none.
    pub parent: String,
}

/// A person as an account sees them.
#[derive(Debug, Clone)]
pub struct PersonRecord {
    /// The person's id.
    pub id: PersonId,
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
    ) -> BoxFuture<'a, Result<Option<Key>, StoreError>>;

    /// Those of these keys and API tokens that there are, in use or not, each with its account.
    fn accounts_of_credentials<'a>(
        &'a self,
        tx: &'a mut Tx,
        ids: Vec<String>,
    ) -> BoxFuture<'a, Result<Vec<(String, AccountId)>, StoreError>>;

    /// Those of these keys and API tokens that were revoked, or whose time is over, and those that there are not.
    fn ended_credentials<'a>(
        &'a self,
        tx: &'a mut Tx,
        ids: Vec<String>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;

    /// May the app of that id act in the account, for any person?
    fn has_app<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        app: &'a str,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// The person of that id.
    fn person<'a>(
        &'a self,
        tx: &'a mut Tx,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<PersonRecord>, StoreError>>;

    /// The people of these ids, in any order; an id that nobody has is left out.
    fn people<'a>(
        &'a self,
        tx: &'a mut Tx,
        ids: &'a [PersonId],
    ) -> BoxFuture<'a, Result<Vec<PersonRecord>, StoreError>>;

    /// The person with that e-mail address, in the form in which people are known.
    fn person_by_email<'a>(
        &'a self,
        tx: &'a mut Tx,
        email: &'a str,
    ) -> BoxFuture<'a, Result<Option<PersonRecord>, StoreError>>;

    /// Consumes one unit of both hourly mail limits, the sender's and the recipient's; returns the time to wait when one
    /// is used up. Opens its own transaction, so none may be open.
    fn take_mail_quota<'a>(
        &'a self,
        engine: &'a Engine,
        from: &'a str,
        to: &'a str,
    ) -> BoxFuture<'a, Result<Option<Duration>, Problem>>;

    /// The form of an e-mail address in which people are known; `None` when it is not an address.
    fn canonical_email(&self, email: &str) -> Option<String>;

    /// Refuses the keys and API tokens of the account from the commit on, or admits them again.
    fn set_closed<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        closed: bool,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The person is about to be erased: they are signed out everywhere, and so is every app.
    fn leaves<'a>(
        &'a self,
        tx: &'a mut Tx,
        person: PersonId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The person left the account: ends what apps may do there in their name.
    fn left<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        person: PersonId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
}

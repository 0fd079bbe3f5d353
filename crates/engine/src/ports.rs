//! What one area needs of another, as small traits that `portico` wires. An area never names another.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use portico_kernel::{AccountId, Code, EndpointId, EventId, PersonId, Problem, Role, ScopeSet, Timestamp};
use portico_store::{StoreError, Tx};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Ctx, Engine};

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

    /// Holds back other changes to the account until the commit; answers whether it is in use, and nothing where there
    /// is no such account.
    fn lock<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
    ) -> BoxFuture<'a, Result<Option<bool>, StoreError>>;
}

/// A refusal to add to an account that is suspended or about to be erased.
pub fn account_closed() -> Problem {
    let words = "The account is suspended, or about to be erased.";
    Problem::failed_precondition("ACCOUNT_CLOSED", "accounts", words, [])
}

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

    /// The form of an e-mail address in which people are known; nothing when it is none.
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

/// An account that a person may act in.
#[derive(Debug, Clone)]
pub struct Membership {
    /// The account.
    pub account: AccountId,
    /// Its name.
    pub name: String,
    /// Is it the person's own?
    pub personal: bool,
    /// The person's role in it.
    pub role: Role,
}

/// An invitation that still stands.
#[derive(Debug, Clone)]
pub struct PendingInvitation {
    /// The name of the team.
    pub team: String,
    /// The address it is bound to.
    pub email: String,
    /// The role it gives.
    pub role: Role,
    /// Did the link come by mail? Then whoever has it has the address.
    pub mailed: bool,
}

/// How a person comes to an account. Kept by accounts.
pub trait Enrolment: Send + Sync {
    /// Makes a personal account and acts in it.
    fn open_personal<'a>(
        &'a self,
        ctx: &'a mut Ctx,
        name: &'a str,
    ) -> BoxFuture<'a, Result<AccountId, Problem>>;

    /// Makes the person the owner of that account.
    fn own<'a>(
        &'a self,
        ctx: &'a mut Ctx,
        account: AccountId,
        person: PersonId,
    ) -> BoxFuture<'a, Result<(), Problem>>;

    /// The invitation behind a link, if it still stands.
    fn invitation<'a>(
        &'a self,
        tx: &'a mut Tx,
        token: &'a str,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<PendingInvitation>, StoreError>>;

    /// Takes up the invitation behind a link for the person who calls.
    fn accept<'a>(
        &'a self,
        ctx: &'a mut Ctx,
        token: &'a str,
        person: PersonId,
    ) -> BoxFuture<'a, Result<AccountId, Problem>>;

    /// The accounts that the person belongs to, their own first.
    fn memberships<'a>(
        &'a self,
        tx: &'a mut Tx,
        person: PersonId,
    ) -> BoxFuture<'a, Result<Vec<Membership>, StoreError>>;
}

/// An event that was just written.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    /// Its number within the account.
    pub sequence: i64,
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub event_type: &'static str,
    /// Its data, as JSON.
    pub data: String,
    /// The one endpoint that it is for, whatever that subscribes.
    pub only_to: Option<EndpointId>,
}

/// What is done once a transaction is committed, and not without it.
pub type AfterCommit = Box<dyn FnOnce() + Send + Sync>;

/// Deliveries of events to whoever asked for them. Kept by webhooks.
pub trait Outbox: Send + Sync {
    /// Makes the deliveries of these events of the account, which are in the order of their numbers, in the transaction
    /// that made the events. If there are any, what it answers sends them.
    fn fill<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        now: Timestamp,
        events: Vec<StoredEvent>,
    ) -> BoxFuture<'a, Result<Option<AfterCommit>, StoreError>>;
}

/// Streams of events to whoever listens. Kept by events.
pub trait Streams: Send + Sync {
    /// Is anybody listening here to the account's events?
    fn is_watched(&self, account: AccountId) -> bool;

    /// The account's events up to `last` are committed. `events` are the newest of them, in order, if anybody listens
    /// here; should they not be given, or come late, the streams read them from the database.
    fn committed(
        &self,
        engine: &Arc<Engine>,
        account: AccountId,
        last: i64,
        now: Timestamp,
        events: Vec<StoredEvent>,
    );
}

/// Hears how far a call is, on its way to whoever waits for it.
pub trait Progress: Send + Sync {
    /// So many of so many are done.
    fn tell(&self, done: u64, total: u64, words: &str);
}

/// What a call costs its account. Kept by metering.
pub trait Charge: Send + Sync {
    /// Takes the price of the call, just before its operation runs. Returns `None` when that was possible in memory;
    /// otherwise the future asks the database, and may refuse.
    fn pay(&self) -> Option<BoxFuture<'_, Result<(), Problem>>>;

    /// The operation ended, with the code of its refusal if it was one. Refunds the price of a fault of ours.
    fn settle(&self, code: Option<Code>);
}

/// A letter to one person. It may hold a one-time link, so it has no `Debug`.
#[derive(Clone)]
pub struct MailMessage {
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
        letter: &'a MailMessage,
    ) -> BoxFuture<'a, Result<(), Problem>>;
}

//! What accounts gives to the others: who belongs where, and how a person comes to an account.

use futures_util::future::BoxFuture;
use portico_kernel::{AccountId, PersonId, Problem, Role, Timestamp};
use portico_store::{StoreError, Tx};

use crate::Ctx;

/// Who belongs to which account, and what the account may use. Kept by accounts.
pub trait Memberships: Send + Sync {
    /// The role of the person `subject` in `account`; `None` for somebody who does not belong to it.
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

    /// Those of these accounts that there are, each with whether it is active.
    fn statuses<'a>(
        &'a self,
        tx: &'a mut Tx,
        accounts: Vec<AccountId>,
    ) -> BoxFuture<'a, Result<Vec<(AccountId, bool)>, StoreError>>;

    /// Locks the account's row until the commit; returns whether the account is active, and `None` where there is no
    /// such account.
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

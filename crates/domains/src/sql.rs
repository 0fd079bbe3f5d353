//! Every statement of the area.

use portico_kernel::{AccountId, DomainId, Timestamp};
use portico_store::{Select, StoreError, Tx, args, delete_some, from_row};

use crate::model::{Reason, State, Status};
use crate::names::Scope;

/// Runs when the area can serve.
pub(crate) const PROBE: &str = "select id from domains limit 1";

/// Erases what the area keeps of an account.
pub(crate) const ERASE: [&str; 1] = [delete_some!("domains", "id", "account_id = $1")];

/// A domain as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct DomainRow {
    pub(crate) id: DomainId,
    pub(crate) account_id: AccountId,
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) status: Status,
    pub(crate) token: String,
    pub(crate) dns_provider: String,
    pub(crate) created_at: Timestamp,
    pub(crate) verified_at: Option<Timestamp>,
    pub(crate) last_checked_at: Option<Timestamp>,
    pub(crate) expires_at: Timestamp,
    pub(crate) unverified_reason: Reason,
    pub(crate) verified_servers: String,
    pub(crate) misses: i64,
    pub(crate) missed_since: Option<Timestamp>,
    pub(crate) gone_since: Option<Timestamp>,
    pub(crate) unreachable_since: Option<Timestamp>,
    pub(crate) checks: String,
    pub(crate) next_look_at: Option<Timestamp>,
}

from_row!(DomainRow {
    id,
    account_id,
    name,
    scope,
    status,
    token,
    dns_provider,
    created_at,
    verified_at,
    last_checked_at,
    expires_at,
    unverified_reason,
    verified_servers,
    misses,
    missed_since,
    gone_since,
    unreachable_since,
    checks,
    next_look_at,
});

impl DomainRow {
    /// What of it moves.
    pub(crate) fn state(&self) -> State {
        State {
            status: self.status,
            reason: self.unverified_reason,
            created_at: self.created_at,
            verified_at: self.verified_at,
            last_checked_at: self.last_checked_at,
            expires_at: self.expires_at,
            misses: self.misses,
            missed_since: self.missed_since,
            gone_since: self.gone_since,
            unreachable_since: self.unreachable_since,
            next_look_at: self.next_look_at,
        }
    }

    /// Takes over how it stands now.
    pub(crate) fn set_state(&mut self, state: &State) {
        self.status = state.status;
        self.unverified_reason = state.reason;
        self.verified_at = state.verified_at;
        self.last_checked_at = state.last_checked_at;
        self.misses = state.misses;
        self.missed_since = state.missed_since;
        self.gone_since = state.gone_since;
        self.unreachable_since = state.unreachable_since;
        self.next_look_at = state.next_look_at;
    }
}

macro_rules! columns {
    () => {
        "id, account_id, name, scope, status, token, dns_provider, created_at, verified_at, last_checked_at, expires_at, \
         unverified_reason, verified_servers, misses, missed_since, gone_since, unreachable_since, checks, next_look_at"
    };
}

macro_rules! select_domain {
    ($rest:literal) => {
        concat!("select ", columns!(), " from domains where ", $rest)
    };
}

/// The account's domain of that name.
pub(crate) async fn domain(
    tx: &mut impl Select,
    account: AccountId,
    name: &str,
) -> Result<Option<DomainRow>, StoreError> {
    tx.first(select_domain!("account_id = $1 and name = $2"), args![account, name.to_owned()]).await
}

/// The domain of that id.
pub(crate) async fn domain_by_id(
    tx: &mut impl Select,
    id: DomainId,
) -> Result<Option<DomainRow>, StoreError> {
    tx.first(select_domain!("id = $1"), args![id]).await
}

/// The account's domain of that name, its row locked until the commit.
pub(crate) async fn lock_domain(
    tx: &mut Tx,
    account: AccountId,
    name: &str,
) -> Result<Option<DomainRow>, StoreError> {
    tx.first(
        concat!("update domains set id = id where account_id = $1 and name = $2 returning ", columns!()),
        args![account, name.to_owned()],
    )
    .await
}

/// The domain of that id, its row locked until the commit.
pub(crate) async fn lock_domain_by_id(tx: &mut Tx, id: DomainId) -> Result<Option<DomainRow>, StoreError> {
    tx.first(concat!("update domains set id = id where id = $1 returning ", columns!()), args![id]).await
}

/// Holds up whoever else proves that name, until the commit: of two transactions that do, the second goes on when the first
/// has ended, and sees what it did. [`unlock_name`] comes last, so that no row is ever there for good.
pub(crate) async fn lock_name(tx: &mut Tx, name: &str) -> Result<(), StoreError> {
    let lock =
        "insert into domain_locks (name) values ($1) on conflict (name) do update set name = excluded.name";
    tx.execute(lock, args![name.to_owned()]).await.map(drop)
}

/// Takes the row of [`lock_name`] away; the lock itself ends with the commit.
pub(crate) async fn unlock_name(tx: &mut Tx, name: &str) -> Result<(), StoreError> {
    tx.run("delete from domain_locks where name = $1", args![name.to_owned()]).await
}

/// The domain of that name that another account holds, its row locked until the commit.
pub(crate) async fn lock_holder(
    tx: &mut Tx,
    name: &str,
    except: AccountId,
) -> Result<Option<DomainRow>, StoreError> {
    tx.first(
        concat!(
            "update domains set id = id where name = $1 and status = 'verified' and account_id <> $2 returning ",
            columns!()
        ),
        args![name.to_owned(), except],
    )
    .await
}

/// The account's domains made before that id, newest first.
pub(crate) async fn domains_before(
    tx: &mut Tx,
    account: AccountId,
    before: Option<&str>,
    limit: i64,
) -> Result<Vec<DomainRow>, StoreError> {
    let before = before.unwrap_or("don").to_owned();
    tx.all(
        select_domain!("account_id = $1 and id < $2 order by id desc limit $3"),
        args![account, before, limit],
    )
    .await
}

pub(crate) async fn count(tx: &mut Tx, account: AccountId) -> Result<i64, StoreError> {
    tx.value("select count(*) as value from domains where account_id = $1", args![account]).await
}

/// The names that the account has proven.
pub(crate) async fn verified_names(
    tx: &mut impl Select,
    account: AccountId,
) -> Result<Vec<String>, StoreError> {
    let names = "select name as value from domains where account_id = $1 and status = 'verified'";
    tx.values(names, args![account]).await
}

pub(crate) async fn insert(tx: &mut Tx, row: &DomainRow) -> Result<(), StoreError> {
    tx.run(
        concat!(
            "insert into domains (",
            columns!(),
            ") values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)"
        ),
        args![
            row.id,
            row.account_id,
            row.name,
            row.scope,
            row.status,
            row.token,
            row.dns_provider,
            row.created_at,
            row.verified_at,
            row.last_checked_at,
            row.expires_at,
            row.unverified_reason,
            row.verified_servers,
            row.misses,
            row.missed_since,
            row.gone_since,
            row.unreachable_since,
            row.checks,
            row.next_look_at,
        ],
    )
    .await
}

/// Writes what looks change.
pub(crate) async fn update(tx: &mut Tx, row: &DomainRow) -> Result<(), StoreError> {
    tx.run(
        "update domains set status = $2, dns_provider = $3, verified_at = $4, last_checked_at = $5, unverified_reason = $6, \
         verified_servers = $7, misses = $8, missed_since = $9, gone_since = $10, unreachable_since = $11, \
         next_look_at = $12 where id = $1",
        args![
            row.id,
            row.status,
            row.dns_provider,
            row.verified_at,
            row.last_checked_at,
            row.unverified_reason,
            row.verified_servers,
            row.misses,
            row.missed_since,
            row.gone_since,
            row.unreachable_since,
            row.next_look_at,
        ],
    )
    .await
}

/// Notes the last checks.
pub(crate) async fn set_checks(tx: &mut Tx, id: DomainId, checks: String) -> Result<(), StoreError> {
    tx.run("update domains set checks = $2 where id = $1", args![id, checks]).await
}

/// Notes since when no resolver answers, if that is not noted yet.
pub(crate) async fn note_unreachable(tx: &mut Tx, id: DomainId, now: Timestamp) -> Result<(), StoreError> {
    tx.run(
        "update domains set unreachable_since = $2 where id = $1 and missed_since is not null \
         and unreachable_since is null",
        args![id, now],
    )
    .await
}

pub(crate) async fn delete(tx: &mut Tx, id: DomainId) -> Result<(), StoreError> {
    tx.run("delete from domains where id = $1", args![id]).await
}

/// How many domains are due to be looked at.
pub(crate) async fn due(tx: &mut impl Select, now: Timestamp) -> Result<i64, StoreError> {
    tx.value("select count(*) as value from domains where next_look_at <= $1", args![now]).await
}

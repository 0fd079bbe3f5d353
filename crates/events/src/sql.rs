//! Every statement of the area.

use portico_kernel::{AccountId, EventId, PersonId, Timestamp};
use portico_store::{Arg, Query, Select, StoreError, Tx, args, delete_some, from_row};

use crate::open_streams::StreamHolder;

/// Runs when the area can serve.
pub(crate) const PROBE: &str = "select id from events limit 1";

/// Erases what the area keeps of an account.
pub(crate) const ERASE: [&str; 3] = [
    delete_some!("mqtt_sessions", "credential, client_id", "account_id = $1", also "account_id = $1"),
    "delete from stream_places where account_id = $1 and $2 > 0",
    "delete from stream_accounts where account_id = $1 and $2 > 0",
];

/// The number of the account's last event.
pub(crate) async fn last(tx: &mut impl Select, account: AccountId) -> Result<i64, StoreError> {
    let last: Option<i64> = tx
        .first_value("select last as value from account_sequences where account_id = $1", args![account])
        .await?;
    Ok(last.unwrap_or(0))
}

/// How many accounts one statement looks at.
pub(crate) const LASTS_MAX: usize = 16;

struct LastRow {
    account_id: AccountId,
    last: i64,
}

from_row!(LastRow { account_id, last });

/// The numbers of the last events of some accounts, at most [`LASTS_MAX`].
pub(crate) async fn lasts(
    query: &mut Query<'_>,
    accounts: &[AccountId],
) -> Result<Vec<(AccountId, i64)>, StoreError> {
    let Some(any) = accounts.first() else { return Ok(Vec::new()) };
    // One text for every number of accounts; unused parameters repeat one of them.
    let padded = (0..LASTS_MAX).map(|at| *accounts.get(at).unwrap_or(any));
    let rows: Vec<LastRow> = query
        .all(
            "select account_id, last from account_sequences where account_id in \
             ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
            padded.flat_map(|account| args![account]).collect(),
        )
        .await?;
    Ok(rows.into_iter().map(|row| (row.account_id, row.last)).collect())
}

/// The id of the account's event of that number, if it is still there.
pub(crate) async fn event_at(
    tx: &mut Tx,
    account: AccountId,
    sequence: i64,
) -> Result<Option<EventId>, StoreError> {
    tx.first_value(
        "select id as value from events where account_id = $1 and sequence = $2",
        args![account, sequence],
    )
    .await
}

/// The number of the account's oldest event that is still there.
pub(crate) async fn oldest(tx: &mut Tx, account: AccountId) -> Result<Option<i64>, StoreError> {
    tx.first_value(
        "select sequence as value from events where account_id = $1 order by sequence limit 1",
        args![account],
    )
    .await
}

/// Renews this server's heartbeat; returns whether the server was known.
pub(crate) async fn renew_node(tx: &mut Tx, node: &str, expires_at: Timestamp) -> Result<bool, StoreError> {
    let kept = tx
        .execute(
            "update stream_nodes set expires_at = $2 where node_id = $1",
            args![node.to_owned(), expires_at],
        )
        .await?;
    if kept == 0 {
        let text = "insert into stream_nodes (node_id, expires_at) values ($1, $2)";
        tx.run(text, args![node.to_owned(), expires_at]).await?;
    }
    Ok(kept > 0)
}

/// Removes expired servers and their counts, and the locks of people that nobody has needed since.
pub(crate) async fn remove_nodes(tx: &mut Tx, gone_before: Timestamp) -> Result<(), StoreError> {
    tx.run("delete from stream_people where taken_at < $1", args![gone_before]).await?;
    tx.run(
        "delete from stream_places where node_id in (select node_id from stream_nodes where expires_at < $1)",
        args![gone_before],
    )
    .await?;
    tx.run("delete from stream_nodes where expires_at < $1", args![gone_before]).await
}

/// Removes a server, and its counts.
pub(crate) async fn remove_node(tx: &mut Tx, node: &str) -> Result<(), StoreError> {
    tx.run("delete from stream_places where node_id = $1", args![node.to_owned()]).await?;
    tx.run("delete from stream_nodes where node_id = $1", args![node.to_owned()]).await
}

/// How many streams an account, a credential and a person have open.
#[derive(Debug, Default)]
pub(crate) struct StreamCounts {
    pub(crate) account: i64,
    pub(crate) credential: i64,
    pub(crate) person: i64,
}

from_row!(StreamCounts { account, credential, person });

impl StreamCounts {
    /// One stream.
    pub(crate) const ONE: Self = Self { account: 1, credential: 1, person: 1 };

    /// These and the others together.
    pub(crate) fn plus(&self, others: &Self) -> Self {
        Self {
            account: self.account + others.account,
            credential: self.credential + others.credential,
            person: self.person + others.person,
        }
    }
}

/// Locks the account's counts until the commit.
pub(crate) async fn lock_account(tx: &mut Tx, account: AccountId, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into stream_accounts (account_id, taken_at) values ($1, $2) \
         on conflict (account_id) do update set taken_at = excluded.taken_at",
        args![account, now],
    )
    .await
    .map(drop)
}

/// Locks the person's counts until the commit. After the account's, so that two never wait for each other.
async fn lock_person(tx: &mut Tx, person: PersonId, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into stream_people (person_id, taken_at) values ($1, $2) \
         on conflict (person_id) do update set taken_at = excluded.taken_at",
        args![person, now],
    )
    .await
    .map(drop)
}

/// Counts the streams of the account, the credential and the person on the other servers that are alive. Locks the account
/// and the person, so that no other server admits a stream before the commit. A credential that has streams in several
/// accounts is a person.
pub(crate) async fn count_elsewhere(
    tx: &mut Tx,
    holder: &StreamHolder,
    own_node: &str,
    now: Timestamp,
    alive_after: Timestamp,
) -> Result<StreamCounts, StoreError> {
    lock_account(tx, holder.account, now).await?;
    if let Some(person) = holder.person {
        lock_person(tx, person, now).await?;
    }
    tx.one(
        "select cast(coalesce(sum(case when p.account_id = $1 then p.held else 0 end), 0) as bigint) as account, \
         cast(coalesce(sum(case when p.credential = $2 then p.held else 0 end), 0) as bigint) as credential, \
         cast(coalesce(sum(case when p.person_id = $3 then p.held else 0 end), 0) as bigint) as person \
         from stream_places p join stream_nodes n on n.node_id = p.node_id \
         where (p.account_id = $1 or p.person_id = $3) and n.expires_at > $4 and p.node_id <> $5",
        args![
            holder.account,
            holder.credential.to_string(),
            holder.person,
            alive_after,
            own_node.to_owned()
        ],
    )
    .await
}

/// Stores how many streams of that holder are open on this server.
pub(crate) async fn set_count(
    tx: &mut Tx,
    holder: &StreamHolder,
    node: &str,
    count: i64,
) -> Result<(), StoreError> {
    let (account, credential, node) = (holder.account, holder.credential.to_string(), node.to_owned());
    if count == 0 {
        let text = "delete from stream_places where account_id = $1 and credential = $2 and node_id = $3";
        return tx.run(text, args![account, credential, node]).await;
    }
    tx.run(
        "insert into stream_places (account_id, credential, node_id, held, person_id) values ($1, $2, $3, $4, $5) \
         on conflict (account_id, credential, node_id) do update set held = excluded.held",
        args![account, credential, node, count, holder.person],
    )
    .await
}

/// An MQTT session as it is stored.
pub(crate) struct SessionRow {
    pub(crate) filters: String,
    pub(crate) taken: i64,
    pub(crate) sent: i64,
}

from_row!(SessionRow { filters, taken, sent });

/// Which session.
#[derive(Debug, Clone)]
pub(crate) struct SessionKey {
    pub(crate) account: AccountId,
    /// Who acts: the key, the API token or the person, and for an app that acts for a person also the app. The column is
    /// called `credential`.
    pub(crate) actor: String,
    pub(crate) client_id: String,
}

/// The session, if it has not expired.
pub(crate) async fn session(
    tx: &mut impl Select,
    key: &SessionKey,
    now: Timestamp,
) -> Result<Option<SessionRow>, StoreError> {
    tx.first(
        "select filters, taken, sent from mqtt_sessions \
         where account_id = $1 and credential = $2 and client_id = $3 and expires_at > $4",
        args![key.account, key.actor, key.client_id, now],
    )
    .await
}

/// How many sessions the account has.
pub(crate) async fn count_sessions(
    tx: &mut Tx,
    account: AccountId,
    now: Timestamp,
) -> Result<i64, StoreError> {
    tx.value(
        "select count(*) as value from mqtt_sessions where account_id = $1 and expires_at > $2",
        args![account, now],
    )
    .await
}

/// Creates the session, or takes it over, for `holder`.
pub(crate) async fn begin_session(
    tx: &mut Tx,
    key: &SessionKey,
    holder: &str,
    row: &SessionRow,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        "insert into mqtt_sessions (account_id, credential, client_id, holder, filters, taken, sent, expires_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (account_id, credential, client_id) do update set \
         holder = excluded.holder, filters = excluded.filters, taken = excluded.taken, sent = excluded.sent, \
         expires_at = excluded.expires_at",
        session_args(key, holder, row, expires_at),
    )
    .await
}

/// What both statements take: `$1` to `$4` say whose session it is, the rest what it holds.
fn session_args(key: &SessionKey, holder: &str, row: &SessionRow, expires_at: Timestamp) -> Vec<Arg> {
    let holder = holder.to_owned();
    args![key.account, key.actor, key.client_id, holder, row.filters, row.taken, row.sent, expires_at]
}

/// Stores the session's state, if it is still `holder`'s; returns whether it is.
pub(crate) async fn keep_session(
    tx: &mut Tx,
    key: &SessionKey,
    holder: &str,
    row: &SessionRow,
    expires_at: Timestamp,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update mqtt_sessions set filters = $5, taken = $6, sent = $7, expires_at = $8 \
             where account_id = $1 and credential = $2 and client_id = $3 and holder = $4",
            session_args(key, holder, row, expires_at),
        )
        .await?;
    Ok(rows == 1)
}

/// Removes the session, if it is still `holder`'s; with `None` whoever holds it.
pub(crate) async fn end_session(
    tx: &mut Tx,
    key: &SessionKey,
    holder: Option<&str>,
) -> Result<(), StoreError> {
    tx.run(
        "delete from mqtt_sessions where account_id = $1 and credential = $2 and client_id = $3 \
         and ($4 = '' or holder = $4)",
        args![key.account, key.actor, key.client_id, holder.unwrap_or_default().to_owned()],
    )
    .await
}

/// Removes up to `limit` expired sessions.
pub(crate) async fn prune_sessions(tx: &mut Tx, now: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        delete_some!("mqtt_sessions", "account_id, credential, client_id", "expires_at <= $1", also "expires_at <= $1"),
        args![now, limit],
    )
    .await
}

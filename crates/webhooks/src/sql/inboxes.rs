//! The test inbox and what it received.

use portico_kernel::{AccountId, InboxId, InboxRequestId, Timestamp};
use portico_store::{Select, StoreError, Tx, args, from_row};

use crate::model::Verdict;

/// An inbox as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct InboxRow {
    pub(crate) id: InboxId,
    pub(crate) account_id: AccountId,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) recent: String,
}

from_row!(InboxRow { id, account_id, created_at, expires_at, recent });

/// The account's inbox, if it has not expired.
pub(crate) async fn inbox_of(
    tx: &mut Tx,
    account: AccountId,
    now: Timestamp,
) -> Result<Option<InboxRow>, StoreError> {
    tx.first(
        "select id, account_id, created_at, expires_at, recent from webhook_inboxes \
         where account_id = $1 and expires_at > $2",
        args![account, now],
    )
    .await
}

/// The inbox of that id, in whichever account, if it has not expired.
pub(crate) async fn inbox(
    tx: &mut impl Select,
    id: InboxId,
    now: Timestamp,
) -> Result<Option<InboxRow>, StoreError> {
    tx.first(
        "select id, account_id, created_at, expires_at, recent from webhook_inboxes \
         where id = $1 and expires_at > $2",
        args![id, now],
    )
    .await
}

/// The same, and locks its row until the commit.
pub(crate) async fn lock_inbox(
    tx: &mut Tx,
    id: InboxId,
    now: Timestamp,
) -> Result<Option<InboxRow>, StoreError> {
    tx.first(
        "update webhook_inboxes set recent = recent where id = $1 and expires_at > $2 \
         returning id, account_id, created_at, expires_at, recent",
        args![id, now],
    )
    .await
}

/// Inserts the inbox, unless the account has one.
pub(crate) async fn insert_inbox(tx: &mut Tx, row: &InboxRow) -> Result<(), StoreError> {
    tx.run(
        "insert into webhook_inboxes (id, account_id, created_at, expires_at, recent) values ($1, $2, $3, $4, $5) \
         on conflict (account_id) do nothing",
        args![row.id, row.account_id, row.created_at, row.expires_at, row.recent],
    )
    .await
}

pub(crate) async fn delete_inbox(tx: &mut Tx, id: InboxId) -> Result<(), StoreError> {
    tx.run("delete from webhook_requests where inbox_id = $1", args![id]).await?;
    tx.run("delete from webhook_inboxes where id = $1", args![id]).await
}

/// The account's inbox, if it has expired.
pub(crate) async fn expired_inbox_of(
    tx: &mut Tx,
    account: AccountId,
    now: Timestamp,
) -> Result<Option<InboxId>, StoreError> {
    tx.first_value(
        "select id as value from webhook_inboxes where account_id = $1 and expires_at <= $2",
        args![account, now],
    )
    .await
}

/// Inboxes that have expired.
pub(crate) async fn expired_inboxes(
    tx: &mut Tx,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<InboxId>, StoreError> {
    tx.values(
        "select id as value from webhook_inboxes where expires_at <= $1 order by expires_at limit $2",
        args![now, limit],
    )
    .await
}

pub(crate) async fn set_recent(tx: &mut Tx, id: InboxId, recent: &str) -> Result<(), StoreError> {
    tx.run("update webhook_inboxes set recent = $2 where id = $1", args![id, recent.to_owned()]).await
}

/// A request as it is stored.
pub(crate) struct RequestRow {
    pub(crate) id: InboxRequestId,
    pub(crate) received_at: Timestamp,
    pub(crate) method: String,
    pub(crate) content_type: String,
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
    pub(crate) verdict: Verdict,
}

from_row!(RequestRow { id, received_at, method, content_type, headers, body, verdict });

/// Inserts a request, and removes the oldest beyond `limit`.
pub(crate) async fn insert_request(
    tx: &mut Tx,
    inbox: InboxId,
    row: &RequestRow,
    limit: i64,
) -> Result<(), StoreError> {
    tx.run(
        "insert into webhook_requests (inbox_id, id, received_at, method, content_type, headers, body, verdict) \
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
        args![
            inbox,
            row.id,
            row.received_at,
            row.method,
            row.content_type,
            row.headers,
            row.body,
            row.verdict
        ],
    )
    .await?;
    tx.run(
        "delete from webhook_requests where inbox_id = $1 and id not in \
         (select id from webhook_requests where inbox_id = $1 order by received_at desc, id desc limit $2)",
        args![inbox, limit],
    )
    .await
}

pub(crate) async fn count_requests(tx: &mut Tx, inbox: InboxId) -> Result<i64, StoreError> {
    tx.value("select count(*) as value from webhook_requests where inbox_id = $1", args![inbox]).await
}

/// What the inbox received, newest first.
pub(crate) async fn requests(tx: &mut Tx, inbox: InboxId, limit: i64) -> Result<Vec<RequestRow>, StoreError> {
    tx.all(
        "select id, received_at, method, content_type, headers, body, verdict from webhook_requests \
         where inbox_id = $1 order by received_at desc, id desc limit $2",
        args![inbox, limit],
    )
    .await
}

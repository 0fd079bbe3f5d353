//! Endpoints and what they subscribe.

use portico_kernel::{AccountId, EndpointId, InboxId, Timestamp};
use portico_store::{BulkStatement, Query, Select, StoreError, Tx, args, from_row};

/// An endpoint as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct EndpointRow {
    pub(crate) id: EndpointId,
    pub(crate) account_id: AccountId,
    pub(crate) tag: String,
    pub(crate) url: String,
    pub(crate) inbox_id: Option<InboxId>,
    pub(crate) description: String,
    pub(crate) secret: Vec<u8>,
    pub(crate) old_secret: Option<Vec<u8>>,
    pub(crate) old_secret_until: Option<Timestamp>,
    pub(crate) secret_rotated_at: Option<Timestamp>,
    pub(crate) enabled: bool,
    pub(crate) disabled_reason: String,
    /// The person, key or API token that made it, and that last set its address; empty where nobody knows any more.
    pub(crate) created_by: String,
    pub(crate) url_set_by: String,
    pub(crate) created_at: Timestamp,
    pub(crate) last_delivery_at: Option<Timestamp>,
    pub(crate) last_delivery_status: String,
    pub(crate) failing_since: Option<Timestamp>,
    pub(crate) version: i64,
    /// When a receiver first took a delivery at the host of its address.
    pub(crate) proven_at: Option<Timestamp>,
}

from_row!(EndpointRow {
    id,
    account_id,
    tag,
    url,
    inbox_id,
    description,
    secret,
    old_secret,
    old_secret_until,
    secret_rotated_at,
    enabled,
    disabled_reason,
    created_by,
    url_set_by,
    created_at,
    last_delivery_at,
    last_delivery_status,
    failing_since,
    version,
    proven_at,
});

macro_rules! columns {
    () => {
        "id, account_id, tag, url, inbox_id, description, secret, old_secret, old_secret_until, secret_rotated_at, \
         enabled, disabled_reason, created_by, url_set_by, created_at, last_delivery_at, last_delivery_status, \
         failing_since, version, proven_at"
    };
}

macro_rules! select_endpoint {
    ($rest:literal) => {
        concat!("select ", columns!(), " from webhook_endpoints where deleted_at is null and ", $rest)
    };
}

/// The endpoint of that id, in whichever account.
pub(crate) async fn endpoint(
    tx: &mut impl Select,
    id: EndpointId,
) -> Result<Option<EndpointRow>, StoreError> {
    tx.first(select_endpoint!("id = $1"), args![id]).await
}

/// The same, and locks its row until the commit.
pub(crate) async fn lock_endpoint(tx: &mut Tx, id: EndpointId) -> Result<Option<EndpointRow>, StoreError> {
    tx.first(
        concat!(
            "update webhook_endpoints set version = version where id = $1 and deleted_at is null returning ",
            columns!()
        ),
        args![id],
    )
    .await
}

/// The account's endpoints before that id, newest first.
pub(crate) async fn endpoints_before(
    tx: &mut Tx,
    account: AccountId,
    before: Option<&str>,
    limit: i64,
) -> Result<Vec<EndpointRow>, StoreError> {
    let before = before.unwrap_or("whf").to_owned();
    tx.all(
        select_endpoint!("account_id = $1 and id < $2 order by id desc limit $3"),
        args![account, before, limit],
    )
    .await
}

/// Every endpoint of the account.
pub(crate) async fn endpoints(
    tx: &mut impl Select,
    account: AccountId,
) -> Result<Vec<EndpointRow>, StoreError> {
    tx.all(select_endpoint!("account_id = $1"), args![account]).await
}

/// The endpoints that point at the inbox.
pub(crate) async fn endpoints_of_inbox(
    query: &mut Query<'_>,
    inbox: InboxId,
) -> Result<Vec<EndpointRow>, StoreError> {
    query.all(select_endpoint!("inbox_id = $1"), args![inbox]).await
}

/// The tag of an endpoint.
pub(crate) struct TagRow {
    pub(crate) tag: String,
    pub(crate) is_deleted: bool,
}

from_row!(TagRow { tag, is_deleted });

/// The tags of the account's endpoints, and of deleted ones as long as their history is kept.
pub(crate) async fn tags(tx: &mut Tx, account: AccountId) -> Result<Vec<TagRow>, StoreError> {
    let tags =
        "select tag, deleted_at is not null as is_deleted from webhook_endpoints where account_id = $1";
    tx.all(tags, args![account]).await
}

pub(crate) async fn insert_endpoint(tx: &mut Tx, row: &EndpointRow) -> Result<(), StoreError> {
    tx.run(
        "insert into webhook_endpoints (id, account_id, tag, url, inbox_id, description, secret, enabled, \
         disabled_reason, created_by, url_set_by, created_at, last_delivery_status, version) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        args![
            row.id,
            row.account_id,
            row.tag,
            row.url,
            row.inbox_id,
            row.description,
            row.secret,
            row.enabled,
            row.disabled_reason,
            row.created_by,
            row.url_set_by,
            row.created_at,
            row.last_delivery_status,
            row.version,
        ],
    )
    .await
}

/// Writes what a caller may change.
pub(crate) async fn update_endpoint(tx: &mut Tx, row: &EndpointRow) -> Result<(), StoreError> {
    tx.run(
        "update webhook_endpoints set url = $2, inbox_id = $3, description = $4, enabled = $5, \
         disabled_reason = $6, failing_since = $7, url_set_by = $8, proven_at = $9, version = version + 1 where id = $1",
        args![
            row.id,
            row.url,
            row.inbox_id,
            row.description,
            row.enabled,
            row.disabled_reason,
            row.failing_since,
            row.url_set_by,
            row.proven_at,
        ],
    )
    .await
}

pub(crate) async fn rotate_secret(
    tx: &mut Tx,
    id: EndpointId,
    secret: &[u8],
    now: Timestamp,
    old_until: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        "update webhook_endpoints set old_secret = secret, old_secret_until = $3, secret = $2, \
         secret_rotated_at = $4, version = version + 1 where id = $1",
        args![id, secret.to_vec(), old_until, now],
    )
    .await
}

/// Disables an endpoint that is enabled and still of that version; returns whether it was.
pub(crate) async fn disable_endpoint(
    tx: &mut Tx,
    id: EndpointId,
    version: i64,
    reason: &str,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update webhook_endpoints set enabled = $3, disabled_reason = $2, version = version + 1 \
             where id = $1 and version = $4 and enabled and deleted_at is null",
            args![id, reason.to_owned(), false, version],
        )
        .await?;
    Ok(rows == 1)
}

/// Marks the endpoint as deleted. No call sees it any more; its row stays until its history is removed.
pub(crate) async fn delete_endpoint(tx: &mut Tx, id: EndpointId, now: Timestamp) -> Result<(), StoreError> {
    tx.run("delete from webhook_subscriptions where endpoint_id = $1", args![id]).await?;
    tx.run(
        "update webhook_endpoints set deleted_at = $2, enabled = $3, version = version + 1 where id = $1",
        args![id, now, false],
    )
    .await
}

pub(crate) async fn subscriptions(tx: &mut Tx, id: EndpointId) -> Result<Vec<String>, StoreError> {
    tx.values(
        "select event_type as value from webhook_subscriptions where endpoint_id = $1 order by event_type",
        args![id],
    )
    .await
}

/// What the endpoints of an account subscribe.
pub(crate) struct SubscriptionRow {
    pub(crate) endpoint_id: EndpointId,
    pub(crate) event_type: String,
}

from_row!(SubscriptionRow { endpoint_id, event_type });

pub(crate) async fn all_subscriptions(
    tx: &mut Tx,
    account: AccountId,
) -> Result<Vec<SubscriptionRow>, StoreError> {
    tx.all(
        "select endpoint_id, event_type from webhook_subscriptions where account_id = $1 order by event_type",
        args![account],
    )
    .await
}

static INSERT_SUBSCRIPTIONS: BulkStatement = BulkStatement::new(
    "insert into webhook_subscriptions (account_id, event_type, endpoint_id) values",
    "($1, $a, $2)",
    "",
);

pub(crate) async fn replace_subscriptions(
    tx: &mut Tx,
    account: AccountId,
    id: EndpointId,
    event_types: &[String],
) -> Result<(), StoreError> {
    tx.run("delete from webhook_subscriptions where endpoint_id = $1", args![id]).await?;
    insert_subscriptions(tx, account, id, event_types).await
}

pub(crate) async fn insert_subscriptions(
    tx: &mut Tx,
    account: AccountId,
    id: EndpointId,
    event_types: &[String],
) -> Result<(), StoreError> {
    let rows = event_types.iter().map(|event_type| args![event_type.clone()]).collect();
    INSERT_SUBSCRIPTIONS.run(tx, args![account, id], rows).await
}

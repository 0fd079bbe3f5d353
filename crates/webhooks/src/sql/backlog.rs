//! Pending deliveries, counted, and those that are held back because there are too many.

use portico_kernel::{AccountId, EndpointId};
use portico_store::{Query, Select, StoreError, Tx, args, from_row};

use super::EndpointKey;
use crate::limits;

/// How many deliveries of an endpoint are pending.
#[derive(Debug, Clone)]
pub(crate) struct BacklogRow {
    pub(crate) endpoint_id: EndpointId,
    pub(crate) enabled: bool,
    pub(crate) pending: i64,
    /// The number of the event after which its deliveries are held back, if they are.
    pub(crate) held_after: Option<i64>,
}

from_row!(BacklogRow { endpoint_id, enabled, pending, held_after });

/// The backlog of each of the account's endpoints, counted up to the maximum of an account.
pub(crate) async fn backlogs(
    tx: &mut impl Select,
    account: AccountId,
) -> Result<Vec<BacklogRow>, StoreError> {
    tx.all(
        "select p.id as endpoint_id, p.enabled, h.sequence as held_after, \
         (select count(*) from (select 1 from webhook_deliveries d where d.account_id = p.account_id \
         and d.endpoint_id = p.id and d.next_at is not null limit $2) as counted) as pending \
         from webhook_endpoints p left join webhook_holds h on h.endpoint_id = p.id \
         where p.account_id = $1 and p.deleted_at is null order by p.id",
        args![account, limits::ACCOUNT_PENDING_MAX],
    )
    .await
}

/// The number of the event after which the endpoint's deliveries are held back, if they are.
pub(crate) async fn held_after(tx: &mut Tx, endpoint: EndpointId) -> Result<Option<i64>, StoreError> {
    tx.first_value("select sequence as value from webhook_holds where endpoint_id = $1", args![endpoint])
        .await
}

/// The accounts that have deliveries held back.
pub(crate) async fn accounts_with_holds(query: &mut Query<'_>) -> Result<Vec<AccountId>, StoreError> {
    query.values("select distinct account_id as value from webhook_holds", args![]).await
}

/// Holds back the endpoint's deliveries of events after that number, unless they are held back already. The caller has
/// locked the account's sequence, here and below.
pub(crate) async fn hold(tx: &mut Tx, key: EndpointKey, after: i64) -> Result<(), StoreError> {
    tx.run(
        "insert into webhook_holds (endpoint_id, account_id, sequence) values ($1, $2, $3) \
         on conflict (endpoint_id) do nothing",
        args![key.endpoint, key.account, after],
    )
    .await
}

/// Moves a hold on to that number.
pub(crate) async fn move_hold(tx: &mut Tx, endpoint: EndpointId, after: i64) -> Result<(), StoreError> {
    tx.run(
        "update webhook_holds set sequence = $2 where endpoint_id = $1 and sequence < $2",
        args![endpoint, after],
    )
    .await
}

/// Holds back no more.
pub(crate) async fn remove_hold(tx: &mut Tx, endpoint: EndpointId) -> Result<(), StoreError> {
    tx.run("delete from webhook_holds where endpoint_id = $1", args![endpoint]).await
}

/// Removes the holds of endpoints that are disabled or deleted: nothing is to be made for them.
pub(crate) async fn remove_stale_holds(tx: &mut Tx, account: AccountId) -> Result<(), StoreError> {
    tx.run(
        "delete from webhook_holds where account_id = $1 and not exists (select 1 from webhook_endpoints p \
         where p.id = webhook_holds.endpoint_id and p.enabled)",
        args![account],
    )
    .await
}

/// The number of the event that is the `count`th after the number `after`; `None` when fewer follow.
pub(crate) async fn sequence_beyond(
    tx: &mut Tx,
    account: AccountId,
    after: i64,
    count: i64,
) -> Result<Option<i64>, StoreError> {
    tx.first_value(
        "select sequence as value from events where account_id = $1 and sequence > $2 \
         order by sequence limit 1 offset $3",
        args![account, after, count - 1],
    )
    .await
}

/// How many deliveries of the endpoint are held back, counted up to a maximum.
pub(crate) async fn count_held(tx: &mut Tx, key: EndpointKey, after: i64) -> Result<i64, StoreError> {
    tx.value(
        "select count(*) as value from (select 1 from events e join webhook_subscriptions s \
         on s.account_id = e.account_id and s.event_type = e.type where e.account_id = $1 and s.endpoint_id = $2 \
         and e.sequence > $3 limit $4) as counted",
        args![key.account, key.endpoint, after, limits::HELD_COUNTED_MAX],
    )
    .await
}

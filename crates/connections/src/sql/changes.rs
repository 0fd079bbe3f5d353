//! Changes after which the tools of an account's callers may be others.

use portico_kernel::{AccountId, Timestamp};
use portico_store::{Select, StoreError, Tx, args, from_row};

/// The last change of an account.
pub(crate) struct ChangeRow {
    pub(crate) account_id: AccountId,
    pub(crate) number: i64,
}

from_row!(ChangeRow { account_id, number });

/// Counts a change; returns its number.
pub(crate) async fn note_change(tx: &mut Tx, account: AccountId, now: Timestamp) -> Result<i64, StoreError> {
    tx.value(
        "insert into connection_changes (account_id, number, changed_at) values ($1, 1, $2) \
         on conflict (account_id) do update set number = connection_changes.number + 1, changed_at = $2 \
         returning number as value",
        args![account, now],
    )
    .await
}

/// Accounts that changed from that time on.
pub(crate) async fn changes_since(
    from: &mut impl Select,
    since: Timestamp,
) -> Result<Vec<ChangeRow>, StoreError> {
    from.all("select account_id, number from connection_changes where changed_at >= $1", args![since]).await
}

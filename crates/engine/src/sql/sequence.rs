//! The sequence of an account, which numbers its events.

use portico_kernel::AccountId;
use portico_store::{Select, StoreError, Tx, args};

/// Takes `count` numbers of the account's sequence; returns the last. Its row stays locked until the commit, so
/// numbers become visible in their order.
pub(crate) async fn take_sequence(tx: &mut Tx, account: AccountId, count: usize) -> Result<i64, StoreError> {
    tx.value(
        "insert into account_sequences (account_id, last) values ($1, $2) \
             on conflict (account_id) do update set last = account_sequences.last + excluded.last \
             returning last as value",
        args![account, i64::try_from(count).unwrap_or(i64::MAX)],
    )
    .await
}

/// Locks the account's sequence until the commit, so that no event of the account is written meanwhile; returns the number
/// of the last one.
pub async fn lock_sequence(tx: &mut Tx, account: AccountId) -> Result<i64, StoreError> {
    let last = tx
        .first_value(
            "update account_sequences set last = last where account_id = $1 returning last as value",
            args![account],
        )
        .await?;
    Ok(last.unwrap_or(0))
}

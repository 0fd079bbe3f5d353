//! The sequence of an account, which numbers its events.

use portico_kernel::AccountId;
use portico_store::{PendingRows, Select, StoreError, Tx, args};

/// The number of an event before the last one of the account `$1`, whose numbers were taken: as many before it as the row's `$b` says.
macro_rules! number_behind {
    () => {
        "(select last from account_sequences where account_id = $1) - $b"
    };
}

pub(crate) use number_behind;

/// Takes `count` numbers of the account's sequence; the row has the last. The account's sequence stays locked until the
/// commit, so numbers become visible in their order; and until then nobody waits for it to become known.
pub(crate) async fn take_sequence(
    tx: &mut Tx,
    account: AccountId,
    count: usize,
) -> Result<PendingRows, StoreError> {
    tx.run_for_rows(
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

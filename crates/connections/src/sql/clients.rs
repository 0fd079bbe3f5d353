//! OAuth clients of accounts.

use portico_kernel::{AccountId, Timestamp};
use portico_store::{Select, StoreError, Tx, args, from_row};

/// An OAuth client as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct ClientRow {
    pub(crate) connector: String,
    pub(crate) client_id: String,
    pub(crate) secret: Vec<u8>,
    pub(crate) set_at: Timestamp,
}

from_row!(ClientRow { connector, client_id, secret, set_at });

/// The account's clients.
pub(crate) async fn clients(
    from: &mut impl Select,
    account: AccountId,
) -> Result<Vec<ClientRow>, StoreError> {
    from.all(
        "select connector, client_id, secret, set_at from connection_clients where account_id = $1",
        args![account],
    )
    .await
}

/// The account's client for a connector.
pub(crate) async fn client(
    from: &mut impl Select,
    account: AccountId,
    connector: &str,
) -> Result<Option<ClientRow>, StoreError> {
    from.first(
        "select connector, client_id, secret, set_at from connection_clients where account_id = $1 and connector = $2",
        args![account, connector.to_owned()],
    )
    .await
}

pub(crate) async fn set_client(tx: &mut Tx, account: AccountId, row: &ClientRow) -> Result<(), StoreError> {
    tx.run(
        "insert into connection_clients (account_id, connector, client_id, secret, set_at) values ($1, $2, $3, $4, $5) \
         on conflict (account_id, connector) do update set client_id = $3, secret = $4, set_at = $5",
        args![account, row.connector, row.client_id, row.secret, row.set_at],
    )
    .await
}

/// Removes the account's client for a connector; returns whether there was one.
pub(crate) async fn remove_client(
    tx: &mut Tx,
    account: AccountId,
    connector: &str,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "delete from connection_clients where account_id = $1 and connector = $2",
            args![account, connector.to_owned()],
        )
        .await?;
    Ok(rows == 1)
}

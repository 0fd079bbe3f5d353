//! Every statement of the area.

use portico_kernel::{AccountId, Timestamp};
use portico_store::{BulkStatement, StoreError, Tx, args, delete_some};

use crate::batch::ElementKind;

/// Runs when the area can serve.
pub(crate) const PROBE: &str = "select id from service_ids limit 1";

/// Erases what the area keeps of an account.
pub(crate) const ERASE: [&str; 1] =
    [delete_some!("service_ids", "service, kind, id", "account_id = $1", also "account_id = $1")];

/// Claims ids, each with its account; returns those that were not known since `known_since`. The rows stay locked until
/// the commit, so of two batches with one id the second waits for the first. They must be sorted: then no two batches wait
/// for each other.
pub(crate) async fn claim_ids(
    tx: &mut Tx,
    service: &str,
    kind: ElementKind,
    ids: Vec<(String, AccountId)>,
    now: Timestamp,
    known_since: Timestamp,
) -> Result<Vec<String>, StoreError> {
    static ROWS: BulkStatement = BulkStatement::new(
        "insert into service_ids (service, kind, id, account_id, accepted_at) values",
        "($1, $2, $a, $b, $3)",
        "on conflict (service, kind, id) do update set account_id = excluded.account_id, \
         accepted_at = excluded.accepted_at where service_ids.accepted_at <= $4 returning id as value",
    );
    let shared = args![service.to_owned(), kind, now, known_since];
    ROWS.values(tx, shared, ids.into_iter().map(|(id, account)| args![id, account]).collect()).await
}

/// Removes up to `limit` ids that were accepted at `before` or earlier.
pub(crate) async fn prune_ids(tx: &mut Tx, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        delete_some!(
            "service_ids",
            "service, kind, id",
            "accepted_at <= $1 order by accepted_at",
            also "accepted_at <= $1"
        ),
        args![before, limit],
    )
    .await
}

//! A million deliveries that are long over.

use std::time::Duration;

use portico_engine::clock::SystemClock;
use portico_kernel::{Clock as _, EventId};
use portico_store::{Db, args};

use super::setup::DeliverySetup;

pub(crate) const DELIVERIES: u32 = 1_000_000;
/// They come a little at a time, as they would have.
const STEPS: u32 = 100;
/// Behind what making the endpoints has put on record.
const SEQUENCE: u32 = 1_000;
/// Within the time that history is kept.
const DAYS: u64 = 20;

/// The numbers of one step; `$1` is the first, `$2` the last. An id ends with its number, in digits of one length.
macro_rules! insert {
    ($into:literal, $select:literal) => {
        concat!(
            "insert into ",
            $into,
            " with recursive numbers (n, digits) as (select $1, cast(10000000000000000 + $1 as text) union all \
             select n + 1, cast(10000000000000000 + n + 1 as text) from numbers where n < $2) select ",
            $select,
            " from numbers"
        )
    };
}

const EVENTS: &str = insert!(
    "events (account_id, sequence, id, type, occurred_at, data)",
    "$3, n, 'evt_' || $4 || substr(digits, 2), 'bench.happened', $5, \
     '{\"number\":\"' || n || '\",\"actor\":\"tok_01KN2MGCG0B9D5MPJTB9D5MPJT\"}'"
);
const DELIVERED: &str = insert!(
    "webhook_deliveries (id, account_id, endpoint_id, sequence, event_id, event_type, created_at, status, attempts, \
     tries, lane, last_at)",
    "'whd_' || $4 || substr(digits, 2), $3, $6, n, 'evt_' || $4 || substr(digits, 2), 'bench.happened', $5, \
     'delivered', 1, 1, 0, $5"
);
const ATTEMPTS: &str = insert!(
    "webhook_attempts (delivery_id, number, id, at, status_code, duration_ms, outcome)",
    "'whd_' || $3 || substr(digits, 2), 1, 'wha_' || $3 || substr(digits, 2), $4, 200, 1, 'delivered'"
);

/// Fills the database with deliveries to the one endpoint, all of them taken at once.
pub(crate) async fn fill(setup: &DeliverySetup) {
    let db = Db::open(&setup.database.url).await.unwrap();
    let (account, endpoint) = (setup.one.account, &setup.one.endpoints[0]);
    let (each, now) = (DELIVERIES / STEPS, SystemClock.now());
    for step in 0..STEPS {
        let at = now - Duration::from_hours(DAYS * 24) * (STEPS - step) / STEPS;
        let id = EventId::from_parts(at, [0; 10]).to_string();
        // The part of an id that says when it was made.
        let time = id[4..14].to_owned();
        let (first, last) = (i64::from(SEQUENCE + step * each + 1), i64::from(SEQUENCE + (step + 1) * each));
        let mut tx = db.write().await.unwrap();
        tx.execute(EVENTS, args![first, last, account, time, at]).await.unwrap();
        tx.execute(DELIVERED, args![first, last, account, time, at, endpoint.clone()]).await.unwrap();
        tx.execute(ATTEMPTS, args![first, last, time, at]).await.unwrap();
        tx.commit().await.unwrap();
    }
    let mut tx = db.write().await.unwrap();
    tx.execute(
        "insert into account_sequences (account_id, last) values ($1, $2) \
         on conflict (account_id) do update set last = excluded.last",
        args![account, i64::from(SEQUENCE + DELIVERIES)],
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    db.close().await;
}

/// What autovacuum would do a minute later.
pub(crate) async fn tidy(setup: &DeliverySetup) {
    let db = Db::open(&setup.database.url).await.unwrap();
    if db.file().is_none() {
        for statement in
            ["vacuum analyze events", "vacuum analyze webhook_deliveries", "vacuum analyze webhook_attempts"]
        {
            db.query().run(statement, args![]).await.unwrap();
        }
    }
    db.close().await;
}

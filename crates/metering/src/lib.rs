//! Units, rate limits, usage reports and the log of requests.
//!
//! Every call that ran is in the [journal](journal) of the server before its answer leaves; from there it is
//! counted in the database, once. Admission asks no database: it takes a slot of the caller's [window](window) and units
//! of a [lease](lease), both in memory. Start reading at [`MeteredCall`], which is one call.
//!
//! Invariants: what is used and what is leased of an account's units never pass its budget together, but for what persons
//! use beyond it. No 60 seconds hold more calls of one key than its limit, on all servers together.
//!
//! Absent on purpose: prices in money, invoices, and units that are carried over into the next month.
//!
//! How a call is counted:
//!
//! 1. The gateway knows the caller and makes a `MeteredCall`. `MeteredCall::admit` takes a slot of the caller's rate
//!    limit. The first call of an account on a server also loads its plan and leases units (`Metering::take_units`).
//! 2. Just before the operation runs, `Charge::pay` takes its price: a compare-and-swap on the units that are leased.
//!    When they are too few it asks the database, and may be refused.
//! 3. The operation ends. `Charge::settle` gives the units of a fault of ours back.
//! 4. `MeteredCall::finish` appends one record to the journal, and the answer leaves. If nobody waits for the answer
//!    any more, the call is recorded when the last `Arc` is dropped. Many refusals of one caller share a record
//!    (`refusals.rs`).
//! 5. The job `Count` reads what is new in the journal (`flush.rs`), adds it up by account (`batch.rs`) and writes it
//!    in one transaction with the journal's position. Crossing a threshold of the budget emits `usage.threshold` in
//!    that commit.
//! 6. A report reads one state of the database and adds the records of the journal that this state does not have yet
//!    (`pending.rs`).
//! 7. After a crash the next server finds the journal with its lock free, counts what is left (`Metering::take_over`),
//!    fills the rate limits from the log of requests (`restart.rs`) and removes the files.

mod account;
mod answer_room;
mod batch;
mod block;
mod events;
mod flush;
mod jobs;
mod journal;
mod latency;
mod lease;
pub mod limits;
mod log_bound;
mod metered_call;
mod metering;
mod metrics;
mod operator;
mod pending;
mod rate_limit;
mod rate_limit_key;
mod refusals;
mod reports;
mod requests;
mod restart;
mod series;
mod sql;
mod units;
mod usage;
mod window;

use std::sync::Arc;

use portico_engine::Area;

pub use metered_call::{IncomingCall, MeteredCall, ServedCall};
pub use metering::{Metering, MeteringPorts};
pub use metrics::Metrics;
pub use operator::MonthlyGrant;
pub use rate_limit_key::RateLimitKey;
pub use window::RateLimitStatus;

/// The area's operations, events and jobs.
pub fn area(metering: &Arc<Metering>) -> Area {
    Area::builder("metering", metering.clone())
        .scope("usage:read", "Read units, usage and the price list.")
        .op::<units::GetUnits>()
        .op::<usage::GetUsage>()
        .op::<series::GetSeries>()
        .op::<requests::ListRequests>()
        .event::<events::UsageThreshold>()
        .job(jobs::Count(metering.clone()))
        .job(jobs::KeepLeases::new(metering))
        .job(jobs::Prune(metering.clone()))
        .metrics({
            let metrics = metering.metrics.clone();
            move || metrics.shown()
        })
        .tool_subjects(&["usage", "requests"])
        .probe_with(sql::PROBE, {
            let metering = metering.clone();
            move || metering.can_record()
        })
        .erases(&sql::ERASE)
        .build()
}

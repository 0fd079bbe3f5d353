//! Units, rate limits, usage reports and the log of requests.
//!
//! Every call that is answered is in the [journal](journal) of the server before its answer leaves; from there it is
//! counted in the database, once. Admission asks no database: it takes a slot of the caller's [window](window) and units
//! of a [lease](lease), both in memory. Start reading at [`MeteredCall`], which is one call.
//!
//! Invariants: what is used and what is leased of an account's units never pass its budget together, but for what persons
//! use beyond it. No 60 seconds hold more calls of one key than its limit, on all servers together.
//!
//! Absent on purpose: prices in money, invoices, and units that are carried over into the next month.

mod account;
mod batch;
mod block;
mod events;
mod flush;
mod jobs;
mod journal;
mod latency;
mod lease;
pub mod limits;
mod metered_call;
mod metering;
mod metrics;
mod operator;
mod pending;
mod rate_limit_key;
mod requests;
mod restart;
mod series;
mod sql;
mod units;
mod usage;
mod window;

use std::sync::Arc;

use portico_engine::Area;

pub use metered_call::{IncomingCall, MeteredCall};
pub use metering::Metering;
pub use metrics::Metrics;
pub use operator::MonthlyGrant;
pub use rate_limit_key::RateLimitKey;
pub use window::RateLimitStatus;

/// The area's operations, events and jobs.
pub fn area(metering: &Arc<Metering>) -> Area {
    Area::builder("metering", metering.clone())
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
        .probe(sql::PROBE)
        .erases(&sql::ERASE)
        .build()
}

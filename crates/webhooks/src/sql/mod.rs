//! Every statement of the area; here those about the area as a whole.

mod backlog;
mod deliveries;
mod endpoints;
mod history;
mod inboxes;
mod queue;
mod results;

use portico_kernel::{AccountId, EndpointId, Timestamp};
use portico_store::delete_some;

pub(crate) use backlog::*;
pub(crate) use deliveries::*;
pub(crate) use endpoints::*;
pub(crate) use history::*;
pub(crate) use inboxes::*;
pub(crate) use queue::*;
pub(crate) use results::*;

/// Runs when the area can serve.
pub(crate) const PROBE: &str = "select id from webhook_endpoints limit 1";

/// Erases what the area keeps of an account: deliveries, with their attempts, before the endpoints they are found by.
pub(crate) const ERASE: [&str; 8] = [
    "delete from webhook_deliveries where id in (select d.id from webhook_deliveries d where d.endpoint_id = \
     (select p.id from webhook_endpoints p where p.account_id = $1 \
     and exists (select 1 from webhook_deliveries x where x.endpoint_id = p.id) order by p.id limit 1) \
     order by d.created_at, d.id limit $2)",
    delete_some!("webhook_stats", "endpoint_id, hour, outcome, step", "account_id = $1", also "account_id = $1"),
    "delete from webhook_subscriptions where account_id = $1 and $2 > 0",
    "delete from webhook_endpoints where account_id = $1 and $2 > 0",
    "delete from webhook_requests where inbox_id in (select id from webhook_inboxes where account_id = $1) and $2 > 0",
    "delete from webhook_inboxes where account_id = $1 and $2 > 0",
    "delete from webhook_queues where account_id = $1 and $2 > 0",
    "delete from webhook_holds where account_id = $1 and $2 > 0",
];

/// An endpoint and the account that it belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndpointKey {
    pub(crate) account: AccountId,
    pub(crate) endpoint: EndpointId,
}

/// The time from `since` to before `until`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeRange {
    pub(crate) since: Timestamp,
    pub(crate) until: Timestamp,
}

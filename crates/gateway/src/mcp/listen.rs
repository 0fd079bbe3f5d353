//! Clients that listen to changes of the lists that areas offer.

use futures_util::StreamExt as _;
use futures_util::stream::select_all;
use portico_engine::{Assistant as _, OfferedList};
use serde_json::{Map, Value, json};

use super::exchange::Exchange;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The lists that can be listened to.
const LISTS: [OfferedList; 2] = [OfferedList::Tools, OfferedList::Prompts];

/// What a client asks for to hear of the list.
const fn asked_by(list: OfferedList) -> &'static str {
    match list {
        OfferedList::Tools => "toolsListChanged",
        OfferedList::Prompts => "promptsListChanged",
    }
}

/// What tells of a change.
const fn told_by(list: OfferedList) -> &'static str {
    match list {
        OfferedList::Tools => "notifications/tools/list_changed",
        OfferedList::Prompts => "notifications/prompts/list_changed",
    }
}

/// Tells of changes until the client goes away or the server stops; `None` where there is nothing to listen to, or nobody
/// who could hear.
pub(super) async fn listen(exchange: &Exchange, id: &Value, params: &Value) -> Option<Value> {
    if !exchange.is_modern() || !exchange.hears() {
        return None;
    }
    // Before the client hears that it listens, so that it misses nothing from then on.
    let offers = &exchange.mcp.offers;
    let changes: Vec<_> = offers.iter().filter_map(|offer| offer.changes(&exchange.caller)).collect();
    if changes.is_empty() {
        return None;
    }
    let mut changes = select_all(changes);
    let asked = &params["notifications"];
    let wanted = |list: OfferedList| asked[asked_by(list)] == true;
    let taken = LISTS.into_iter().filter(|list| wanted(*list));
    let taken: Map<_, _> = taken.map(|list| (asked_by(list).to_owned(), json!(true))).collect();
    let meta = json!({ SUBSCRIPTION: id });
    let acknowledged = json!({ "_meta": meta, "notifications": taken });
    exchange.tell("notifications/subscriptions/acknowledged", acknowledged);
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            () = exchange.stopped() => None,
        };
        match change {
            Some(list) if wanted(list) => exchange.tell(told_by(list), json!({ "_meta": meta })),
            Some(_) => {}
            None => return Some(json!({ "_meta": meta })),
        }
    }
}

//! `portico trigger`: sends a test event, through the API.

use std::error::Error;

use clap::Args;
use http::Method;
use portico_kernel::EndpointId;
use serde::Deserialize;
use serde_json::json;

use crate::api::{Api, ApiAccess, ApiError, printable};
use crate::config::Config;

const ENDPOINTS: &str = "/v1/webhooks/endpoints";
const INBOXES: &str = "/v1/webhooks/inboxes";
/// A page that holds all endpoints that an account may have.
const PAGE_SIZE: i64 = portico_webhooks::limits::ENDPOINTS_MAX;
/// What tells an endpoint that was made here from others.
const DESCRIPTION: &str = "Made by portico trigger";
/// What it subscribes: a test event comes whatever that is, and these come when a token is made or revoked.
const EVENT_TYPES: [&str; 2] = ["token.created", "token.revoked"];

type Failure = Box<dyn Error + Send + Sync>;

/// Which endpoint gets it, and how that is told.
#[derive(Debug, Args)]
pub(crate) struct Trigger {
    #[command(flatten)]
    access: ApiAccess,
    /// The endpoint, `whe_…` [default: the first that is enabled, or a new one at the account's test inbox]
    #[arg(long, value_name = "ENDPOINT")]
    endpoint: Option<EndpointId>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Endpoints {
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    id: EndpointId,
    url: String,
    description: String,
    enabled: bool,
}

#[derive(Deserialize)]
struct Inboxes {
    inboxes: Vec<Inbox>,
}

#[derive(Deserialize)]
struct NewInbox {
    inbox: Inbox,
}

#[derive(Deserialize)]
struct Inbox {
    address: String,
}

/// An endpoint that was created or changed.
#[derive(Deserialize)]
struct SavedEndpoint {
    id: EndpointId,
}

#[derive(Deserialize)]
struct TestEvent {
    event_id: String,
    delivery_id: String,
}

/// The endpoint that gets the event, and the address of the test inbox if it was pointed there for this.
struct TriggerTarget {
    id: EndpointId,
    inbox: Option<String>,
}

/// Sends a test event, and returns what to print: a line for a person, or one JSON object.
pub(crate) async fn run(config: &Config, trigger: Trigger) -> Result<String, Failure> {
    let api = Api::new(config, trigger.access)?;
    let TriggerTarget { id, inbox } = match trigger.endpoint {
        Some(id) => TriggerTarget { id, inbox: None },
        None => choose_target(&api).await?,
    };
    let path = format!("{ENDPOINTS}/{id}/test");
    let TestEvent { event_id, delivery_id } = api.call(Method::POST, &path, None).await?;
    if trigger.json {
        let mut sent = json!({ "event_id": event_id, "delivery_id": delivery_id, "endpoint_id": id });
        if let Some(inbox) = inbox {
            sent["inbox_address"] = json!(inbox);
        }
        return Ok(sent.to_string());
    }
    let sent = printable(&format!("Sent {event_id} to {id} as delivery {delivery_id}"));
    let Some(inbox) = inbox else { return Ok(sent) };
    let pointed =
        format!("No endpoint could take it, so {id} was pointed at the account's test inbox {inbox}");
    Ok(format!("{}\n{sent}", printable(&pointed)))
}

/// The first endpoint that is enabled and leads somewhere; where there is none, one that points at the test inbox.
async fn choose_target(api: &Api) -> Result<TriggerTarget, ApiError> {
    let path = format!("{ENDPOINTS}?page_size={PAGE_SIZE}");
    let Endpoints { endpoints } = api.call(Method::GET, &path, None).await?;
    let enabled: Vec<_> = endpoints.into_iter().filter(|endpoint| endpoint.enabled).collect();
    let Inboxes { inboxes } = api.call(Method::GET, INBOXES, None).await?;
    if let Some(first) = enabled.iter().find(|endpoint| !is_expired_inbox(&endpoint.url, &inboxes)) {
        return Ok(TriggerTarget { id: first.id, inbox: None });
    }
    let NewInbox { inbox } = api.call(Method::POST, INBOXES, None).await?;
    // An inbox lives for a day. The same endpoint is used again, so that not one is added every day.
    let ours = enabled.iter().find(|endpoint| endpoint.description == DESCRIPTION);
    let SavedEndpoint { id } = if let Some(ours) = ours {
        let path = format!("{ENDPOINTS}/{}", ours.id);
        api.call(Method::PATCH, &path, Some(&json!({ "url": inbox.address }))).await?
    } else {
        let new = json!({ "url": inbox.address, "description": DESCRIPTION, "event_types": EVENT_TYPES });
        api.call(Method::POST, ENDPOINTS, Some(&new)).await?
    };
    Ok(TriggerTarget { id, inbox: Some(inbox.address) })
}

/// Is it the address of an inbox that has expired?
fn is_expired_inbox(url: &str, inboxes: &[Inbox]) -> bool {
    url.contains(INBOXES) && !inboxes.iter().any(|inbox| inbox.address == url)
}

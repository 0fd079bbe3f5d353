//! Creating an endpoint.

use portico_engine::{AccountRef, Ctx, Operation, Spec, Tool};
use portico_kernel::{AccountId, Category, Problem, Role};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Endpoint;
use super::secrets::{WithSecret, new_key};
use crate::sql::{self, EndpointRow, TagRow};
use crate::{Webhooks, limits};

/// The characters of a tag, which ends the ids of deliveries: those of a ULID.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TAG_CHARACTERS: usize = 3;

/// Make an endpoint. Its secret is in this answer only; deliveries are signed with it as the Standard Webhooks
/// specification says.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateEndpoint {
    /// A public `https://` address, or the address of the account's own test inbox.
    #[schemars(length(max = limits::URL_CHARACTERS_MAX))]
    #[schemars(example = &"https://hooks.example.com/")]
    url: String,
    /// Anything its owner wants to know of it.
    #[serde(default)]
    #[schemars(length(max = limits::DESCRIPTION_CHARACTERS_MAX))]
    description: String,
    /// The event types that it subscribes, at least one of those in the catalogue.
    #[schemars(length(min = 1))]
    #[schemars(example = ["key.created"])]
    event_types: Vec<String>,
    /// The team that it is for; without it the caller's own account.
    #[serde(default)]
    account_id: Option<AccountRef>,
}

/// Checks the event types; returns them in order, each once. Refuses one that is unknown or cannot be subscribed.
pub(crate) fn event_types(ctx: &Ctx, requested: &[String]) -> Result<Vec<String>, Problem> {
    if requested.is_empty() {
        return Err(Problem::field("event_types", "must name at least one event type"));
    }
    for (at, name) in requested.iter().enumerate() {
        let field = format!("event_types[{at}]");
        if name == crate::events::TEST_TYPE {
            let message = "cannot be subscribed: test events go to the endpoint that they test";
            return Err(Problem::field(field, message));
        }
        ctx.engine().registry.catalog().check_event_type(&field, name)?;
    }
    let mut types = requested.to_vec();
    types.sort();
    types.dedup();
    Ok(types)
}

pub(crate) fn description(text: &str) -> Result<String, Problem> {
    let limit = limits::DESCRIPTION_CHARACTERS_MAX;
    if text.chars().count() > limit {
        return Err(Problem::field("description", format!("must have at most {limit} characters")));
    }
    Ok(text.to_owned())
}

/// A new tag that is none of `taken`.
fn new_tag(ctx: &Ctx, taken: &[TagRow]) -> String {
    loop {
        let random = ctx.engine().entropy.bytes::<TAG_CHARACTERS>();
        let tag = random.map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]));
        let tag: String = tag.iter().collect();
        if taken.iter().all(|taken| taken.tag != tag) {
            return tag;
        }
    }
}

impl CreateEndpoint {
    /// The tags that are taken. Checks that the account may have one more endpoint, under a lock, so that no two calls
    /// create the last one.
    async fn check_limit(ctx: &mut Ctx, account: AccountId) -> Result<Vec<TagRow>, Problem> {
        ctx.lock_account(account).await?.active()?;
        let (tags, limit) = (sql::tags(ctx.tx().await?, account).await?, limits::ENDPOINTS_MAX);
        if tags.iter().filter(|taken| !taken.is_deleted).count()
            >= usize::try_from(limit).unwrap_or(usize::MAX)
        {
            let message = format!("The account already has {limit} endpoints, the maximum.");
            return Err(Problem::limit_reached("webhooks", message, limit));
        }
        Ok(tags)
    }
}

impl Operation for CreateEndpoint {
    const SPEC: Spec = Spec::post("webhooks.endpoints.create", "/v1/webhooks/endpoints").tool(Tool::new("webhooks_create_endpoint", "Create a webhook endpoint").hint("The answer holds the signing secret, once: hand it to the person and do not repeat it elsewhere."))
        .scope("webhooks:write")
        .role(Role::Admin)
        .category(Category::Write)
        .accepts_idempotency_key();
    type Area = Webhooks;
    type Answer = WithSecret;

    async fn run(self, webhooks: &Webhooks, ctx: &mut Ctx) -> Result<WithSecret, Problem> {
        let account = ctx.account(self.account_id).await?;
        let (event_types, description) =
            (event_types(ctx, &self.event_types)?, description(&self.description)?);
        let now = ctx.now();
        let address = webhooks.address(ctx.tx().await?, account, &self.url, now).await?;
        let taken = Self::check_limit(ctx, account).await?;
        let id = ctx.new_id();
        let (key, secret) = new_key(ctx, account, id);
        let maker = ctx.caller().subject.clone();
        let row = EndpointRow {
            id,
            account_id: account,
            tag: new_tag(ctx, &taken),
            url: address.url,
            inbox_id: address.inbox,
            description,
            secret,
            old_secret: None,
            old_secret_until: None,
            secret_rotated_at: None,
            enabled: true,
            disabled_reason: String::new(),
            created_by: maker.clone(),
            url_set_by: maker,
            created_at: now,
            last_delivery_at: None,
            last_delivery_status: String::new(),
            failing_since: None,
            version: 1,
            proven_at: None,
        };
        let tx = ctx.tx().await?;
        sql::insert_endpoint(tx, &row).await?;
        sql::insert_subscriptions(tx, account, id, &event_types).await?;
        ctx.audit("endpoint.created", &id)?;
        Ok(WithSecret::new(Endpoint::new(row, event_types, None), &key))
    }
}

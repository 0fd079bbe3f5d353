//! Making an endpoint.

use portico_engine::{Ctx, Operation, Spec, Tool};
use portico_kernel::{AccountId, Category, Problem, Scope};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::endpoints::record;
use crate::secrets::{WithSecret, new_key};
use crate::sql::{self, EndpointRow};
use crate::{Webhooks, limits};

/// What ends an id: the characters of a ULID.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TAG_CHARACTERS: usize = 3;

/// Make an endpoint. Its secret is in this answer only; deliveries are signed with it as the Standard Webhooks
/// specification says.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateEndpoint {
    /// A public `https://` address, or the address of the account's own test inbox.
    #[schemars(length(max = limits::URL_CHARACTERS_MAX))]
    url: String,
    /// Anything its owner wants to know of it.
    #[serde(default)]
    #[schemars(length(max = limits::DESCRIPTION_CHARACTERS_MAX))]
    description: String,
    /// The event types that it subscribes, at least one of those in the catalogue.
    #[schemars(length(min = 1))]
    event_types: Vec<String>,
    /// The team that it is for; without it the caller's own account.
    #[serde(default)]
    account_id: Option<AccountId>,
}

/// The types in their order, each once; refuses one that is unknown or cannot be subscribed.
pub(crate) fn event_types(ctx: &Ctx, asked: &[String]) -> Result<Vec<String>, Problem> {
    if asked.is_empty() {
        return Err(Problem::field("event_types", "must name at least one event type"));
    }
    let known = ctx.engine().registry.events();
    for (at, asked) in asked.iter().enumerate() {
        let refuse = |words| Err(Problem::field(format!("event_types[{at}]"), words));
        if asked == crate::events::TEST_TYPE {
            return refuse("cannot be subscribed: test events go to the endpoint that they test");
        }
        if !known.iter().any(|known| known.r#type == asked) {
            return refuse("is not an event type; GET /v1/events/types lists them");
        }
    }
    let mut types = asked.to_vec();
    types.sort();
    types.dedup();
    Ok(types)
}

pub(crate) fn description(text: &str) -> Result<String, Problem> {
    let most = limits::DESCRIPTION_CHARACTERS_MAX;
    if text.chars().count() > most {
        return Err(Problem::field("description", format!("must have at most {most} characters")));
    }
    if text.contains('\0') {
        return Err(Problem::field("description", "must not hold the character U+0000"));
    }
    Ok(text.to_owned())
}

/// A tag that none of `taken` is.
fn new_tag(ctx: &Ctx, taken: &[String]) -> String {
    loop {
        let random = ctx.engine().entropy.bytes::<TAG_CHARACTERS>();
        let tag = random.map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]));
        let tag: String = tag.iter().collect();
        if !taken.contains(&tag) {
            return tag;
        }
    }
}

impl CreateEndpoint {
    /// Holds the account, so that no two calls make the last endpoint.
    async fn make_room(ctx: &mut Ctx, account: AccountId) -> Result<(), Problem> {
        ctx.lock_active_account(account).await?;
        let most = limits::ENDPOINTS_MAX;
        if sql::count_endpoints(ctx.tx().await?, account).await? >= most {
            let words = format!("An account has at most {most} endpoints.");
            return Err(Problem::limit_reached("webhooks", words, most));
        }
        Ok(())
    }
}

impl Operation for CreateEndpoint {
    const SPEC: Spec = Spec::post("webhooks.endpoints.create", "/v1/webhooks/endpoints").tool(Tool::new("webhooks_create_endpoint", "Create a webhook endpoint").hint("The answer holds the signing secret, once: hand it to the person and do not repeat it elsewhere."))
        .scope(Scope::WebhooksWrite)
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
        Self::make_room(ctx, account).await?;
        let id = ctx.new_id();
        let (key, secret) = new_key(ctx, account, id);
        let taken = sql::tags(ctx.tx().await?, account).await?;
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
            created_at: now,
            last_delivery_at: None,
            last_delivery_status: String::new(),
            failing_since: None,
            version: 1,
        };
        let tx = ctx.tx().await?;
        sql::insert_endpoint(tx, &row).await?;
        sql::replace_subscriptions(tx, account, id, &event_types).await?;
        ctx.audit("endpoint.created", &id)?;
        Ok(WithSecret::new(record(ctx, row).await?, &key))
    }
}

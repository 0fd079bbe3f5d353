//! Orders: a write, a call to the outside, and another write.

use std::time::Duration;

use http::HeaderMap;
use portico_egress::{Limits, Post};
use portico_engine::{AccountRef, Ctx, Operation, Spec};
use portico_kernel::{AccountId, Category, Problem, seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Lab;
use super::sql::{self, NewThing};

/// The header by which the shop knows an order that it was sent before.
pub const ORDER_ID: &str = "x-order-id";

/// Order a thing from a shop outside. It is written as `reserved`, ordered, and written again as `ordered`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateOrder {
    /// The account.
    org_id: AccountRef,
    /// Where the shop is; without one nobody is called.
    #[serde(default)]
    shop: Option<String>,
    /// Calls the shop while the transaction is open, which is a mistake.
    #[serde(default)]
    careless: bool,
}

/// An order.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Order {
    /// The id of the thing.
    thing_id: String,
    /// What the shop answered.
    status: i32,
}

impl Operation for CreateOrder {
    const SPEC: Spec = Spec::post("lab.orders.create", "/v1/lab/orgs/{org_id}/orders")
        .scope("webhooks:write")
        .category(Category::Write)
        .accepts_idempotency_key();
    type Area = Lab;
    type Answer = Order;

    async fn run(self, lab: &Lab, ctx: &mut Ctx) -> Result<Order, Problem> {
        // A transaction is open from here, which the step commits; a repeat that is given the step's result ends it too.
        let account = ctx.lock_account(self.org_id).await?.active()?;
        if self.careless {
            reserve(lab, ctx, account).await?;
            ctx.egress()?;
        }
        let thing_id = ctx.step("reserve", async |ctx: &mut Ctx| reserve(lab, ctx, account).await).await?;
        let status = match &self.shop {
            Some(shop) => order(ctx, shop, &thing_id).await?,
            None => 0,
        };
        sql::rename_thing(ctx.tx().await?, account, &thing_id, "ordered").await?;
        ctx.audit("lab.thing.ordered", &thing_id)?;
        Ok(Order { thing_id, status })
    }
}

async fn reserve(lab: &Lab, ctx: &mut Ctx, account: AccountId) -> Result<String, Problem> {
    lab.ran();
    let (now, id) = (ctx.now(), portico_kernel::hex(&ctx.engine().entropy.bytes::<8>()));
    let tx = ctx.tx().await?;
    let (name, color) = ("reserved".to_owned(), String::new());
    let new = NewThing { id, name, size: 0, color, created_at: now };
    let row = sql::insert_thing(tx, account, new).await?;
    ctx.audit("lab.thing.reserved", &row.id)?;
    Ok(row.id)
}

async fn order(ctx: &Ctx, shop: &str, thing_id: &str) -> Result<i32, Problem> {
    let mut headers = HeaderMap::new();
    headers.insert(ORDER_ID, thing_id.parse().map_err(Problem::internal)?);
    let limits = Limits { time: Duration::from_secs(20), bytes: 1 << 10 };
    let post = Post { url: shop, headers, body: "{}".into(), limits };
    match ctx.egress()?.post(post).await {
        Ok(response) => Ok(response.status.as_u16().into()),
        Err(_) => Err(Problem::unavailable("The shop does not answer.", seconds(1))),
    }
}

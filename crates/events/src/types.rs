//! The event catalogue.

use portico_engine::{Ctx, EventType, Operation, Page, Spec, Tool};
use portico_kernel::{Category, Problem};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Events;

/// List the event types. Each comes with the JSON Schema of its envelope and an example. The catalogue grows: a new
/// type is a new schema, an existing schema never changes, and receivers ignore types that they do not know.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListEventTypes {}

impl Operation for ListEventTypes {
    const SPEC: Spec = Spec::get("events.types.list", "/v1/events/types")
        .tool(
            Tool::new("events_list_types", "List event types")
                .hint("Use this before subscribing an endpoint to types."),
        )
        .scope("events:read")
        .category(Category::List)
        .list("types");
    type Area = Events;
    type Answer = Page<EventType>;

    async fn run(self, _: &Events, ctx: &mut Ctx) -> Result<Page<EventType>, Problem> {
        ctx.page()?.slice(ctx.engine().registry.catalog().events().iter().cloned())
    }
}

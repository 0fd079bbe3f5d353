//! Operations that do nothing and cost what their category costs.

use portico_engine::{Ctx, Done, Operation, Spec, Tool};
use portico_kernel::{Category, Problem};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Lab;

macro_rules! costs {
    ($($(#[doc = $meaning:literal])+ $type:ident = $name:literal, $path:literal, $category:ident, $tool:literal;)+) => {$(
        $(#[doc = $meaning])+
        #[derive(Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $type {}

        impl Operation for $type {
            const SPEC: Spec =
                Spec::get($name, $path).tool(Tool::new($tool, $tool)).scope("webhooks:read").category(Category::$category);
            type Area = Lab;
            type Answer = Done;

            async fn run(self, _: &Lab, _: &mut Ctx) -> Result<Done, Problem> {
                Ok(Done {})
            }
        }
    )+};
}

costs! {
    /// Cost as much as a check.
    GetCheck = "lab.checks.get", "/v1/lab/costs/check", Check, "lab_get_check";
    /// Cost as much as an action of a connection.
    GetAction = "lab.actions.get", "/v1/lab/costs/action", Action, "lab_get_action";
    /// Cost as much as a narration.
    GetNarration = "lab.narrations.get", "/v1/lab/costs/narration", Narrate, "lab_get_narration";
    /// Cost as much as a generation.
    GetGeneration = "lab.generations.get", "/v1/lab/costs/generation", Generate, "lab_get_generation";
}

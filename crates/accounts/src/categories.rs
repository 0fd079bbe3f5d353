//! The price list.

use portico_engine::{Ctx, Operation, Page, Spec};
use portico_kernel::{Category, Int64, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Accounts;

/// List what a call costs. Each operation belongs to a category, and a call of it costs that category's units. Charged
/// is what ran, refusals by the operation included; not charged are calls that were refused before they ran, repeats
/// of a kept answer, faults of ours, health and the documents of the API.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListCategories {}

/// An entry of the price list.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UnitCategory {
    /// The category's name.
    category: Category,
    /// Units charged for one call.
    units: Int64,
    /// What belongs to it.
    description: String,
    /// The operations that belong to it, by their socket method.
    operations: Vec<String>,
}

impl Operation for ListCategories {
    const SPEC: Spec = Spec::get("accounts.categories.list", "/v1/accounts/units/categories")
        .scope("usage:read")
        .category(Category::List)
        .list("categories");
    type Area = Accounts;
    type Answer = Page<UnitCategory>;

    async fn run(self, _: &Accounts, ctx: &mut Ctx) -> Result<Page<UnitCategory>, Problem> {
        let catalog = ctx.engine().registry.catalog();
        let entries = catalog.entries();
        let categories = Category::ALL.iter().map(|category| UnitCategory {
            category: *category,
            units: Int64(category.units()),
            description: category.description().to_owned(),
            operations: entries
                .iter()
                .filter(|entry| entry.spec.category == Some(*category))
                .map(|entry| entry.spec.name.to_owned())
                .collect(),
        });
        ctx.page()?.slice(categories)
    }
}

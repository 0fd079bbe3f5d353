//! Events of an account's units.

use portico_engine::{events, example_id};
use portico_kernel::kind;

events! {
    /// The account's units crossed 80 % or 100 % of its budget.
    UsageThreshold = "usage.threshold" {
        /// The id of the account.
        account_id: String = example_id::<kind::Account>().to_string(),
        /// The month, such as `2026-01`.
        month: String = "2026-03".to_owned(),
        /// The share of the budget that was crossed: 80 or 100.
        threshold: i32 = 80,
        /// Who acted: always `platform`.
        actor: String = "platform".to_owned(),
    }
}

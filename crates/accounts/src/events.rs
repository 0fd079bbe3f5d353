//! Events of an account's members and of its units.

use portico_engine::{Event, example_id};
use portico_kernel::kind;
use schemars::JsonSchema;
use serde::Serialize;

fn actor() -> String {
    example_id::<kind::Person>().to_string()
}

/// A person was invited to the team.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MemberInvited {
    /// The id of the invitation.
    invitation_id: String,
    /// Who invited.
    actor: String,
}

impl Event for MemberInvited {
    const TYPE: &'static str = "member.invited";

    fn example() -> Self {
        Self { invitation_id: "inv_01KN2MGCG0B9D5MPJTB9D5MPJT".to_owned(), actor: actor() }
    }
}

/// A person joined the team.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MemberJoined {
    /// The id of the person.
    pub(crate) user_id: String,
    /// Who acted: the person, or whoever added them.
    pub(crate) actor: String,
}

impl Event for MemberJoined {
    const TYPE: &'static str = "member.joined";

    fn example() -> Self {
        Self { user_id: actor(), actor: actor() }
    }
}

/// A person was removed from the team.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MemberRemoved {
    /// The id of the person.
    user_id: String,
    /// Who removed them.
    actor: String,
}

impl Event for MemberRemoved {
    const TYPE: &'static str = "member.removed";

    fn example() -> Self {
        Self { user_id: actor(), actor: actor() }
    }
}

/// The account's units crossed 80 % or 100 % of its budget.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UsageThreshold {
    /// The id of the account.
    account_id: String,
    /// The month, such as `2026-01`.
    month: String,
    /// The share of the budget that was crossed: 80 or 100.
    threshold: i32,
    /// Who acted: always `platform`.
    actor: String,
}

impl Event for UsageThreshold {
    const TYPE: &'static str = "usage.threshold";

    fn example() -> Self {
        let account_id = example_id::<kind::Account>().to_string();
        Self { account_id, month: "2026-03".to_owned(), threshold: 80, actor: "platform".to_owned() }
    }
}

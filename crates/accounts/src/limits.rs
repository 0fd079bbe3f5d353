//! Every limit of the area.

use std::time::Duration;

/// The name of an account.
pub const NAME_CHARACTERS_MAX: usize = 100;
/// The part of a slug that comes from the name.
pub const SLUG_CHARACTERS_MAX: usize = 40;
/// A slug that a person chooses.
pub const CHOSEN_SLUG_CHARACTERS: std::ops::RangeInclusive<usize> = 2..=48;
/// Teams that one person may belong to.
pub const TEAMS_MAX: usize = 100;
/// Teams on the first plan that one person may own, unless the configuration says otherwise.
const FREE_TEAMS_DEFAULT: u16 = 5;
/// Open invitations of a team, and of a person over all their teams.
pub const INVITATIONS_MAX: i64 = 100;
/// How long an invitation can be taken up.
pub const INVITATION_LIFE: Duration = Duration::from_hours(7 * 24);
/// The grace period in which an erasure can still be cancelled.
pub const ERASURE_GRACE: Duration = Duration::from_hours(30 * 24);
/// How often the job looks for accounts whose grace period is over.
pub const ERASURE_EVERY: Duration = Duration::from_mins(1);
/// How often expired invitations are removed.
pub const PRUNE_EVERY: Duration = Duration::from_mins(5);
/// Rows that are erased in one transaction.
pub const ERASURE_ROWS: i64 = 500;

/// Accounts that a service is told of at once.
pub const COPIES_MAX: i64 = 200;
/// Changes of accounts that are given a number at once: more than are told of.
pub const NUMBERED_CHANGES: i64 = 1_000;

/// How many teams on the first plan one person may own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeTeamsPerPerson(pub u16);

impl Default for FreeTeamsPerPerson {
    fn default() -> Self {
        Self(FREE_TEAMS_DEFAULT)
    }
}

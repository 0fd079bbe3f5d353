//! Every limit of the area.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Elements of one batch.
pub const ELEMENTS: RangeInclusive<usize> = 1..=500;
/// Values in the JSON of one batch: a hundred for each element.
pub const VALUES_MAX: usize = 50_000;
/// The characters of an element's id.
pub const ID_CHARACTERS: RangeInclusive<usize> = 1..=128;
/// How long an id is known, and how far back an element may lie.
pub const ID_LIFE: Duration = Duration::from_hours(32 * 24);
/// How far ahead an element may lie: clocks differ.
pub const AHEAD_MAX: Duration = Duration::from_mins(5);
/// Faults of one element that are told.
pub const FAULTS_MAX: usize = 20;
/// The characters of the name of a call.
pub const NAME_CHARACTERS_MAX: usize = 64;
/// The price of one call.
pub const UNITS_MAX: i64 = 1_000_000;
/// What one element may cost, the price times the quantity: sums of a year stay within 64 bits.
pub const ELEMENT_UNITS_MAX: i64 = 1_000_000_000;
/// Scopes that are asked for with a token.
pub const SCOPES_MAX: usize = 100;
/// The method of a call that a service serves.
pub const METHOD_CHARACTERS_MAX: usize = 16;
/// The path of a call that a service serves.
pub const PATH_BYTES_MAX: usize = 8 << 10;
/// How often ids are removed that are not known any more.
pub const PRUNE_EVERY: Duration = Duration::from_mins(1);
/// Rows that are removed in one transaction.
pub const PRUNE_ROWS: i64 = 2_000;

//! Every bound of the area.

/// The name of an account.
pub const NAME_CHARACTERS_MAX: usize = 100;
/// The part of a slug that comes from the name.
pub const SLUG_CHARACTERS_MAX: usize = 40;

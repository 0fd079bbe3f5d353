//! Kinds and states of accounts, and the rules for their names and slugs, without I/O.

use portico_kernel::{AccountId, Problem, text_enum};
use portico_store::text_value;

use crate::limits;

text_enum! {
    /// What kind of account it is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AccountKind {
        /// One person's own.
        Personal = "personal",
        /// With members and roles.
        Team = "team",
    }
}

text_enum! {
    /// Whether it may be used.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AccountStatus {
        /// In use.
        Active = "active",
        /// Stopped by the operator.
        Suspended = "suspended",
        /// To be erased when its grace is over.
        Erasing = "erasing",
    }
}

text_value!(AccountKind, AccountStatus);

/// An account that is to be made.
pub(crate) struct NewAccount {
    pub(crate) id: AccountId,
    pub(crate) kind: AccountKind,
    pub(crate) slug: String,
    pub(crate) name: String,
    pub(crate) plan: String,
}

/// A change of an account; `None` keeps what is there.
pub(crate) struct AccountChange {
    pub(crate) name: Option<String>,
    pub(crate) slug: Option<String>,
}

/// Refuses a name that is empty, too long or not printable.
pub(crate) fn check_name(name: &str) -> Result<(), Problem> {
    portico_kernel::check_name(name, 1..=limits::NAME_CHARACTERS_MAX)
        .map_err(|message| Problem::field("name", message))
}

/// Refuses a slug that a person chose when it is too short, too long or has other characters.
pub(crate) fn check_slug(slug: &str) -> Result<(), Problem> {
    let letters = slug.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let ends = slug.starts_with('-') || slug.ends_with('-');
    if !letters || ends || !limits::CHOSEN_SLUG_CHARACTERS.contains(&slug.len()) {
        let (min, max) = (limits::CHOSEN_SLUG_CHARACTERS.start(), limits::CHOSEN_SLUG_CHARACTERS.end());
        let message = format!("must be {min} to {max} small letters, digits and inner hyphens");
        return Err(Problem::field("slug", message));
    }
    Ok(())
}

/// A slug made from the name. It ends with the last characters of the id, so that two accounts may share a name.
pub(crate) fn slug(name: &str, id: AccountId) -> String {
    let letters = name.to_lowercase();
    let words = letters.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words: String =
        words.collect::<Vec<_>>().join("-").chars().take(limits::SLUG_CHARACTERS_MAX).collect();
    let id = id.to_string().to_lowercase();
    let end = &id[id.len() - 6..];
    let words = words.trim_matches('-');
    if words.is_empty() { format!("account-{end}") } else { format!("{words}-{end}") }
}

#[cfg(test)]
mod tests {
    use portico_kernel::Timestamp;

    use super::*;

    #[test]
    fn slugs_are_made_of_small_letters_digits_and_hyphens() {
        let id = AccountId::from_parts(Timestamp::from_seconds(1), [0xff; 10]);
        assert_eq!(slug("Acme, Inc.", id), "acme-inc-zzzzzz");
        assert_eq!(slug("  ", id), "account-zzzzzz");
        assert_eq!(slug("日本", id), "account-zzzzzz");
        assert_eq!(slug(&"a-".repeat(90), id).len(), 46);
    }
}

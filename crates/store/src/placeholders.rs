//! The placeholders of a statement.

use crate::{Arg, StoreError};

/// Compares the number of arguments with the placeholders.
pub(crate) fn check(sql: &str, args: &[Arg]) -> Result<(), StoreError> {
    matches(sql, placeholders(sql), args)
}

/// Fails unless there are as many arguments as placeholders.
pub(crate) fn matches(sql: &str, placeholders: usize, args: &[Arg]) -> Result<(), StoreError> {
    if placeholders == args.len() {
        return Ok(());
    }
    Err(StoreError::fault(format!("{placeholders} placeholders, {} arguments in: {sql}", args.len())))
}

/// The highest number after a `$`. No statement of ours has a `$` elsewhere.
pub(crate) fn placeholders(sql: &str) -> usize {
    let after_dollar = sql.split('$').skip(1);
    let numbers = after_dollar.filter_map(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    });
    numbers.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::placeholders;

    #[test]
    fn placeholders_are_counted_by_their_highest_number() {
        assert_eq!(placeholders("select 1"), 0);
        assert_eq!(placeholders("select $1, $2 where $1 = $10"), 10);
    }
}

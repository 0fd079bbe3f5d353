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

/// The highest number after a `$`.
pub(crate) fn placeholders(sql: &str) -> usize {
    numbers(sql).max().unwrap_or(0)
}

/// The number after each `$`, in their order. No statement of ours has a `$` elsewhere.
pub(crate) fn numbers(sql: &str) -> impl Iterator<Item = usize> {
    memchr::memchr_iter(b'$', sql.as_bytes()).map(|at| {
        let digits = sql.as_bytes()[at + 1..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
    })
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

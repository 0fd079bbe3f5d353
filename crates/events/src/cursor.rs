//! Where a reader stands in an account's log.

use std::fmt;
use std::str::FromStr;

use portico_kernel::EventId;

/// The characters of the event's id that a cursor holds.
const CHECK_CHARACTERS: usize = 8;
/// The check of a cursor that belongs to no event.
const UNCHECKED: &str = "0";

/// A position in an account's log: after the event of that number. It also holds a part of the event's id, so that a
/// cursor from before the database was restored from a backup is recognised. Opaque to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The number of the last event that was read.
    pub sequence: i64,
    check: String,
}

impl Cursor {
    /// After that event.
    pub fn after(sequence: i64, id: EventId) -> Self {
        let id = id.to_string();
        Self { sequence, check: id[id.len() - CHECK_CHARACTERS..].to_owned() }
    }

    /// After that number, whichever event it belongs to.
    pub fn at(sequence: i64) -> Self {
        Self { sequence, check: UNCHECKED.to_owned() }
    }

    /// Returns whether it was made for that event.
    pub(crate) fn matches(&self, id: EventId) -> bool {
        self.check == UNCHECKED || id.to_string().ends_with(&self.check)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.sequence, self.check)
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (sequence, check) = text.split_once('-').ok_or(())?;
        let number: i64 = sequence.parse().map_err(|_| ())?;
        let checked = check.len() == CHECK_CHARACTERS
            && check.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        // A number has one spelling only.
        if number < 0 || number.to_string() != sequence || !(checked || check == UNCHECKED) {
            return Err(());
        }
        Ok(Self { sequence: number, check: check.to_owned() })
    }
}

/// Where a stream begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Start {
    /// With the events from now on.
    #[default]
    Now,
    /// After that position.
    After(Cursor),
    /// After that event.
    AfterEvent(EventId),
}

impl FromStr for Start {
    type Err = String;

    /// Reads a cursor, or the id of an event.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(id) = text.parse() {
            return Ok(Self::AfterEvent(id));
        }
        let malformed = |()| "must be a cursor that a stream gave, or the id of an event".to_owned();
        Ok(Self::After(text.parse().map_err(malformed)?))
    }
}

#[cfg(test)]
mod tests {
    use portico_kernel::Timestamp;

    use super::*;

    #[test]
    fn a_cursor_reads_as_it_was_written() {
        let id = EventId::from_parts(Timestamp::from_seconds(1_775_000_000), [7; 10]);
        let other = EventId::from_parts(Timestamp::from_seconds(1_775_000_000), [8; 10]);
        let cursor = Cursor::after(42, id);
        assert_eq!(cursor.to_string().parse(), Ok(cursor.clone()));
        assert!(cursor.matches(id) && !cursor.matches(other));
        assert!(Cursor::at(0).matches(other));
        assert_eq!(cursor.to_string().parse(), Ok(Start::After(cursor)));
        assert_eq!(id.to_string().parse(), Ok(Start::AfterEvent(id)));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "-",
            "5",
            "5-",
            "-0",
            "05-0",
            "+5-0",
            "-5-0",
            "5-00",
            "5-abcdefgh",
            "5-0-0",
            "9223372036854775808-0",
        ] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    }
}

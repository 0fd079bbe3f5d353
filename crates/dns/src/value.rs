//! Whether a TXT value is the one that was given out, however a panel wrote it.

use crate::Record;

/// How many values of an answer are shown.
const SHOWN_MAX: usize = 5;
/// How many characters of each.
const SHOWN_CHARACTERS: usize = 255;

/// Is it the record's value, or the part after `=` alone?
pub(crate) fn proves(record: &Record, value: &str) -> bool {
    if record.token.is_empty() {
        return false;
    }
    let value = bare(value);
    value.eq_ignore_ascii_case(&record.token)
        || after_key(record, value).is_some_and(|token| token.eq_ignore_ascii_case(&record.token))
}

/// Is it a value of this kind, of whatever token?
pub(crate) fn is_of_kind(record: &Record, value: &str) -> bool {
    after_key(record, bare(value)).is_some()
}

/// Those that are shown of an answer: what matters comes first.
pub(crate) fn shown(record: &Record, values: &[String]) -> Vec<String> {
    let mut values: Vec<_> = values.iter().collect();
    values.sort_by_key(|value| (!proves(record, value), !is_of_kind(record, value)));
    let cut = |value: &String| {
        let characters = value.chars().take(SHOWN_CHARACTERS);
        characters.map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
    };
    values.into_iter().take(SHOWN_MAX).map(cut).collect()
}

/// Without spaces around it, and without the quotation marks that somebody copied along.
fn bare(value: &str) -> &str {
    let value = value.trim();
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.map_or(value, str::trim)
}

fn after_key<'a>(record: &Record, value: &'a str) -> Option<&'a str> {
    let (key, token) = value.split_once('=')?;
    key.eq_ignore_ascii_case(&record.key).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::record;

    #[test]
    fn a_value_is_known_however_it_is_written() {
        let record = record("example.com");
        for good in [
            "portico-verification=abc234",
            "abc234",
            "  portico-verification=abc234\t",
            "\"portico-verification=abc234\"",
            " \" portico-verification=abc234 \" ",
            "\"abc234\"",
            "Portico-Verification=ABC234",
        ] {
            assert!(proves(&record, good), "{good:?}");
        }
        for bad in [
            "",
            "\"",
            "\"\"",
            "portico-verification=",
            "portico-verification=abc23",
            "portico-verification=abc2345",
            "portico-verification= abc234",
            "portico-verification==abc234",
            "other=abc234",
            "=abc234",
            "\"\"portico-verification=abc234\"\"",
            "\"portico-verification=abc234",
            "portico-verification=abc234; other",
            "xportico-verification=abc234",
        ] {
            assert!(!proves(&record, bad), "{bad:?}");
        }
        assert!(is_of_kind(&record, "\"PORTICO-verification=old\"") && !is_of_kind(&record, "abc234"));
    }

    #[test]
    fn a_record_without_a_token_is_proven_by_nothing() {
        let record = Record { token: String::new(), ..record("example.com") };
        assert!(!proves(&record, "") && !proves(&record, "portico-verification="));
    }

    #[test]
    fn what_is_shown_is_short_and_holds_what_matters() {
        let record = record("example.com");
        let mut values: Vec<_> = (0..9).map(|number| format!("other {number}")).collect();
        values.push("portico-verification=old".to_owned());
        values.push("portico-verification=abc234".to_owned());
        let seen = shown(&record, &values);
        let expected =
            ["portico-verification=abc234", "portico-verification=old", "other 0", "other 1", "other 2"];
        assert_eq!(seen, expected);
        let long = shown(&record, &["é".repeat(300), "a\u{1b}[2J\n".to_owned()]);
        assert_eq!((long[0].chars().count(), &*long[1]), (255, "a\u{fffd}[2J\u{fffd}"));
    }
}

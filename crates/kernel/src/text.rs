//! Text that people read.

use std::ops::RangeInclusive;

/// Is the text free of control characters, and of characters that are invisible or change the direction of the text
/// around them? Names must be.
pub fn is_printable(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() || is_hidden(c))
}

fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Refuses a name that is not printable, or does not have so many characters. A name of spaces counts as empty. The error
/// continues a sentence that begins with the name of the field.
pub fn check_name(name: &str, characters: RangeInclusive<usize>) -> Result<(), String> {
    if name.contains(char::is_control) {
        return Err("must not hold control characters".to_owned());
    }
    if name.contains(is_hidden) {
        return Err("must not hold characters that are invisible or turn the text around".to_owned());
    }
    let is_empty = name.trim().is_empty() && !characters.contains(&0);
    if !is_empty && characters.contains(&name.chars().count()) {
        return Ok(());
    }
    let (min, max) = characters.into_inner();
    Err(match min {
        0 => format!("must have at most {max} characters"),
        _ => format!("must have {min} to {max} characters"),
    })
}

#[cfg(test)]
mod tests {
    use super::{check_name, is_printable};

    #[test]
    fn a_name_that_is_refused_says_why() {
        assert_eq!(check_name("Zo\u{eb}", 1..=3), Ok(()));
        for (name, told) in [
            ("a\u{7}b", "control characters"),
            ("a\u{200b}b", "invisible"),
            ("", "1 to 3 characters"),
            ("  ", "1 to 3 characters"),
            ("abcd", "1 to 3 characters"),
            ("    ", "1 to 3 characters"),
        ] {
            assert!(check_name(name, 1..=3).is_err_and(|message| message.contains(told)), "{name:?}");
        }
        assert_eq!(check_name("", 0..=3), Ok(()));
        for long in ["abcd", "    "] {
            assert_eq!(check_name(long, 0..=3), Err("must have at most 3 characters".to_owned()));
        }
    }

    #[test]
    fn what_hides_or_turns_round_is_not_printable() {
        assert!(is_printable("Zo\u{eb} \u{2013} \u{5d0}\u{5d1} \u{65e5}\u{672c} \u{1f600}"));
        for text in ["a\nb", "a\u{0}", "a\u{202e}b", "a\u{200b}b", "\u{feff}a", "a\u{2066}b", "a\u{e0041}b"] {
            assert!(!is_printable(text), "{text:?}");
        }
    }
}

//! Text that people read.

/// Is the text free of control characters, and of characters that are invisible or change the direction of the text
/// around them? Names must be.
pub fn is_printable(text: &str) -> bool {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c,
                '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                    | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    !text.contains(hidden)
}

/// Is the text printable, and no longer than `limit` characters?
pub fn is_short_text(text: &str, limit: usize) -> bool {
    text.chars().count() <= limit && is_printable(text)
}

#[cfg(test)]
mod tests {
    use super::is_printable;

    #[test]
    fn what_hides_or_turns_round_is_not_printable() {
        assert!(is_printable("Zo\u{eb} \u{2013} \u{5d0}\u{5d1} \u{65e5}\u{672c} \u{1f600}"));
        for text in ["a\nb", "a\u{0}", "a\u{202e}b", "a\u{200b}b", "\u{feff}a", "a\u{2066}b", "a\u{e0041}b"] {
            assert!(!is_printable(text), "{text:?}");
        }
    }
}

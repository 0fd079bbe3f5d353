//! Handles: what the names of a connection's tools begin with.

use crate::limits::HANDLE_CHARACTERS_MAX;

/// What a handle is where the name has no letter that it could be made of.
const NAMELESS: &str = "connection";

/// The handle of a name, the `number`th that was tried: the first has no number.
pub(crate) fn handle_of(name: &str, number: usize) -> String {
    let mut slug = String::new();
    for letter in name.chars().map(|letter| letter.to_ascii_lowercase()) {
        match letter {
            'a'..='z' | '0'..='9' => slug.push(letter),
            _ if !slug.is_empty() && !slug.ends_with('_') => slug.push('_'),
            _ => {}
        }
    }
    let slug = slug.trim_start_matches(|letter: char| !letter.is_ascii_lowercase());
    let slug = if slug.is_empty() { NAMELESS } else { slug };
    let end = if number < 2 { String::new() } else { format!("_{number}") };
    // It is ASCII.
    let kept = &slug[..slug.len().min(HANDLE_CHARACTERS_MAX - end.len())];
    format!("{}{end}", kept.trim_end_matches('_'))
}

/// Would two handles give one name to two tools? Each with the names of its actions.
pub(crate) fn is_clash(one: (&str, &[&str]), other: (&str, &[&str])) -> bool {
    let ((one, of_one), (other, of_other)) = (one, other);
    if one == other {
        return true;
    }
    let rest = |long: &str, short: &str| {
        long.strip_prefix(short).and_then(|rest| rest.strip_prefix('_')).map(str::to_owned)
    };
    let meets = |rest: &str, of_long: &[&str], of_short: &[&str]| {
        of_long.iter().any(|action| of_short.contains(&format!("{rest}_{action}").as_str()))
    };
    rest(one, other).is_some_and(|rest| meets(&rest, of_one, of_other))
        || rest(other, one).is_some_and(|rest| meets(&rest, of_other, of_one))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_handle_is_made_of_the_name() {
        for (name, number, handle) in [
            ("Code", 1, "code"),
            ("Acme: Code Host!", 1, "acme_code_host"),
            ("42 Answers", 1, "answers"),
            ("\u{fc}ber", 1, "ber"),
            ("\u{4e2d}\u{6587}", 1, "connection"),
            ("", 3, "connection_3"),
            ("a name that is far longer than a handle", 1, "a_name_that_is_far_longe"),
            ("a name that is far longer than a handle", 12, "a_name_that_is_far_lo_12"),
        ] {
            assert_eq!(handle_of(name, number), handle, "{name}");
        }
    }

    #[test]
    fn tools_of_two_handles_have_two_names() {
        let (one, other) = (&["get", "host_get"][..], &["get", "send"][..]);
        assert!(is_clash(("code", one), ("code", other)));
        assert!(is_clash(("code", one), ("code_host", other)), "code_host_get");
        assert!(is_clash(("code_host", other), ("code", one)));
        assert!(!is_clash(("code", other), ("code_host", other)));
        assert!(!is_clash(("code", one), ("codec", other)));
        assert!(!is_clash(("code", one), ("code_2", other)));
    }

    proptest! {
        #[test]
        fn every_handle_fits(name in ".*", number in 0usize..1_000) {
            let handle = handle_of(&name, number);
            prop_assert!(handle.len() <= HANDLE_CHARACTERS_MAX);
            prop_assert!(handle.starts_with(|letter: char| letter.is_ascii_lowercase()));
            prop_assert!(handle.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'));
        }
    }
}

//! E-mail addresses, in one spelling.

use portico_kernel::is_printable;
use unicode_normalization::UnicodeNormalization;

const BYTES_MAX: usize = 254;
const LOCAL_BYTES_MAX: usize = 64;

/// The form in which a person is known, however the address was typed: width, accents and capitals are made alike, so
/// that nobody has two accounts, or two sets of attempts, by another spelling. `None` when it is no address.
pub(crate) fn canonical(email: &str) -> Option<String> {
    // Lowercasing can undo the normal form, so it is made once more.
    let lower = email.trim().nfkc().collect::<String>().to_lowercase();
    let email: String = lower.nfkc().collect();
    let (local, domain) = email.rsplit_once('@')?;
    // The domain as it is looked up, so that its two ways of writing are one.
    let Ok(url::Host::Domain(domain)) = url::Host::parse(domain) else { return None };
    let email = format!("{local}@{domain}");
    let odd = |c: char| {
        c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | ',' | ';' | '\\' | '@')
    };
    let labels = domain.split('.').all(|label| {
        !label.is_empty()
            && !label.starts_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    });
    let fits = email.len() <= BYTES_MAX && (1..=LOCAL_BYTES_MAX).contains(&local.len());
    (fits && labels && !local.contains(odd) && is_printable(local)).then_some(email)
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn every_spelling_is_one() {
        for spelling in ["ada@example.com", " Ada@Example.COM ", "ＡＤＡ@example.com", "ada@ｅxample.com"]
        {
            assert_eq!(canonical(spelling).as_deref(), Some("ada@example.com"), "{spelling}");
        }
        assert_eq!(canonical("a@b\u{fc}cher.de"), canonical("a@xn--bcher-kva.de"));
        assert_eq!(canonical("z\u{200b}z@x.de"), None);
        assert_eq!(canonical("K\u{e9}@x.de"), canonical("k\u{65}\u{301}@x.de"));
        for not in
            ["", "ada", "@x.de", "a@", "a b@x.de", "a@x..de", "a@-x.de", "a\n@x.de", "a@b@x.de", "<a@x.de>"]
        {
            assert_eq!(canonical(not), None, "{not}");
        }
        assert_eq!(canonical(&format!("{}@x.de", "a".repeat(65))), None);
    }
}

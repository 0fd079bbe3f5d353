//! A browser by its name, as a person knows it.

/// The first of `known` whose mark is in the text.
fn named(text: &str, known: &[(&str, &'static str)]) -> Option<&'static str> {
    known.iter().find(|(mark, _)| text.contains(mark)).map(|(_, name)| *name)
}

/// "Firefox on Linux", as far as the browser tells. Each claims to be its forerunners too, so the newest comes first.
pub(super) fn shown(user_agent: &str) -> String {
    let browsers = [
        ("Edg", "Edge"),
        ("OPR", "Opera"),
        ("Firefox", "Firefox"),
        ("Chrome", "Chrome"),
        ("Safari", "Safari"),
    ];
    let systems = [
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS X", "Mac"),
        ("CrOS", "ChromeOS"),
        ("Linux", "Linux"),
    ];
    match (named(user_agent, &browsers), named(user_agent, &systems)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(browser), None) => browser.to_owned(),
        (None, _) => "Another browser".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn browsers_are_known_by_their_names() {
        let chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0 Safari/537.36";
        assert_eq!(shown(chrome), "Chrome on Linux");
        assert_eq!(shown(&format!("{chrome} Edg/156.0")), "Edge on Linux");
        let safari =
            "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Mobile/15E148 Safari/604.1";
        assert_eq!(shown(safari), "Safari on iPhone");
        assert_eq!(shown("curl/8.0"), "Another browser");
    }
}

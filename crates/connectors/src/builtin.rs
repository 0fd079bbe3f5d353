//! The connectors that every account has.

use std::sync::LazyLock;

use crate::manifest::Manifest;

/// Their texts, by name; a test looks whether the folder has others.
pub(crate) const TEXTS: [(&str, &str); 10] = [
    ("anthropic", include_str!("../manifests/anthropic.toml")),
    ("github", include_str!("../manifests/github.toml")),
    ("gitlab", include_str!("../manifests/gitlab.toml")),
    ("jira", include_str!("../manifests/jira.toml")),
    ("linear", include_str!("../manifests/linear.toml")),
    ("notion", include_str!("../manifests/notion.toml")),
    ("openai", include_str!("../manifests/openai.toml")),
    ("sentry", include_str!("../manifests/sentry.toml")),
    ("slack", include_str!("../manifests/slack.toml")),
    ("stripe", include_str!("../manifests/stripe.toml")),
];

#[expect(clippy::expect_used, reason = "they are compiled in, and a test reads every one")]
static BUILTINS: LazyLock<Vec<Manifest>> = LazyLock::new(|| {
    let read =
        |(_, text): &(&str, &str)| Manifest::from_toml(text).expect("what is compiled in has no faults");
    TEXTS.iter().map(read).collect()
});

/// The connectors that every account has, by name.
pub fn builtins() -> &'static [Manifest] {
    &BUILTINS
}

/// The connector of that name that every account has.
pub fn builtin(id: &str) -> Option<&'static Manifest> {
    builtins().iter().find(|manifest| manifest.id() == id)
}

/// Is it a name that no connector of an account may have?
pub fn is_reserved(id: &str) -> bool {
    TEXTS.iter().any(|(name, _)| *name == id)
        || [crate::endpoint::NAME, crate::webhook_in::NAME].contains(&id)
}

//! Names of domains: how they are read, what they are, and what they cover. Without I/O.
//!
//! A name is kept and answered as A-labels. The public suffix list is compiled in, with both of its sections, and a suffix
//! that it does not know is one label.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};
use portico_kernel::{Problem, text_enum};
use portico_store::text_value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;

text_enum! {
    /// What a domain is, which follows from its name.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    pub(crate) enum Scope {
        /// A registrable domain: a public suffix and one label.
        Domain = "domain",
        /// A name below one.
        Subdomain = "subdomain",
    }
}

text_value!(Scope);

impl Scope {
    /// The label that stands before the domain in the name of its record.
    pub(crate) const fn record_label(self) -> &'static str {
        match self {
            Self::Domain => "_portico-challenge",
            Self::Subdomain => "_portico-host-challenge",
        }
    }

    /// The label of the other scope, which people mistake it for.
    pub(crate) const fn other_label(self) -> &'static str {
        match self {
            Self::Domain => Self::Subdomain.record_label(),
            Self::Subdomain => Self::Domain.record_label(),
        }
    }
}

/// Top-level names that mean something else than a public domain.
const SPECIAL: [&str; 7] = ["localhost", "local", "internal", "invalid", "onion", "alt", "arpa"];

/// The name of a domain, as A-labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    text: String,
    /// Where the registrable domain begins in it.
    registrable_at: usize,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A text as A-labels, whatever letters it is written with; `None` where that cannot be done.
fn to_ascii(text: &str) -> Option<String> {
    // What else is not allowed is told by its rule, which the library does not do. Two hyphens in the middle of a label are
    // common, and harmless.
    let (deny, hyphens, length) = (AsciiDenyList::EMPTY, Hyphens::Allow, DnsLength::Ignore);
    Uts46::new().to_ascii(text.as_bytes(), deny, hyphens, length).ok().map(Cow::into_owned)
}

/// What is wrong with a label.
fn label_fault(label: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if label.is_empty() {
        return Some("has an empty label: two dots beside each other, or one at the beginning".to_owned());
    }
    if let Some(other) = label.chars().find(|c| !allowed(*c)) {
        return Some(format!(
            "holds {other:?}; a domain is letters, digits, hyphens and dots alone: no address of a page, port, wildcard or e-mail"
        ));
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Some("has a label that begins or ends with a hyphen".to_owned());
    }
    let most = limits::LABEL_CHARACTERS_MAX;
    (label.len() > most).then(|| format!("has a label of over {most} characters"))
}

/// What is wrong with a name whose labels are good.
fn name_fault(text: &str) -> Option<String> {
    let most = limits::NAME_CHARACTERS_MAX;
    if text.len() > most {
        return Some(format!("has over {most} characters"));
    }
    let last = text.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some("ends in a label of digits alone, as an IP address does".to_owned());
    }
    if SPECIAL.contains(&last) {
        return Some(format!("is in `{last}`, where nobody can own a name"));
    }
    if !text.contains('.') {
        return Some("is one label; a domain has two at least, such as example.com".to_owned());
    }
    None
}

impl Name {
    /// Reads a domain, however it is written; says which rule it breaks.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err("is empty".to_owned());
        }
        if text.chars().count() > limits::INPUT_CHARACTERS_MAX {
            return Err(format!("has over {} characters", limits::NAME_CHARACTERS_MAX));
        }
        if text.parse::<IpAddr>().is_ok() {
            return Err("is an IP address, which nobody proves by DNS".to_owned());
        }
        let ascii =
            to_ascii(text).ok_or_else(|| "holds a label that is no valid international name".to_owned())?;
        if let Some(fault) = ascii.split('.').find_map(label_fault) {
            return Err(fault);
        }
        if let Some(fault) = name_fault(&ascii) {
            return Err(fault);
        }
        let Some(registrable) = psl::domain_str(&ascii) else {
            return Err("is a public suffix, under which everybody registers names".to_owned());
        };
        let registrable_at = ascii.len() - registrable.len();
        Ok(Self { text: ascii, registrable_at })
    }

    /// The same; refuses the field `domain` otherwise.
    pub(crate) fn field(text: &str) -> Result<Self, Problem> {
        Self::read(text).map_err(|fault| Problem::field("domain", fault))
    }

    /// The name.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The public suffix and one label.
    pub(crate) fn registrable(&self) -> &str {
        &self.text[self.registrable_at..]
    }

    /// What it is.
    pub(crate) fn scope(&self) -> Scope {
        if self.registrable_at == 0 { Scope::Domain } else { Scope::Subdomain }
    }
}

/// The public suffix and one label of a name that was read before.
pub(crate) fn registrable(name: &str) -> &str {
    psl::domain_str(name).unwrap_or(name)
}

/// A host as A-labels, for comparison with domains; `None` for what is no name.
pub(crate) fn host(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_name = !text.is_empty()
        && text.chars().count() <= limits::INPUT_CHARACTERS_MAX
        && text.parse::<IpAddr>().is_err();
    if is_name { to_ascii(text) } else { None }
}

/// Is `host` the domain or under it? Whole labels count: badexample.com is not under example.com.
pub(crate) fn covers(domain: &str, host: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Name {
        Name::read(text).unwrap_or_else(|fault| panic!("{text:?} {fault}"))
    }

    #[test]
    fn a_name_is_read_in_any_form() {
        for (written, kept) in [
            ("example.com", "example.com"),
            ("EXAMPLE.Com.", "example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example", "xn--bcher-kva.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            // Non-transitional: a sharp s stays one.
            ("straße.de", "xn--strae-oqa.de"),
            ("例え。jp", "xn--r8jz45g.jp"),
            ("ｅｘａｍｐｌｅ.com", "example.com"),
            ("r3---sn-4g5e6nz7.example.com", "r3---sn-4g5e6nz7.example.com"),
            ("1.2.example", "1.2.example"),
            ("a.test", "a.test"),
            ("a.example", "a.example"),
        ] {
            assert_eq!(read(written).as_str(), kept, "{written}");
        }
    }

    #[test]
    fn each_refusal_says_its_rule() {
        let long = [["a".repeat(60).as_str(); 4].join("."), "test".to_owned()].join(".");
        for (written, rule) in [
            ("", "is empty"),
            (".", "is empty"),
            ("a..test", "an empty label"),
            (".a.test", "an empty label"),
            ("a.test..", "an empty label"),
            (&format!("{}.test", "x".repeat(64)), "a label of over 63 characters"),
            ("*.acme.test", "holds '*'"),
            ("_x.acme.test", "holds '_'"),
            ("a b.test", "holds ' '"),
            ("https://acme.test", "holds ':'"),
            ("acme.test/path", "holds '/'"),
            ("acme.test:443", "holds ':'"),
            ("me@acme.test", "holds '@'"),
            ("-a.test", "begins or ends with a hyphen"),
            ("a-.test", "begins or ends with a hyphen"),
            ("xn--a.test", "no valid international name"),
            ("xn--.test", "no valid international name"),
            ("a\u{200b}\u{e000}.test", "no valid international name"),
            (&long, "over 229 characters"),
            (&"ü".repeat(5_000), "over 229 characters"),
            ("1.2.3.4", "is an IP address"),
            ("::1", "is an IP address"),
            ("2001:db8::1", "is an IP address"),
            ("1.2.3.4.", "is an IP address"),
            ("1.2.3", "digits alone"),
            ("a.256", "digits alone"),
            ("com", "is one label"),
            ("intranet", "is one label"),
            ("co.uk", "is a public suffix"),
            ("github.io", "is a public suffix"),
            ("foo.ck", "is a public suffix"),
            ("localhost", "is in `localhost`"),
            ("a.localhost", "is in `localhost`"),
            ("printer.local", "is in `local`"),
            ("db.internal", "is in `internal`"),
            ("a.invalid", "is in `invalid`"),
            ("a.onion", "is in `onion`"),
            ("a.alt", "is in `alt`"),
            ("1.168.192.in-addr.arpa", "is in `arpa`"),
        ] {
            let fault = Name::read(written).expect_err(written);
            assert!(fault.contains(rule), "{written:?}: {fault}");
        }
    }

    #[test]
    fn the_longest_name_leaves_room_for_the_label() {
        let longest =
            format!("{}.{}.{}.{}.test", "a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(32));
        assert_eq!(longest.len(), 229);
        let name = read(&longest);
        let record = format!("{}.{name}", name.scope().record_label());
        assert_eq!(record.len(), 253);
        assert!(Name::read(&format!("d{longest}")).is_err(), "a label is too long");
        assert!(Name::read(&longest.replace("dtest", "ddtest").replace(".d", ".dd")).is_err());
    }

    #[test]
    fn the_scope_follows_from_the_name() {
        for (name, registrable, scope) in [
            ("example.com", "example.com", Scope::Domain),
            ("www.example.com", "example.com", Scope::Subdomain),
            ("example.co.uk", "example.co.uk", Scope::Domain),
            ("a.b.example.co.uk", "example.co.uk", Scope::Subdomain),
            ("ada.github.io", "ada.github.io", Scope::Domain),
            ("pages.ada.github.io", "ada.github.io", Scope::Subdomain),
            ("acme.test", "acme.test", Scope::Domain),
            ("api.acme.test", "acme.test", Scope::Subdomain),
        ] {
            let read = read(name);
            assert_eq!((read.registrable(), read.scope()), (registrable, scope), "{name}");
        }
    }

    #[test]
    fn a_domain_covers_itself_and_what_is_under_it() {
        for (host, covered) in [
            ("example.com", true),
            ("a.example.com", true),
            ("a.b.example.com", true),
            ("badexample.com", false),
            ("example.com.evil.test", false),
            ("com", false),
            ("", false),
        ] {
            assert_eq!(covers("example.com", host), covered, "{host}");
        }
        assert!(covers("xn--bcher-kva.example", &host("www.Bücher.example.").unwrap()));
        assert_eq!((host("1.2.3.4"), host("::1"), host(""), host(".")), (None, None, None, None));
    }
}

//! Names between text and DNS.

use hickory_proto::rr::Name;

use crate::Record;

/// A name of A-labels; `None` when DNS has no room for it.
pub(crate) fn read(text: &str) -> Option<Name> {
    let mut name = Name::from_ascii(text).ok()?;
    name.set_fqdn(true);
    (!text.is_empty() && name.len() <= 254).then_some(name)
}

/// As people write it: lower case, without the last dot.
pub(crate) fn write(name: &Name) -> String {
    let text = name.to_lowercase().to_ascii();
    text.strip_suffix('.').filter(|text| !text.is_empty()).unwrap_or(&text).to_owned()
}

/// The highest name at which the zone of a registrable domain can begin: itself, or what is registered above it where its suffix is
/// somebody's own, as `github.io` is.
pub(crate) fn highest(registrable: &Name) -> Name {
    let text = write(registrable);
    let mut at = text.as_str();
    let is_registry = |name: &str| {
        psl::suffix(name.as_bytes())
            .is_some_and(|suffix| suffix == name.as_bytes() && suffix.typ() != Some(psl::Type::Private))
    };
    while let Some((_, above)) = at.split_once('.')
        && !is_registry(above)
    {
        at = above;
    }
    read(at).unwrap_or_else(|| registrable.clone())
}

/// The names of a look.
pub(crate) struct Names {
    /// Where the record must be.
    pub(crate) record: Name,
    /// The domain.
    pub(crate) domain: Name,
    /// Its public suffix and one label.
    pub(crate) registrable: Name,
}

impl Names {
    pub(crate) fn of(record: &Record) -> Option<Self> {
        Some(Self {
            record: read(&record_name(record))?,
            domain: read(&record.domain)?,
            registrable: read(&record.registrable)?,
        })
    }
}

/// Where the record must be.
pub(crate) fn record_name(record: &Record) -> String {
    under(&record.label, record)
}

/// This label before the domain.
pub(crate) fn under(label: &str, record: &Record) -> String {
    format!("{label}.{}", record.domain)
}

/// What a panel wants for a name in the zone at `apex`, to which it adds the zone itself.
pub(crate) fn in_panel<'a>(name: &'a str, apex: &str) -> &'a str {
    name.strip_suffix(apex).and_then(|name| name.strip_suffix('.')).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for (text, written) in [
            ("example.com", "example.com"),
            ("_Portico-Challenge.Example.COM.", "_portico-challenge.example.com"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(write(&read(text).unwrap()), written);
            assert_eq!(read(text), read(written));
        }
        assert_eq!(write(&Name::root()), ".");
        let longest = format!("{}.{}", "a".repeat(63), ["b"; 3].map(|b| b.repeat(62)).join("."));
        assert_eq!(longest.len(), 252);
        assert!(read(&longest).is_some());
        for bad in ["", "a..b", "a b.example", "-a.example", &"a".repeat(64), &"a.".repeat(140)] {
            assert!(read(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn a_zone_begins_below_the_registry() {
        for (registrable, expected) in [
            ("example.com", "example.com"),
            ("example.co.uk", "example.co.uk"),
            ("example.test", "example.test"),
            ("someone.github.io", "github.io"),
            ("bucket.s3.amazonaws.com", "amazonaws.com"),
            ("com", "com"),
        ] {
            assert_eq!(write(&highest(&read(registrable).unwrap())), expected);
        }
    }

    #[test]
    fn a_panel_wants_the_name_without_the_zone() {
        assert_eq!(in_panel("_x.example.com", "example.com"), "_x");
        assert_eq!(in_panel("_x.shop.example.com", "example.com"), "_x.shop");
        assert_eq!(in_panel("_x.badexample.com", "example.com"), "_x.badexample.com");
        assert_eq!(in_panel("_x.example.com", ""), "_x.example.com");
    }
}

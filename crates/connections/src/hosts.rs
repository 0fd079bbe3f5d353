//! Hosts that accounts may choose beside those of their verified domains.

/// Hosts that the operator lets every account choose; none unless the configuration names some.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChosenHosts {
    all: bool,
    /// In lower case. One that begins with a dot stands for the names below it; any other for itself and them.
    names: Vec<String>,
}

impl ChosenHosts {
    /// Reads the configuration: hosts with commas between them, or `*` for any.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut hosts = Self::default();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if name == "*" {
                hosts.all = true;
                continue;
            }
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            let labels = name.strip_prefix('.').unwrap_or(name);
            if !name.bytes().all(plain) || labels.split('.').any(str::is_empty) {
                return Err(format!("{name:?} is neither a host nor a suffix of hosts"));
            }
            hosts.names.push(name.to_ascii_lowercase());
        }
        Ok(hosts)
    }

    /// Is the host one of them?
    pub(crate) fn contain(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let is_in = |name: &String| {
            let below = name.strip_prefix('.').unwrap_or(name);
            let is_below = host.strip_suffix(below).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1);
            is_below || (host == *name && below.len() == name.len())
        };
        self.all || self.names.iter().any(is_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_those_that_are_named() {
        let hosts = ChosenHosts::parse(" api.example.com, .Example.org ,").unwrap();
        for inside in ["api.example.com", "API.example.com.", "x.api.example.com", "a.example.org"] {
            assert!(hosts.contain(inside), "{inside}");
        }
        for outside in
            ["example.com", "xapi.example.com", "example.org", ".example.org", "", "api.example.com.evil"]
        {
            assert!(!hosts.contain(outside), "{outside}");
        }
        assert!(!ChosenHosts::default().contain("example.com"));
        assert!(ChosenHosts::parse("*").unwrap().contain("example.com"));
        for bad in ["https://example.com", "a..b", "..b", "*.example.com", "a b"] {
            assert!(ChosenHosts::parse(bad).is_err(), "{bad}");
        }
    }
}

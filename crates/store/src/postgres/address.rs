//! The address of a database on PostgreSQL, `postgres://…?name=value&…`.

use tokio_postgres::config::SslMode;

use crate::StoreError;

/// What an address says beside what the driver reads of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// The rest, for the driver.
    pub(super) url: String,
    pub(super) tls: SslMode,
    pub(super) check: Check,
    /// A PEM file with the roots that are trusted instead of the public ones.
    pub(super) roots: Option<String>,
    /// Is there a pooler in between, such as `PgBouncer`, which gives each transaction another connection of the server?
    pub(super) pooler: bool,
}

/// What is checked of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Nothing,
    Issuer,
    IssuerAndName,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let mut read = Self {
            url: String::new(),
            tls: SslMode::Prefer,
            check: Check::Nothing,
            roots: None,
            pooler: false,
        };
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", mode)) => (read.tls, read.check) = ssl_mode(mode)?,
                Some(("sslrootcert", file)) => read.roots = Some(file.to_owned()),
                Some(("pooler", "transaction")) => read.pooler = true,
                Some(("pooler", other)) => {
                    return Err(StoreError::fault(format!(
                        "pooler={other} is not known; it can be `transaction`"
                    )));
                }
                Some((name @ ("sslcert" | "sslkey" | "channel_binding"), _)) => {
                    return Err(StoreError::fault(format!("{pair}: {name} is not supported")));
                }
                _ => others.push(pair),
            }
        }
        // As libpq does: whoever names roots means them.
        if read.roots.is_some() && matches!(read.tls, SslMode::Require) && read.check == Check::Nothing {
            read.check = Check::Issuer;
        }
        let separator = if others.is_empty() { "" } else { "?" };
        read.url = format!("{address}{separator}{}", others.join("&"));
        Ok(read)
    }
}

/// As `libpq` understands it: only `verify-ca` and `verify-full` look at the certificate, and only the latter at the name.
fn ssl_mode(mode: &str) -> Result<(SslMode, Check), StoreError> {
    Ok(match mode {
        "disable" => (SslMode::Disable, Check::Nothing),
        "prefer" => (SslMode::Prefer, Check::Nothing),
        "require" => (SslMode::Require, Check::Nothing),
        "verify-ca" => (SslMode::Require, Check::Issuer),
        "verify-full" => (SslMode::Require, Check::IssuerAndName),
        other => return Err(StoreError::fault(format!("sslmode={other} is not known"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_more_than_the_driver_reads() {
        let plain = Address::parse("postgres://u:p@h/db").unwrap();
        assert_eq!((plain.url.as_str(), plain.tls), ("postgres://u:p@h/db", SslMode::Prefer));
        assert_eq!((plain.check, plain.roots, plain.pooler), (Check::Nothing, None, false));
        let all =
            "postgres://h/db?sslmode=verify-full&connect_timeout=3&sslrootcert=/ca.pem&pooler=transaction";
        let all = Address::parse(all).unwrap();
        assert_eq!(all.url, "postgres://h/db?connect_timeout=3");
        assert_eq!((all.tls, all.check), (SslMode::Require, Check::IssuerAndName));
        assert_eq!((all.roots.as_deref(), all.pooler), (Some("/ca.pem"), true));
        let named = Address::parse("postgres://h/db?sslrootcert=/ca.pem&sslmode=require").unwrap();
        assert_eq!(named.check, Check::Issuer, "whoever names roots means them");
        for wrong in [
            "sslmode=allow",
            "channel_binding=require",
            "sslcert=/c.pem",
            "sslmode=none",
            "pooler=session",
            "pooler=",
        ] {
            let refused = Address::parse(&format!("postgres://h/db?{wrong}")).unwrap_err().to_string();
            assert!(refused.contains(wrong), "{refused}");
        }
    }
}

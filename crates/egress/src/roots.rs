//! Certificates that outgoing calls trust beside the public ones.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Root certificates of the operator's own. It prints as the file that they come from.
#[derive(Debug, Clone, Default)]
pub struct TrustedRoots {
    file: PathBuf,
    certificates: Vec<CertificateDer<'static>>,
}

impl TrustedRoots {
    /// The certificates of a PEM file; the error says why they cannot be used.
    pub fn read(file: &Path) -> Result<Self, String> {
        let named = |error: &dyn fmt::Display| format!("{}: {error}", file.display());
        let certificates: Vec<_> =
            CertificateDer::pem_file_iter(file).and_then(Iterator::collect).map_err(|error| named(&error))?;
        if certificates.is_empty() {
            return Err(named(&"there is no certificate in it"));
        }
        let mut store = RootCertStore::empty();
        for certificate in &certificates {
            store.add(certificate.clone()).map_err(|error| named(&error))?;
        }
        Ok(Self { file: file.to_owned(), certificates })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.certificates.len()
    }

    /// These and the public ones.
    pub fn store(&self) -> RootCertStore {
        let mut store = public_roots();
        // All of them can be used, or they would not have been read.
        store.add_parsable_certificates(self.certificates.iter().cloned());
        store
    }
}

impl fmt::Display for TrustedRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.display().fmt(f)
    }
}

/// The roots that browsers trust.
pub(crate) fn public_roots() -> RootCertStore {
    webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect()
}

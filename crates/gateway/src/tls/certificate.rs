//! A certificate and its key in files, read again when they change.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use portico_engine::Metric;
use portico_kernel::Timestamp;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use webpki::{EndEntityCert, KeyUsage};

/// The last second of the year 9999, after which no certificate is valid (RFC 5280, section 4.1.2.5).
const END_OF_TIME: Duration = Duration::from_secs(253_402_300_799);

/// A certificate with its key, as the files said when they were last read and could be used.
#[derive(Debug)]
pub struct Certificate {
    files: Files,
    current: RwLock<Arc<CertifiedKey>>,
    watch: Mutex<Watch>,
}

/// Where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// What tells one version of both files from another: what they hold, since times are coarse, and copied like anything else.
type Version = [Option<[u8; SHA256_OUTPUT_LEN]>; 2];

#[derive(Debug)]
struct Watch {
    /// The version that was read last, whether or not it could be used.
    read: Version,
    /// The version at the last look.
    seen: Version,
}

/// What became of a look at the files.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Same,
    Reloaded,
    Failed,
}

impl Files {
    fn read(&self) -> Result<CertifiedKey, String> {
        let named = |path: &Path, error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let chain: Vec<_> = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect)
            .map_err(|error| named(&self.certificate, &error))?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| named(&self.key, &error))?;
        // This also checks that the key is that of the certificate.
        CertifiedKey::from_der(chain, key, &default_provider())
            .map_err(|error| named(&self.certificate, &error))
    }

    fn version(&self) -> Version {
        [&self.certificate, &self.key].map(|path| {
            let content = std::fs::read(path).ok()?;
            digest(&SHA256, &content).as_ref().try_into().ok()
        })
    }
}

impl Certificate {
    /// Reads the PEM files: the certificate with those above it, and its key. The error says why they cannot be used.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, String> {
        let files = Files { certificate: certificate.to_owned(), key: key.to_owned() };
        let version = files.version();
        let current = RwLock::new(Arc::new(files.read()?));
        Ok(Self { files, current, watch: Mutex::new(Watch { read: version, seen: version }) })
    }

    fn current(&self) -> Arc<CertifiedKey> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again if they have changed, and did not change any more since the last look: both take a moment to
    /// be replaced. What cannot be used changes nothing.
    fn look(&self) -> Look {
        let version = self.files.version();
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let is_still = std::mem::replace(&mut watch.seen, version) == version;
        if watch.read == version || !is_still {
            return Look::Same;
        }
        watch.read = version;
        let file = self.files.certificate.display();
        match self.files.read() {
            Ok(read) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
                tracing::info!(%file, "Read a certificate again, because it has changed");
                Look::Reloaded
            }
            Err(error) => {
                tracing::warn!(%file, %error, "Failed to read a certificate that has changed; the one before stays");
                Look::Failed
            }
        }
    }

    /// When it ends, in seconds since 1970; `None` when that cannot be read.
    pub fn ends_at(&self) -> Option<u64> {
        // The library tells when a certificate ends by refusing it for a later time.
        match self.verify(UnixTime::since_unix_epoch(END_OF_TIME)) {
            Err(webpki::Error::CertExpired { not_after, .. }) => Some(not_after.as_secs()),
            _ => None,
        }
    }

    /// What is wrong with it at that time, for clients that want that host.
    pub fn fault(&self, host: &str, now: Timestamp) -> Option<String> {
        let seconds = u64::try_from(now.as_micros() / 1_000_000).unwrap_or_default();
        match self.verify(UnixTime::since_unix_epoch(Duration::from_secs(seconds))) {
            Err(webpki::Error::CertExpired { not_after, .. }) => {
                return Some(format!("it has ended on {}", date(not_after.as_secs())));
            }
            Err(webpki::Error::CertNotValidYet { not_before, .. }) => {
                return Some(format!("it begins on {}", date(not_before.as_secs())));
            }
            // Who trusts it is for clients to say; here nobody is asked.
            _ => {}
        }
        let current = self.current();
        let leaf = current.cert.first().and_then(|leaf| EndEntityCert::try_from(leaf).ok());
        let name = ServerName::try_from(host.to_owned()).ok();
        let (Some(leaf), Some(name)) = (leaf, name) else { return Some("it cannot be read".to_owned()) };
        let is_named = leaf.verify_is_valid_for_subject_name(&name).is_ok();
        (!is_named).then(|| format!("it does not name {host}"))
    }

    fn verify(&self, time: UnixTime) -> Result<(), webpki::Error> {
        let current = self.current();
        let leaf = EndEntityCert::try_from(current.cert.first().ok_or(webpki::Error::BadDer)?)?;
        let usage = KeyUsage::server_auth();
        leaf.verify_for_usage(&[], &[], &[], time, usage, None, None).map(drop)
    }
}

/// The file, and when what was read from it ends.
impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = self.ends_at().map(|seconds| format!(" (ends on {})", date(seconds))).unwrap_or_default();
        write!(f, "{}{ends}", self.files.certificate.display())
    }
}

fn date(seconds: u64) -> String {
    let at = Timestamp::from_seconds(i64::try_from(seconds).unwrap_or(i64::MAX)).to_string();
    at.split('T').next().unwrap_or_default().to_owned()
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

/// The certificates of a process.
#[derive(Debug, Default)]
pub struct Certificates {
    all: Mutex<Vec<Arc<Certificate>>>,
    reloaded: AtomicU64,
    failed: AtomicU64,
}

impl Certificates {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Certificate>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The certificate of these files, which are looked at from now on.
    pub fn open(&self, certificate: &Path, key: &Path) -> Result<Arc<Certificate>, String> {
        let files = Files { certificate: certificate.to_owned(), key: key.to_owned() };
        let mut all = self.all();
        if let Some(known) = all.iter().find(|known| known.files == files) {
            return Ok(known.clone());
        }
        let read = Arc::new(Certificate::read(certificate, key)?);
        all.push(read.clone());
        Ok(read)
    }

    /// Looks whether files have changed.
    pub fn look(&self) {
        let all = self.all().clone();
        for certificate in all {
            match certificate.look() {
                Look::Same => {}
                Look::Reloaded => drop(self.reloaded.fetch_add(1, Ordering::Relaxed)),
                Look::Failed => drop(self.failed.fetch_add(1, Ordering::Relaxed)),
            }
        }
    }

    /// Is there any?
    pub(crate) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let first = self.all().iter().filter_map(|certificate| certificate.ends_at()).min();
        let Some(first) = first else { return Vec::new() };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            Metric::gauge(
                "certificate_ends_seconds",
                "When the certificate ends that ends first, in seconds since 1970",
                i64::try_from(first).unwrap_or(i64::MAX),
            ),
            Metric::counter(
                "certificates_reloaded",
                "Certificates that were read again because they had changed",
                count(&self.reloaded),
            ),
            Metric::counter(
                "certificates_not_reloaded",
                "Certificates that had changed and could not be used",
                count(&self.failed),
            ),
        ]
    }
}

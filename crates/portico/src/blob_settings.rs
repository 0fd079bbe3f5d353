//! Where uploads are kept, as the configuration says.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use portico_blobs::{BlobError, BlobStore, FileStore, S3Settings, S3Store};
use portico_egress::TrustedRoots;
use portico_kernel::{Clock, Secret};
use serde::Deserialize;

use crate::config::{ConfigError, url};

/// A service that speaks S3, as the file names it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Table {
    endpoint: String,
    region: String,
    bucket: String,
    access_key_id: String,
    secret_access_key: SecretText,
    #[serde(default)]
    path_style: bool,
}

/// A secret of the file, which is never shown.
#[derive(Clone, Deserialize)]
struct SecretText(String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where blobs are kept.
#[derive(Debug, Clone)]
pub enum BlobSettings {
    /// In this folder.
    Files(PathBuf),
    /// At a service that speaks S3.
    S3(S3Settings),
}

impl Default for BlobSettings {
    fn default() -> Self {
        Self::Files(PathBuf::from("blobs"))
    }
}

impl BlobSettings {
    /// The settings that the configuration names.
    pub(crate) fn read(
        kind: Option<&str>,
        s3: Option<S3Table>,
        data_dir: &Path,
    ) -> Result<Self, ConfigError> {
        match (kind.unwrap_or("files"), s3) {
            ("files", None) => Ok(Self::Files(data_dir.join("blobs"))),
            ("s3", Some(table)) => Ok(Self::S3(S3Settings {
                endpoint: url("s3.endpoint", table.endpoint)?,
                region: table.region,
                bucket: table.bucket,
                access_key_id: table.access_key_id,
                secret_access_key: Secret::new(table.secret_access_key.0),
                path_style: table.path_style,
            })),
            ("files", Some(_)) | ("s3", None) => {
                Err(ConfigError("`blobs = \"s3\"` and the table `[s3]` go together".to_owned()))
            }
            (other, _) => Err(ConfigError(format!("blobs must be files or s3, not {other:?}"))),
        }
    }

    /// The store that these settings name.
    pub(crate) fn store(
        &self,
        roots: &TrustedRoots,
        clock: &Arc<dyn Clock>,
    ) -> Result<Arc<dyn BlobStore>, BlobError> {
        Ok(match self {
            Self::Files(folder) => Arc::new(FileStore::new(folder)),
            Self::S3(settings) => Arc::new(S3Store::new(settings.clone(), roots, clock.clone())?),
        })
    }
}

/// For a person, without the secret.
impl fmt::Display for BlobSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(folder) => write!(f, "{}", folder.display()),
            Self::S3(settings) => write!(f, "{} at {}", settings.bucket, settings.endpoint),
        }
    }
}

//! The keyring: the keys that wrap every sealed secret, in a file of their own.
//!
//! One line a key, the first is active; older ones still open what they sealed. A canary in the database tells a
//! wrong keyring at start, before anything is sealed with it.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portico_kernel::{Entropy, Secret, hex};

use crate::{Context, Db, SealedColumn, Select, StoreError, args};

pub(crate) const KEY_BYTES: usize = 32;
pub(crate) const KEY_ID_BYTES: usize = 8;
const OWNER_ONLY: u32 = 0o600;
/// What the canary is sealed for, as its row and as its purpose.
const CANARY_NAME: &str = "canary";
const CANARY: Context<'_> = Context { account: "", row: CANARY_NAME, purpose: CANARY_NAME };

/// The canary, which is wrapped anew like everything else that is sealed.
pub const CANARY_COLUMN: SealedColumn = crate::sealed_column!(
    "keyring_canary",
    "sealed",
    key "cast(id as text)",
    account "''",
    row "'canary'",
    purpose CANARY_NAME
);

/// The keys that seal and open; the first is active.
#[derive(Debug, Clone)]
pub struct Keyring(Vec<Key>);

#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) id: [u8; KEY_ID_BYTES],
    pub(crate) bytes: Secret<[u8; KEY_BYTES]>,
}

/// Why a keyring cannot be used.
#[derive(Debug)]
pub enum KeyringError {
    /// The file cannot be read or written.
    File(PathBuf, io::Error),
    /// A line that is no key.
    Line(PathBuf, usize),
    /// It holds no key at all.
    Empty(PathBuf),
    /// It is not there, and the database was sealed with one.
    Missing(PathBuf),
    /// It does not open what the database holds.
    Wrong,
    /// The database cannot be asked.
    Store(StoreError),
}

impl fmt::Display for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "keyring {}: {error}", path.display()),
            Self::Line(path, line) => write!(f, "keyring {}: line {line} is not a key", path.display()),
            Self::Empty(path) => write!(f, "keyring {}: it holds no key", path.display()),
            Self::Missing(path) => write!(
                f,
                "keyring {}: it is not there, and without it nobody can open what this database holds",
                path.display()
            ),
            Self::Wrong => f.write_str(
                "this keyring does not open what the database holds: it belongs to another database, or a key is missing",
            ),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for KeyringError {}

impl From<StoreError> for KeyringError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Key {
    fn new(bytes: [u8; KEY_BYTES]) -> Self {
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(&digest(&SHA256, &bytes).as_ref()[..KEY_ID_BYTES]);
        Self { id, bytes: Secret::new(bytes) }
    }

    fn parse(line: &str) -> Option<Self> {
        let (id, key) = line.split_once(' ')?;
        let key = Self::new(BASE64_STANDARD.decode(key.trim()).ok()?.try_into().ok()?);
        // The id is drawn from the key, so a damaged line does not pass for a key.
        (key.hex() == id).then_some(key)
    }

    fn hex(&self) -> String {
        hex(&self.id)
    }
}

impl Keyring {
    /// A ring of one new key.
    pub(crate) fn generate(entropy: &dyn Entropy) -> Self {
        Self(vec![Key::new(entropy.bytes())])
    }

    /// This ring with a new active key before the others.
    #[cfg(test)]
    pub(crate) fn with_new_key(&self, entropy: &dyn Entropy) -> Self {
        let new = Key::new(entropy.bytes());
        Self(std::iter::once(new).chain(self.0.iter().cloned()).collect())
    }

    /// The keyring of `db`, in the file at `path`. It is made where there is none yet; one that does not open what the
    /// database holds is refused, and so is a database whose keyring is gone.
    pub async fn open_for(db: &Db, path: &Path, entropy: &dyn Entropy) -> Result<Self, KeyringError> {
        let here = path.try_exists().map_err(|error| KeyringError::File(path.to_owned(), error))?;
        if !here && canary(db).await?.is_some() {
            return Err(KeyringError::Missing(path.to_owned()));
        }
        let keyring = Self::load_or_create(path, entropy)?;
        keyring.check(db, entropy).await?;
        Ok(keyring)
    }

    /// Reads the file at `path`; makes it, for its owner only, where there is none.
    fn load_or_create(path: &Path, entropy: &dyn Entropy) -> Result<Self, KeyringError> {
        let file = |error| KeyringError::File(path.to_owned(), error);
        if !path.try_exists().map_err(file)? {
            Self::generate(entropy).create(path).map_err(file)?;
        }
        let mode = fs::metadata(path).map_err(file)?.permissions().mode();
        if mode & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "Others can read the keyring; run chmod 600 on it");
        }
        Self::parse(path, &fs::read_to_string(path).map_err(file)?)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, KeyringError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let keys: Result<Vec<_>, _> = lines
            .map(|(at, line)| Key::parse(line).ok_or_else(|| KeyringError::Line(path.to_owned(), at + 1)))
            .collect();
        let keys = keys?;
        if keys.is_empty() { Err(KeyringError::Empty(path.to_owned())) } else { Ok(Self(keys)) }
    }

    /// Writes the file whole or not at all. Of two processes that start together one wins; both read its file.
    fn create(&self, path: &Path) -> io::Result<()> {
        // Named after the key, so that two processes never write one draft.
        let draft = path.with_extension(format!("draft-{}", self.active().hex()));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(OWNER_ONLY).open(&draft)?;
        writeln!(
            file,
            "# Portico keyring: the first key is active. Whoever loses this file loses every sealed secret."
        )?;
        for key in &self.0 {
            writeln!(file, "{} {}", key.hex(), BASE64_STANDARD.encode(key.bytes.expose()))?;
        }
        file.sync_all()?;
        let linked = fs::hard_link(&draft, path);
        fs::remove_file(&draft)?;
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    pub(crate) fn active(&self) -> &Key {
        // `parse` and `generate` never make an empty ring.
        &self.0[0]
    }

    pub(crate) fn keys(&self) -> &[Key] {
        &self.0
    }

    /// The ids of the keys, as they stand in what the keys sealed; the first is the active one's.
    pub fn key_ids(&self) -> impl Iterator<Item = Vec<u8>> {
        self.0.iter().map(|key| key.id.to_vec())
    }

    pub(crate) fn find(&self, id: [u8; KEY_ID_BYTES]) -> Option<&Key> {
        self.0.iter().find(|key| key.id == id)
    }

    /// Is this the keyring of `db`? The first one that asks becomes it.
    async fn check(&self, db: &Db, entropy: &dyn Entropy) -> Result<(), KeyringError> {
        let mut tx = db.write().await?;
        let sealed = self.seal(entropy, CANARY, b"portico");
        tx.run(
            "insert into keyring_canary (id, sealed) values (1, $1) on conflict (id) do nothing",
            args![sealed],
        )
        .await?;
        tx.commit().await?;
        let sealed = canary(db).await?.ok_or(KeyringError::Wrong)?;
        self.open(CANARY, &sealed).map(drop).map_err(|_| KeyringError::Wrong)
    }
}

/// What the database's first keyring sealed.
async fn canary(db: &Db) -> Result<Option<Vec<u8>>, StoreError> {
    let mut tx = db.read().await?;
    let sealed: Option<Vec<u8>> =
        tx.first_value("select sealed as value from keyring_canary where id = 1", args![]).await?;
    tx.rollback();
    Ok(sealed)
}

#[cfg(test)]
mod tests {
    use portico_kernel::SystemEntropy;

    use super::*;

    #[test]
    fn the_file_is_made_once_and_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keyring");
        let first = Keyring::load_or_create(&path, &SystemEntropy).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, OWNER_ONLY);
        let again = Keyring::load_or_create(&path, &SystemEntropy).unwrap();
        assert_eq!(first.active().id, again.active().id);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keyring");
        Keyring::load_or_create(&path, &SystemEntropy).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for damaged in [
            text.replace("keyring", "").replacen('#', "", 1),
            String::new(),
            text[..text.len() - 6].to_owned(),
        ] {
            fs::write(&path, damaged).unwrap();
            assert!(Keyring::load_or_create(&path, &SystemEntropy).is_err());
        }
    }
}

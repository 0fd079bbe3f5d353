//! Where the areas meet.

use std::fmt;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use portico_accounts::{Accounts, Members};
use portico_engine::clock::SystemClock;
use portico_engine::{Area, Engine, OPERATION_TIME_MAX, Registry, RegistryError};
use portico_gateway::Platform;
use portico_identity::Identity;
use portico_kernel::{Clock, Entropy, Problem, SystemEntropy};
use portico_store::{Db, Keyring, KeyringError, StoreError};

use crate::config::Config;

/// The platform, wired and ready to serve or to be administered.
pub struct App {
    /// What every call needs.
    pub engine: Arc<Engine>,
    /// The identity provider.
    pub identity: Arc<Identity>,
    /// The accounts.
    pub accounts: Arc<Accounts>,
}

/// What the platform stands on.
pub struct Foundation {
    /// The database, migrated.
    pub db: Db,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Gives randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Seals and opens.
    pub keyring: Keyring,
    /// The API's address.
    pub base_url: String,
    /// The identity provider's address.
    pub auth_url: String,
    /// The longest that an operation may run.
    pub operation_time_max: Duration,
}

/// Why the platform cannot start.
#[derive(Debug)]
pub enum OpenError {
    /// The data folder cannot be made.
    Folder(std::io::Error),
    /// The database cannot be used.
    Store(StoreError),
    /// The keyring cannot be used.
    Keyring(KeyringError),
    /// Two areas claim one place.
    Registry(RegistryError),
    /// An area cannot start.
    Problem(Problem),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(error) => write!(f, "the data folder: {error}"),
            Self::Store(error) => error.fmt(f),
            Self::Keyring(error) => error.fmt(f),
            Self::Registry(error) => error.fmt(f),
            Self::Problem(problem) => {
                problem.fmt(f)?;
                problem.cause().map_or(Ok(()), |cause| write!(f, " ({cause})"))
            }
        }
    }
}

impl std::error::Error for OpenError {}

macro_rules! from {
    ($($variant:ident($error:ty))+) => {$(
        impl From<$error> for OpenError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )+};
}

from! { Folder(std::io::Error) Store(StoreError) Keyring(KeyringError) Registry(RegistryError) Problem(Problem) }

/// Makes the data folder, for its owner only: the keyring and the database are in it.
pub(crate) fn make_folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Every area of the platform; `more` are those that only tests have.
pub fn registry(
    identity: &Arc<Identity>,
    accounts: &Arc<Accounts>,
    base_url: &str,
    more: Vec<Area>,
) -> Result<Registry, RegistryError> {
    let areas = [
        portico_identity::area(identity),
        portico_accounts::area(accounts),
        portico_events::area(),
        portico_gateway::area(&Arc::new(Platform::new(base_url))),
    ];
    Registry::new(areas.into_iter().chain(more))
}

impl App {
    /// Opens the database that `config` names, brings it up to date, and wires the platform.
    pub async fn open(config: &Config, more: Vec<Area>) -> Result<Self, OpenError> {
        let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
        make_folder(&config.data_dir)?;
        let db = Db::open(&config.database_url).await?;
        let migrated = db.migrate(clock.now()).await?;
        if !migrated.ran.is_empty() {
            tracing::info!(version = migrated.version, ran = ?migrated.ran, "Migrated the database");
        }
        let keyring = Keyring::open_for(&db, &config.keyring_file, entropy.as_ref()).await?;
        let (base_url, auth_url) = (config.base_url.clone(), config.auth_url.clone());
        let operation_time_max = OPERATION_TIME_MAX;
        Self::build(Foundation { db, clock, entropy, keyring, base_url, auth_url, operation_time_max }, more)
            .await
    }

    /// Wires the platform on `foundation`.
    pub async fn build(foundation: Foundation, more: Vec<Area>) -> Result<Self, OpenError> {
        let identity = Arc::new(Identity::new(foundation.auth_url));
        let accounts = Arc::new(Accounts::new(identity.clone()));
        let registry = registry(&identity, &accounts, &foundation.base_url, more)?;
        let engine = Arc::new(Engine {
            db: foundation.db,
            clock: foundation.clock,
            entropy: foundation.entropy,
            keyring: foundation.keyring,
            memberships: Arc::new(Members),
            registry,
            operation_time_max: foundation.operation_time_max,
        });
        identity.keys.load(&engine).await?;
        identity.revocations.refresh(&engine).await?;
        Ok(Self { engine, identity, accounts })
    }
}

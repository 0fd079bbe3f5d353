//! The pool of connections to PostgreSQL.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::Config;

use super::address::Address;
use super::connection::PgConnection;
use super::tls::{Opened, Tls};
use crate::StoreError;

/// Connections at once.
const CONNECTIONS_MAX: u32 = 20;
/// How long a caller waits for a connection before it is told that the database cannot be reached.
const ACQUIRE_MAX: Duration = Duration::from_secs(5);
/// After so long without a word from the server it is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// What each connection of ours asks of the server. A pooler by transaction refuses such settings.
const SETTINGS: &str = "\
    -c idle_in_transaction_session_timeout=15s \
    -c statement_timeout=60s \
    -c client_connection_check_interval=1s";

/// Connections, given out in the order of asking.
pub(crate) struct PgPool {
    connector: Arc<Connector>,
    idle: Arc<Mutex<Vec<PgConnection>>>,
    permits: Arc<Semaphore>,
}

/// How a connection is made.
pub(super) struct Connector {
    config: Config,
    tls: Tls,
    /// Is there a pooler in between, which gives each transaction another connection of the server?
    pub(super) pooler: bool,
}

/// A connection of the pool.
pub(super) struct Pooled {
    pub(super) connection: PgConnection,
    idle: Arc<Mutex<Vec<PgConnection>>>,
    _permit: OwnedSemaphorePermit,
}

impl Connector {
    fn new(url: &str) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        let mut config: Config = address.url.parse()?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host("localhost");
        }
        config.ssl_mode(address.tls).application_name("portico");
        config.keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE);
        config.keepalives_retries(2).tcp_user_timeout(4 * KEEPALIVE);
        if !address.pooler {
            let own = config.get_options().map(|own| format!("{SETTINGS} {own}"));
            config.options(own.as_deref().unwrap_or(SETTINGS));
        }
        Ok(Self { config, tls: Tls::new(&address)?, pooler: address.pooler })
    }

    /// Makes a connection, whose socket is served by a task.
    pub(super) async fn connect(&self) -> Result<PgConnection, StoreError> {
        let (client, connection) = self.open().await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "A connection to PostgreSQL ended");
            }
        });
        Ok(PgConnection::new(client, driver.abort_handle(), self.tls.clone(), !self.pooler))
    }

    /// Makes a connection whose socket is still to be served.
    pub(super) async fn open(&self) -> Result<Opened, StoreError> {
        let connecting = timeout(ACQUIRE_MAX, self.config.connect(self.tls.clone()));
        let connected =
            connecting.await.map_err(|_| StoreError::unavailable("PostgreSQL does not answer"))?;
        Ok(connected?)
    }
}

impl PgPool {
    pub(crate) async fn open(url: &str) -> Result<Self, StoreError> {
        let connector = Arc::new(Connector::new(url)?);
        // Whoever starts learns at once why it cannot be reached.
        let first = connector.connect().await?;
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX as usize));
        Ok(Self { connector, idle: Arc::new(Mutex::new(vec![first])), permits })
    }

    pub(super) async fn acquire(&self) -> Result<Pooled, StoreError> {
        let acquiring = timeout(ACQUIRE_MAX, self.permits.clone().acquire_owned());
        let permit =
            acquiring.await.map_err(|_| StoreError::unavailable("every connection to PostgreSQL is busy"))?;
        let permit = permit.map_err(|_| StoreError::unavailable("the database is closed"))?;
        let connection = match self.take_idle() {
            Some(connection) => connection,
            None => self.connector.connect().await?,
        };
        Ok(Pooled { connection, idle: self.idle.clone(), _permit: permit })
    }

    fn take_idle(&self) -> Option<PgConnection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that the server closed are dropped on the way.
        std::iter::from_fn(|| idle.pop()).find(|connection| !connection.is_closed())
    }

    pub(super) fn connector(&self) -> &Arc<Connector> {
        &self.connector
    }

    /// Waits for what is under way, and closes all connections.
    pub(crate) async fn close(&self) {
        // Held until nobody is given one any more. It fails when it was closed before.
        let _all = self.permits.acquire_many(CONNECTIONS_MAX).await;
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Pooled {
    pub(super) fn give_back(self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(self.connection);
    }
}

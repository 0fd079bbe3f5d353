//! What every call needs, held once.

use std::sync::Arc;
use std::time::Duration;

use portico_egress::Egress;
use portico_kernel::{Clock, Entropy, Plans};
use portico_store::{Db, Keyring};

use crate::ports::{Memberships, Outbox, Streams};
use crate::{Registry, Spec};

/// The database, the clock, the source of randomness, the keyring, and who belongs where.
pub struct Engine {
    /// The database.
    pub db: Db,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Gives randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Seals and opens.
    pub keyring: Keyring,
    /// Who belongs to which account.
    pub memberships: Arc<dyn Memberships>,
    /// Where deliveries of events are made.
    pub outbox: Arc<dyn Outbox>,
    /// Who listens to events.
    pub streams: Arc<dyn Streams>,
    /// What accounts may spend.
    pub plans: Plans,
    /// Every operation, event and job there is.
    pub registry: Registry,
    /// Calls the outside. An operation asks for it by [`Ctx::egress`](crate::Ctx::egress).
    pub egress: Arc<Egress>,
    /// The longest that an operation may run; [`OPERATION_TIME_MAX`](crate::OPERATION_TIME_MAX) but in tests.
    pub operation_time_max: Duration,
}

impl Engine {
    /// The longest that this operation may run.
    pub(crate) fn time_limit(&self, spec: &Spec) -> Duration {
        spec.time_limit.unwrap_or(self.operation_time_max)
    }
}

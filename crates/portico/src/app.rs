//! Wires the areas to each other.

use std::fmt;
use std::fs::{DirBuilder, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use portico_accounts::{Accounts, AccountsPorts, FreeTeamsPerPerson, Members};
use portico_blobs::Blobs;
use portico_connections::{Connections as Providers, ConnectionsPorts, ConnectionsSettings};
use portico_dns::Dns;
use portico_domains::Domains;
use portico_egress::{Egress, Networks, TrustedRoots};
use portico_engine::clock::SystemClock;
use portico_engine::{Area, Catalog, Engine, OPERATION_TIME_MAX, Registry, RegistryError, blobs_area};
use portico_events::Events;
use portico_gateway::forward::ServiceList;
use portico_gateway::{ConnectionLimits, ConnectionSettings, Connections, Gateway, Platform, Tokens};
use portico_identity::{Identity, People, RefreshTokenDays, Setup};
use portico_kernel::{Brand, Clock, Entropy, Plans, Problem, SystemEntropy};
use portico_mail::{Mail, MailError, Smtp};
use portico_metering::{Metering, MeteringPorts};
use portico_services::table::ServiceTables;
use portico_services::{Services, ServicesPorts};
use portico_store::{Db, Keyring};
use portico_webhooks::Webhooks;

use crate::config::Config;
use crate::services::{self, LoadedService, RunningServices, ServiceParts};
use crate::{BlobSettings, DnsSettings, OpenError, ProviderSettings, planned};

/// The areas, wired to each other.
pub struct Areas {
    /// The identity provider.
    pub identity: Arc<Identity>,
    /// The accounts.
    pub accounts: Arc<Accounts>,
    /// The outbox.
    pub mail: Arc<Mail>,
    /// Units, limits and usage.
    pub metering: Arc<Metering>,
    /// Deliveries of events, and the test inbox.
    pub webhooks: Arc<Webhooks>,
    /// What accounts have proven to control.
    pub domains: Arc<Domains>,
    /// Connections to outside providers.
    pub providers: Arc<Providers>,
    /// Streams of events.
    pub events: Arc<Events>,
    /// The connections that carry them.
    pub connections: Arc<Connections>,
    /// The services behind the gateway.
    pub services: Arc<Services>,
    /// Those of them that can be called.
    pub service_list: Arc<ServiceList>,
    /// Turns tokens into callers.
    pub tokens: Arc<Tokens>,
}

/// What the areas are told of the environment.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// The API's address.
    pub base_url: String,
    /// The identity provider's address.
    pub auth_url: String,
    /// The console's address.
    pub console_url: String,
    /// The proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Networks,
    /// How many connections there may be.
    pub connections: ConnectionSettings,
    /// How long what a person let an app do lasts.
    pub refresh_token_days: RefreshTokenDays,
    /// How many teams on the first plan one person may own.
    pub free_teams_per_person: FreeTeamsPerPerson,
    /// Networks that outgoing calls may reach beside the public ones.
    pub egress_allow: Networks,
    /// Certificates that outgoing calls trust beside the public ones.
    pub egress_roots: TrustedRoots,
    /// The name servers for outgoing calls; none means those of the system.
    pub egress_name_servers: Vec<SocketAddr>,
    /// Whom to ask for the records of domains.
    pub dns: DnsSettings,
    /// What the operator says of connections to outside providers.
    pub providers: ProviderSettings,
    /// The server that sends mail, if there is one.
    pub smtp: Option<Smtp>,
    /// The folder of the journal of calls.
    pub journal: PathBuf,
    /// Where blobs are kept.
    pub blobs: BlobSettings,
    /// What pages and mails are called, and how they look.
    pub brand: Brand,
}

impl Environment {
    /// A client for outgoing calls.
    pub(crate) fn egress(&self) -> Egress {
        let (allow, roots) = (self.egress_allow.clone(), &self.egress_roots);
        if self.egress_name_servers.is_empty() {
            Egress::new(allow, roots)
        } else {
            Egress::with_name_servers(allow, roots, &self.egress_name_servers)
        }
    }

    /// Asks for the records of domains.
    pub(crate) fn resolvers(&self) -> Dns {
        Dns::new(self.dns.0.clone(), self.egress_allow.clone())
    }
}

/// The platform, wired and ready to serve or to be administered.
pub struct App {
    /// What every call needs.
    pub engine: Arc<Engine>,
    /// The identity provider.
    pub identity: Arc<Identity>,
    /// The accounts.
    pub accounts: Arc<Accounts>,
    /// Units, limits and usage.
    pub metering: Arc<Metering>,
    /// Deliveries of events, and the test inbox.
    pub webhooks: Arc<Webhooks>,
    /// What accounts have proven to control.
    pub domains: Arc<Domains>,
    /// Connections to outside providers.
    pub providers: Arc<Providers>,
    /// The connections that carry streams of events.
    pub connections: Arc<Connections>,
    /// The services behind the gateway.
    pub services: Arc<Services>,
    /// Those of them that can be called.
    pub service_list: Arc<ServiceList>,
    /// Turns tokens into callers.
    pub tokens: Arc<Tokens>,
    environment: Environment,
}

/// What [`App::build`] is made of.
pub struct AppParts {
    /// The database, migrated.
    pub db: Db,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Gives randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Seals and opens.
    pub keyring: Keyring,
    /// What accounts may spend.
    pub plans: Plans,
    /// The environment.
    pub environment: Environment,
    /// The longest that an operation may run.
    pub operation_time_max: Duration,
}

/// Makes the data folder, for its owner only: the keyring and the database are in it.
pub(crate) fn make_folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Lets nobody but the owner read the database, also where the folder was there before; SQLite gives its other files
/// the same rights.
fn keep_to_owner(database: &Path) -> std::io::Result<()> {
    for end in ["", "-wal", "-shm"] {
        let mut name = database.as_os_str().to_owned();
        name.push(end);
        if Path::new(&name).exists() {
            std::fs::set_permissions(&name, Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

impl Areas {
    /// Wires the areas; `shared` says that other servers may use the same database.
    pub fn new(environment: &Environment, shared: bool) -> Result<Self, MailError> {
        let mail = Mail::new(environment.smtp.clone(), environment.brand.clone())?;
        let webhooks = Webhooks::new(environment.egress(), &environment.base_url);
        let tables = Arc::new(ServiceTables::default());
        let ports = MeteringPorts { directory: Arc::new(People), services: tables.clone() };
        let metering = Arc::new(Metering::new(&environment.journal, shared, ports));
        let ports = AccountsPorts {
            directory: Arc::new(People),
            mailer: mail.clone(),
            credentials: Arc::new(People),
            endpoints: webhooks.clone(),
            units: metering.clone(),
            services: tables.clone(),
        };
        let accounts =
            Arc::new(Accounts::new(ports, &environment.auth_url, environment.free_teams_per_person));
        let identity = Arc::new(Identity::new(Setup {
            issuer: environment.auth_url.clone(),
            base_url: environment.base_url.clone(),
            console_url: environment.console_url.clone(),
            trusted_proxies: environment.trusted_proxies.clone(),
            refresh_token_days: environment.refresh_token_days,
            egress: environment.egress(),
            enrolment: accounts.clone(),
            mailer: mail.clone(),
            brand: environment.brand.clone(),
            services: tables.clone(),
        }));
        let tokens = Arc::new(Tokens::new(identity.clone(), metering.clone()));
        let (directory, units, verifier) = (Arc::new(People), metering.clone(), tokens.clone());
        let services = Arc::new(Services::new(tables, ServicesPorts { directory, units, verifier }));
        let domains = Domains::new(environment.resolvers());
        let console_url = environment.console_url.clone();
        let settings = ConnectionsSettings { console_url, ..environment.providers.used.clone() };
        let ports = ConnectionsPorts { directory: Arc::new(People), domains: domains.clone() };
        let providers = Providers::new(settings, ports);
        let events = Events::new(shared);
        let connections = Connections::new(
            identity.clone(),
            events.clone(),
            ConnectionLimits::new(environment.connections.clone()),
            shared,
        );
        let service_list = Arc::default();
        Ok(Self {
            identity,
            accounts,
            mail,
            metering,
            webhooks,
            domains,
            providers,
            events,
            connections,
            services,
            service_list,
            tokens,
        })
    }

    /// Every area of the platform; `more` are those that only tests have.
    pub fn registry(&self, base_url: &str, more: Vec<Area>) -> Result<Registry, RegistryError> {
        // In this order an account is erased: who belongs to it goes before who there is. In this order also the
        // documents list the scopes, which the hash of a cut depends on.
        let areas = [
            portico_accounts::area(&self.accounts),
            portico_identity::area(&self.identity),
            portico_metering::area(&self.metering),
            planned::radar(),
            portico_events::area(&self.events),
            portico_mail::area(&self.mail),
            portico_webhooks::area(&self.webhooks),
            portico_domains::area(&self.domains),
            planned::trail(),
            portico_connections::area(&self.providers),
            portico_gateway::area(
                &Arc::new(Platform::new(base_url, self.service_list.clone())),
                &self.connections,
            ),
            planned::extensions(),
            planned::decisions(),
            planned::narration(),
            portico_services::area(&self.services),
        ];
        Registry::new(areas.into_iter().chain(more))
    }
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
        if let Some(file) = db.file() {
            keep_to_owner(file)?;
        }
        let keyring = Keyring::open_for(&db, &config.keyring_file, entropy.as_ref()).await?;
        let (environment, plans) = (config.environment.clone(), config.plans.clone());
        let operation_time_max = OPERATION_TIME_MAX;
        Self::build(AppParts { db, clock, entropy, keyring, plans, environment, operation_time_max }, more)
            .await
    }

    /// Wires the platform on `parts`.
    pub async fn build(parts: AppParts, more: Vec<Area>) -> Result<Self, OpenError> {
        let roots = &parts.environment.egress_roots;
        let store = parts.environment.blobs.store(roots, &parts.clock).map_err(Problem::from)?;
        let (clock, entropy) = (parts.clock.clone(), parts.entropy.clone());
        let blobs = Arc::new(Blobs::new(store, parts.keyring.clone(), clock, entropy));
        let areas = Areas::new(&parts.environment, parts.db.file().is_none())?;
        let more = more.into_iter().chain([blobs_area(&blobs)]).collect();
        let registry = areas.registry(&parts.environment.base_url, more)?;
        let Areas { identity, accounts, metering, webhooks, events, connections, .. } = areas;
        let Areas { domains, providers, services, service_list, tokens, .. } = areas;
        let engine = Arc::new(Engine {
            db: parts.db,
            clock: parts.clock,
            entropy: parts.entropy,
            keyring: parts.keyring,
            memberships: Arc::new(Members),
            outbox: webhooks.clone(),
            streams: events.hub.clone(),
            plans: parts.plans,
            registry,
            operation_time_max: parts.operation_time_max,
            blobs,
            egress: Arc::new(parts.environment.egress()),
        });
        identity.keys.load(&engine).await?;
        identity.revocations.refresh(&engine).await?;
        let environment = parts.environment;
        Ok(Self {
            engine,
            identity,
            accounts,
            metering,
            webhooks,
            domains,
            providers,
            connections,
            services,
            service_list,
            tokens,
            environment,
        })
    }

    /// From now on their scopes, operations and event types have names, for commands that call no service.
    pub fn name_services(&self, loaded: &[LoadedService]) -> Result<(), Vec<String>> {
        let (_, catalog) = self.catalog_of(loaded)?;
        self.engine.registry.set_catalog(Arc::new(catalog));
        self.services.replace(services::table(loaded));
        Ok(())
    }

    fn catalog_of(&self, loaded: &[LoadedService]) -> Result<(RunningServices, Catalog), Vec<String>> {
        let parts = ServiceParts {
            environment: &self.environment,
            identity: &self.identity,
            metering: &self.metering,
            services: &self.service_list,
        };
        let running = RunningServices::new(loaded, &parts)?;
        let catalog = services::fits(&self.engine.registry, loaded, &running)?;
        Ok((running, catalog))
    }

    /// From now on these are the company's own services, with everything that follows from them; or nothing changes, and
    /// the error says everything that is wrong. `gateway` is the one that answers already.
    pub async fn set_services(
        &self,
        loaded: &[LoadedService],
        gateway: Option<&Gateway>,
    ) -> Result<(), Vec<String>> {
        let failed = |error: &dyn fmt::Display| vec![error.to_string()];
        let (running, catalog) = self.catalog_of(loaded)?;
        let tables = Gateway::tables(&catalog).map_err(|error| failed(&error))?;
        let changed =
            services::changed_types(&self.engine.db, loaded).await.map_err(|error| failed(&error))?;
        if !changed.is_empty() {
            return Err(changed);
        }
        self.metering.add_operations(&catalog).map_err(|problem| failed(&problem))?;
        let now = self.engine.clock.now();
        services::keep(&self.engine.db, loaded, now).await.map_err(|error| failed(&error))?;
        self.engine.registry.set_catalog(Arc::new(catalog));
        self.services.replace(services::table(loaded));
        self.service_list.set(running.services);
        if let Some(gateway) = gateway {
            gateway.set_tables(tables);
        }
        Ok(())
    }
}

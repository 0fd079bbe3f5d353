//! `portico serve`: everything, until it is told to stop.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::net::Ipv6Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use portico_engine::{Area, release_stale_claims};
use portico_gateway::{ConnectionLimits, ConnectionSettings, Connections, Gateway, Handler, Tls, serve_mqtt};
use portico_kernel::Secret;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::services::{ReloadSocket, load};
use crate::settings::Settings;
use crate::tls_settings::is_strict;
use crate::{App, OpenError, Server, TlsFiles, file_limit};

/// How long the jobs and the database may take to end.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(5);

/// How many connections may read the metrics at once.
const METRICS_CONNECTIONS: usize = 64;

type Failure = Box<dyn Error + Send + Sync>;

/// Locks an SQLite database for this process, until the file is dropped.
fn lock(database: &Path) -> Result<File, Failure> {
    let path = database.with_extension("lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path)?;
    file.try_lock().map_err(|_| format!("another portico serves from {}", database.display()))?;
    Ok(file)
}

/// The listeners, bound before `ready` is printed.
struct Listeners(Vec<(&'static str, TcpListener, ListenerService)>);

/// What answers at a listener, and how many connections it may have.
#[derive(Clone)]
enum ListenerService {
    Http(Arc<dyn Handler>, Arc<ConnectionLimits>, Option<Tls>),
    Mqtt(Arc<Gateway>, Option<Tls>),
}

impl Listeners {
    async fn add(
        &mut self,
        name: &'static str,
        address: Option<&String>,
        service: ListenerService,
    ) -> Result<(), Failure> {
        let Some(address) = address else { return Ok(()) };
        let cannot = |error| format!("cannot listen on {address} for {name}: {error}");
        // A browser that is given this name may come to either, so both are ours; not every machine has the second.
        let families = address.strip_prefix("localhost:").map(|port| (format!("127.0.0.1:{port}"), port));
        let Some((first, _)) = families else {
            let listener = TcpListener::bind(address).await.map_err(cannot)?;
            self.0.push((name, listener, service));
            return Ok(());
        };
        let listener = TcpListener::bind(first).await.map_err(cannot)?;
        let port = listener.local_addr()?.port();
        self.0.push((name, listener, service.clone()));
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await {
            Ok(listener) => self.0.push((name, listener, service)),
            Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(cannot(error).into()),
            Err(error) => tracing::debug!(%error, name, "Not listening on the loopback address of IPv6"),
        }
        Ok(())
    }

    /// The first sign-up's link, for whoever started us. It is shown here and nowhere else: the log must not hold it.
    fn show_setup_link(link: &Secret<String>) {
        let mut out = std::io::stdout();
        // Whoever does not listen any more can start again to see another one.
        let _ = writeln!(out, "setup {}", link.expose()).and_then(|()| out.flush());
    }

    /// `ready api=… auth=…`, the line that whoever started us waits for.
    fn announce(&self) -> Result<(), Failure> {
        let mut line = String::from("ready");
        let mut named = None;
        for (name, listener, _) in &self.0 {
            // Of two families, the first.
            if named.replace(*name) != Some(*name) {
                write!(line, " {name}={}", listener.local_addr()?)?;
            }
        }
        let mut out = std::io::stdout();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }
}

/// Binds every listener that is configured.
async fn bind(server: &Server, config: &Config, connections: &Connections) -> Result<Listeners, Failure> {
    use ListenerService::{Http, Mqtt};
    let Server { gateway, auth, console, metrics, .. } = server;
    let (limits, certificates) = (&connections.limits, &connections.certificates);
    let proxies = &config.environment.trusted_proxies;
    let tls = |files: &Option<TlsFiles>, is_strict: bool| {
        let certificate = files.as_ref().map(|files| files.open(certificates)).transpose()?;
        certificate.map(|certificate| Tls::http(&certificate, proxies.clone(), is_strict)).transpose()
    };
    let http = |handler: Arc<dyn Handler>, files, is_strict| {
        Ok::<_, String>(Http(handler, limits.clone(), tls(files, is_strict)?))
    };
    let (auth_url, console_url) = (&config.environment.auth_url, &config.environment.console_url);
    let of_api = http(gateway.clone(), &config.tls.api, false)?;
    let of_auth = http(auth.clone(), &config.tls.auth, is_strict(auth_url))?;
    let of_console = http(console.clone(), &config.tls.console, is_strict(console_url))?;
    let mut listeners = Listeners(Vec::new());
    listeners.add("api", config.listen_api.as_ref(), of_api).await?;
    listeners.add("auth", config.listen_auth.as_ref(), of_auth).await?;
    listeners.add("console", config.listen_console.as_ref(), of_console).await?;
    listeners.add("mqtt", config.listen_mqtt.as_ref(), Mqtt(gateway.clone(), None)).await?;
    if let (Some(listen), Some(files)) = (&config.listen_mqtts, &config.tls.mqtt) {
        let tls = Tls::mqtt(&files.open(certificates)?, proxies.clone())?;
        listeners.add("mqtts", Some(listen), Mqtt(gateway.clone(), Some(tls))).await?;
    }
    // On their own, so that they can be read whatever happens at the others.
    let of_metrics = ConnectionLimits::new(ConnectionSettings {
        total: METRICS_CONNECTIONS,
        per_network: METRICS_CONNECTIONS,
        ..ConnectionSettings::default()
    });
    listeners.add("metrics", config.listen_metrics.as_ref(), Http(metrics.clone(), of_metrics, None)).await?;
    Ok(listeners)
}

/// Reads the services anew whenever SIGHUP comes or somebody asks; returns only when nobody can ask any more.
async fn reload_services(
    app: &App,
    gateway: &Gateway,
    settings: &Settings,
    socket: &ReloadSocket,
    mut hangup: Signal,
) -> std::io::Error {
    loop {
        let asking = tokio::select! {
            _ = hangup.recv() => None,
            asking = socket.next() => match asking {
                Ok(asking) => Some(asking),
                Err(error) => return error,
            },
        };
        let result = reload(app, gateway, settings).await;
        match &result {
            Ok(()) => tracing::info!("Read the services anew"),
            Err(findings) => {
                for finding in findings {
                    tracing::error!(finding, "Kept the services as they were");
                }
            }
        }
        if let Some(asking) = asking {
            ReloadSocket::answer(asking, &result).await;
        }
    }
}

async fn reload(app: &App, gateway: &Gateway, settings: &Settings) -> Result<(), Vec<String>> {
    let config = Config::load(settings.clone()).map_err(|error| vec![error.to_string()])?;
    app.set_services(&load(&config).await?, Some(gateway)).await
}

/// Serves until SIGTERM or SIGINT; then waits for the calls that are running.
pub async fn serve(config: &Config, settings: &Settings, more: Vec<Area>) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let hangup = signal(SignalKind::hangup())?;
    let mut config = config.clone();
    let has_services = !config.services.is_empty();
    let connections = file_limit::within(&config.environment.connections, file_limit::raise(), has_services);
    config.environment.connections = connections;
    let config = &config;
    let loaded = load(config).await.map_err(|findings| findings.join("\n"))?;
    let app = App::open(config, more).await?;
    app.set_services(&loaded, None).await.map_err(|findings| findings.join("\n"))?;
    let lock_file = match app.engine.db.file() {
        None => None,
        Some(file) => {
            let lock_file = lock(file)?;
            let released = release_stale_claims(&app.engine).await?;
            tracing::debug!(released, "Released the idempotency claims of the previous server");
            Some(lock_file)
        }
    };
    app.accounts.check_plans(&app.engine).await.map_err(OpenError::Problem)?;
    app.metering.start(&app.engine).await.map_err(OpenError::Problem)?;
    let server = Server::new(&app, config.origins(), &config.console_settings())?;
    let listeners = bind(&server, config, &app.connections).await?;

    let reload = ReloadSocket::bind(config)?;
    let (stop, stopped) = watch::channel(false);
    let mut jobs = app.engine.registry.start_jobs(&app.engine, &stopped).await?;
    listeners.announce()?;
    if let Some(link) = app.identity.setup_link(&app.engine).await? {
        Listeners::show_setup_link(&link);
    }
    let mut servers = JoinSet::new();
    for (_, listener, service) in listeners.0 {
        let stopped = stopped.clone();
        match service {
            ListenerService::Http(handler, limits, tls) => {
                let engine = app.engine.clone();
                servers.spawn(portico_gateway::serve(listener, handler, engine, tls, limits, stopped))
            }
            ListenerService::Mqtt(gateway, tls) => servers.spawn(serve_mqtt(listener, gateway, tls, stopped)),
        };
    }
    tokio::select! {
        _ = terminate.recv() => tracing::info!("Stopping: SIGTERM"),
        _ = interrupt.recv() => tracing::info!("Stopping: SIGINT"),
        error = reload_services(&app, &server.gateway, settings, &reload, hangup) => return Err(error.into()),
    }
    server.stopping.begin();
    stop.send_replace(true);
    let serving = async { while servers.join_next().await.is_some() {} };
    tokio::join!(app.connections.drain(&app.engine), serving);
    app.providers.close().await;
    let ending = async {
        while jobs.join_next().await.is_some() {}
        if let Err(problem) = app.identity.uses.flush(&app.engine).await {
            tracing::warn!(%problem, "Failed to write the last uses of keys and tokens");
        }
        if let Err(problem) = app.metering.stop(&app.engine).await {
            tracing::warn!(%problem, "Failed to count the last calls; the next start counts them from the journal");
        }
        app.engine.db.close().await;
    };
    if tokio::time::timeout(CLOSE_TIME_MAX, ending).await.is_err() {
        tracing::warn!("Jobs or the database did not stop in time");
    }
    drop(lock_file);
    tracing::info!("Stopped");
    Ok(())
}

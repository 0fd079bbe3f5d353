//! `portico serve`: everything, until it is told to stop.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use portico_engine::forget_running;
use portico_gateway::{AuthServer, Gateway, Handler, Metrics, MetricsServer, Origins};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::App;
use crate::config::Config;

type Failure = Box<dyn Error + Send + Sync>;

/// One server for each folder with a SQLite database; held as long as it serves.
fn lock(config: &Config) -> Result<File, Failure> {
    let path = config.data_dir.join("server.lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path)?;
    file.try_lock().map_err(|_| format!("another portico serves from {}", config.data_dir.display()))?;
    Ok(file)
}

/// The listeners, bound before anything is promised.
struct Listeners(Vec<(&'static str, TcpListener, Arc<dyn Handler>)>);

impl Listeners {
    async fn add(
        &mut self,
        name: &'static str,
        address: Option<&String>,
        handler: Arc<dyn Handler>,
    ) -> Result<(), Failure> {
        let Some(address) = address else { return Ok(()) };
        let bound = TcpListener::bind(address).await;
        let listener = bound.map_err(|error| format!("cannot listen on {address} for {name}: {error}"))?;
        self.0.push((name, listener, handler));
        Ok(())
    }

    /// `ready api=… auth=…`, the line that whoever started us waits for.
    fn announce(&self) -> Result<(), Failure> {
        let mut line = String::from("ready");
        for (name, listener, _) in &self.0 {
            write!(line, " {name}={}", listener.local_addr()?)?;
        }
        let mut out = std::io::stdout();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }
}

/// Serves until SIGTERM or SIGINT; then lets the calls under way end.
pub async fn serve(config: &Config) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let app = App::open(config).await?;
    let held = if app.engine.db.is_shared() {
        None
    } else {
        let held = lock(config)?;
        let left = forget_running(&app.engine).await?;
        tracing::debug!(left, "Let go of the calls that the server before left running");
        Some(held)
    };
    let metrics = Arc::new(Metrics::default());
    let origins: Origins = config.origins.iter().cloned().collect();
    let gateway = Arc::new(Gateway::new(app.engine.clone(), app.identity.clone(), origins, metrics.clone())?);
    let auth = Arc::new(AuthServer::new(app.engine.clone(), app.identity.clone()));
    let mut listeners = Listeners(Vec::new());
    listeners.add("api", config.listen_api.as_ref(), gateway.clone()).await?;
    listeners.add("auth", config.listen_auth.as_ref(), auth).await?;
    listeners.add("metrics", config.listen_metrics.as_ref(), Arc::new(MetricsServer(metrics))).await?;

    let (stop, stopped) = watch::channel(false);
    let mut jobs = app.engine.registry.start_jobs(&app.engine, &stopped);
    listeners.announce()?;
    let mut servers = JoinSet::new();
    for (_, listener, handler) in listeners.0 {
        servers.spawn(portico_gateway::serve(listener, handler, app.engine.clone(), stopped.clone()));
    }
    tokio::select! {
        _ = terminate.recv() => tracing::info!("Stopping: SIGTERM"),
        _ = interrupt.recv() => tracing::info!("Stopping: SIGINT"),
    }
    gateway.stop();
    stop.send_replace(true);
    while servers.join_next().await.is_some() {}
    while jobs.join_next().await.is_some() {}
    app.engine.db.close().await;
    drop(held);
    tracing::info!("Stopped");
    Ok(())
}

//! What answers at the listeners of one process.

use std::sync::Arc;

use portico_gateway::{
    AuthServer, ConsoleFile, ConsoleServer, ConsoleSettings, Gateway, Metrics, MetricsServer, Origins,
    RouteError, Stopping,
};

use crate::App;

/// The files of the console; none where it was not built before this binary was (`build.rs`).
static CONSOLE: &[ConsoleFile] = &include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// The servers behind the listeners, wired for `serve` and for tests alike. They share one set of counters, and begin to
/// refuse together when the process stops.
pub struct Server {
    /// Answers the API, and MQTT.
    pub gateway: Arc<Gateway>,
    /// Answers at the identity provider's address.
    pub auth: Arc<AuthServer>,
    /// Answers at the console's address.
    pub console: Arc<ConsoleServer>,
    /// Answers Prometheus.
    pub metrics: Arc<MetricsServer>,
    /// Tells the gateway and the identity provider that the process stops.
    pub stopping: Stopping,
}

impl Server {
    /// The servers of `app`; pages of `origins` may call the API, and the console with `settings`.
    pub fn new(app: &App, origins: Origins, settings: &ConsoleSettings) -> Result<Self, RouteError> {
        let (metrics, stopping) = (Arc::new(Metrics::new(&app.engine)), Stopping::default());
        let gateway = Gateway::new(
            app.engine.clone(),
            app.tokens.clone(),
            app.connections.clone(),
            origins,
            metrics.clone(),
            stopping.clone(),
        )?;
        let auth = AuthServer::new(app.engine.clone(), app.identity.clone(), stopping.clone());
        let console = ConsoleServer::new(app.engine.clone(), CONSOLE, settings);
        let metrics = MetricsServer::new(app.engine.clone(), metrics);
        let (gateway, auth, metrics) = (Arc::new(gateway), Arc::new(auth), Arc::new(metrics));
        Ok(Self { gateway, auth, console: Arc::new(console), metrics, stopping })
    }
}

//! Connections: sealed links of an account to providers, grants to them, their actions and tools.
//!
//! What a provider is stands in the manifest of its connector (`portico-connectors`); an account's own service is a kind
//! of its own (`provider.rs`). A connection has one credential, sealed in a row of its own. A person grants it to a key,
//! an API token or an app (`grants.rs`), which then calls its actions by REST or as a tool (`actions.rs`, `tools.rs`,
//! `offer.rs`). Everything that leaves goes through `calls/`, which puts each use on record.
//!
//! Absent on purpose: any way to read a credential; parameters, addresses and what providers say, in the history and in
//! any log line.
//!
//! Start reading at `calls/mod.rs`, then `actions.rs`.
//!
//! Invariants: a credential is opened for its own connection only. Nothing is sent that is not granted at that moment,
//! and nothing is answered before its use is on record. No transaction is open during a call.

mod actions;
mod calls;
mod clients;
mod connections;
mod events;
mod grants;
mod history;
mod hosts;
mod jobs;
mod kinds;
pub mod limits;
mod metrics;
mod model;
mod offer;
mod provider;
mod records;
mod refusals;
mod sign_in;
mod sql;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use portico_engine::Area;
use portico_engine::ports::{Directory, Domains};

pub use hosts::ChosenHosts;
pub use metrics::Metrics;
pub use portico_connectors::{Client as OAuthClient, Overrides};

use calls::Calls;
use offer::{ConnectionTools, ToolChanges};

/// What the configuration says of connections.
#[derive(Debug, Clone, Default)]
pub struct ConnectionsSettings {
    /// The address of the console, whose page brings people back from a sign-in.
    pub console_url: String,
    /// What stands in the place of providers.
    pub base_urls: Overrides,
    /// The operator's OAuth clients, by connector.
    pub oauth_clients: BTreeMap<String, OAuthClient>,
    /// Hosts beside those of verified domains that accounts may choose.
    pub hosts: ChosenHosts,
}

/// Is there a built-in connector of that name?
pub fn is_connector(name: &str) -> bool {
    portico_connectors::builtin(name).is_some()
}

/// Do people sign in at the connector of that name?
pub fn has_sign_in(connector: &str) -> bool {
    portico_connectors::builtin(connector).is_some_and(|manifest| manifest.oauth().is_some())
}

/// What the area needs of others.
pub struct ConnectionsPorts {
    /// Who there is.
    pub directory: Arc<dyn Directory>,
    /// Which hosts an account has proven to be its own.
    pub domains: Arc<dyn Domains>,
}

/// What the area holds.
pub struct Connections {
    directory: Arc<dyn Directory>,
    console_url: String,
    calls: Arc<Calls>,
    changes: Arc<ToolChanges>,
    /// What the area counts of itself.
    pub metrics: Arc<Metrics>,
}

impl Connections {
    /// The area's state.
    pub fn new(settings: ConnectionsSettings, ports: ConnectionsPorts) -> Arc<Self> {
        let metrics = Arc::new(Metrics::default());
        let console_url = settings.console_url.clone();
        Arc::new(Self {
            directory: ports.directory,
            console_url,
            calls: Arc::new(Calls::new(settings, ports.domains, metrics.clone())),
            changes: Arc::default(),
            metrics,
        })
    }

    /// Waits until no token is being refreshed any more, for some seconds at most: the provider may have ended the one before,
    /// and then the new one must be written. No other refresh begins. It is called before the database is closed.
    pub async fn close(&self) {
        let left = self.calls.close().await;
        if left > 0 {
            tracing::error!(left, "Tokens were still being refreshed at the stop; they may be lost");
        }
    }

    /// Where providers send people back to.
    fn redirect_uri(&self) -> String {
        format!("{}/connections/callback", self.console_url)
    }
}

/// The area's operations, events, jobs and tools.
pub fn area(connections: &Arc<Connections>) -> Area {
    Area::builder("connections", connections.clone())
        .scope("connections:read", "Read connection kinds, connections, grants, history and tools.")
        .scope("connections:write", "Add, change, pause, test and delete connections; revoke a grant.")
        .scope("connections:use", "Call a connection action that a grant gives the token.")
        .op::<kinds::ListKinds>()
        .op::<connections::create::CreateConnection>()
        .op::<connections::ListConnections>()
        .op::<connections::GetConnection>()
        .op::<connections::update::UpdateConnection>()
        .op::<connections::test::TestConnection>()
        .op::<connections::delete::DeleteConnection>()
        .op::<actions::CallAction>()
        .op::<tools::ListTools>()
        .op::<tools::CallTool>()
        .op::<history::ListUses>()
        .op::<sign_in::connect::Connect>()
        .op::<sign_in::GetSignIn>()
        .op::<sign_in::complete::CompleteSignIn>()
        .op::<clients::ListConnectors>()
        .op::<clients::GetConnector>()
        .op::<clients::SetClient>()
        .op::<clients::RemoveClient>()
        .op::<grants::ListGrants>()
        .op::<grants::CreateGrant>()
        .op::<grants::RevokeGrant>()
        .event::<events::ConnectionCreated>()
        .event::<events::ConnectionDeleted>()
        .event::<events::ConnectionNeedsReconnect>()
        .event::<events::GrantCreated>()
        .event::<events::GrantRevoked>()
        .job(jobs::PruneUses)
        .job(jobs::PruneSignIns)
        .job(jobs::EndGrants::new(connections))
        .job(jobs::RefreshIdle::new(connections))
        .job(jobs::SpreadChanges(connections.clone()))
        .metrics({
            let metrics = connections.metrics.clone();
            move || metrics.shown()
        })
        .tool_subjects(&["connections to outside providers"])
        .offers(Arc::new(ConnectionTools(connections.clone())))
        .probe(sql::PROBE)
        .erases(&sql::ERASE)
        .seals(&calls::SEALED)
        .build()
}

//! Everything that leaves for a provider: calls of actions, tests, and requests for tokens.
//!
//! A call runs in a task of its own, so that its use is on record however it ends, also when whoever asked has gone
//! (`action.rs`). It is refused in one order (`Refusal`), takes one of few slots of its connection (`gate.rs`), opens the
//! credential (`credential.rs`), refreshes it if it must (`refresh.rs`, `tokens.rs`), and sends the request through the
//! engine's egress, if its host may be called (`send.rs`). What comes of it is a row (`record.rs`), written before the
//! answer leaves.
//!
//! Invariant: no transaction is open while anything is sent.

mod action;
mod credential;
mod gate;
mod outcome;
mod record;
mod refresh;
mod send;
mod test;
mod tokens;
mod tracker;

use std::collections::BTreeMap;
use std::sync::Arc;

use portico_connectors::{Client, Destination, Manifest, Mode, Overrides};
use portico_engine::Engine;
use portico_engine::ports::Domains;
use portico_kernel::{AccountId, Problem};
use portico_store::{Select, StoreError};

pub(crate) use action::{ActionAnswer, ActionCall};
pub(crate) use credential::{Opened, SEALED, open_verifier, seal_client, seal_verifier};
pub(crate) use outcome::CallError;
pub(crate) use refresh::AccessError;
pub(crate) use test::Trial;
pub(crate) use tokens::{Code, TokenError};

use crate::hosts::ChosenHosts;
use crate::metrics::Metrics;
use crate::sql;
use gate::Gates;
use record::RecentUses;
use refresh::Flights;

/// What sends requests to providers.
pub(crate) struct Calls {
    /// What the operator put in the place of providers.
    pub(crate) overrides: Overrides,
    /// The operator's OAuth clients, by connector.
    clients: BTreeMap<String, Client>,
    /// Hosts beside those of verified domains that accounts may choose.
    hosts: ChosenHosts,
    domains: Arc<dyn Domains>,
    gates: Gates,
    flights: Flights,
    recent: RecentUses,
    pub(crate) metrics: Arc<Metrics>,
}

impl Calls {
    pub(crate) fn new(
        settings: crate::ConnectionsSettings,
        domains: Arc<dyn Domains>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            overrides: settings.base_urls,
            clients: settings.oauth_clients,
            hosts: settings.hosts,
            domains,
            gates: Gates::default(),
            flights: Flights::default(),
            recent: RecentUses::default(),
            metrics,
        }
    }

    /// Waits for the tokens that are being refreshed: the provider may have ended the ones before. From now on none is
    /// refreshed. Returns how many did not arrive in time.
    pub(crate) async fn close(&self) -> usize {
        self.flights.close().await
    }

    /// May the account choose that host?
    pub(crate) async fn may_choose(
        &self,
        engine: &Engine,
        account: AccountId,
        host: &str,
    ) -> Result<bool, StoreError> {
        Ok(self.hosts.contain(host) || self.domains.covers(engine, account, host).await?)
    }

    /// The OAuth client for a connector that is configured so: the account's own, or the operator's. The operator's secret
    /// goes to hosts of the manifest alone, and to what the operator put in their place; never to one that the account chose.
    pub(crate) async fn client(
        &self,
        engine: &Engine,
        from: &mut impl Select,
        account: AccountId,
        manifest: &Manifest,
        config: &BTreeMap<String, String>,
    ) -> Result<Option<Client>, Problem> {
        if let Some(row) = sql::client(from, account, manifest.id()).await? {
            return credential::open_client(engine, account, &row).map(Some);
        }
        let is_known = self.overrides.get(manifest.id()).is_some()
            || manifest
                .destinations(Mode::OAuth2, config)
                .is_ok_and(|all| all.iter().all(|(_, by)| *by == Destination::Listed));
        Ok(self.operator_client(manifest.id()).filter(|_| is_known))
    }

    /// The operator's OAuth client for a connector.
    pub(crate) fn operator_client(&self, connector: &str) -> Option<Client> {
        self.clients.get(connector).cloned()
    }
}

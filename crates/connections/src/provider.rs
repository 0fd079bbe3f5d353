//! What can be connected: a connector, or the account's own service.

use std::collections::BTreeMap;

use portico_connectors::endpoint::Endpoint;
use portico_connectors::{
    Action, ActionSpec, Answer, Executor, Failure, Fault, HttpRequest, Kind, Manifest, Mode, Reading,
    Scrubber, TestFailure, TestReading, Values, builtin, builtins, endpoint,
};
use serde_json::{Map, Value};

use crate::calls::Opened;

/// The kind of an account's own service.
pub(crate) const ENDPOINT: &str = "endpoint";
/// The field of an endpoint's credential.
pub(crate) const SECRET: &str = "secret";

/// What a connection leads to.
#[derive(Clone, Copy)]
pub(crate) enum Provider {
    /// A provider that a manifest describes.
    Connector(&'static Manifest),
    /// The account's own service.
    Endpoint,
}

/// An action of a provider.
#[derive(Clone, Copy)]
pub(crate) enum ProviderAction {
    Connector(Action<'static>),
    Endpoint(&'static ActionSpec),
}

/// Every kind, by name.
pub(crate) fn kinds() -> Vec<Kind> {
    let connectors = builtins().iter().map(Manifest::kind);
    let mut kinds: Vec<_> = connectors.chain([endpoint::kind()]).collect();
    kinds.sort_by(|one, other| one.name.cmp(&other.name));
    kinds
}

impl Provider {
    /// What that kind of connection leads to.
    pub(crate) fn of(kind: &str) -> Option<Self> {
        if kind == ENDPOINT { Some(Self::Endpoint) } else { builtin(kind).map(Self::Connector) }
    }

    /// Its name, for metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connector(manifest) => manifest.id(),
            Self::Endpoint => ENDPOINT,
        }
    }

    /// Its actions.
    pub(crate) fn actions(self) -> Vec<ProviderAction> {
        match self {
            Self::Connector(manifest) => manifest.actions().map(ProviderAction::Connector).collect(),
            Self::Endpoint => endpoint::actions().iter().map(ProviderAction::Endpoint).collect(),
        }
    }

    /// Its action of that name.
    pub(crate) fn action(self, name: &str) -> Option<ProviderAction> {
        match self {
            Self::Connector(manifest) => manifest.action(name).map(ProviderAction::Connector),
            Self::Endpoint => {
                let action = endpoint::actions().iter().find(|action| action.name == name);
                action.map(ProviderAction::Endpoint)
            }
        }
    }

    /// What takes the credential out of answers.
    pub(crate) fn scrubber(self, opened: &Opened) -> Scrubber {
        match (self, opened.mode) {
            (Self::Connector(manifest), Some(mode)) => manifest.scrubber(mode, &opened.values),
            _ => opened.values.get(SECRET).map(endpoint::scrubber).unwrap_or_default(),
        }
    }

    /// The request of the test.
    pub(crate) fn test_request(self, target: &Target<'_>) -> Result<HttpRequest, Fault> {
        match self.values(target) {
            Some((manifest, values)) => manifest.test_request(&values),
            None => own_service(target.config)?.test_request(target.opened.values.get(SECRET)),
        }
    }

    /// What the answer to the test says.
    pub(crate) fn read_test(
        self,
        target: &Target<'_>,
        answer: &Answer<'_>,
        scrubber: &Scrubber,
    ) -> Result<TestReading, TestFailure> {
        match self.values(target) {
            Some((manifest, values)) => manifest.read_test(&values, answer, scrubber),
            None => read_endpoint_test(target.config, answer, scrubber),
        }
    }

    fn values<'t>(self, target: &'t Target<'_>) -> Option<(&'static Manifest, Values<'t>)> {
        let (Self::Connector(manifest), Some(mode)) = (self, target.opened.mode) else { return None };
        let Target { config, opened, base_url, .. } = target;
        Some((manifest, Values { mode, config, auth: &opened.values, base_url: *base_url }))
    }
}

/// Where a request goes, and with what.
pub(crate) struct Target<'a> {
    pub(crate) config: &'a BTreeMap<String, String>,
    pub(crate) opened: &'a Opened,
    pub(crate) base_url: Option<&'a portico_connectors::BaseUrl>,
}

impl ProviderAction {
    /// What is known of it but its request.
    pub(crate) fn spec(&self) -> &ActionSpec {
        match self {
            Self::Connector(action) => action,
            Self::Endpoint(action) => action,
        }
    }

    /// Its request.
    pub(crate) fn request(
        &self,
        provider: Provider,
        target: &Target<'_>,
        params: &Map<String, Value>,
    ) -> Result<HttpRequest, Fault> {
        match (self, provider.values(target)) {
            (Self::Connector(action), Some((_, values))) => action.request(&values, params),
            (action, _) => {
                let secret = target.opened.values.get(SECRET);
                own_service(target.config)?.request(&action.spec().name, params, secret)
            }
        }
    }

    /// What its answer says.
    pub(crate) fn read(&self, answer: &Answer<'_>, scrubber: &Scrubber) -> Result<Reading, Failure> {
        match self {
            Self::Connector(action) => action.read(answer, scrubber),
            Self::Endpoint(_) => endpoint::read(answer, scrubber),
        }
    }
}

/// The account's own service as it was configured.
fn own_service(config: &BTreeMap<String, String>) -> Result<Endpoint, Fault> {
    let endpoint = Endpoint::new(config, Executor::Cloud);
    endpoint.map_err(|mut faults| {
        faults.pop().unwrap_or(Fault { path: String::new(), message: "does not fit".to_owned() })
    })
}

/// Any 2xx passes the test of an account's own service, which is called after its host.
fn read_endpoint_test(
    config: &BTreeMap<String, String>,
    answer: &Answer<'_>,
    scrubber: &Scrubber,
) -> Result<TestReading, TestFailure> {
    endpoint::read(answer, scrubber).map_err(TestFailure::Refused)?;
    let label = own_service(config).map(|endpoint| endpoint.host().to_owned()).unwrap_or_default();
    Ok(TestReading { label, external_id: String::new(), scopes: None, keep: Vec::new() })
}

/// How a connection of that mode proves who it is; `None` for an account's own service.
pub(crate) fn mode_of(auth_mode: &str) -> Option<Mode> {
    Mode::parse(auth_mode)
}

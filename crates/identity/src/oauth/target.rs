//! What a token is asked for: the audience and the scopes.

use portico_engine::Engine;
use portico_kernel::ScopeSet;
use url::Url;

use super::OAuthError;
use super::client::{Client, Origin};
use super::metadata::OFFLINE_ACCESS;
use crate::Identity;
use crate::claims::AUDIENCE;
use crate::http::Params;

/// All that an app may hold that the operator does not know: assistants' tools, and the connections they use.
pub(crate) const ASSISTANT_SCOPES: [&str; 4] = ["connections:use", "mcp:generate", "mcp:read", "mcp:write"];

pub(crate) fn assistant_scopes() -> ScopeSet {
    ASSISTANT_SCOPES.iter().collect()
}

impl Identity {
    /// The audience of assistants' tokens.
    pub(crate) fn mcp_audience(&self) -> String {
        format!("{}/mcp", self.base_url)
    }

    /// The audience that the request names, if it names one: `audience`, or `resource` (RFC 8707).
    pub(crate) fn named_audience(
        &self,
        engine: &Engine,
        params: &Params,
    ) -> Result<Option<String>, OAuthError> {
        let catalog = engine.registry.catalog();
        let services = catalog.audiences().iter().map(|audience| audience.name.clone());
        let known: Vec<_> = self.audiences().into_iter().chain(services).collect();
        let unknown = || OAuthError::new("invalid_target", "There is no such audience or resource.");
        let mut named = Vec::new();
        if let Some(audience) = params.get("audience") {
            named.push(known.iter().find(|known| *known == audience).cloned().ok_or_else(unknown)?);
        }
        for resource in params.all("resource") {
            named.push(self.of_resource(&known, resource).ok_or_else(unknown)?);
        }
        named.dedup();
        match named.len() {
            0 | 1 => Ok(named.pop()),
            _ => Err(OAuthError::new("invalid_target", "A token is for one audience.")),
        }
    }

    /// The audiences of the platform's own: the API, and the tools of assistants.
    pub fn audiences(&self) -> Vec<String> {
        vec![AUDIENCE.to_owned(), self.mcp_audience()]
    }

    /// The audience of a resource. Scheme and host may be in capitals, and a slash may end it.
    fn of_resource(&self, known: &[String], resource: &str) -> Option<String> {
        let url = Url::parse(resource).ok().filter(|url| url.fragment().is_none())?;
        let is = |known: &str| {
            let known = Url::parse(known).ok();
            known.is_some_and(|known| {
                known.as_str().trim_end_matches('/') == url.as_str().trim_end_matches('/')
            })
        };
        let named = known.iter().find(|audience| is(audience)).cloned();
        named.or_else(|| is(&self.base_url).then(|| AUDIENCE.to_owned()))
    }

    /// The audience for this client. Apps that the operator does not know are for assistants' tools alone.
    pub(crate) fn audience(
        &self,
        engine: &Engine,
        client: &Client,
        params: &Params,
    ) -> Result<String, OAuthError> {
        let mcp = self.mcp_audience();
        match (client.origin, self.named_audience(engine, params)?) {
            (Origin::Registered | Origin::Document, None) => Ok(mcp),
            (Origin::Registered | Origin::Document, Some(named)) if named != mcp => {
                let message = "An app that registered itself opens the MCP server alone; ask the operator to register it.";
                Err(OAuthError::new("invalid_target", message))
            }
            (Origin::Console, Some(named)) if named != AUDIENCE => {
                Err(OAuthError::new("invalid_target", "The console is for the API alone."))
            }
            (_, named) => Ok(named.unwrap_or_else(|| AUDIENCE.to_owned())),
        }
    }
}

/// Those of these scopes that a token for the audience may hold: for a service that checks tokens itself, its own alone.
pub(crate) fn scopes_for(engine: &Engine, audience: &str, scopes: &ScopeSet) -> ScopeSet {
    match engine.registry.catalog().audience(audience) {
        Some(service) => scopes.intersection(&service.scopes),
        None => scopes.clone(),
    }
}

/// The scopes for this client; none for the console, whose person is bound by role.
pub(crate) fn scopes(
    engine: &Engine,
    client: &Client,
    params: &Params,
    audience: &str,
) -> Result<Option<ScopeSet>, OAuthError> {
    if client.origin == Origin::Console {
        return Ok(None);
    }
    let names = params.text("scope").split(' ').filter(|name| !name.is_empty() && *name != OFFLINE_ACCESS);
    let asked: ScopeSet = names.collect();
    engine.registry.catalog().scopes().check(&asked).map_err(|_| unknown_scope())?;
    // The operator said what the app may ask for; anything else is a mistake of the app. An assistant asks for
    // whatever it finds listed, and is told what it gets.
    let held = scopes_for(engine, audience, &client.scopes);
    if client.origin == Origin::Operator && !asked.is_within(&held) {
        return Err(OAuthError::new("invalid_scope", "The app may not ask for all of these scopes."));
    }
    // What it named when it registered is what it gets unasked. It may find out later that it needs more: the person decides.
    let most = match client.origin {
        Origin::Registered | Origin::Document => scopes_for(engine, audience, &assistant_scopes()),
        Origin::Operator | Origin::Console => held.clone(),
    };
    let granted = if asked.is_empty() { held } else { asked.intersection(&most) };
    if granted.is_empty() {
        return Err(OAuthError::new("invalid_scope", "The app may not ask for any of these scopes."));
    }
    Ok(Some(granted))
}

pub(crate) fn unknown_scope() -> OAuthError {
    OAuthError::new("invalid_scope", "A scope that was asked for is not known.")
}

//! What the provider can do (RFC 8414).

use portico_engine::Engine;
use serde_json::{Value, json};

use crate::Identity;

/// Asks for refresh tokens. They are always given; the name is known because assistants ask for it.
pub(crate) const OFFLINE_ACCESS: &str = "offline_access";

impl Identity {
    /// The metadata document.
    pub(crate) fn metadata(&self, engine: &Engine) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer);
        let known = engine.registry.catalog().scopes().all();
        let scopes: Vec<_> = known.names().chain([OFFLINE_ACCESS]).collect();
        json!({
            "issuer": self.issuer,
            "authorization_endpoint": at("/oauth2/auth"),
            "token_endpoint": at("/oauth2/token"),
            "registration_endpoint": at("/oauth2/register"),
            "revocation_endpoint": at("/oauth2/revoke"),
            "introspection_endpoint": at("/oauth2/introspect"),
            "jwks_uri": at("/.well-known/jwks.json"),
            "scopes_supported": scopes,
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
            "revocation_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
            "introspection_endpoint_auth_methods_supported": ["client_secret_basic"],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": true,
        })
    }
}

//! Apps: a private key proves who they are, and gets tokens for an installation.

use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Method};
use portico_kernel::Timestamp;
use serde::Serialize;
use serde_json::Map;

use crate::address::Rest;
use crate::answer::Answer;
use crate::auth::{AppDetail, Mode};
use crate::body::JSON_TYPE;
use crate::fault::Fault;
use crate::manifest::Manifest;
use crate::request::{HttpRequest, header_value};
use crate::tokens::{self, TokenFailure, Tokens};
use crate::values::{Credentials, Room, Values};

/// For how long a proof counts, in seconds, beside the minute before it was made.
const PROOF_LIFE: i64 = 9 * 60;
/// The longest issuer.
const ISSUER_BYTES_MAX: usize = 1_000;

/// What an app signs with its private key, as RS256.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claims {
    /// The app.
    pub iss: String,
    /// When it was signed, in seconds; a minute ago, for clocks that are slow.
    pub iat: i64,
    /// When it ends, in seconds.
    pub exp: i64,
}

/// How an app gets tokens for an installation.
#[derive(Debug, Clone, Copy)]
pub struct App<'a> {
    pub(crate) manifest: &'a Manifest,
    pub(crate) app: &'a AppDetail,
}

impl<'a> App<'a> {
    /// What the app signs; the token is `{auth.jwt}`, a field `jwt` of the credential.
    pub fn claims(&self, auth: &Credentials, now: Timestamp) -> Result<Claims, Fault> {
        let (config, params) = (std::collections::BTreeMap::new(), Map::new());
        let values = Values { mode: Mode::App, config: &config, auth, base_url: None };
        let scope = self.manifest.scope(&values, &[], &params);
        let issuer = scope.text(&self.app.issuer, &Room::new(ISSUER_BYTES_MAX))?;
        let iss = issuer.ok_or_else(|| Fault::new("credentials", "lack the id of the app"))?;
        let now = now.as_seconds();
        Ok(Claims { iss, iat: now.saturating_sub(60), exp: now.saturating_add(PROOF_LIFE) })
    }

    /// The name of the credential's field that holds the private key, as PEM.
    pub fn private_key_field(&self) -> &'a str {
        &self.app.private_key
    }

    /// The request for an installation's token. `jwt` must be among the fields of the credential.
    pub fn token_request(&self, values: &Values<'_>) -> Result<HttpRequest, Fault> {
        let params = Map::new();
        let scope = self.manifest.scope(values, &[], &params);
        let address =
            self.app.token_url.render(&scope, &self.manifest.hosts, values.base_url, &Rest::default())?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(JSON_TYPE));
        self.manifest.headers.render(&mut headers, &scope, &Room::new(64 * 1024))?;
        let jwt = values.auth.get("jwt").ok_or_else(|| Fault::new("credentials.jwt", "is required"))?;
        let proof = header_value(&format!("Bearer {jwt}"));
        let mut proof = proof.map_err(|message| Fault::new("credentials.jwt", message))?;
        proof.set_sensitive(true);
        headers.insert(AUTHORIZATION, proof);
        let (url, destination) = address;
        Ok(HttpRequest { method: Method::POST, url, headers, body: Vec::new(), destination })
    }

    /// The token in its answer.
    pub fn read(&self, answer: &Answer<'_>, now: Timestamp) -> Result<Tokens, TokenFailure> {
        tokens::read(answer, &self.app.token, &[], now).map_err(|failure| match failure {
            // The app's key is not taken any more, or its installation is gone.
            TokenFailure::Refused { error } if matches!(answer.status, 401 | 404) => {
                TokenFailure::Dead { error }
            }
            other => other,
        })
    }
}

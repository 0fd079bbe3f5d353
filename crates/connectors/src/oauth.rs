//! Sign-ins at a provider: RFC 6749 with PKCE, as far as providers keep to it.

use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, digest};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use portico_kernel::{Secret, Timestamp};
use serde_json::{Map, Value};
use url::Url;

use crate::address::{AddressTemplate, Destination, Rest};
use crate::answer::{Answer, Message};
use crate::auth::OAuth2;
use crate::body::{FORM_TYPE, JSON_TYPE, form};
use crate::fault::Fault;
use crate::manifest::Manifest;
use crate::overrides::BaseUrl;
use crate::request::{HttpRequest, basic_header, query};
use crate::scrub::Scrubber;
use crate::text::encode;
use crate::tokens::{self, TokenFailure, Tokens};
use crate::values::{Credentials, Scope};

/// A client at a provider's OAuth server.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its id.
    pub id: String,
    /// Its secret; empty for none.
    pub secret: Secret<String>,
}

/// A sign-in that begins.
#[derive(Clone, Copy)]
pub struct SignIn<'a> {
    /// The id of our client.
    pub client_id: &'a str,
    /// Where the provider sends the person back.
    pub redirect_uri: &'a str,
    /// What comes back with them.
    pub state: &'a str,
    /// What the exchange must show; only its SHA-256 is in the address.
    pub verifier: &'a str,
    /// The scopes to ask for; empty for all of the manifest.
    pub scopes: &'a [String],
    /// The configuration of the connection.
    pub config: &'a BTreeMap<String, String>,
    /// The operator's address for this connector.
    pub base_url: Option<&'a BaseUrl>,
}

/// What every call to an OAuth server needs.
#[derive(Debug, Clone, Copy)]
pub struct OAuthCall<'a> {
    /// Our client there.
    pub client: &'a Client,
    /// The configuration of the connection.
    pub config: &'a BTreeMap<String, String>,
    /// The operator's address for this connector.
    pub base_url: Option<&'a BaseUrl>,
}

/// How people sign in at a provider.
#[derive(Debug, Clone, Copy)]
pub struct OAuth<'a> {
    pub(crate) manifest: &'a Manifest,
    pub(crate) oauth: &'a OAuth2,
}

impl<'a> OAuth<'a> {
    /// The scopes that it asks for.
    pub fn scopes(&self) -> &'a [String] {
        &self.oauth.scopes
    }

    /// Where a person is sent, and who chose that host.
    pub fn authorize_url(&self, sign_in: &SignIn<'_>) -> Result<(Url, Destination), Fault> {
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, sign_in.verifier.as_bytes()));
        let scopes = if sign_in.scopes.is_empty() { &self.oauth.scopes } else { sign_in.scopes };
        let scope = scopes.join(&self.oauth.scope_separator);
        let own = [
            ("response_type", "code"),
            ("client_id", sign_in.client_id),
            ("redirect_uri", sign_in.redirect_uri),
            ("state", sign_in.state),
            ("scope", &scope),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        let own = own.into_iter().filter(|(_, value)| !value.is_empty());
        let mut pairs: Vec<_> = own.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        pairs.extend(self.oauth.authorize_params.iter().cloned());
        let rest = Rest { path: String::new(), query: query(&pairs) };
        self.address(&self.oauth.authorize_url, sign_in.config, sign_in.base_url, &rest)
    }

    /// The request that exchanges a code.
    pub fn exchange(
        &self,
        call: &OAuthCall<'_>,
        code: &str,
        verifier: &str,
        redirect_uri: &str,
    ) -> Result<HttpRequest, Fault> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_uri),
            ("code_verifier", verifier),
        ];
        self.post(&self.oauth.token_url, call, &fields)
    }

    /// The request for a fresh access token.
    pub fn refresh(&self, call: &OAuthCall<'_>, refresh_token: &str) -> Result<HttpRequest, Fault> {
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
        self.post(&self.oauth.token_url, call, &fields)
    }

    /// The request that revokes a token (RFC 7009); `None` where the provider has none.
    pub fn revoke(&self, call: &OAuthCall<'_>, token: &str) -> Result<Option<HttpRequest>, Fault> {
        let Some(url) = &self.oauth.revoke_url else { return Ok(None) };
        self.post(url, call, &[("token", token)]).map(Some)
    }

    /// Does the answer say that the token is revoked?
    pub fn is_revoked(&self, answer: &Answer<'_>) -> bool {
        let scrubber = Scrubber::default();
        let message = Message::new(answer, &scrubber);
        // RFC 7009 answers nothing; what answers JSON does it as for any other call.
        answer.is_success() && (message.json().is_none() || self.manifest.rules.judge(&message).is_ok())
    }

    /// The tokens in an answer to an exchange or a refresh.
    pub fn read(&self, answer: &Answer<'_>, now: Timestamp) -> Result<Tokens, TokenFailure> {
        tokens::read(answer, &self.oauth.token, &self.oauth.dead, now)
    }

    fn address(
        &self,
        template: &AddressTemplate,
        config: &BTreeMap<String, String>,
        base: Option<&BaseUrl>,
        rest: &Rest,
    ) -> Result<(Url, Destination), Fault> {
        let (auth, params) = (Credentials::default(), Map::new());
        let scope = Scope {
            fields: &self.manifest.config,
            config,
            auth: &auth,
            basic: None,
            param_fields: &[],
            params: &params,
        };
        template.render(&scope, &self.manifest.hosts, base, rest)
    }

    /// A request of these fields that says which client asks.
    fn post(
        &self,
        url: &AddressTemplate,
        call: &OAuthCall<'_>,
        fields: &[(&str, &str)],
    ) -> Result<HttpRequest, Fault> {
        let (url, destination) = self.address(url, call.config, call.base_url, &Rest::default())?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(JSON_TYPE));
        let mut pairs: Vec<_> =
            fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let (id, secret) = (&call.client.id, call.client.secret.expose());
        if self.oauth.is_basic {
            // RFC 6749, 2.3.1: both are encoded first.
            headers.insert(AUTHORIZATION, basic_header(&encode(id), &encode(secret)));
        } else {
            pairs.push(("client_id".to_owned(), id.clone()));
            if !secret.is_empty() {
                pairs.push(("client_secret".to_owned(), secret.clone()));
            }
        }
        let (media_type, body) = if self.oauth.is_json {
            let fields: Map<String, Value> =
                pairs.into_iter().map(|(name, value)| (name, value.into())).collect();
            (JSON_TYPE, Value::Object(fields).to_string())
        } else {
            (FORM_TYPE, form(&pairs))
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        Ok(HttpRequest { method: Method::POST, url, headers, body: body.into_bytes(), destination })
    }
}

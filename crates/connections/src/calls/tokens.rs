//! Requests for tokens: exchanging a code, refreshing, getting one for an installation, revoking.

use std::collections::BTreeMap;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use portico_connectors::{
    Answer, App, Client, Credentials, Fault, HttpRequest, Manifest, Mode, OAuthCall, TokenFailure, Tokens,
    Values,
};
use portico_engine::Engine;
use portico_kernel::{AccountId, Problem, Secret, Timestamp};
use portico_store::StoreError;
use serde_json::json;

use super::credential::{ACCESS_TOKEN, CLIENT_ID, REFRESH_TOKEN, private_key};
use super::outcome::class_of;
use super::send::{SendError, SendLimits, as_answer};
use super::{Calls, Opened};
use crate::limits;
use crate::model::ErrorClass;
use crate::provider::Provider;
use crate::records::config_of;
use crate::sql::ConnectionRow;

/// The name under which templates find the signed claims of an app.
const JWT: &str = "jwt";

/// Why there are no tokens.
#[derive(Debug)]
pub(crate) enum TokenError {
    /// The provider will not take this grant again.
    Dead,
    /// The provider refuses.
    Refused,
    /// The provider failed.
    Failed { class: ErrorClass, retry_after: Option<u32> },
    /// No answer came, though the provider may have done it.
    Unanswered(ErrorClass),
    /// What is stored does not make a request.
    BadCredential,
    /// There is no OAuth client.
    NoClient,
    /// The host is in no verified domain of the account.
    NotVerified(String),
    /// The database failed.
    Store(StoreError),
}

impl From<TokenFailure> for TokenError {
    fn from(failure: TokenFailure) -> Self {
        match failure {
            TokenFailure::Dead { .. } => Self::Dead,
            TokenFailure::Refused { .. } => Self::Refused,
            TokenFailure::Failed { retry_after, .. } => {
                Self::Failed { class: ErrorClass::Provider5xx, retry_after }
            }
        }
    }
}

impl From<SendError> for TokenError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NotVerified(host) => Self::NotVerified(host),
            SendError::Egress(failure) if failure.may_have_arrived => {
                Self::Unanswered(class_of(failure.error))
            }
            SendError::Egress(failure) => Self::Failed { class: class_of(failure.error), retry_after: None },
            SendError::Store(error) => Self::Store(error),
        }
    }
}

impl From<Fault> for TokenError {
    fn from(_: Fault) -> Self {
        Self::BadCredential
    }
}

/// A code that a person brought back from the provider.
pub(crate) struct Code<'a> {
    pub(crate) text: &'a str,
    pub(crate) verifier: &'a Secret<String>,
    pub(crate) redirect_uri: &'a str,
}

impl Calls {
    /// Fresh tokens for a credential that has had some.
    pub(super) async fn fresh_tokens(
        &self,
        engine: &Engine,
        connection: &ConnectionRow,
        opened: &Opened,
    ) -> Result<Tokens, TokenError> {
        let Some(Provider::Connector(manifest)) = Provider::of(&connection.kind) else {
            return Err(TokenError::BadCredential);
        };
        let (account, config) = (connection.account_id, config_of(&connection.config));
        let base_url = self.overrides.get(manifest.id());
        if opened.mode == Some(Mode::App) {
            let app = manifest.app().ok_or(TokenError::BadCredential)?;
            let auth = with_jwt(app, &opened.values, engine.clock.now()).ok_or(TokenError::BadCredential)?;
            let values = Values { mode: Mode::App, config: &config, auth: &auth, base_url };
            let request = app.token_request(&values)?;
            return self.ask(engine, account, request, |answer, now| app.read(answer, now)).await;
        }
        let refresh_token = opened.values.get(REFRESH_TOKEN).ok_or(TokenError::BadCredential)?;
        let client = self.client_for(engine, account, manifest, &config).await?;
        if opened.values.get(CLIENT_ID).is_some_and(|id| id != client.id) {
            return Err(TokenError::NoClient);
        }
        let oauth = manifest.oauth().ok_or(TokenError::BadCredential)?;
        let call = OAuthCall { client: &client, config: &config, base_url };
        let request = oauth.refresh(&call, refresh_token)?;
        self.ask(engine, account, request, |answer, now| oauth.read(answer, now)).await
    }

    /// The tokens that a code is exchanged for, as a credential, too.
    pub(crate) async fn exchange(
        &self,
        engine: &Engine,
        account: AccountId,
        manifest: &'static Manifest,
        config: &BTreeMap<String, String>,
        code: &Code<'_>,
    ) -> Result<(Tokens, Credentials), TokenError> {
        let client = self.client_for(engine, account, manifest, config).await?;
        let oauth = manifest.oauth().ok_or(TokenError::BadCredential)?;
        let call = OAuthCall { client: &client, config, base_url: self.overrides.get(manifest.id()) };
        let request = oauth.exchange(&call, code.text, code.verifier.expose(), code.redirect_uri)?;
        let tokens = self.ask(engine, account, request, |answer, now| oauth.read(answer, now)).await?;
        let mut values = Credentials::default();
        values.insert(CLIENT_ID, client.id.as_str());
        values.insert(ACCESS_TOKEN, tokens.access_token.expose().as_str());
        if let Some(refresh_token) = &tokens.refresh_token {
            values.insert(REFRESH_TOKEN, refresh_token.expose().as_str());
        }
        Ok((tokens, values))
    }

    /// Revokes tokens at the provider, as well as that can be done in a few seconds; `None` where the provider has no way.
    pub(crate) async fn revoke(
        &self,
        engine: &Engine,
        account: AccountId,
        manifest: &'static Manifest,
        config: &BTreeMap<String, String>,
        values: &Credentials,
    ) -> Option<bool> {
        let oauth = manifest.oauth()?;
        let token = values.get(REFRESH_TOKEN).or_else(|| values.get(ACCESS_TOKEN))?;
        let client = self.client_for(engine, account, manifest, config).await.ok()?;
        let call = OAuthCall { client: &client, config, base_url: self.overrides.get(manifest.id()) };
        let request = oauth.revoke(&call, token).ok()??;
        let may_take = SendLimits { time: limits::REVOKE_TIME_MAX, bytes: limits::TOKEN_BYTES_MAX };
        let sent = self.send(engine, account, request, may_take).await;
        Some(sent.is_ok_and(|response| oauth.is_revoked(&as_answer(&response))))
    }

    async fn client_for(
        &self,
        engine: &Engine,
        account: AccountId,
        manifest: &Manifest,
        config: &BTreeMap<String, String>,
    ) -> Result<Client, TokenError> {
        let client = self.client(engine, &mut engine.db.query(), account, manifest, config).await;
        let client = client.map_err(|problem| TokenError::Store(StoreError::fault(problem)))?;
        client.ok_or(TokenError::NoClient)
    }

    async fn ask(
        &self,
        engine: &Engine,
        account: AccountId,
        request: HttpRequest,
        read: impl Fn(&Answer<'_>, Timestamp) -> Result<Tokens, TokenFailure>,
    ) -> Result<Tokens, TokenError> {
        let may_take = SendLimits { time: limits::TOKEN_TIME_MAX, bytes: limits::TOKEN_BYTES_MAX };
        let response = self.send(engine, account, request, may_take).await?;
        Ok(read(&as_answer(&response), engine.clock.now())?)
    }
}

/// The credential of an app with its signed claims beside it; `None` where the private key is none.
pub(crate) fn with_jwt(app: App<'_>, auth: &Credentials, now: Timestamp) -> Option<Credentials> {
    let claims = app.claims(auth, now).ok()?;
    let key = private_key(auth.get(app.private_key_field())?)?;
    let head = BASE64_URL_SAFE_NO_PAD.encode(json!({ "alg": "RS256", "typ": "JWT" }).to_string());
    let claims = BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims).ok()?);
    let text = format!("{head}.{claims}");
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).ok()?;
    let mut auth = auth.clone();
    auth.insert(JWT, format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)));
    Some(auth)
}

/// 400 where the private key of an app is none.
pub(crate) fn bad_private_key(app: App<'_>) -> Problem {
    Problem::field(format!("credentials.{}", app.private_key_field()), "is no RSA private key in PEM")
}

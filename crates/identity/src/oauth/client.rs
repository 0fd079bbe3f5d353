//! Apps: who they are, and how they prove it.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::AUTHORIZATION;
use portico_engine::input::decode_form;
use portico_engine::{Ctx, Engine};
use portico_kernel::{AppId, KeyId, Problem, ScopeSet, Secret, ServiceKeyId, check_name, text_enum};
use portico_store::{StoreError, text_value};

use super::{EndpointError, OAuthError, document, redirect};
use crate::http::{Params, RequestContext};
use crate::sql::oauth::ClientRow;
use crate::sql::services::ServiceKeyRow;
use crate::sql::{self, CredentialRow};
use crate::{Identity, limits, secret};

/// The client that the console is.
pub(crate) const CONSOLE: &str = "console";

text_enum! {
    /// How the platform came to know an app.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Origin {
        /// It is our own console.
        Console = "console",
        /// The operator registered it.
        Operator = "operator",
        /// It registered itself.
        Registered = "registered",
        /// Its id is the address of a document that describes it.
        Document = "document",
    }
}

text_value!(Origin);

impl Origin {
    /// Is it ours, or did the operator register it?
    pub(crate) const fn is_verified(self) -> bool {
        matches!(self, Self::Console | Self::Operator)
    }
}

/// An app.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) origin: Origin,
    pub(crate) redirect_uris: Vec<String>,
    pub(crate) scopes: ScopeSet,
    secret_hash: Option<Vec<u8>>,
}

impl Client {
    pub(crate) fn from_row(row: ClientRow) -> Result<Self, StoreError> {
        let fault = |what: &str| StoreError::fault(format!("the app {} has damaged {what}", row.id));
        Ok(Self {
            origin: row.origin,
            redirect_uris: serde_json::from_str(&row.redirect_uris).map_err(|_| fault("addresses"))?,
            scopes: ScopeSet::from(&*row.scopes),
            id: row.id,
            name: row.name,
            secret_hash: row.secret_hash,
        })
    }

    /// Does it keep a secret?
    pub(crate) fn is_confidential(&self) -> bool {
        self.secret_hash.is_some()
    }

    /// May the app be sent back to this address?
    pub(crate) fn allows_redirect(&self, address: &str) -> bool {
        // Nobody is asked about the console, so its address is exactly its own: no other port will do.
        let is_own = |registered: &String| match self.origin {
            Origin::Console => registered == address,
            _ => redirect::matches(registered, address),
        };
        self.redirect_uris.iter().any(is_own)
    }
}

/// What an app that the operator registers is to be.
pub struct NewApp {
    /// Its name, as people see it on the consent page.
    pub name: String,
    /// Where people are sent back to.
    pub redirect_uris: Vec<String>,
    /// What it may ask for.
    pub scopes: ScopeSet,
    /// Does it keep a secret?
    pub confidential: bool,
}

/// The client of a request to the token endpoint.
pub(crate) enum AuthenticatedClient {
    Key(Arc<CredentialRow>),
    App(Client),
    Service(ServiceKeyRow),
}

impl AuthenticatedClient {
    /// The client id in tokens.
    pub(crate) fn id(&self) -> Cow<'_, str> {
        match self {
            Self::Key(key) => (&*key.id).into(),
            Self::App(app) => (&*app.id).into(),
            Self::Service(key) => key.id.to_string().into(),
        }
    }

    /// Did it authenticate with a secret?
    pub(crate) fn is_confidential(&self) -> bool {
        match self {
            Self::Key(_) | Self::Service(_) => true,
            Self::App(app) => app.is_confidential(),
        }
    }
}

impl Identity {
    fn console(&self) -> Client {
        Client {
            id: CONSOLE.to_owned(),
            name: "Console".to_owned(),
            origin: Origin::Console,
            redirect_uris: vec![format!("{}/callback", self.console_url)],
            scopes: ScopeSet::default(),
            secret_hash: None,
        }
    }

    /// The app of that id, as it is stored; its metadata document is not fetched.
    pub(crate) async fn known_client(&self, engine: &Engine, id: &str) -> Result<Option<Client>, Problem> {
        if id == CONSOLE {
            return Ok(Some(self.console()));
        }
        let row = sql::oauth::client(&mut engine.db.query(), id).await?;
        Ok(row.filter(|row| row.revoked_at.is_none()).map(Client::from_row).transpose()?)
    }

    /// Is the app of that id the console or one that the operator registered? An id that is unknown altogether counts as
    /// one: there is nothing that it could lead to.
    pub(crate) async fn is_trusted_client(
        &self,
        context: &RequestContext<'_>,
        id: &str,
    ) -> Result<bool, Problem> {
        let known = self.known_client(context.engine, id).await?;
        Ok(known.map_or(!document::is_address(id), |client| client.origin.is_verified()))
    }

    /// Registers an app for the operator; returns its id and its secret.
    pub async fn create_app(
        &self,
        engine: &Arc<Engine>,
        new: NewApp,
    ) -> Result<(AppId, Option<Secret<String>>), Problem> {
        check_name(&new.name, 1..=limits::NAME_CHARACTERS_MAX)
            .map_err(|message| Problem::field("name", message))?;
        if new.scopes.contains("account:keys") {
            return Err(Problem::field("scopes", "must not hold `account:keys`: an app makes no keys"));
        }
        engine.registry.catalog().scopes().check(&new.scopes)?;
        for address in &new.redirect_uris {
            redirect::check(address).map_err(|why| Problem::field("redirect_uri", why))?;
        }
        if new.redirect_uris.is_empty() || new.redirect_uris.len() > limits::REDIRECT_URIS_MAX {
            let message = format!("must be given 1 to {} times", limits::REDIRECT_URIS_MAX);
            return Err(Problem::field("redirect_uri", message));
        }
        let mut ctx = Ctx::operator(engine);
        let id: AppId = ctx.new_id();
        let secret = new.confidential.then(|| secret::generate(engine.entropy.as_ref()));
        let row = ClientRow {
            id: id.to_string(),
            origin: Origin::Operator,
            name: new.name,
            secret_hash: secret.as_ref().map(|secret| secret::hash(secret.expose())),
            redirect_uris: serde_json::to_string(&new.redirect_uris).map_err(Problem::internal)?,
            scopes: new.scopes.to_string(),
            created_at: ctx.now(),
            expires_at: None,
            revoked_at: None,
        };
        sql::oauth::upsert_client(ctx.tx().await?, &row).await?;
        ctx.finish().await?;
        Ok((id, secret))
    }

    /// Authenticates the client: a key, a service or an app with HTTP Basic, or an app without a secret by its id in the form.
    pub(crate) async fn authenticate(
        &self,
        context: &RequestContext<'_>,
        form: &Params,
    ) -> Result<AuthenticatedClient, EndpointError> {
        form.check_single()?;
        if form.get("client_secret").is_some() || form.get("client_assertion").is_some() {
            return Err(OAuthError::invalid_request(
                "The client authenticates with HTTP Basic, not in the form.",
            )
            .into());
        }
        let named = form.get("client_id");
        let Some((id, given)) = read_basic(context)? else {
            let missing = || OAuthError::new("invalid_client", "The client authenticates with HTTP Basic.");
            let client = Box::pin(self.known_client(context.engine, named.ok_or_else(missing)?)).await?;
            let public = client.filter(|client| client.secret_hash.is_none());
            return Ok(AuthenticatedClient::App(public.ok_or_else(OAuthError::invalid_client)?));
        };
        if named.is_some_and(|named| named != id) {
            return Err(OAuthError::invalid_request("Two different clients are named.").into());
        }
        if let Ok(id) = id.parse::<ServiceKeyId>() {
            let row = self.authenticate_service(context.engine, id, &given).await?;
            return Ok(AuthenticatedClient::Service(row.ok_or_else(OAuthError::invalid_client)?));
        }
        if id.parse::<KeyId>().is_err()
            && let Some(client) = Box::pin(self.known_client(context.engine, &id)).await?
        {
            let right = match &client.secret_hash {
                Some(kept) => secret::matches(&given, Some(kept)),
                // Some libraries send an empty secret for an app that has none.
                None => given.is_empty(),
            };
            return if right {
                Ok(AuthenticatedClient::App(client))
            } else {
                Err(OAuthError::invalid_client().into())
            };
        }
        let row = self.active_key(context.engine, &id, context.now).await?;
        let kept = row.as_ref().and_then(|row| row.secret_hash.as_deref());
        let right = secret::matches(&given, kept);
        let key = row.filter(|_| right).ok_or_else(OAuthError::invalid_client)?;
        Ok(AuthenticatedClient::Key(key))
    }
}

/// Id and secret from HTTP Basic; both were form-encoded before they were joined (RFC 6749, section 2.3.1).
fn read_basic(context: &RequestContext<'_>) -> Result<Option<(String, String)>, OAuthError> {
    let bad = || OAuthError::new("invalid_client", "The client authenticates with HTTP Basic.");
    let mut headers = context.http.headers().get_all(AUTHORIZATION).iter();
    let Some(header) = headers.next() else { return Ok(None) };
    if headers.next().is_some() {
        return Err(OAuthError::invalid_request("Authorization is given more than once."));
    }
    let (scheme, encoded) = header.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(bad)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(bad());
    }
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let decoded = decoded.ok_or_else(bad)?;
    let (id, secret) = decoded.split_once(':').ok_or_else(bad)?;
    let part = |text: &str| decode_form(text).ok_or_else(bad);
    Ok(Some((part(id)?, part(secret)?)))
}

//! Credentials, sealed and opened.

use portico_connectors::{Client, Credentials, Mode};
use portico_engine::Engine;
use portico_kernel::{AccountId, ConnectionId, Problem, Secret, Timestamp, text_enum};
use portico_store::{Context, SealedColumn, sealed_column};

use crate::sql::{ClientRow, ConnectionRow, CredentialRow, SignInRow};

const CREDENTIAL: &str = "connection credential";
const CLIENT: &str = "connection OAuth client";
const SIGN_IN: &str = "connection sign-in";

/// What the area keeps sealed, each value with the context that it is sealed for.
pub(crate) const SEALED: [SealedColumn; 3] = [
    sealed_column!(
        "connection_credentials",
        "sealed",
        key "id",
        account "account_id",
        row "connection_id || ' ' || id",
        purpose CREDENTIAL,
        where "purpose = 'credential'"
    ),
    sealed_column!(
        "connection_clients",
        "secret",
        key "(account_id || ' ' || connector)",
        account "account_id",
        row "connector",
        purpose CLIENT
    ),
    sealed_column!(
        "connection_sign_ins",
        "verifier",
        key "id",
        account "account_id",
        row "id",
        purpose SIGN_IN
    ),
];

text_enum! {
    /// What a sealed value is. It opens for nothing else.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Purpose {
        /// What a connection proves itself with.
        Credential = "credential",
    }
}

/// What a sealed credential is bound to: the account, the connection, the credential's id, and its purpose.
struct Place {
    account: String,
    row: String,
    purpose: Purpose,
}

impl Place {
    fn new(account: AccountId, connection: ConnectionId, credential: &str, purpose: Purpose) -> Self {
        Self { account: account.to_string(), row: format!("{connection} {credential}"), purpose }
    }

    fn context(&self) -> Context<'_> {
        let purpose = match self.purpose {
            Purpose::Credential => CREDENTIAL,
        };
        Context { account: &self.account, row: &self.row, purpose }
    }
}

/// A credential that was opened. It prints none of its values.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    /// How the connection proves who it is; `None` for an account's own service.
    pub(crate) mode: Option<Mode>,
    /// What templates are filled with, and the refresh token.
    pub(crate) values: Credentials,
    /// Which credential it was read from.
    pub(crate) id: String,
    /// The version that it was read under.
    pub(crate) version: i64,
}

/// The name of the refresh token among the values.
pub(crate) const REFRESH_TOKEN: &str = "refresh_token";
/// The name of the access token among the values.
pub(crate) const ACCESS_TOKEN: &str = "access_token";
/// The name of the id of the OAuth client that tokens were given to: to another one they are worth nothing.
pub(crate) const CLIENT_ID: &str = "oauth_client_id";

impl Opened {
    /// A credential that is not stored yet.
    pub(crate) fn new(mode: Option<Mode>, values: Credentials) -> Self {
        Self { mode, values, id: String::new(), version: 0 }
    }

    /// Can a fresh token be had for it?
    pub(crate) fn can_refresh(&self) -> bool {
        match self.mode {
            Some(Mode::OAuth2) => self.values.get(REFRESH_TOKEN).is_some(),
            Some(Mode::App) => true,
            _ => false,
        }
    }

    /// Does it lack the token that calls need?
    pub(crate) fn lacks_token(&self) -> bool {
        self.mode == Some(Mode::App) && self.values.get(ACCESS_TOKEN).is_none()
    }

    /// Opens what is stored; `None` where it does not open, or is not what it should be.
    pub(crate) fn of(engine: &Engine, connection: &ConnectionRow, row: &CredentialRow) -> Option<Self> {
        let purpose = Purpose::parse(&row.purpose)?;
        let place = Place::new(connection.account_id, connection.id, &row.id, purpose);
        let opened = engine.keyring.open(place.context(), &row.sealed).ok()?;
        let values = Credentials::from_bytes(opened.expose())?;
        let mode = Mode::parse(&connection.auth_mode);
        Some(Self { mode, values, id: row.id.clone(), version: row.version })
    }
}

/// Seals a credential of a connection.
pub(crate) fn seal(
    engine: &Engine,
    account: AccountId,
    connection: ConnectionId,
    credential: &str,
    values: &Credentials,
) -> Vec<u8> {
    let place = Place::new(account, connection, credential, Purpose::Credential);
    engine.keyring.seal(engine.entropy.as_ref(), place.context(), values.to_bytes().expose())
}

impl CredentialRow {
    /// A new credential of a connection.
    pub(crate) fn new(
        engine: &Engine,
        connection: &ConnectionRow,
        values: &Credentials,
        now: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Self {
        let id = connection.credential_id.clone();
        let sealed = seal(engine, connection.account_id, connection.id, &id, values);
        Self {
            id,
            purpose: Purpose::Credential.name().to_owned(),
            sealed,
            version: 1,
            issued_at: Some(now),
            expires_at,
            created_at: now,
            failures: 0,
            retry_at: None,
        }
    }
}

/// What the secret of an account's OAuth client is bound to.
fn client_context<'a>(account: &'a str, connector: &'a str) -> Context<'a> {
    Context { account, row: connector, purpose: CLIENT }
}

/// Seals the secret of an account's OAuth client.
pub(crate) fn seal_client(engine: &Engine, account: AccountId, connector: &str, secret: &str) -> Vec<u8> {
    let account = account.to_string();
    engine.keyring.seal(engine.entropy.as_ref(), client_context(&account, connector), secret.as_bytes())
}

/// Opens an account's OAuth client.
pub(crate) fn open_client(engine: &Engine, account: AccountId, row: &ClientRow) -> Result<Client, Problem> {
    let account = account.to_string();
    let opened = engine.keyring.open(client_context(&account, &row.connector), &row.secret);
    let secret = opened.ok().and_then(|secret| String::from_utf8(secret.expose().clone()).ok());
    let secret = secret.ok_or_else(|| Problem::internal("the secret of an OAuth client does not open"))?;
    Ok(Client { id: row.client_id.clone(), secret: Secret::new(secret) })
}

/// What the verifier of a sign-in is bound to.
fn verifier_context<'a>(account: &'a str, sign_in: &'a str) -> Context<'a> {
    Context { account, row: sign_in, purpose: SIGN_IN }
}

/// Seals the verifier of a sign-in.
pub(crate) fn seal_verifier(engine: &Engine, account: AccountId, sign_in: &str, verifier: &str) -> Vec<u8> {
    let account = account.to_string();
    engine.keyring.seal(engine.entropy.as_ref(), verifier_context(&account, sign_in), verifier.as_bytes())
}

/// Opens the verifier of a sign-in.
pub(crate) fn open_verifier(engine: &Engine, row: &SignInRow) -> Result<Secret<String>, Problem> {
    let (account, id) = (row.account_id.to_string(), row.id.to_string());
    let opened = engine.keyring.open(verifier_context(&account, &id), &row.verifier);
    let verifier = opened.ok().and_then(|opened| String::from_utf8(opened.expose().clone()).ok());
    verifier.map(Secret::new).ok_or_else(|| Problem::internal("the verifier of a sign-in does not open"))
}

/// The PKCS #8 or PKCS #1 key of an app, from its PEM.
pub(crate) fn private_key(pem: &str) -> Option<aws_lc_rs::signature::RsaKeyPair> {
    use aws_lc_rs::signature::RsaKeyPair;
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    let body: String = pem.lines().map(str::trim).filter(|line| !line.starts_with("-----")).collect();
    let der = BASE64_STANDARD.decode(body).ok()?;
    RsaKeyPair::from_pkcs8(&der).or_else(|_| RsaKeyPair::from_der(&der)).ok()
}

//! The identity provider: what signs tokens, the keys and API tokens it issues, and who the caller is.
//!
//! A key is exchanged for tokens of 15 minutes at `POST {auth_url}/oauth2/token`; an API token is itself the JWT. Both
//! are checked without a look at the database once they are known, and refused within seconds of their revocation:
//! API tokens against the positive list of their ids, tokens from keys against the map of what was revoked.
//!
//! Absent on purpose: the token and the secret. The platform keeps an API token's id and the SHA-256 of a key's secret.
//!
//! Start reading at [`credentials`], then [`verify`].

pub mod claims;
pub mod credentials;
mod events;
mod exchange;
mod http;
pub mod limits;
mod me;
pub mod people;
mod revocations;
mod secret;
mod signing;
mod sql;
mod uses;
pub mod verify;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use portico_engine::Area;
use portico_engine::ports::{CredentialRecord, Directory, PersonRecord};
use portico_kernel::AccountId;
use portico_store::{StoreError, Tx};

pub use revocations::{RefreshRevocations, Revocations};
pub use signing::SigningKeys;
pub use uses::Uses;

/// What the area holds.
pub struct Identity {
    /// The address of the identity provider: the `iss` of every token, byte for byte.
    pub issuer: String,
    /// What signs and verifies.
    pub keys: SigningKeys,
    /// What was revoked lately.
    pub revocations: Revocations,
    /// What was used lately.
    pub uses: Uses,
}

impl Identity {
    /// The area's state. [`SigningKeys::load`] and [`Revocations::refresh`] fill it before the first call.
    pub fn new(issuer: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            keys: SigningKeys::default(),
            revocations: Revocations::default(),
            uses: Uses::default(),
        }
    }
}

/// The area's operations, events and jobs.
pub fn area(identity: &Arc<Identity>) -> Area {
    Area::builder("identity", identity.clone())
        .op::<me::GetMe>()
        .event::<events::KeyCreated>()
        .event::<events::KeyRevoked>()
        .event::<events::TokenCreated>()
        .event::<events::TokenRevoked>()
        .job(RefreshRevocations(identity.clone()))
        .job(uses::FlushUses(identity.clone()))
        .probe(sql::PROBE)
        .build()
}

impl Directory for Identity {
    fn credential<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<CredentialRecord>, StoreError>> {
        Box::pin(async move {
            let row = sql::credential(tx, id).await?.filter(|row| row.account_id == account);
            row.map(sql::CredentialRow::into_record).transpose()
        })
    }

    fn person<'a>(
        &'a self,
        tx: &'a mut Tx,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<PersonRecord>, StoreError>> {
        Box::pin(sql::person(tx, id))
    }
}

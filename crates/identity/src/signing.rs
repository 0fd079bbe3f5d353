//! What signs tokens: Ed25519 keys, sealed at rest.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use portico_engine::Engine;
use portico_kernel::{Problem, hex};
use portico_store::{Context, Tx};
use serde_json::{Value, json};

use crate::claims::Claims;
use crate::sql::{self, SigningKeyRow};

/// The type that tokens name in their header (RFC 9068).
pub(crate) const TOKEN_TYPE: &str = "at+jwt";
const ACTIVE: &str = "active";

/// The keys that sign and verify; swapped whole when they change.
#[derive(Default)]
pub struct SigningKeys(RwLock<Arc<KeySet>>);

/// One state of the keys.
#[derive(Default)]
pub(crate) struct KeySet {
    signer: Option<(String, EncodingKey)>,
    verifiers: HashMap<String, DecodingKey>,
    jwks: Vec<Value>,
}

fn context(id: &str) -> Context<'_> {
    Context { account: "", row: id, purpose: "signing key" }
}

/// A failure of cryptography that only a damaged database or keyring explains.
fn damaged(error: impl std::fmt::Display) -> Problem {
    Problem::internal(format!("a signing key is damaged: {error}"))
}

impl SigningKeys {
    /// Reads the keys; makes the first one where there is none.
    pub async fn load(&self, engine: &Engine) -> Result<(), Problem> {
        let mut tx = engine.db.write().await?;
        sql::lock_signing_keys(&mut tx).await?;
        if sql::signing_keys(&mut tx).await?.is_empty() {
            create(engine, &mut tx).await?;
        }
        let rows = sql::signing_keys(&mut tx).await?;
        tx.commit().await?;
        let mut set = KeySet::default();
        for row in rows {
            set.add(engine, &row)?;
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        Ok(())
    }

    pub(crate) fn current(&self) -> Arc<KeySet> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Signs a token.
    pub(crate) fn sign(&self, claims: &Claims) -> Result<String, Problem> {
        let keys = self.current();
        let (id, key) = keys.signer.as_ref().ok_or_else(|| Problem::internal("no signing key is active"))?;
        let mut header = Header::new(Algorithm::EdDSA);
        header.typ = Some(TOKEN_TYPE.to_owned());
        header.kid = Some(id.clone());
        jsonwebtoken::encode(&header, claims, key).map_err(Problem::internal)
    }

    /// The public keys, as RFC 7517 writes them.
    pub(crate) fn jwks(&self) -> Value {
        json!({ "keys": self.current().jwks })
    }
}

impl KeySet {
    pub(crate) fn verifier(&self, id: &str) -> Option<&DecodingKey> {
        self.verifiers.get(id)
    }

    fn add(&mut self, engine: &Engine, row: &SigningKeyRow) -> Result<(), Problem> {
        let x = BASE64_URL_SAFE_NO_PAD.encode(&row.public_key);
        let verifier = DecodingKey::from_ed_components(&x).map_err(damaged)?;
        self.verifiers.insert(row.id.clone(), verifier);
        self.jwks.push(
            json!({ "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": row.id, "x": x }),
        );
        if row.state == ACTIVE {
            let private = engine.keyring.open(context(&row.id), &row.sealed_private_key).map_err(damaged)?;
            self.signer = Some((row.id.clone(), EncodingKey::from_ed_der(private.expose())));
        }
        Ok(())
    }
}

async fn create(engine: &Engine, tx: &mut Tx) -> Result<(), Problem> {
    let entropy = engine.entropy.as_ref();
    let pair = Ed25519KeyPair::from_seed_unchecked(&entropy.bytes::<32>()).map_err(damaged)?;
    let private = pair.to_pkcs8().map_err(damaged)?;
    let id = hex(&entropy.bytes::<8>());
    let row = SigningKeyRow {
        public_key: pair.public_key().as_ref().to_vec(),
        sealed_private_key: engine.keyring.seal(entropy, context(&id), private.as_ref()),
        state: ACTIVE.to_owned(),
        id,
    };
    sql::insert_signing_key(tx, &row, engine.clock.now()).await?;
    Ok(())
}

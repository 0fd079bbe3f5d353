//! The keys that sign tokens: Ed25519, sealed at rest.
//!
//! A key is published as soon as it is made and signs from `activates_at` on, until a later one does. So every server
//! knows a key before it sees a token of it, and a rotation writes one row and nothing else. A key that signs no more
//! verifies until the last of its tokens has ended.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use portico_engine::{Ctx, Engine, Job, JobOutcome};
use portico_kernel::{Problem, Timestamp, hex};
use portico_store::{Context, SealedColumn, Tx, sealed_column};
use serde::Serialize;
use serde_json::{Value, json};

use crate::claims::Claims;
use crate::sql::{self, SigningKeyRow};
use crate::{Identity, limits};

/// The type that tokens name in their header (RFC 9068).
pub(crate) const TOKEN_TYPE: &str = "at+jwt";
/// The type that assertions for services name in their header. No check of a token takes one.
const ASSERTION_TYPE: &str = "portico-assertion+jwt";

/// The keys that sign and verify; swapped whole when they change.
#[derive(Default)]
pub struct SigningKeys(RwLock<Arc<KeySet>>);

/// One state of the keys.
#[derive(Default)]
pub(crate) struct KeySet {
    /// What it was made of, to see whether that has changed.
    read: Vec<(String, Timestamp)>,
    /// Those that sign now or will, by when they begin.
    signers: Vec<Signer>,
    verifiers: HashMap<String, Verifier>,
    jwks: Vec<Value>,
}

/// What verifies the tokens of one key.
pub(crate) struct Verifier {
    pub(crate) key: DecodingKey,
    /// When the key after it began to sign: from then on this one signs nothing more.
    pub(crate) superseded_at: Option<Timestamp>,
}

struct Signer {
    id: String,
    pair: Ed25519KeyPair,
    /// The first part of its tokens, which is always the same.
    header: String,
    /// The same of the assertions that it signs.
    assertion_header: String,
    activates_at: Timestamp,
}

/// A token and the key that signed it.
pub(crate) struct SignedToken {
    pub(crate) token: String,
    pub(crate) key_id: String,
}

/// A signing key as the operator sees it.
pub struct SigningKeyInfo {
    /// The `kid` of its tokens.
    pub id: String,
    /// When it begins to sign.
    pub activates_at: Timestamp,
    /// `next`, `active` or `retiring`.
    pub state: &'static str,
}

const PURPOSE: &str = "signing key";

/// The private parts of signing keys.
pub(crate) const SEALED: SealedColumn = sealed_column!(
    "signing_keys", "sealed_private_key", key "id", account "''", row "id", purpose PURPOSE
);

fn context(id: &str) -> Context<'_> {
    Context { account: "", row: id, purpose: PURPOSE }
}

/// A failure of cryptography that only a damaged database or keyring explains.
fn damaged(error: impl std::fmt::Display) -> Problem {
    Problem::internal(format!("a signing key is damaged: {error}"))
}

/// The index of the key that signs, among all by when they begin to: the last whose time has come.
fn active(rows: &[SigningKeyRow], now: Timestamp) -> usize {
    rows.iter().rposition(|row| row.activates_at <= now).unwrap_or(0)
}

impl SigningKeys {
    /// Reads the keys; makes the first one where there is none.
    pub async fn load(&self, engine: &Engine) -> Result<(), Problem> {
        let mut tx = engine.db.write().await?;
        sql::lock_issuer(&mut tx).await?;
        if sql::signing_keys(&mut tx).await?.is_empty() {
            create(engine, &mut tx, engine.clock.now()).await?;
        }
        let rows = sql::signing_keys(&mut tx).await?;
        tx.commit().await?;
        self.replace(engine, &rows)
    }

    /// Reads the keys again.
    pub async fn refresh(&self, engine: &Engine) -> Result<(), Problem> {
        let mut tx = engine.db.read().await?;
        let rows = sql::signing_keys(&mut tx).await?;
        tx.rollback();
        let known = self.current();
        let same = rows
            .iter()
            .map(|row| (&row.id, row.activates_at))
            .eq(known.read.iter().map(|(id, at)| (id, *at)));
        if same { Ok(()) } else { self.replace(engine, &rows) }
    }

    fn replace(&self, engine: &Engine, rows: &[SigningKeyRow]) -> Result<(), Problem> {
        let now = engine.clock.now();
        let active = active(rows, now);
        let read = rows.iter().map(|row| (row.id.clone(), row.activates_at)).collect();
        let mut set = KeySet { read, ..KeySet::default() };
        for (index, row) in rows.iter().enumerate() {
            let x = BASE64_URL_SAFE_NO_PAD.encode(&row.public_key);
            let key = DecodingKey::from_ed_components(&x).map_err(damaged)?;
            let superseded_at = rows.get(index + 1).map(|next| next.activates_at);
            set.verifiers.insert(row.id.clone(), Verifier { key, superseded_at });
            set.jwks.push(
                json!({ "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": row.id, "x": x }),
            );
            if index >= active {
                let private =
                    engine.keyring.open(context(&row.id), &row.sealed_private_key).map_err(damaged)?;
                let pair = Ed25519KeyPair::from_pkcs8(private.expose()).map_err(damaged)?;
                let header = |typ: &str| {
                    let header = json!({ "typ": typ, "alg": "EdDSA", "kid": row.id }).to_string();
                    BASE64_URL_SAFE_NO_PAD.encode(header)
                };
                set.signers.push(Signer {
                    id: row.id.clone(),
                    pair,
                    header: header(TOKEN_TYPE),
                    assertion_header: header(ASSERTION_TYPE),
                    activates_at: row.activates_at,
                });
            }
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        Ok(())
    }

    /// Makes the next key. It is published at once and signs after `wait`, which must be long enough for every server
    /// and every cache to have seen it.
    pub async fn rotate(&self, engine: &Engine, wait: Duration) -> Result<SigningKeyInfo, Problem> {
        let now = engine.clock.now();
        let mut tx = engine.db.write().await?;
        sql::lock_issuer(&mut tx).await?;
        let rows = sql::signing_keys(&mut tx).await?;
        if let Some(next) = rows.iter().find(|row| row.activates_at > now) {
            // In a hurry, the one that waits is brought forward.
            if now + wait < next.activates_at {
                let info = SigningKeyInfo { id: next.id.clone(), activates_at: now + wait, state: "next" };
                sql::set_activation(&mut tx, &info.id, info.activates_at).await?;
                tx.commit().await?;
                return self.load(engine).await.map(|()| info);
            }
            let message =
                format!("The key {} is published already and signs from {} on.", next.id, next.activates_at);
            return Err(Problem::failed_precondition("ROTATION_UNDER_WAY", "identity", message, []));
        }
        let id = create(engine, &mut tx, now + wait).await?;
        let rows = sql::signing_keys(&mut tx).await?;
        tx.commit().await?;
        self.replace(engine, &rows)?;
        Ok(SigningKeyInfo { id, activates_at: now + wait, state: "next" })
    }

    /// Every key that is published.
    pub async fn list(&self, engine: &Engine) -> Result<Vec<SigningKeyInfo>, Problem> {
        let mut tx = engine.db.read().await?;
        let rows = sql::signing_keys(&mut tx).await?;
        tx.rollback();
        let now = engine.clock.now();
        let active = active(&rows, now);
        let state = |index: usize| match index.cmp(&active) {
            std::cmp::Ordering::Less => "retiring",
            std::cmp::Ordering::Equal => "active",
            std::cmp::Ordering::Greater => "next",
        };
        let rows = rows.into_iter().enumerate();
        Ok(rows
            .map(|(index, row)| SigningKeyInfo {
                state: state(index),
                id: row.id,
                activates_at: row.activates_at,
            })
            .collect())
    }

    pub(crate) fn current(&self) -> Arc<KeySet> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Signs a token.
    pub(crate) fn sign(&self, claims: &Claims, now: Timestamp) -> Result<SignedToken, Problem> {
        self.sign_as(|signer| &signer.header, claims, now)
    }

    /// Signs what a service behind the gateway is told of a call.
    pub(crate) fn sign_assertion(&self, claims: &impl Serialize, now: Timestamp) -> Result<String, Problem> {
        Ok(self.sign_as(|signer| &signer.assertion_header, claims, now)?.token)
    }

    fn sign_as(
        &self,
        header: impl Fn(&Signer) -> &str,
        claims: &impl Serialize,
        now: Timestamp,
    ) -> Result<SignedToken, Problem> {
        let keys = self.current();
        let signer = keys.signers.iter().rev().find(|signer| signer.activates_at <= now);
        let signer =
            signer.or_else(|| keys.signers.first()).ok_or_else(|| Problem::internal("no signing key"))?;
        let claims = serde_json::to_vec(claims).map_err(Problem::internal)?;
        let mut token = format!("{}.", header(signer));
        BASE64_URL_SAFE_NO_PAD.encode_string(claims, &mut token);
        let signature = signer.pair.sign(token.as_bytes());
        token.push('.');
        BASE64_URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(SignedToken { token, key_id: signer.id.clone() })
    }

    /// The public keys, as RFC 7517 writes them.
    pub(crate) fn jwks(&self) -> Value {
        json!({ "keys": self.current().jwks })
    }
}

impl KeySet {
    pub(crate) fn verifier(&self, id: &str) -> Option<&Verifier> {
        self.verifiers.get(id)
    }
}

async fn create(engine: &Engine, tx: &mut Tx, activates_at: Timestamp) -> Result<String, Problem> {
    let entropy = engine.entropy.as_ref();
    let pair = Ed25519KeyPair::from_seed_unchecked(&entropy.bytes::<32>()).map_err(damaged)?;
    let private = pair.to_pkcs8().map_err(damaged)?;
    let id = hex(&entropy.bytes::<8>());
    let row = SigningKeyRow {
        public_key: pair.public_key().as_ref().to_vec(),
        sealed_private_key: engine.keyring.seal(entropy, context(&id), private.as_ref()),
        activates_at,
        id: id.clone(),
    };
    sql::insert_signing_key(tx, &row, engine.clock.now()).await?;
    Ok(id)
}

/// Keeps [`SigningKeys`] fresh, and removes keys whose last token has ended.
pub(crate) struct RefreshSigningKeys(pub(crate) Arc<Identity>);

impl Job for RefreshSigningKeys {
    const NAME: &'static str = "identity.refresh_signing_keys";
    const ON_EVERY_SERVER: bool = true;
    const EVERY: Duration = limits::SIGNING_KEYS_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let now = engine.clock.now();
        let rows = self.0.keys.list(engine).await?;
        // Keys that were followed long enough ago that every token of a key or a person has ended.
        for pair in rows.windows(2) {
            if pair[1].activates_at + limits::REVOCATIONS_WINDOW < now {
                self.retire(engine, &pair[0].id, now).await?;
            }
        }
        self.0.keys.refresh(engine).await?;
        Ok(JobOutcome::Idle)
    }
}

impl RefreshSigningKeys {
    async fn retire(&self, engine: &Engine, id: &str, now: Timestamp) -> Result<(), Problem> {
        let mut tx = engine.db.read().await?;
        let spent = sql::is_signing_key_spent(&mut tx, id, now).await?;
        tx.rollback();
        if spent {
            // It signs no more, so that nothing can have come between.
            let mut tx = engine.db.write().await?;
            if sql::delete_signing_key(&mut tx, id).await? {
                tracing::info!(key = id, "Removed a signing key whose last token has expired");
            }
            tx.commit().await?;
        }
        Ok(())
    }
}

impl Identity {
    /// Removes a key that fell into wrong hands, and with it every token that it signed: API tokens are revoked, and all
    /// others are refused as soon as a server sees that the key is gone. The one that signs must be followed by another
    /// first.
    pub async fn remove_signing_key(&self, ctx: &mut Ctx, id: &str) -> Result<(), Problem> {
        let engine = ctx.engine().clone();
        let keys = self.keys.list(&engine).await?;
        let key =
            keys.iter().find(|key| key.id == id).ok_or_else(|| Problem::not_found("signing key", id))?;
        if key.state == "active" {
            let message = "This key signs; rotate first, so that another one does.";
            return Err(Problem::failed_precondition("KEY_SIGNS", "identity", message, []));
        }
        for token in sql::tokens_signed_by(ctx.tx().await?, id).await? {
            self.revoke(ctx, &token).await?;
        }
        sql::delete_signing_key(ctx.tx().await?, id).await?;
        Ok(())
    }
}

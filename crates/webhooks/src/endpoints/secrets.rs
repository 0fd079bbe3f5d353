//! Secrets of endpoints: how they are generated, stored, shown once and rotated.

use portico_engine::{Ctx, Engine, Operation, Spec};
use portico_kernel::{AccountId, Category, EndpointId, Problem, Role, Timestamp};
use portico_store::{Context, SealedColumn, sealed_column};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Endpoint, endpoint_record, lock_endpoint};
use crate::model::SigningKey;
use crate::sql::{self, EndpointRow};
use crate::{Webhooks, limits};

/// An endpoint, and its secret beside its fields.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WithSecret {
    #[serde(flatten)]
    endpoint: Endpoint,
    /// The signing secret, shown once: `whsec_` and base64.
    secret: String,
}

impl WithSecret {
    pub(crate) fn new(endpoint: Endpoint, key: &SigningKey) -> Self {
        Self { endpoint, secret: key.text() }
    }
}

const PURPOSE: &str = "webhook signing secret";

/// The secrets of endpoints.
pub(crate) const SEALED: [SealedColumn; 2] = [
    sealed_column!("webhook_endpoints", "secret", key "id", account "account_id", row "id", purpose PURPOSE),
    sealed_column!("webhook_endpoints", "old_secret", key "id", account "account_id", row "id", purpose PURPOSE),
];

/// The context that an endpoint's secret is sealed with.
fn seal_context<'a>(account: &'a str, endpoint: &'a str) -> Context<'a> {
    Context { account, row: endpoint, purpose: PURPOSE }
}

/// A new secret, and its sealed form.
pub(crate) fn new_key(ctx: &Ctx, account: AccountId, endpoint: EndpointId) -> (SigningKey, Vec<u8>) {
    let engine = ctx.engine();
    let key = SigningKey::generate(engine.entropy.as_ref());
    let (account, endpoint) = (account.to_string(), endpoint.to_string());
    let sealed =
        engine.keyring.seal(engine.entropy.as_ref(), seal_context(&account, &endpoint), key.expose());
    (key, sealed)
}

impl EndpointRow {
    /// The keys that sign at `now`: the current one, and for a day after a rotation the one before. Empty when the current
    /// one cannot be opened: nothing is signed with the old one alone.
    pub(crate) fn keys(&self, engine: &Engine, now: Timestamp) -> Vec<SigningKey> {
        let (account, id) = (self.account_id.to_string(), self.id.to_string());
        let old = self.old_secret.as_ref().filter(|_| self.old_secret_until.is_some_and(|until| until > now));
        let open =
            |sealed: &Vec<u8>| engine.keyring.open(seal_context(&account, &id), sealed).map(SigningKey::new);
        let opened = std::iter::once(&self.secret).chain(old).map_while(|sealed| open(sealed).ok());
        let keys: Vec<_> = opened.collect();
        if keys.len() < 1 + usize::from(old.is_some()) {
            // Deliveries wait: a key that is missing in the keyring may be put back.
            tracing::error!(endpoint = %self.id, "Failed to open the secret of an endpoint");
        }
        keys
    }
}

/// Give an endpoint a new secret, which is in this answer only. For 24 hours every delivery is signed with the old one
/// too.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RotateSecret {
    /// The endpoint.
    endpoint_id: EndpointId,
}

impl Operation for RotateSecret {
    const SPEC: Spec = Spec::post("webhooks.endpoints.rotate", "/v1/webhooks/endpoints/{endpoint_id}/rotate")
        .scope("webhooks:write")
        .role(Role::Admin)
        .category(Category::Write);
    type Area = Webhooks;
    type Answer = WithSecret;

    async fn run(self, webhooks: &Webhooks, ctx: &mut Ctx) -> Result<WithSecret, Problem> {
        let row = lock_endpoint(ctx, self.endpoint_id).await?;
        let (account, now) = (row.account_id, ctx.now());
        let (key, sealed) = new_key(ctx, account, row.id);
        let until = now + limits::ROTATION_OVERLAP;
        sql::rotate_secret(ctx.tx().await?, row.id, &sealed, now, until).await?;
        ctx.audit("endpoint.secret_rotated", &row.id)?;
        webhooks.endpoint_changed_after_commit(ctx, account, row.id);
        let row = EndpointRow { secret_rotated_at: Some(now), ..row };
        Ok(WithSecret::new(endpoint_record(ctx, row).await?, &key))
    }
}

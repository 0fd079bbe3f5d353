//! Beginning a sign-in.

use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use portico_connectors::{Manifest, Mode, SignIn as Authorization};
use portico_engine::{AccountRef, Ctx, Engine, Operation, Spec};
use portico_kernel::{Category, ConnectionId, Problem, Role, SignInId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SignIn, SignInRequest, SignInStatus, person};
use crate::calls::seal_verifier;
use crate::connections::{check_config_sizes, check_limit, check_texts};
use crate::provider::Provider;
use crate::records::{config_of, to_text};
use crate::sql::{self, SignInRow};
use crate::{Connections, limits, refusals};

/// Random bytes of a state and of a verifier.
const RANDOM_BYTES: usize = 32;

/// Begin a sign-in at a provider. The answer says where to send the person, who comes back to the console with a code.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Connect {
    /// The account.
    org_id: AccountRef,
    /// The connector.
    #[schemars(example = &"gitlab")]
    connector: String,
    /// What the connection is called; left out, it is called after the account at the provider.
    #[serde(default)]
    #[schemars(length(min = 1, max = limits::NAME_CHARACTERS_MAX))]
    name: Option<String>,
    /// What there is to know about it.
    #[serde(default)]
    #[schemars(length(max = limits::DESCRIPTION_CHARACTERS_MAX))]
    description: String,
    /// The configuration; left out for a connection that there is, that stays.
    #[serde(default)]
    config: Option<BTreeMap<String, String>>,
    /// The scopes to ask for; left out, all that the connector asks for.
    #[serde(default)]
    scopes: Vec<String>,
    /// The connection that is to get another credential; left out, there is a new one.
    #[serde(default)]
    connection_id: Option<ConnectionId>,
}

/// A sign-in that has begun.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BegunSignIn {
    /// The sign-in.
    sign_in: SignIn,
    /// Where to send the person.
    authorize_url: String,
}

/// What is kept of a state.
pub(crate) fn state_hash(state: &str) -> Vec<u8> {
    digest(&SHA256, state.as_bytes()).as_ref().to_vec()
}

fn random(engine: &Engine) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(engine.entropy.bytes::<RANDOM_BYTES>())
}

impl Connect {
    fn check(&self) -> Result<&'static Manifest, Problem> {
        check_texts(self.name.as_deref(), Some(&self.description))?;
        let no_sign_in = || Problem::field("connector", "is no connector at which people sign in");
        let Some(Provider::Connector(manifest)) = Provider::of(&self.connector) else {
            return Err(no_sign_in());
        };
        let oauth = manifest.oauth().ok_or_else(no_sign_in)?;
        if let Some(at) = self.scopes.iter().position(|scope| !oauth.scopes().contains(scope)) {
            return Err(Problem::field(
                format!("scopes[{at}]"),
                "is not a scope that the connector asks for",
            ));
        }
        if let Some(config) = &self.config {
            check_config_sizes(config)?;
        }
        Ok(manifest)
    }
}

impl Operation for Connect {
    const SPEC: Spec =
        Spec::post("connections.sign_ins.create", "/v1/accounts/orgs/{org_id}/connections/connect")
            .scope("connections:write")
            .role(Role::Admin)
            .category(Category::Write);
    type Area = Connections;
    type Answer = BegunSignIn;

    async fn run(self, connections: &Connections, ctx: &mut Ctx) -> Result<BegunSignIn, Problem> {
        let person = person(ctx.caller())?.to_owned();
        let manifest = self.check()?;
        let account = ctx.account(Some(self.org_id)).await?;
        let (engine, now) = (ctx.engine().clone(), ctx.now());
        let known = match self.connection_id {
            None => None,
            Some(id) => {
                let row = sql::connection(&mut engine.db.query(), account, id).await?;
                let row = row.ok_or_else(|| refusals::no_connection(id))?;
                if row.kind != self.connector {
                    return Err(Problem::field("connector", "is not the connector of the connection"));
                }
                Some(row)
            }
        };
        if known.is_none() {
            check_limit(sql::count_connections(&mut engine.db.query(), account).await?)?;
        }
        let config = match (&self.config, &known) {
            (Some(config), _) => config.clone(),
            (None, Some(row)) => config_of(&row.config),
            (None, None) => BTreeMap::new(),
        };
        manifest.check_config(Mode::OAuth2, &config).map_err(refusals::faults)?;
        let provider = Provider::Connector(manifest);
        connections.check_hosts(&engine, account, provider, Some(Mode::OAuth2), &config).await?;
        let calls = &connections.calls;
        let client = calls.client(&engine, &mut engine.db.query(), account, manifest, &config).await?;
        let client = client.ok_or_else(refusals::no_client)?;
        let (state, verifier, id): (_, _, SignInId) = (random(&engine), random(&engine), ctx.new_id());
        let redirect_uri = connections.redirect_uri();
        let authorization = Authorization {
            client_id: &client.id,
            redirect_uri: &redirect_uri,
            state: &state,
            verifier: &verifier,
            scopes: &self.scopes,
            config: &config,
            base_url: calls.overrides.get(manifest.id()),
        };
        let oauth = manifest.oauth().ok_or_else(|| Problem::internal("a sign-in without OAuth"))?;
        let (authorize_url, _) = oauth.authorize_url(&authorization).map_err(refusals::fault)?;
        let (name, description, scopes) = (self.name, self.description, self.scopes);
        let request = SignInRequest { name, description, config: self.config, scopes };
        let row = SignInRow {
            id,
            account_id: account,
            person_id: person,
            connector: self.connector,
            verifier: seal_verifier(&engine, account, &id.to_string(), &verifier),
            request: to_text(&request)?,
            connection_id: known.map(|row| row.id.to_string()).unwrap_or_default(),
            status: SignInStatus::Pending.name().to_owned(),
            reason: String::new(),
            created_at: now,
            expires_at: now + limits::SIGN_IN_LIFE,
        };
        ctx.lock_account(account).await?.active()?;
        let pending = sql::count_pending(ctx.tx().await?, &row.person_id, now).await?;
        if pending >= limits::SIGN_INS_MAX {
            let words = format!("A person has at most {} sign-ins that wait for them.", limits::SIGN_INS_MAX);
            return Err(Problem::limit_reached(refusals::DOMAIN, words, limits::SIGN_INS_MAX));
        }
        sql::insert_sign_in(ctx.tx().await?, &row, &state_hash(&state)).await?;
        ctx.audit("sign_in.started", &row.id)?;
        Ok(BegunSignIn { sign_in: SignIn::new(&row, now), authorize_url: authorize_url.into() })
    }
}

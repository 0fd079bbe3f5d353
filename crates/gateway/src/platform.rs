//! The platform's own operations: health, and the documents of the API.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use futures_util::future::join_all;
use portico_engine::{
    AccountRef, Answer, Area, Body, Ctx, Done, Engine, Metric, Operation, Output, Protocol, Spec,
};
use portico_kernel::{Code, Problem, Timestamp};
use portico_store::StoreError;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::forward::ServiceList;
use crate::openapi::{Cut, Documents};
use crate::{Connections, asyncapi};

/// A probe that takes longer has failed.
const PROBE_TIME_MAX: Duration = Duration::from_secs(2);
/// How long what the probes found is good for, so that asking often costs nothing.
const PROBED_LIFE: Duration = Duration::from_millis(500);

/// What the area holds.
pub struct Platform {
    base_url: String,
    /// A company's own services.
    pub services: Arc<ServiceList>,
    documents: Documents,
    frames: OnceLock<Bytes>,
    /// The document, and the generation of the catalog that it tells of.
    asyncapi: ArcSwapOption<(u64, Bytes)>,
    probed: Mutex<Option<(Timestamp, BTreeMap<String, BackendState>)>>,
}

impl Platform {
    /// The area's state; `base_url` stands in the documents.
    pub fn new(base_url: &str, services: Arc<ServiceList>) -> Self {
        Self {
            services,
            base_url: base_url.to_owned(),
            documents: Documents::new(base_url),
            frames: OnceLock::new(),
            asyncapi: ArcSwapOption::empty(),
            probed: Mutex::new(None),
        }
    }

    /// Asks the database and every area whether they can serve, all at once. Whoever asks meanwhile waits for the same
    /// answer.
    async fn probe(&self, engine: &Engine) -> BTreeMap<String, BackendState> {
        let mut probed = self.probed.lock().await;
        if let Some((at, states)) = probed.as_ref()
            && engine.clock.now().since(*at) < PROBED_LIFE
        {
            return states.clone();
        }
        let areas = engine.registry.probed_areas().map(|area| async move {
            (area.to_owned(), within_time(engine.registry.probe(engine, area)).await)
        });
        let (database, areas) = tokio::join!(within_time(engine.db.ping()), join_all(areas));
        let states: BTreeMap<_, _> = areas.into_iter().chain([("database".to_owned(), database)]).collect();
        *probed = Some((engine.clock.now(), states.clone()));
        states
    }
}

async fn within_time(probe: impl Future<Output = Result<(), StoreError>>) -> BackendState {
    match tokio::time::timeout(PROBE_TIME_MAX, probe).await {
        Ok(Ok(())) => BackendState::Serving,
        _ => BackendState::NotServing,
    }
}

/// The area's operations.
pub fn area(platform: &Arc<Platform>, connections: &Arc<Connections>) -> Area {
    Area::builder("platform", platform.clone())
        .scope("mcp:read", "Use assistant tools that only read.")
        .scope("mcp:write", "Use assistant tools that change something.")
        .scope("mcp:generate", "Use assistant tools that run a model, counted against the account's budget.")
        .op::<GetHealth>()
        .op::<GetReady>()
        .op::<GetOpenApi>()
        .op::<GetDocument>()
        .op::<GetFrames>()
        .op::<GetAsyncApi>()
        .op::<PostMessage>()
        .service(connections.clone())
        .metrics({
            let connections = connections.clone();
            move || {
                let open = i64::try_from(connections.count()).unwrap_or(i64::MAX);
                let help = "Streams, sockets and MQTT connections that are open";
                let mut metrics = connections.limits.metrics();
                metrics.extend(connections.certificates.metrics());
                metrics.push(connections.turns.metrics());
                metrics.extend(connections.unread.metrics());
                metrics.push(Metric::gauge("streams_open", help, open));
                metrics
            }
        })
        .build()
}

/// See whether the process answers. It always answers `ok`, whatever the state of what lies behind it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetHealth {}

/// The process answers.
#[derive(Serialize, JsonSchema)]
struct Health {
    /// Always `ok`.
    status: &'static str,
}

impl Operation for GetHealth {
    const SPEC: Spec = Spec::get("platform.health.get", "/healthz").open();
    type Area = Platform;
    type Answer = Health;

    async fn run(self, _: &Platform, _: &mut Ctx) -> Result<Health, Problem> {
        Ok(Health { status: "ok" })
    }
}

/// See whether the service can serve. Each backend is asked; the service is ready when every one of them is serving,
/// and answers with status 503 while it is not.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetReady {}

/// Whether a backend can serve.
#[derive(Serialize, JsonSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum BackendState {
    /// It can.
    Serving,
    /// It cannot.
    NotServing,
    /// It was not asked yet.
    #[expect(
        dead_code,
        reason = "a value of the specification; today every backend is asked before it is shown"
    )]
    Unknown,
}

/// Whether the service can serve.
#[derive(Serialize, JsonSchema)]
struct Readiness {
    /// Is every backend serving?
    ready: bool,
    /// Each backend by its name: `serving`, `not_serving` or `unknown`.
    services: BTreeMap<String, BackendState>,
}

/// A [`Readiness`] whose status says what its body says, for balancers that read no bodies.
struct Ready(Readiness);

impl Answer for Ready {
    const ALSO: &'static [Code] = &[Code::Unavailable];

    fn schema(_: &Spec, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Readiness>()
    }

    fn write(self, ctx: &Ctx) -> Result<Output, Problem> {
        let refused = (!self.0.ready).then_some(Code::Unavailable);
        Ok(Output { refused, ..self.0.write(ctx)? })
    }
}

impl Operation for GetReady {
    const SPEC: Spec = Spec::get("platform.ready.get", "/readyz").open();
    type Area = Platform;
    type Answer = Ready;

    async fn run(self, platform: &Platform, ctx: &mut Ctx) -> Result<Ready, Problem> {
        let mut services = platform.probe(ctx.engine()).await;
        let mut ready = services.values().all(|state| *state == BackendState::Serving);
        for service in platform.services.all() {
            let is_ready = service.upstream.is_ready();
            ready &= is_ready || !service.is_required;
            let state = if is_ready { BackendState::Serving } else { BackendState::NotServing };
            services.insert(format!("service:{}", service.name), state);
        }
        Ok(Ready(Readiness { ready, services }))
    }
}

/// A document of the API, as it goes out.
struct Document(Bytes);

impl Answer for Document {
    fn schema(_: &Spec, _: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "description": "A document of the API." })
    }

    fn write(self, _: &Ctx) -> Result<Output, Problem> {
        Ok(Body::Json(self.0).into())
    }
}

/// Read the OpenAPI document of the public API: the routes that an API key may call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetOpenApi {}

impl Operation for GetOpenApi {
    const SPEC: Spec = Spec::get("platform.openapi.get", "/openapi.json").open().etag().undocumented();
    type Area = Platform;
    type Answer = Document;

    async fn run(self, platform: &Platform, ctx: &mut Ctx) -> Result<Document, Problem> {
        Ok(Document(platform.documents.get(&ctx.engine().registry.catalog(), Cut::public())?))
    }
}

/// Read the JSON Schema of the socket's frames.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetFrames {}

impl Operation for GetFrames {
    const SPEC: Spec = Spec::get("platform.frames.get", "/frames.json").open().etag().undocumented();
    type Area = Platform;
    type Answer = Document;

    async fn run(self, platform: &Platform, _: &mut Ctx) -> Result<Document, Problem> {
        let make = || asyncapi::frames().to_string().into_bytes().into();
        Ok(Document(platform.frames.get_or_init(make).clone()))
    }
}

/// Read the `AsyncAPI` document of the streams: server-sent events, the socket and MQTT.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetAsyncApi {}

impl Operation for GetAsyncApi {
    const SPEC: Spec = Spec::get("platform.asyncapi.get", "/asyncapi.json").open().etag().undocumented();
    type Area = Platform;
    type Answer = Document;

    async fn run(self, platform: &Platform, ctx: &mut Ctx) -> Result<Document, Problem> {
        let catalog = ctx.engine().registry.catalog();
        let kept = platform.asyncapi.load_full().filter(|kept| kept.0 == catalog.generation);
        let kept = kept.unwrap_or_else(|| {
            let document = asyncapi::document(&catalog, &platform.base_url);
            let made = Arc::new((catalog.generation, document.to_string().into_bytes().into()));
            platform.asyncapi.store(Some(made.clone()));
            made
        });
        Ok(Document(kept.1.clone()))
    }
}

/// Read the OpenAPI document of what the caller may call. It is narrowed to the scopes of the token; a person's holds
/// every route of the plan. `info.x-platform-cut` says what it was narrowed to, with a hash: equal hashes mean the same
/// API.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetDocument {
    /// The account whose document to read: a team that the person belongs to; left out, the caller's own.
    #[serde(default)]
    account: Option<AccountRef>,
}

impl Operation for GetDocument {
    const SPEC: Spec = Spec::get("platform.document.get", "/v1/openapi.json").etag();
    type Area = Platform;
    type Answer = Document;

    async fn run(self, platform: &Platform, ctx: &mut Ctx) -> Result<Document, Problem> {
        let scopes = ctx.caller().scopes.clone();
        if ctx.caller().service().is_some() && self.account.is_none() {
            // It belongs to no account, and is on no plan.
            let cut = Cut { plan: "service".to_owned(), account: String::new(), scopes };
            return Ok(Document(platform.documents.get(&ctx.engine().registry.catalog(), cut)?));
        }
        let account = ctx.account(self.account).await?;
        let plan = ctx.plan(account).await?;
        let cut = Cut { plan, account: account.to_string(), scopes };
        Ok(Document(platform.documents.get(&ctx.engine().registry.catalog(), cut)?))
    }
}

/// Send a message of the Model Context Protocol.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PostMessage {}

impl Operation for PostMessage {
    const SPEC: Spec = Spec::post("platform.messages.answer", "/mcp")
        .opens(Protocol::Mcp)
        .body_limit(Spec::BODY_LIMIT)
        .undocumented();
    type Area = Platform;
    type Answer = Done;

    async fn run(self, _: &Platform, _: &mut Ctx) -> Result<Self::Answer, Problem> {
        Err(Problem::internal("messages of assistants are answered before they are dispatched"))
    }
}

//! A provider on this machine: a code host by key or as an app, one by sign-in, issues by user and token, and a service of an
//! account's own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::TestDns;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct ProviderCall {
    /// Its method.
    pub method: String,
    /// Its path and query.
    pub target: String,
    /// The header that tells who asks.
    pub authorization: String,
    /// Its body.
    pub body: Bytes,
}

/// What a path answers instead of what it usually does.
#[derive(Debug, Clone)]
pub enum ProviderAnswer {
    /// This status, and this body.
    Json(u16, Value),
    /// This status, these headers and this body.
    Whole(u16, Vec<(&'static str, String)>, Bytes),
    /// Nothing: the connection breaks off once the request was read.
    Broken,
    /// Nothing at all.
    Silent,
}

#[derive(Default)]
struct State {
    calls: Vec<ProviderCall>,
    scripted: HashMap<String, ProviderAnswer>,
    keys: BTreeSet<String>,
    login: String,
    /// Codes that were allowed, with their challenges.
    codes: HashMap<String, String>,
    /// Access tokens that are good, with their refresh tokens.
    live: BTreeMap<String, String>,
    made: u32,
    life: u32,
    workspace: u32,
    /// Are refresh tokens refused?
    is_dead: bool,
    /// Does it end the old tokens, and then break off without an answer?
    forgets: bool,
}

/// A provider. `/gh` is a code host by key or as an app, `/gl` one by sign-in whose refresh tokens rotate, `/ji` knows issues
/// by user and token, `/own` is a service that tells what it was sent.
#[derive(Clone)]
pub struct Provider {
    origin: String,
    state: Arc<Mutex<State>>,
    /// Requests whose path begins so wait; empty for none.
    held: Arc<watch::Sender<String>>,
    /// Knows names of this machine.
    dns: Arc<TestDns>,
}

type Reply = Response<Full<Bytes>>;

fn reply(status: u16, body: &Value) -> Reply {
    whole(status, &[("content-type", "application/json".to_owned())], body.to_string().into())
}

fn whole(status: u16, headers: &[(&'static str, String)], body: Bytes) -> Reply {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(Full::new(body)).unwrap()
}

/// The fields of a form or a query.
fn form(text: &str) -> HashMap<String, String> {
    url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

impl State {
    /// Answers as the code host by key.
    fn code_host(&mut self, method: &str, path: &str, bearer: &str, body: &Bytes) -> Reply {
        // An app proves itself by what it signs, in three parts.
        if path.starts_with("/app/installations/") && bearer.split('.').count() == 3 {
            return self.installation(method);
        }
        if !self.keys.contains(bearer) && !self.live.contains_key(bearer) {
            return reply(401, &json!({ "message": "Bad credentials" }));
        }
        let sent = || serde_json::from_slice::<Value>(body).unwrap_or_default();
        match (method, path) {
            ("GET", "/user") => {
                let scopes = ("x-oauth-scopes", "repo, read:user".to_owned());
                let kind = ("content-type", "application/json".to_owned());
                let user = json!({ "login": self.login, "id": 4711 }).to_string();
                whole(200, &[kind, scopes], user.into())
            }
            ("GET", "/repos/acme/app/issues/1") => {
                let issue =
                    r#"{"number":1,"title":"First","body":"hello","big":9007199254740993,"exact":1.10}"#;
                whole(200, &[("content-type", "application/json".to_owned())], issue.into())
            }
            ("POST", "/repos/acme/app/issues") => {
                reply(201, &json!({ "number": 2, "title": sent()["title"] }))
            }
            _ => reply(404, &json!({ "message": "Not Found" })),
        }
    }

    /// Answers an app: whose installation it is, or a token for it.
    fn installation(&mut self, method: &str) -> Reply {
        if method == "GET" {
            return reply(200, &json!({ "id": 2, "account": { "login": self.login } }));
        }
        self.made += 1;
        let token = format!("gh-installation-canary-{:04}", self.made);
        self.live.insert(token.clone(), String::new());
        // Far beyond the clocks of tests.
        reply(201, &json!({ "token": token, "expires_at": "2099-01-01T00:00:00Z" }))
    }

    /// Gives out tokens for a code or a refresh token, of which each is good once.
    fn tokens(&mut self, body: &Bytes) -> Option<Reply> {
        let refused = Some(reply(400, &json!({ "error": "invalid_grant" })));
        let form = form(&String::from_utf8_lossy(body));
        let field = |name: &str| form.get(name).cloned().unwrap_or_default();
        if field("grant_type") == "authorization_code" {
            let challenge = self.codes.remove(&field("code"));
            let seen =
                aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, field("code_verifier").as_bytes());
            if challenge != Some(BASE64_URL_SAFE_NO_PAD.encode(seen)) {
                return refused;
            }
        } else {
            let refresh = field("refresh_token");
            if self.is_dead || !self.live.values().any(|known| *known == refresh) {
                return refused;
            }
            self.live.retain(|_, known| *known != refresh);
        }
        self.made += 1;
        let (access, refresh) =
            (format!("gl-access-canary-{:04}", self.made), format!("gl-refresh-canary-{:04}", self.made));
        self.live.insert(access.clone(), refresh.clone());
        if self.forgets {
            return None;
        }
        let mut answer = json!({
            "access_token": access, "refresh_token": refresh, "token_type": "Bearer", "scope": "read_api",
        });
        if self.life > 0 {
            answer["expires_in"] = json!(self.life);
        }
        Some(reply(200, &answer))
    }

    /// Answers as the code host by sign-in.
    fn api(&self, path: &str, bearer: &str) -> Reply {
        if !self.live.contains_key(bearer) {
            return reply(401, &json!({ "message": "401 Unauthorized" }));
        }
        match path {
            "/user" => reply(200, &json!({ "username": "acme-gl", "id": self.workspace })),
            _ => reply(200, &json!([{ "iid": 1, "title": "one" }])),
        }
    }
}

impl Provider {
    /// A name of this machine, for who asks [`Provider::name_servers`], and another one.
    pub const HOST: &str = "api.acme.test";
    /// See above.
    pub const OTHER_HOST: &str = "other.acme.test";

    /// Begins to listen.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let state = State { login: "acme-bot".to_owned(), life: 3_600, workspace: 77, ..State::default() };
        let dns = TestDns::start(1).await;
        let (held, dns) = (Arc::new(watch::Sender::new(String::new())), Arc::new(dns));
        let provider = Self { origin, state: Arc::new(Mutex::new(state)), held, dns };
        for name in [Self::HOST, Self::OTHER_HOST] {
            provider.set_addresses(name, &[Ipv4Addr::LOCALHOST.into()]);
        }
        let serving = provider.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let provider = serving.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let provider = provider.clone();
                        async move { provider.answer(request).await }
                    });
                    // What breaks off on purpose ends here too.
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        provider
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Reply, std::io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let path = parts.uri.path().to_owned();
        let scripted = {
            let mut state = self.state.lock().unwrap();
            state.calls.push(ProviderCall::new(&parts, &body));
            state.scripted.get(&path).cloned()
        };
        match scripted {
            Some(ProviderAnswer::Json(status, body)) => Ok(reply(status, &body)),
            Some(ProviderAnswer::Whole(status, headers, body)) => Ok(whole(status, &headers, body)),
            Some(ProviderAnswer::Broken) => Err(std::io::Error::other("it breaks off")),
            Some(ProviderAnswer::Silent) => std::future::pending().await,
            None => {
                let usual = self.usual(&parts, &body, &path).await;
                usual.ok_or_else(|| std::io::Error::other("it forgets to answer"))
            }
        }
    }

    async fn usual(&self, parts: &Parts, body: &Bytes, path: &str) -> Option<Reply> {
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let authorization = header("authorization");
        let bearer = authorization.strip_prefix("Bearer ").unwrap_or_default();
        let mut held = self.held.subscribe();
        // The provider itself holds them, so it is still there.
        held.wait_for(|held| held.is_empty() || !path.starts_with(held.as_str())).await.unwrap();
        if path == "/gl/oauth/token" {
            return self.state.lock().unwrap().tokens(body);
        }
        let mut state = self.state.lock().unwrap();
        if let Some(path) = path.strip_prefix("/gh") {
            return Some(state.code_host(parts.method.as_str(), path, bearer, body));
        }
        if let Some(path) = path.strip_prefix("/gl/api/v4") {
            let token = if bearer.is_empty() { header("private-token") } else { bearer };
            return Some(state.api(path, token));
        }
        if path == "/ji/rest/api/3/myself" && authorization.starts_with("Basic ") {
            return Some(reply(200, &json!({ "displayName": "Acme", "accountId": "5b10" })));
        }
        let told =
            json!({ "path": parts.uri.to_string(), "method": parts.method.as_str(), "auth": authorization });
        Some(if path.starts_with("/own") || path.starts_with("/ji/") {
            reply(200, &told)
        } else {
            reply(404, &json!({}))
        })
    }

    /// Its address without a path.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Who knows its names.
    pub fn name_servers(&self) -> Vec<SocketAddr> {
        self.dns.resolvers()
    }

    /// From now on whoever asks [`Provider::name_servers`] is told that the name leads there.
    pub fn set_addresses(&self, name: &str, addresses: &[IpAddr]) {
        self.dns.change(|world| world.set_addresses(name, addresses));
    }

    /// Where it is a service of an account's own, by its name.
    pub fn own(&self) -> String {
        format!("{}/own", self.origin.replace("127.0.0.1", Self::HOST))
    }

    /// The configuration that puts it in the place of the providers that it stands for.
    pub fn overrides(&self) -> String {
        format!("github={0}/gh,gitlab={0}/gl,jira={0}/ji", self.origin)
    }

    /// What it was asked so far, of paths that begin so.
    pub fn calls(&self, path: &str) -> Vec<ProviderCall> {
        let state = self.state.lock().unwrap();
        state.calls.iter().filter(|call| call.target.starts_with(path)).cloned().collect()
    }

    /// From now on the path answers so; `None` as usual.
    pub fn script(&self, path: &str, answer: Option<ProviderAnswer>) {
        let mut state = self.state.lock().unwrap();
        match answer {
            Some(answer) => state.scripted.insert(path.to_owned(), answer),
            None => state.scripted.remove(path),
        };
    }

    /// The keys that the code host takes.
    pub fn set_keys(&self, keys: &[&str]) {
        self.state.lock().unwrap().keys = keys.iter().map(|key| (*key).to_owned()).collect();
    }

    /// What the code host calls the account.
    pub fn set_login(&self, login: &str) {
        login.clone_into(&mut self.state.lock().unwrap().login);
    }

    /// The id of the account at the code host by sign-in.
    pub fn set_workspace(&self, workspace: u32) {
        self.state.lock().unwrap().workspace = workspace;
    }

    /// How many seconds an access token lasts; 0 says nothing about it.
    pub fn set_life(&self, life: u32) {
        self.state.lock().unwrap().life = life;
    }

    /// Are refresh tokens refused for good?
    pub fn set_dead(&self, is_dead: bool) {
        self.state.lock().unwrap().is_dead = is_dead;
    }

    /// Does it end the old tokens and break off without an answer?
    pub fn set_forgets(&self, forgets: bool) {
        self.state.lock().unwrap().forgets = forgets;
    }

    /// Ends every access token; refresh tokens stay good.
    pub fn end_access(&self) {
        let mut state = self.state.lock().unwrap();
        let live = std::mem::take(&mut state.live);
        state.live = live.into_values().map(|refresh| (format!("ended {refresh}"), refresh)).collect();
    }

    /// From now on the code host by sign-in takes that key, too.
    pub fn let_in(&self, key: &str) {
        self.state.lock().unwrap().live.insert(key.to_owned(), format!("none of {key}"));
    }

    /// From now on requests whose path begins so wait; empty for none.
    pub fn hold(&self, path: &str) {
        self.held.send_replace(path.to_owned());
    }

    /// A person allows what an address asks for; returns the state and the code that they bring back.
    pub fn allow(&self, authorize_url: &str) -> (String, String) {
        let query = form(authorize_url.split_once('?').unwrap().1);
        let code = format!("code-{}", &query["state"][..8]);
        self.state.lock().unwrap().codes.insert(code.clone(), query["code_challenge"].clone());
        (query["state"].clone(), code)
    }
}

impl ProviderCall {
    fn new(parts: &Parts, body: &Bytes) -> Self {
        let authorization = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
        Self {
            method: parts.method.to_string(),
            target: parts.uri.to_string(),
            authorization: authorization.unwrap_or_default().to_owned(),
            body: body.clone(),
        }
    }
}

//! Tests over the registry: no operation can be forgotten.

use std::collections::BTreeSet;
use std::sync::Arc;

use portico_engine::{Access, Entry, Method, Protocol, RequestBody};
use portico_gateway::openapi::{Cut, document};
use portico_kernel::{Code, PersonId, Role};
use portico_testkit::{Database, MqttClient, SocketClient, TestApp, TestRequest, TestServer};
use serde_json::{Value, json};

use crate::domains::Net;
use crate::with_dns;

/// An account with one of everything that an operation may name.
struct World {
    owner: String,
    member: PersonId,
    key: String,
    token: String,
    invitation: String,
    /// An invitation of the owner to another team.
    invited: String,
    endpoint: String,
    delivery: String,
    inbox: String,
    file: String,
    /// A domain whose record is published.
    domain: String,
    connections: Linked,
    /// A token of a service.
    service: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

async fn as_person(app: &TestApp, token: &str, method: &str, path: &str, body: &Value) -> Value {
    app.send(TestRequest::new(method, path).bearer(token).json(body)).await.ok()
}

impl World {
    async fn new(app: &TestApp, net: &Net) -> Self {
        let (owner, member) =
            (app.new_person("owner@test", None).await, app.new_person("member@test", None).await);
        app.join(app.account, owner.id, Role::Owner).await;
        app.join(app.account, member.id, Role::Member).await;
        let (owner, other) = (app.person_token(owner.id).await, app.person_token(member.id).await);
        let org = format!("/v1/accounts/orgs/{}", app.account);
        let made = json!({ "scopes": ["identity:read"] });
        let key = as_person(app, &owner, "POST", &format!("{org}/keys"), &made).await;
        let token = as_person(app, &owner, "POST", &format!("{org}/tokens"), &made).await;
        let guest = json!({ "email": "guest@test" });
        let invitation = as_person(app, &owner, "POST", &format!("{org}/invitations"), &guest).await;
        let team = as_person(app, &other, "POST", "/v1/accounts/orgs", &json!({ "name": "Other" })).await;
        let path = format!("/v1/accounts/orgs/{}/invitations", text(&team["id"]));
        let invited = as_person(app, &other, "POST", &path, &json!({ "email": "owner@test" })).await;
        app.post(&app.things(), &json!({ "name": "a", "id": "t" })).await.ok();
        let inbox = app.post("/v1/webhooks/inboxes", &json!({})).await.ok();
        let hook = json!({ "url": inbox["inbox"]["address"], "event_types": ["key.created"] });
        let endpoint = text(&app.post("/v1/webhooks/endpoints", &hook).await.ok()["id"]);
        let tested = app.post(&format!("/v1/webhooks/endpoints/{endpoint}/test"), &json!({})).await.ok();
        let domain = app.post(&format!("{org}/domains"), &json!({ "domain": "acme.test" })).await.ok();
        net.publish(&domain["domain"]);
        let file = format!("/v1/lab/orgs/{}/files", app.account);
        let file = app.send(TestRequest::new("POST", &file).bearer(&app.token).json(&json!({}))).await.ok();
        let connections = Linked::new(app, &owner, net).await;
        Self {
            owner,
            member: member.id,
            key: text(&key["key"]["id"]),
            token: text(&token["key"]["id"]),
            invitation: text(&invitation["invitation"]["id"]),
            invited: text(&invited["link"]).split('=').next_back().unwrap().to_owned(),
            endpoint,
            delivery: text(&tested["delivery_id"]),
            inbox: text(&inbox["inbox"]["id"]),
            file: text(&file["id"]),
            domain: text(&domain["domain"]["domain"]),
            connections,
            service: app.service_token("invoices").await,
        }
    }

    fn address(&self, app: &TestApp, entry: &Entry) -> String {
        let key = if entry.spec.name.contains("tokens") { &self.token } else { &self.key };
        let path = entry.spec.path.replace("{org_id}", &app.account.to_string()).replace("{thing_id}", "t");
        let path = path.replace("{user_id}", &self.member.to_string()).replace("{key_id}", key);
        let path = path.replace("{invitation_id}", &self.invitation).replace("{endpoint_id}", &self.endpoint);
        let path = path.replace("{delivery_id}", &self.delivery).replace("{inbox_id}", &self.inbox);
        let path = path.replace("{account_id}", &app.account.to_string()).replace("{domain}", &self.domain);
        let path = path.replace("{file_id}", &self.file);
        self.connections.address(entry, &path)
    }

    /// The operation's own example, with a secret that it cannot know.
    fn body(&self, entry: &Entry) -> Value {
        let mut body = entry.example();
        if entry.spec.name == "accounts.invitations.accept" {
            body["token"] = json!(self.invited);
        }
        self.connections.fill(entry, &self.key, &mut body);
        body
    }

    fn sent(&self, app: &TestApp, entry: &Entry) -> TestRequest {
        let sent = TestRequest::new(entry.spec.method.name(), &self.address(app, entry));
        if entry.spec.method.takes_body() { sent.json(&self.body(entry)) } else { sent }
    }

    /// The same with a field that no operation has.
    fn wrong(&self, app: &TestApp, entry: &Entry) -> TestRequest {
        let address = self.address(app, entry);
        let in_body = entry.spec.method.takes_body() && entry.spec.body == RequestBody::Json;
        let sent = if in_body {
            let mut body = self.body(entry);
            body["nope_nope"] = json!(1);
            TestRequest::new(entry.spec.method.name(), &address).json(&body)
        } else {
            TestRequest::new(entry.spec.method.name(), &format!("{address}?nope_nope=1"))
        };
        sent.bearer(self.bearer(app, entry))
    }

    /// The token of whoever may call it.
    fn bearer<'a>(&'a self, app: &'a TestApp, entry: &Entry) -> &'a str {
        match entry.spec.access {
            Access::Service(_) => &self.service,
            _ if is_in_a_persons_name(entry) => &self.owner,
            _ => &app.token,
        }
    }
}

/// Must a person call it? Signing in at a provider asks keys for their scope, and then refuses them.
fn is_in_a_persons_name(entry: &Entry) -> bool {
    entry.spec.access == Access::Person || entry.spec.name.starts_with("connections.sign_ins.")
}

/// A connection with one of everything that belongs to it.
struct Linked {
    connection: String,
    /// Another one, to be deleted.
    doomed: String,
    grant: String,
    sign_in: String,
    /// What the person brings back from the provider.
    state: String,
    code: String,
    /// A service of the account's own.
    own: String,
}

impl Linked {
    async fn new(app: &TestApp, owner: &str, net: &Net) -> Self {
        const KEY: &str = "ghp_good";
        net.provider.set_keys(&[KEY]);
        let path = format!("/v1/accounts/orgs/{}/connections", app.account);
        let own = net.provider.own();
        let code_host = json!({ "kind": "github", "name": "Code", "credentials": { "api_key": KEY } });
        let connection = text(&app.post(&path, &code_host).await.ok()["connection"]["id"]);
        let service = json!({ "kind": "endpoint", "secret": "s", "config": { "base_url": own } });
        let doomed = text(&app.post(&path, &service).await.ok()["connection"]["id"]);
        let consumer = format!("key:{}", text(&app.get("/v1/me").await.ok()["subject"]));
        let grants = format!("{path}/{connection}/grants");
        let grant = as_person(app, owner, "POST", &grants, &json!({ "consumer": consumer })).await;
        let (connect, gitlab) = (format!("{path}/connect"), json!({ "connector": "gitlab" }));
        let begun = as_person(app, owner, "POST", &connect, &gitlab).await;
        let (state, code) = net.provider.allow(begun["authorize_url"].as_str().unwrap());
        let (grant, sign_in) = (text(&grant["grant"]["id"]), text(&begun["sign_in"]["id"]));
        Self { connection, doomed, grant, sign_in, state, code, own }
    }

    fn address(&self, entry: &Entry, path: &str) -> String {
        let is_deleted = entry.spec.name == "connections.connections.delete";
        let connection = if is_deleted { &self.doomed } else { &self.connection };
        let path = path.replace("{connection_id}", connection).replace("{grant_id}", &self.grant);
        let path = path.replace("{sign_in_id}", &self.sign_in).replace("{connector}", "gitlab");
        let path = path.replace("{action}", "get_issue");
        if entry.area == "connections" { path.replace("{name}", "code_get_issue") } else { path }
    }

    fn fill(&self, entry: &Entry, key: &str, body: &mut Value) {
        let issue = || json!({ "owner": "acme", "repo": "app", "number": 1 });
        match entry.spec.name {
            "connections.connections.create" => {
                let config = json!({ "base_url": self.own });
                *body = json!({ "kind": "endpoint", "secret": "s", "config": config });
            }
            "connections.actions.call" | "connections.tools.call" => *body = json!({ "params": issue() }),
            "connections.grants.create" => body["consumer"] = json!(format!("key:{key}")),
            "connections.sign_ins.complete" => *body = json!({ "state": self.state, "code": self.code }),
            _ => {}
        }
    }
}

fn entries(app: &TestApp) -> Vec<Arc<Entry>> {
    app.app.engine.registry.catalog().entries().to_vec()
}

with_dns! {
    every_operation_is_guarded,
    every_operation_is_strict,
    every_answer_is_valid_against_its_own_schema,
}

async fn every_operation_is_guarded(app: TestApp, net: Net) {
    let world = World::new(&app, &net).await;
    let without: std::collections::HashMap<_, _> = {
        let mut tokens = std::collections::HashMap::new();
        for entry in entries(&app) {
            if let Some(scope) = entry.spec.required_scope()
                && !tokens.contains_key(&scope)
            {
                tokens.insert(scope, app.token_without(scope).await);
            }
        }
        tokens
    };
    for entry in entries(&app) {
        if entry.spec.access == Access::Open {
            continue;
        }
        app.send(world.sent(&app, &entry)).await.refused(Code::Unauthenticated);
        app.send(world.sent(&app, &entry).bearer("abc")).await.refused(Code::Unauthenticated);
        if entry.spec.access == Access::Person {
            let refused =
                app.send(world.sent(&app, &entry).bearer(&app.token)).await.refused(Code::Forbidden);
            assert_eq!(refused["details"][0]["reason"], "PERSON_REQUIRED");
        }
        if let Access::Service(scope) = entry.spec.access {
            // A person's role is nothing here, and no key holds the scope.
            for (token, reason) in [(&world.owner, "SERVICE_REQUIRED"), (&app.token, "SCOPE_REQUIRED")] {
                let refused = app.send(world.sent(&app, &entry).bearer(token)).await.refused(Code::Forbidden);
                assert_eq!(refused["details"][0]["reason"], reason, "{scope}");
            }
            let answer = app.send(world.sent(&app, &entry).bearer(&world.service)).await;
            assert!(![401, 403].contains(&answer.status), "{} with its own scope", entry.spec.name);
        }
        if let Some(scope) = entry.spec.required_scope() {
            app.send(world.sent(&app, &entry).bearer(&without[&scope])).await.refused(Code::Forbidden);
            let only = app.token_with(app.account, [scope].into_iter().collect()).await;
            let answer = app.send(world.sent(&app, &entry).bearer(&only)).await;
            // A scope is not enough where a person must act, or where a person must have granted it.
            let is_enough = !is_in_a_persons_name(&entry) && !entry.spec.name.ends_with(".actions.call");
            let is_refused = [401, 403].contains(&answer.status);
            assert!(!(is_refused && is_enough), "{} with its own scope", entry.spec.name);
            let id = answer_id(&app, &only).await;
            app.admin(portico::admin::Admin::Revoke { id }).await;
        }
    }
}

async fn every_operation_is_strict(app: TestApp, net: Net) {
    let world = World::new(&app, &net).await;
    for entry in entries(&app) {
        // Messages of assistants are strict in their own way.
        if entry.spec.body == RequestBody::Raw || entry.spec.protocol == Some(Protocol::Mcp) {
            continue;
        }
        app.send(world.wrong(&app, &entry)).await.refused_field("nope_nope");
    }
}

async fn every_answer_is_valid_against_its_own_schema(app: TestApp, net: Net) {
    let world = World::new(&app, &net).await;
    let cut = Cut { plan: "free".to_owned(), account: app.account.to_string(), scopes: None };
    let catalog = &app.app.engine.registry.catalog();
    let (own, full) =
        (document(catalog, "http://api.test", &cut), document(catalog, "http://api.test", &Cut::public()));
    let mut order = entries(&app);
    order.sort_by_key(|entry| {
        (entry.spec.method == Method::Delete, entry.spec.name == "accounts.orgs.delete")
    });
    let answers_json =
        |entry: &&Arc<Entry>| entry.spec.documented && entry.answer_kind == portico_engine::AnswerKind::Json;
    for entry in order.iter().filter(answers_json) {
        let document = if matches!(entry.spec.access, Access::Service(_)) { &full } else { &own };
        let operation = &document["paths"][entry.spec.path][entry.spec.method.name().to_lowercase()];
        let mut schema = operation["responses"]["200"]["content"]["application/json"]["schema"].clone();
        assert!(schema.is_object(), "{}", entry.spec.name);
        schema["components"] = document["components"].clone();
        // A key sees the keys below itself; a person sees them all.
        let bearer = if entry.area == "identity" { &world.owner } else { world.bearer(&app, entry) };
        let answer = app.send(world.sent(&app, entry).bearer(bearer)).await;
        assert_eq!(answer.status, 200, "{}: {:?}", entry.spec.name, answer.body);
        let answer = answer.json();
        let errors: Vec<_> = jsonschema::validator_for(&schema)
            .unwrap()
            .iter_errors(&answer)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{}: {errors:?}", entry.spec.name);
    }
}

/// Calls by name have their fields in one object, path variables included.
fn params(world: &World, app: &TestApp, entry: &Entry) -> Value {
    let mut params = if entry.spec.method.takes_body() { world.body(entry) } else { json!({}) };
    let address = world.address(app, entry);
    for (pattern, word) in entry.spec.path.split('/').zip(address.split('/')) {
        if let Some(name) = pattern.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            params[name] = json!(word);
        }
    }
    params
}

with_dns! {
    every_operation_answers_the_same_on_every_transport,
    every_change_can_be_called_by_its_name,
}

async fn every_operation_answers_the_same_on_every_transport(app: TestApp, net: Net) {
    let served = TestServer::new(app).await;
    let app = &served.app;
    let world = World::new(app, &net).await;
    let mut sockets = [served.ready_socket().await, served.socket(&world.owner).await.unwrap()];
    assert_eq!(sockets[1].receive().await["type"], "ready");
    let mut clients = Vec::new();
    for token in [&app.token, &world.owner] {
        clients.push(MqttClient::open(served.mqtt, 5, "a", token, 2, &[]).await.unwrap().0);
    }
    for entry in entries(app) {
        let spec = entry.spec;
        // A service belongs to no account, so it opens no socket.
        if matches!(spec.access, Access::Service(_)) {
            continue;
        }
        let socket = &mut sockets[usize::from(is_in_a_persons_name(&entry))];
        let mqtt = &mut clients[usize::from(is_in_a_persons_name(&entry))];
        let params = params(&world, app, &entry);
        if !entry.is_callable() {
            let refused = socket.call(spec.name, params).await;
            assert_eq!(refused["problem"]["code"], Code::NotFound.name(), "{} stays with HTTP", spec.name);
            assert_eq!(mqtt.call(spec.name, "{}", None).await.payload, refused["problem"], "{}", spec.name);
            continue;
        }
        let mut comparison = Comparison { app, world: &world, entry: &entry, params, socket, mqtt };
        comparison.of_refusals().await;
        // What changes nothing can be asked twice; what is kept under a key is given again.
        if spec.method == Method::Get {
            comparison.of_reads().await;
        } else if spec.idempotency_key {
            comparison.of_keyed_calls().await;
        }
    }
}

/// Compares the answers of one operation on every transport.
struct Comparison<'a> {
    app: &'a TestApp,
    world: &'a World,
    entry: &'a Entry,
    params: Value,
    socket: &'a mut SocketClient,
    mqtt: &'a mut MqttClient,
}

impl Comparison<'_> {
    /// What is wrong is told in the same words.
    async fn of_refusals(&mut self) {
        let (app, spec) = (self.app, self.entry.spec);
        let mut wrong = self.params.clone();
        wrong["nope_nope"] = json!(1);
        let refused = self.socket.call(spec.name, wrong.clone()).await;
        let over_mqtt = self.mqtt.call(spec.name, &wrong.to_string(), None).await;
        assert_eq!(over_mqtt.payload, refused["problem"], "{}", spec.name);
        assert!(over_mqtt.properties.contains("error"), "{}", spec.name);
        let mut by_rest = app.send(self.world.wrong(app, self.entry)).await.json();
        by_rest["request_id"] = json!("");
        assert_eq!(refused["problem"], by_rest, "{}", spec.name);
        if let Some(tool) = spec.tool {
            let mut over_mcp = app.tool(&app.token, tool.name, wrong).await;
            over_mcp["structuredContent"]["request_id"] = json!("");
            assert_eq!(over_mcp["isError"], true, "{}", spec.name);
            assert_eq!(over_mcp["structuredContent"], by_rest, "{}", spec.name);
        }
    }

    /// What is read is the same.
    async fn of_reads(&mut self) {
        let (app, world, spec) = (self.app, self.world, self.entry.spec);
        app.sent().await;
        let rest = app.send(world.sent(app, self.entry).bearer(world.bearer(app, self.entry))).await;
        let mut called = self.socket.call(spec.name, self.params.clone()).await;
        let mut over_mqtt = self.mqtt.call(spec.name, &self.params.to_string(), None).await.payload;
        let mut rest = rest.json();
        if spec.list.is_some() {
            // It is sealed anew for everyone who asks.
            let is_last = |answer: &Value| answer["next_page_token"] == "";
            assert_eq!(is_last(&called["result"]), is_last(&rest), "{}", spec.name);
            called["result"]["next_page_token"] = json!("");
            rest["next_page_token"] = json!("");
            over_mqtt["next_page_token"] = json!("");
        }
        if self.entry.area == "metering" {
            // It counts the call that asks.
            let names = |answer: &Value| answer.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&called["result"]), names(&rest), "{}", spec.name);
            assert_eq!(names(&over_mqtt), names(&rest), "{}", spec.name);
            return;
        }
        if let Some(tool) = spec.tool
            && spec.name != "lab.heavy.list"
        {
            let mut over_mcp = app.tool(&app.token, tool.name, self.params.clone()).await;
            assert_eq!(over_mcp["isError"], false, "{}: {over_mcp}", spec.name);
            let (mut told, mut rest) = (over_mcp["structuredContent"].take(), rest.clone());
            if let Some(list) = spec.list {
                // A model is told less at once.
                let count = told[list].as_array().unwrap().len();
                rest[list].as_array_mut().unwrap().truncate(count);
                assert!(count > 0 || rest[list] == json!([]), "{}", spec.name);
                told["next_page_token"] = json!("");
            }
            assert!(told == rest, "{} answers otherwise over MCP", spec.name);
        }
        assert!(called["result"] == rest, "{} answers otherwise on the socket", spec.name);
        assert!(over_mqtt == rest, "{} answers otherwise over MQTT", spec.name);
    }

    /// A key's answer is given again, whoever asks for it.
    async fn of_keyed_calls(&mut self) {
        let (app, world, spec, params) = (self.app, self.world, self.entry.spec, &self.params);
        let key = format!("same-{}", spec.name);
        let sent = world.sent(app, self.entry).bearer(world.bearer(app, self.entry));
        let rest = app.send(sent.header("idempotency-key", &key)).await;
        let mut call = json!({ "type": "call", "id": "k", "method": spec.name, "params": params });
        call["idempotency_key"] = json!(key);
        self.socket.send(call).await;
        let again = self.socket.answer("k").await;
        assert_eq!(again["result"], rest.ok(), "{}", spec.name);
        let over_mqtt = self.mqtt.call(spec.name, &params.to_string(), Some(&key)).await;
        assert_eq!(over_mqtt.payload, rest.json(), "{}", spec.name);
        if let Some(tool) = spec.tool {
            let mut with_key = params.clone();
            with_key["idempotency_key"] = json!(key);
            let over_mcp = app.tool(&app.token, tool.name, with_key).await;
            assert_eq!(over_mcp["structuredContent"], rest.json(), "{}", spec.name);
        }
    }
}

async fn every_change_can_be_called_by_its_name(app: TestApp, net: Net) {
    let served = TestServer::new(app).await;
    let app = &served.app;
    let world = World::new(app, &net).await;
    let mut sockets = [served.ready_socket().await, served.socket(&world.owner).await.unwrap()];
    assert_eq!(sockets[1].receive().await["type"], "ready");
    let mut order = entries(app);
    order.retain(|entry| entry.is_callable() && entry.spec.method != Method::Get);
    order.retain(|entry| !matches!(entry.spec.access, Access::Service(_)));
    order.sort_by_key(|entry| {
        (entry.spec.method == Method::Delete, entry.spec.name == "accounts.orgs.delete")
    });
    assert!(order.len() > 20, "they were found");
    for entry in order {
        let by_owner = is_in_a_persons_name(&entry) || entry.area == "identity";
        let called = sockets[usize::from(by_owner)].call(entry.spec.name, params(&world, app, &entry)).await;
        assert_eq!(called["type"], "answer", "{}: {called}", entry.spec.name);
    }
}

/// The id of the API token.
async fn answer_id(app: &TestApp, token: &str) -> String {
    let verified = app.app.identity.verify(&app.app.engine, token).await.unwrap();
    verified.caller.subject.clone()
}

#[tokio::test]
async fn names_and_routes_fit_together() {
    let app = TestApp::new(Database::Sqlite).await;
    let mut names = BTreeSet::new();
    for entry in entries(&app) {
        let spec = entry.spec;
        assert!(names.insert(spec.name), "{} twice", spec.name);
        let parts: Vec<_> = spec.name.split('.').collect();
        assert!(parts.len() == 3 && parts[0] == entry.area, "{} is area.nouns.verb", spec.name);
        // A POST may do anything, so its verb is free.
        let verbs: &[&str] = match spec.method {
            Method::Get => &["get", "list", "open"],
            Method::Post => &[parts[2]],
            Method::Put => &["replace"],
            Method::Patch => &["update"],
            Method::Delete => &["delete"],
        };
        assert!(
            verbs.contains(&parts[2]),
            "the name {} of a {} must end in one of {verbs:?}",
            spec.name,
            spec.method.name(),
        );
        assert_eq!(spec.list.is_some(), parts[2] == "list", "{}", spec.name);
        let versioned = spec.path.starts_with("/v1/");
        if matches!(spec.protocol, Some(Protocol::Mqtt | Protocol::Mcp)) {
            continue; // Its version is the protocol's own.
        }
        assert_eq!(
            versioned,
            spec.access != Access::Open || spec.body == RequestBody::Raw,
            "{}: what is open stands outside of a version, but for where strangers post",
            spec.path
        );
    }
}

/// Every place in a schema that a person would look for words at.
fn undescribed(place: &str, schema: &Value, faults: &mut Vec<String>) {
    if !schema.is_object() {
        return;
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        let told = property["description"].as_str().is_some_and(|words| !words.is_empty());
        if !told {
            faults.push(place.clone());
        }
        undescribed(&place, property, faults);
    }
    for inner in [&schema["items"], &schema["additionalProperties"]] {
        undescribed(&format!("{place}[]"), inner, faults);
    }
    for variant in schema["anyOf"].as_array().into_iter().flatten() {
        undescribed(place, variant, faults);
    }
}

#[tokio::test]
async fn every_operation_and_every_field_is_described() {
    let app = TestApp::new(Database::Sqlite).await;
    let cut = Cut { plan: "free".to_owned(), account: app.account.to_string(), scopes: None };
    let document = document(&app.app.engine.registry.catalog(), "http://api.test", &cut);
    let mut faults = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let place = format!("{method} {path}");
            for words in ["summary", "description"] {
                if operation[words].as_str().is_none_or(str::is_empty) {
                    faults.push(format!("{place}: {words}"));
                }
            }
            for parameter in operation["parameters"].as_array().unwrap() {
                if parameter["description"].as_str().is_none_or(str::is_empty) {
                    faults.push(format!("{place}: parameter {}", parameter["name"]));
                }
            }
            undescribed(
                &place,
                &operation["requestBody"]["content"]["application/json"]["schema"],
                &mut faults,
            );
            undescribed(
                &place,
                &operation["responses"]["200"]["content"]["application/json"]["schema"],
                &mut faults,
            );
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        undescribed(name, schema, &mut faults);
    }
    assert_eq!(faults, Vec::<String>::new());
}

/// The committed documents show a reviewer what a change does to the API. `make docs` writes them anew.
#[tokio::test]
async fn the_committed_documents_are_those_of_the_code() {
    let config = portico::config::Config::load(portico::settings::Settings::default()).unwrap();
    let committed = |name: &str| {
        let path = crate::root().join("docs/api").join(name);
        serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    for (name, cut) in [("openapi", Cut::public()), ("openapi-persons", Cut::persons())] {
        let name = format!("{name}.json");
        let printed: Value = serde_json::from_str(&portico::cli::openapi(&config, &cut).unwrap()).unwrap();
        assert!(committed(&name) == printed, "docs/api/{name} is old: run `make docs` and read the diff");
    }
    let asyncapi: Value = serde_json::from_str(&portico::cli::asyncapi(&config).unwrap()).unwrap();
    assert!(
        committed("asyncapi.json") == asyncapi,
        "docs/api/asyncapi.json is old: run `make docs` and read the diff"
    );
    let events: Value = serde_json::from_str(&portico::cli::events(&config).unwrap()).unwrap();
    assert!(
        committed("events.json") == events,
        "docs/api/events.json is old: run `make docs`. A schema that is out never changes; a new shape is a new type"
    );
}

//! An account with connections, a server, and the provider.

use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use portico::App;
use portico::admin::{self, Admin, PersonCommand};
use portico_testkit::{Database, TestDatabase};
use serde_json::{Value, json};

use super::bare::BareCall;
use crate::deliveries::setup as deliveries;
use crate::http::load::Connection;
use crate::http::process::Process;
use crate::http::request as get;
use crate::http::target::{self, FAR, NEAR};

/// Connections of a provider. Ten calls of one run at once, so that 64 callers need some.
const CONNECTIONS: usize = 8;

/// What is started for all of it.
pub(crate) struct Setup {
    /// The database, for people.
    pub(crate) name: &'static str,
    // Both end before their database.
    pub(crate) server: Process,
    /// Another on the same database, where it takes several.
    pub(crate) other: Option<Process>,
    pub(crate) provider: Process,
    /// What the account's path begins with.
    pub(crate) path: String,
    pub(crate) token: String,
    /// The consumer that the token is.
    pub(crate) consumer: String,
    /// Of the person who grants.
    pub(crate) person: String,
    _database: TestDatabase,
}

/// Connections that the token may call.
pub(crate) struct Connected {
    /// The first of them,
    pub(crate) id: String,
    /// its tool,
    pub(crate) tool: String,
    /// and its grant.
    pub(crate) grant: String,
    /// What the action takes.
    pub(crate) params: Value,
    /// The path of the action of the first one.
    pub(crate) action: String,
    /// A call of the action of each.
    pub(crate) requests: Vec<Vec<u8>>,
    /// The call that it makes, alone.
    pub(crate) alone: Request<Empty<Bytes>>,
}

/// A request with a body, as it goes over the wire.
pub(crate) fn request(method: &str, token: &str, path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The body of an answer.
pub(crate) fn body(answer: &[u8]) -> Value {
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    serde_json::from_slice(&answer[head..]).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

async fn person(app: &Arc<App>, command: PersonCommand) -> Value {
    admin::run(app, Admin::Person(command)).await.unwrap()
}

impl Setup {
    pub(crate) async fn new(database: Database) -> Self {
        let name = match database {
            Database::Sqlite => "Sqlite",
            Database::Postgres => "Postgres",
        };
        let database = TestDatabase::create(database).await;
        let app = deliveries::open(&database).await;
        let email = "ada@example.com".to_owned();
        let new = PersonCommand::Create { email, name: "Ada".to_owned(), password_stdin: false };
        let made = person(&app, new).await;
        let account = text(&made["account_id"]);
        let token = deliveries::new_token(&app, account.parse().unwrap()).await;
        let id = text(&made["user_id"]).parse().unwrap();
        let signed_in = person(&app, PersonCommand::Token { person: id }).await;
        let is_shared = app.engine.db.file().is_none();
        app.engine.db.close().await;

        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(target::NAME);
        let provider = Process::start(command, &database.folder.path().join("provider.log"));
        let at = provider.address;
        let bases = format!("github=http://{at}{NEAR},gitlab=http://{at}{FAR}");
        let serve = |log: &str| deliveries::serve_with(&database, &["--connections-base-urls", &bases], log);
        let server = serve("portico.log");
        let other = is_shared.then(|| serve("other.log"));
        let mut this = Self {
            name,
            server,
            other,
            provider,
            path: format!("/v1/accounts/orgs/{account}/connections"),
            token,
            consumer: String::new(),
            person: text(&signed_in["token"]),
            _database: database,
        };
        let me = this.ask(&get(&this.token, "/v1/me")).await;
        this.consumer = format!("key:{}", text(&me["subject"]));
        this
    }

    async fn ask(&self, request: &[u8]) -> Value {
        body(Connection::open(self.server.address).await.ask(request).await)
    }

    /// Connects some accounts of the provider, and grants all of them to the token.
    pub(crate) async fn connect(&self, call: &BareCall) -> Connected {
        let (mut ids, mut grants) = (Vec::new(), Vec::new());
        for number in 0..CONNECTIONS {
            let key = json!({ "api_key": format!("key-{number}") });
            let made = json!({ "kind": call.kind, "credentials": key, "name": call.kind });
            let made = self.ask(&request("POST", &self.token, &self.path, &made)).await;
            let id = text(&made["connection"]["id"]);
            let granted = self.ask(&self.granting(&id)).await;
            grants.push(text(&granted["grant"]["id"]));
            ids.push(id);
        }
        let action = |id: &String| format!("{}/{id}/actions/{}", self.path, call.action);
        let params = json!({ "params": call.params });
        let requests = ids.iter().map(|id| request("POST", &self.token, &action(id), &params)).collect();
        Connected {
            // A name that was never taken is the handle.
            tool: format!("{}_{}", call.kind, call.action),
            grant: grants.swap_remove(0),
            params: call.params.clone(),
            action: action(&ids[0]),
            id: ids.swap_remove(0),
            requests,
            alone: call.request(),
        }
    }

    /// The call by which the person grants the connection to the token.
    pub(crate) fn granting(&self, connection: &str) -> Vec<u8> {
        let path = format!("{}/{connection}/grants", self.path);
        request("POST", &self.person, &path, &json!({ "consumer": self.consumer }))
    }

    /// The call by which it is revoked.
    pub(crate) fn revoking(&self, connection: &str, grant: &str) -> Vec<u8> {
        let path = format!("{}/{connection}/grants/{grant}", self.path);
        format!("DELETE {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\n\r\n", self.token)
            .into_bytes()
    }
}

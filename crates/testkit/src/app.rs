//! The platform in the test's own process.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Request;
use hyper::body::Body;
use portico::admin::{self, Admin};
use portico::{App, AppParts, BlobSettings, Environment, Server};
use portico_engine::{Ctx, JobOutcome, OPERATION_TIME_MAX};
use portico_gateway::{AuthServer, ConsoleSettings, Gateway, Origins, Stopping};
use portico_identity::{CreatedPerson, NewPerson};
use portico_kernel::{AccountId, Clock, PersonId, Plans, Role, ScopeSet, Secret, SystemEntropy};
use portico_store::{Db, Keyring, Select, args};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::request::{Answer, TestRequest};
use crate::{Database, FakeClock, TestDatabase, lab, log};

/// Where the API is.
pub const BASE_URL: &str = "http://api.test";
/// Where the identity provider is.
pub const AUTH_URL: &str = "http://auth.test";
/// The origin whose pages may call.
pub const CONSOLE_URL: &str = "http://console.test";

/// The platform, on a database of its own.
pub struct TestApp {
    /// The wired platform.
    pub app: Arc<App>,
    /// The edge.
    pub gateway: Arc<Gateway>,
    /// The identity provider's edge.
    pub auth: Arc<AuthServer>,
    /// Tells both edges to stop.
    pub stopping: Stopping,
    /// The clock, which stands still.
    pub clock: FakeClock,
    /// An account.
    pub account: AccountId,
    /// An API token of that account, with every scope.
    pub token: String,
    /// The database.
    pub database: TestDatabase,
    /// What the lab's operations wait for and count.
    pub lab: Arc<lab::Lab>,
    errors_expected: bool,
    /// What goes on as long as the test does.
    services: JoinSet<()>,
    stop: watch::Sender<bool>,
}

/// What a test may want otherwise.
pub struct TestAppOptions {
    /// The longest that an operation may run.
    pub operation_time_max: Duration,
    /// Mail, proxies and networks; the addresses are the test's own.
    pub environment: Environment,
    /// What accounts may spend; so much that only tests of limits meet one.
    pub plans: Plans,
}

impl Default for TestAppOptions {
    fn default() -> Self {
        Self { operation_time_max: OPERATION_TIME_MAX, environment: Environment::default(), plans: plenty() }
    }
}

/// Plans under which a test meets no limit, and beside them some for tests of limits.
fn plenty() -> Plans {
    let terms = "
        [free]
        monthly_units = 1_000_000_000_000
        calls_per_minute = 4_000_000_000
        deliveries_per_minute = 4_000_000_000
        log_entries_per_day = 4_000_000_000
        [slow]
        monthly_units = 100_000
        calls_per_minute = 5
        [few_deliveries]
        monthly_units = 1_000_000_000_000
        calls_per_minute = 4_000_000_000
        deliveries_per_minute = 5
        [short_log]
        monthly_units = 1_000_000_000_000
        calls_per_minute = 4_000_000_000
        log_entries_per_day = 5
        [tiny]
        monthly_units = 100
        calls_per_minute = 1_000
        [open]
        monthly_units = 100
        calls_per_minute = 1_000
        at_zero = \"allow\"";
    Plans::default().configured(toml::from_str(terms).unwrap(), "").unwrap()
}

impl TestApp {
    /// The platform on that database.
    pub async fn new(database: Database) -> Self {
        Self::with(database, TestAppOptions::default()).await
    }

    /// The platform on that database, with these options.
    pub async fn with(database: Database, options: TestAppOptions) -> Self {
        Self::on(TestDatabase::create(database).await, FakeClock::default(), options).await
    }

    /// The platform on a database that is there already, as a second process would run it.
    pub async fn on(database: TestDatabase, clock: FakeClock, options: TestAppOptions) -> Self {
        log::begin();
        let db = Db::open(&database.url).await.unwrap();
        db.migrate(clock.now()).await.unwrap();
        lab::create_tables(&db).await;
        let keyring_file = database.folder.path().join("keyring");
        let keyring = Keyring::open_for(&db, &keyring_file, &SystemEntropy).await.unwrap();
        let lab = Arc::new(lab::Lab::default());
        let parts = AppParts {
            db,
            clock: Arc::new(clock.clone()),
            entropy: Arc::new(SystemEntropy),
            keyring,
            plans: options.plans,
            environment: Environment {
                journal: database.folder.path().join("journal"),
                blobs: BlobSettings::Files(database.folder.path().join("blobs")),
                base_url: BASE_URL.to_owned(),
                auth_url: AUTH_URL.to_owned(),
                console_url: CONSOLE_URL.to_owned(),
                ..options.environment
            },
            operation_time_max: options.operation_time_max,
        };
        let app = Arc::new(App::build(parts, vec![lab::area(&lab)]).await.unwrap());
        let origins: Origins = [CONSOLE_URL.to_owned()].into_iter().collect();
        app.metering.start(&app.engine).await.unwrap();
        let Server { gateway, auth, stopping, .. } =
            Server::new(&app, origins, &ConsoleSettings::default()).unwrap();
        let account = AccountId::from_parts(clock.now(), [0; 10]);
        let (token, errors_expected) = (String::new(), false);
        let (mut services, stop) = (JoinSet::new(), watch::Sender::new(false));
        app.engine.registry.start_services(&app.engine, &stop.subscribe(), &mut services);
        let mut app = Self {
            app,
            gateway,
            auth,
            stopping,
            clock,
            account,
            token,
            database,
            lab,
            errors_expected,
            services,
            stop,
        };
        app.account = app.new_account("Acme").await;
        app.token = app.token_with(app.account, app.all_scopes()).await;
        app
    }

    /// Runs a command of the operator.
    pub async fn admin(&self, command: Admin) -> Value {
        admin::run(&self.app, command).await.unwrap()
    }

    /// Another account.
    pub async fn new_account(&self, name: &str) -> AccountId {
        let (name, plan) = (name.to_owned(), Plans::FIRST.to_owned());
        let made =
            self.admin(Admin::Account(admin::AccountCommand::Create { name, owner: None, plan })).await;
        made["account_id"].as_str().unwrap().parse().unwrap()
    }

    /// Another API token.
    pub async fn token_with(&self, account: AccountId, scopes: ScopeSet) -> String {
        self.new_token(account, scopes, 7).await["token"].as_str().unwrap().to_owned()
    }

    /// Another API token, with its id and its end.
    pub async fn new_token(&self, account: AccountId, scopes: ScopeSet, days: u16) -> Value {
        let name = "a test".to_owned();
        self.admin(Admin::Token(admin::TokenCommand::Create { account, scopes, days, name })).await
    }

    /// An API token of an account on the plan `slow`, with five calls a minute.
    pub async fn slow_token(&self) -> String {
        let (name, plan) = ("Slow".to_owned(), "slow".to_owned());
        let create = admin::AccountCommand::Create { name, owner: None, plan };
        let made = self.admin(Admin::Account(create)).await;
        let account = made["account_id"].as_str().unwrap().parse().unwrap();
        self.token_with(account, self.all_scopes()).await
    }

    /// Every scope there is.
    pub fn all_scopes(&self) -> ScopeSet {
        self.app.engine.registry.catalog().scopes().all()
    }

    /// An API token of the account with every scope but one.
    pub async fn token_without(&self, scope: &str) -> String {
        self.token_with(self.account, self.all_scopes().without(scope)).await
    }

    /// Another key.
    pub async fn new_key(&self, account: AccountId, scopes: ScopeSet) -> Value {
        let name = "a test".to_owned();
        self.admin(Admin::Key(admin::KeyCommand::Create { account, scopes, name })).await
    }

    /// A token that the key is exchanged for, with all that the key holds.
    pub async fn exchange(&self, key: &Value) -> String {
        let text = |name: &str| key[name].as_str().unwrap().to_owned();
        let basic = BASE64_STANDARD.encode(format!("{}:{}", text("client_id"), text("client_secret")));
        let sent = TestRequest::new("POST", "/oauth2/token")
            .header("authorization", &format!("Basic {basic}"))
            .form("grant_type=client_credentials&audience=platform-api");
        self.send_auth(sent).await.json()["access_token"].as_str().unwrap().to_owned()
    }

    /// A person with an account of their own and, if they have one, a password.
    pub async fn new_person(&self, email: &str, password: Option<&str>) -> CreatedPerson {
        let mut ctx = Ctx::operator(&self.app.engine);
        let password = password.map(|password| Secret::new(password.to_owned()));
        let new =
            NewPerson { email: email.to_owned(), name: "Ada".to_owned(), email_verified: true, password };
        let made = self.app.identity.create_person(&mut ctx, &new).await.unwrap();
        ctx.finish().await.unwrap();
        made
    }

    /// Makes the person a member of the account.
    pub async fn join(&self, account: AccountId, person: PersonId, role: Role) {
        let mut ctx = Ctx::operator(&self.app.engine);
        ctx.set_account(account);
        self.app.accounts.add_member(&mut ctx, account, person, role).await.unwrap();
        ctx.finish().await.unwrap();
    }

    /// A token as the person would hold it in the console.
    pub async fn person_token(&self, person: PersonId) -> String {
        let made = self.admin(Admin::Person(admin::PersonCommand::Token { person })).await;
        made["token"].as_str().unwrap().to_owned()
    }

    /// Sends a request to the API as it is.
    pub async fn send(&self, sent: TestRequest) -> Answer {
        Answer::read(self.gateway.handle(sent.build()).await).await
    }

    /// Sends a request whose body is of any kind.
    pub async fn send_body<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = bytes::Bytes, Error: std::fmt::Display> + Unpin + Send + 'static,
    {
        Answer::read(self.gateway.handle(request).await).await
    }

    /// Sends a request to the identity provider.
    pub async fn send_auth(&self, sent: TestRequest) -> Answer {
        self.auth.handle(sent.build()).await.into()
    }

    /// Reads with the account's token.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(TestRequest::new("GET", path).bearer(&self.token)).await
    }

    /// Posts with the account's token.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(TestRequest::new("POST", path).bearer(&self.token).json(body)).await
    }

    /// The path of the lab's things.
    pub fn things(&self) -> String {
        format!("/v1/lab/orgs/{}/things", self.account)
    }

    /// Lets time go by, and what happens by the half-second happen.
    pub async fn advance(&self, span: Duration) {
        self.clock.advance(span);
        self.catch_up().await;
    }

    /// Lets what happens by the half-second happen.
    pub async fn catch_up(&self) {
        self.app.identity.revocations.refresh(&self.app.engine).await.unwrap();
        self.app.identity.keys.refresh(&self.app.engine).await.unwrap();
        turn(self, "metering.keep_leases").await;
        self.app.metering.flush(&self.app.engine).await.unwrap();
    }

    /// Waits until everything that is due is sent, and what came of it is written.
    pub async fn sent(&self) {
        self.app.webhooks.settle(&self.app.engine).await.unwrap();
    }

    /// A second server on the same database, with the same clock.
    pub async fn beside(&self) -> Self {
        self.beside_with(TestAppOptions::default()).await
    }

    /// The same, with options of its own.
    pub async fn beside_with(&self, options: TestAppOptions) -> Self {
        let database = TestDatabase { url: self.database.url.clone(), folder: tempfile::tempdir().unwrap() };
        let keyring = |of: &TestDatabase| of.folder.path().join("keyring");
        std::fs::copy(keyring(&self.database), keyring(&database)).unwrap();
        Self::on(database, self.clock.clone(), options).await
    }

    /// Tells what goes on by itself to end.
    pub fn halt(&self) {
        self.stop.send_replace(true);
    }

    /// Ends what goes on by itself, in order.
    pub async fn stop(&mut self) {
        self.halt();
        while self.services.join_next().await.is_some() {}
    }

    /// What time it is, as the wire has it.
    pub fn clock_text(&self) -> String {
        self.clock.now().to_string()
    }

    /// How many rows the table has.
    pub async fn count(&self, table: &str) -> i64 {
        let text = format!("select count(*) as value from {table}");
        self.app.engine.db.query().value(text.leak(), args![]).await.unwrap()
    }

    /// Takes the folder away from the test, for another one to go on with.
    pub fn take_folder(&mut self) -> tempfile::TempDir {
        std::mem::replace(&mut self.database.folder, tempfile::tempdir().unwrap())
    }

    /// From here on errors may be logged.
    pub fn expect_errors(&mut self) {
        self.errors_expected = true;
    }
}

/// Runs one turn of the job of that name.
pub async fn turn(app: &TestApp, job: &str) -> JobOutcome {
    app.app.engine.registry.run_job(&app.app.engine, job).await.expect("a job of that name").unwrap()
}

impl Drop for TestApp {
    fn drop(&mut self) {
        let errors = log::take_errors();
        if !std::thread::panicking() && !self.errors_expected {
            assert_eq!(errors, 0, "errors were logged that the test did not expect");
        }
    }
}

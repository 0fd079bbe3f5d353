//! The accounts and API tokens that a server finds when it starts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use portico::App;
use portico::admin::{self, AccountCommand, Admin, TokenCommand};
use portico::config::Config;
use portico::services::load;
use portico::settings::Settings;
use portico_kernel::{AccountId, Plans};
use serde_json::Value;

use crate::writes::rate;

/// Accounts in the database.
pub(crate) const ACCOUNTS: u32 = 10_000;
/// API tokens, spread over as many of the accounts as it takes: an account may have twenty.
pub(crate) const TOKENS: u32 = 10_000;
pub(crate) const TOKENS_EACH: u32 = 20;
const CALLERS: u32 = 64;

/// A plan that refuses nothing: what is measured is the server, not its patience.
const PLANS: &str = "
[plans.free]
monthly_units = 1000000000000
calls_per_minute = 100000000
";

/// Where the configuration is.
pub(crate) fn config_file(folder: &Path) -> PathBuf {
    folder.join("portico.toml")
}

/// The configuration: the defaults, on ports of its own and with a folder of its own.
fn config(folder: &Path) -> String {
    let any = "127.0.0.1:0";
    let data = folder.join("data").display().to_string();
    format!(
        "data_dir = {data:?}\nlisten_api = {any:?}\nlisten_auth = {any:?}\nlisten_metrics = {any:?}\n\
         listen_mqtt = \"\"\nlisten_console = \"\"\n\
         max_connections_per_address = 20_000\nmax_connections_per_account = 20_000\n\
         base_url = \"http://api.bench\"\nauth_url = \"http://auth.bench\"\n{PLANS}"
    )
}

/// Runs as many commands of the operator as there are numbers, many at once; answers what the field of each says.
async fn make(
    app: &Arc<App>,
    count: u32,
    field: &'static str,
    command: impl Fn(u32) -> Admin + Clone + Send + Sync + 'static,
) -> Vec<String> {
    let made = Arc::new(Mutex::new(Vec::new()));
    let (app, all) = (app.clone(), made.clone());
    rate(CALLERS, count, move |number| {
        let (app, all, command) = (app.clone(), all.clone(), command(number));
        async move {
            let made: Value = admin::run(&app, command).await.unwrap();
            all.lock().unwrap().push(made[field].as_str().unwrap().to_owned());
        }
    })
    .await;
    std::mem::take(&mut *made.lock().unwrap())
}

/// Writes the configuration and makes so many accounts and tokens; answers the tokens, in no order.
pub(crate) async fn fill(folder: &Path, accounts: u32, tokens: u32) -> Vec<String> {
    fill_with(folder, accounts, tokens, "").await
}

/// The same, with further tables in the configuration.
pub(crate) async fn fill_with(folder: &Path, accounts: u32, tokens: u32, tables: &str) -> Vec<String> {
    let file = config_file(folder);
    std::fs::write(&file, config(folder) + tables).unwrap();
    let settings = Settings { config: Some(file), ..Settings::default() };
    let config = Config::load(settings).unwrap();
    let app = Arc::new(App::open(&config, Vec::new()).await.unwrap());
    app.name_services(&load(&config).await.unwrap()).unwrap();
    let accounts = make(&app, accounts, "account_id", |number| {
        Admin::Account(AccountCommand::Create {
            name: format!("Acme {number}"),
            owner: None,
            plan: Plans::FIRST.to_owned(),
        })
    });
    let accounts: Vec<AccountId> = accounts.await.iter().map(|id| id.parse().unwrap()).collect();
    let holders = tokens.div_ceil(TOKENS_EACH);
    let all = app.engine.registry.catalog().scopes().all();
    let tokens = make(&app, tokens, "token", move |number| {
        let account = accounts[(number % holders) as usize];
        let (scopes, name) = (all.clone(), "a bench".to_owned());
        Admin::Token(TokenCommand::Create { account, scopes, days: 7, name })
    });
    let tokens = tokens.await;
    app.engine.db.close().await;
    tokens
}

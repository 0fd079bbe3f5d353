//! The command line.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use portico_engine::clock::SystemClock;
use portico_engine::{Area, Registry};
use portico_gateway::asyncapi;
use portico_gateway::openapi::{Cut, document};
use portico_kernel::{Clock, SystemEntropy};
use portico_store::Db;

use crate::config::Config;
use crate::services::{ServicesCommand, load};
use crate::settings::Settings;

use crate::{App, Areas, admin, doctor, listen, log, make_folder, serve, trigger};

/// Everything a company needs beside its product to offer an API to developers.
#[derive(Debug, Parser)]
#[command(name = "portico", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    settings: Settings,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve everything until SIGTERM
    Serve,
    /// Bring the database up to date
    Migrate,
    /// Print the OpenAPI document of the public API
    Openapi {
        /// With what only a person may call, signed in to the console
        #[arg(long)]
        persons: bool,
    },
    /// Print the catalogue of event types
    Events,
    /// Print the AsyncAPI document of streams, socket and MQTT
    Asyncapi,
    /// Print the schema of the database
    Schema,
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check whether it would run here
    Doctor,
    /// People, accounts, keys and tokens, on the same database, whether or not the server runs
    Admin {
        /// Print one JSON object
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: admin::Admin,
    },
    /// Show an account's events as they happen, and post each to an address of this machine as a signed delivery
    Listen(listen::Listen),
    /// Ask for a test event
    Trigger(trigger::Trigger),
    /// Look at a company's own services, or have them read anew
    #[command(subcommand)]
    Services(ServicesCommand),
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Read it, and print what each key was decided to be
    Check,
}

type Failure = Box<dyn Error + Send + Sync>;

impl Cli {
    /// The settings that were given as flags or in the environment.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Runs the command; `more` are areas that only tests have.
    pub async fn run(self, more: Vec<Area>) -> Result<ExitCode, Failure> {
        let settings = match &self.command {
            Command::Services(command) => command.settings(self.settings),
            _ => self.settings,
        };
        let config = Config::load(settings.clone())?;
        let _log = log::begin(&config);
        match self.command {
            Command::Serve => Box::pin(serve(&config, &settings, more)).await?,
            Command::Migrate => migrate(&config).await?,
            Command::Events => println!("{}", events(&config)?),
            Command::Asyncapi => println!("{}", asyncapi(&config)?),
            Command::Openapi { persons } => {
                let cut = if persons { Cut::persons() } else { Cut::public() };
                println!("{}", openapi(&config, &cut)?);
            }
            Command::Schema => print!("{}", portico_store::schema()?),
            Command::Config(ConfigCommand::Check) => println!("{}", config.describe()),
            Command::Doctor => return Ok(report(&doctor::examine(&config).await)),
            Command::Admin { json, command } => {
                let app = Arc::new(App::open(&config, more).await?);
                Box::pin(name_services(&app, &config)).await;
                let made = admin::run(&app, command).await.map_err(|problem| admin::message(&problem))?;
                println!("{}", if json { made.to_string() } else { admin::for_person(&made) });
            }
            Command::Listen(listen) => listen::run(&config, listen, &SystemClock, &SystemEntropy).await?,
            Command::Services(command) => return Box::pin(command.run(&config)).await,
            Command::Trigger(trigger) => println!("{}", trigger::run(&config, trigger).await?),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Lets commands name what services bring. An operator can work also while a document cannot be read.
async fn name_services(app: &App, config: &Config) {
    let named = match load(config).await {
        Ok(loaded) => app.name_services(&loaded),
        Err(findings) => Err(findings),
    };
    for finding in named.err().into_iter().flatten() {
        tracing::warn!(finding, "Services of the configuration are left out");
    }
}

async fn migrate(config: &Config) -> Result<(), Failure> {
    make_folder(&config.data_dir)?;
    let db = Db::open(&config.database_url).await?;
    let migrated = db.migrate(SystemClock.now()).await?;
    db.close().await;
    for name in &migrated.ran {
        println!("ran {name}");
    }
    println!("the database is at {}", migrated.version);
    Ok(())
}

/// The registry without a database: documents follow from the operations alone.
fn bare_registry(config: &Config) -> Result<Registry, Failure> {
    Ok(Areas::new(&config.environment, false)?.registry(&config.environment.base_url, Vec::new())?)
}

/// The OpenAPI document of what `cut` holds.
pub fn openapi(config: &Config, cut: &Cut) -> Result<String, Failure> {
    let document = document(&bare_registry(config)?.catalog(), &config.environment.base_url, cut);
    Ok(serde_json::to_string_pretty(&document)?)
}

/// The catalogue of event types.
pub fn events(config: &Config) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(bare_registry(config)?.catalog().events())?)
}

/// The `AsyncAPI` document of streams, socket and MQTT.
pub fn asyncapi(config: &Config) -> Result<String, Failure> {
    let document = asyncapi::document(&bare_registry(config)?.catalog(), &config.environment.base_url);
    Ok(serde_json::to_string_pretty(&document)?)
}

fn report(findings: &[doctor::Finding]) -> ExitCode {
    for finding in findings {
        match &finding.fault {
            None => println!("ok    {}", finding.what),
            Some(fault) if finding.is_warning => println!("warn  {}: {fault}", finding.what),
            Some(fault) => println!("FAULT {}: {fault}", finding.what),
        }
    }
    if findings.iter().any(doctor::Finding::is_fatal) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

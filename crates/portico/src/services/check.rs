//! `portico services`: look at the services of a configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use portico_engine::Registry;
use portico_gateway::Gateway;
use portico_openapi::{Document, Operation, Security, diff};
use portico_store::Db;

use super::running::ServiceParts;
use super::{LoadedService, RunningServices, load, reload_by_socket, sql};
use crate::Areas;
use crate::config::Config;
use crate::settings::Settings;

/// Look at a company's own services, or have them read anew
#[derive(Debug, Subcommand)]
pub enum ServicesCommand {
    /// Read the documents of a configuration and print their routes; nothing is started
    Check {
        /// The configuration
        file: PathBuf,
    },
    /// Compare the documents of a configuration with what runs; exits with 1 where a caller would break
    Diff {
        /// The configuration
        file: PathBuf,
    },
    /// Have the server that runs on the data folder read its services anew
    Reload,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl ServicesCommand {
    /// The configuration that it is about, where that is not the one that everything else goes by.
    pub(crate) fn settings(&self, settings: Settings) -> Settings {
        match self {
            Self::Check { file } | Self::Diff { file } => Settings { config: Some(file.clone()), ..settings },
            Self::Reload => settings,
        }
    }

    /// Runs it.
    pub(crate) async fn run(&self, config: &Config) -> Result<ExitCode, Failure> {
        match self {
            Self::Check { .. } => match examine(config).await {
                Ok(services) => {
                    print!("{}", table(&services));
                    Ok(ExitCode::SUCCESS)
                }
                Err(findings) => Ok(refuse(&findings)),
            },
            Self::Diff { .. } => match examine(config).await {
                Ok(services) => compare(config, &services).await,
                Err(findings) => Ok(refuse(&findings)),
            },
            Self::Reload => match reload_by_socket(config).await {
                Ok(()) => Ok(ExitCode::SUCCESS),
                Err(why) => Ok(refuse(&[why])),
            },
        }
    }
}

fn refuse(findings: &[String]) -> ExitCode {
    for finding in findings {
        eprintln!("{finding}");
    }
    ExitCode::FAILURE
}

/// Reads the services and puts them beside the areas, as a start would; says everything that is wrong.
pub(crate) async fn examine(config: &Config) -> Result<Vec<LoadedService>, Vec<String>> {
    let loaded = load(config).await?;
    let areas = Areas::new(&config.environment, false).map_err(|error| vec![error.to_string()])?;
    let registry = areas.registry(&config.environment.base_url, Vec::new());
    let registry = registry.map_err(|error| vec![error.to_string()])?;
    let parts = ServiceParts {
        environment: &config.environment,
        identity: &areas.identity,
        metering: &areas.metering,
        services: &areas.service_list,
    };
    let running = RunningServices::new(&loaded, &parts)?;
    fits(&registry, &loaded, &running)?;
    Ok(loaded)
}

/// Do the services fit beside the areas? Returns the catalog with them.
pub(crate) fn fits(
    registry: &Registry,
    loaded: &[LoadedService],
    running: &RunningServices,
) -> Result<portico_engine::Catalog, Vec<String>> {
    for service in loaded {
        let name = service.settings.name.as_str();
        if registry.areas().contains(&name) {
            return Err(vec![format!("services.{name}: that is the name of an area of the platform")]);
        }
    }
    let catalog = registry.catalog_with(running.parts.iter().cloned());
    let catalog = catalog.map_err(|error| vec![error.to_string()])?;
    Gateway::tables(&catalog).map_err(|error| vec![error.to_string()])?;
    Ok(catalog)
}

/// The routes with scope, price and tool.
fn table(services: &[LoadedService]) -> String {
    let mut rows = vec![["ROUTE", "NAME", "SCOPE", "UNITS", "TOOL"].map(str::to_owned)];
    for service in services {
        for operation in &service.document.operations {
            rows.push([
                format!("{} {}", operation.method.name(), operation.path),
                format!("{}.{}", service.settings.name, operation.id),
                scope(operation),
                operation.price().to_string(),
                operation.tool.as_ref().map(|tool| tool.name.clone()).unwrap_or_default(),
            ]);
        }
    }
    let widths: Vec<usize> =
        (0..5).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn scope(operation: &Operation) -> String {
    match &operation.security {
        Security::Open => "(open)".to_owned(),
        Security::AnyOf(lists) if lists.iter().any(Vec::is_empty) => "(any token)".to_owned(),
        Security::AnyOf(lists) => lists.iter().map(|list| list.join("+")).collect::<Vec<_>>().join(" or "),
    }
}

/// Prints what would change of what runs; breaking changes are a failure.
async fn compare(config: &Config, services: &[LoadedService]) -> Result<ExitCode, Failure> {
    let db = Db::open(&config.database_url).await?;
    let kept = sql::documents(&db).await;
    let changed = sql::changed_types(&db, services).await;
    db.close().await;
    let (kept, changed) = (kept?, changed?);
    let mut breaks = !changed.is_empty();
    for line in &changed {
        println!("breaking: {line}");
    }
    for service in services {
        let name = &service.settings.name;
        let before = kept.iter().find(|kept| kept.service == *name);
        let Some(before) = before else {
            println!("services.{name}: is new, with {} operations", service.document.operations.len());
            continue;
        };
        let Ok(before) = Document::read(before.document.as_bytes(), name) else {
            println!(
                "services.{name}: what runs was read by another version of Portico and cannot be compared"
            );
            continue;
        };
        for change in diff(&before, &service.document) {
            breaks |= change.breaking;
            let mark = if change.breaking { "breaking: " } else { "" };
            println!("{mark}services.{name}: {}", change.text);
        }
    }
    for gone in
        kept.iter().filter(|kept| services.iter().all(|service| service.settings.name != kept.service))
    {
        breaks = true;
        println!("breaking: services.{}: is gone", gone.service);
    }
    Ok(if breaks { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

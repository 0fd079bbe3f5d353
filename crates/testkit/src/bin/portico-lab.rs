//! The program with the lab beside its areas, for tests that need a process to kill and for judges that need fixtures.

#![expect(clippy::expect_used, reason = "a test that fails panics")]

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use portico::cli::Cli;
use portico_testkit::lab;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let config = portico::config::Config::load(cli.settings().clone()).expect("the configuration");
    std::fs::create_dir_all(&config.data_dir).expect("the data folder");
    lab::prepare(&config.database_url).await;
    let lab = Arc::new(lab::Lab::default());
    match cli.run(vec![lab::area_with_offer(&lab)]).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("portico: {error}");
            ExitCode::FAILURE
        }
    }
}

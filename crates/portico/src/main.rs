//! The program.

use std::process::ExitCode;

use clap::Parser;
use portico::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().run(Vec::new()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("portico: {error}");
            ExitCode::FAILURE
        }
    }
}

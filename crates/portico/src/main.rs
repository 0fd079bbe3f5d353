//! The program.

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use portico::cli::Cli;

/// Every request makes and frees some dozens of small things; this allocator takes half the time of the system's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

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

//! The program as it is shipped, with one area more: it makes as many events as it is told to, in one commit, and notes
//! when that was.

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use mimalloc::MiMalloc;
use portico::cli::Cli;
use portico::config::Config;
use portico_engine::clock::SystemClock;
use portico_engine::{AccountRef, Area, Ctx, Done, Operation, Spec, events};
use portico_kernel::{Category, Clock as _, Problem};
use schemars::JsonSchema;
use serde::Deserialize;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

events! {
    /// Something happened.
    Happened = "bench.happened" {
        /// Which one it is.
        number: String = "1".to_owned(),
        /// Who made it.
        actor: String = "a".to_owned(),
    }
}

/// When each event was committed, in microseconds, eight bytes at the offset of its number.
struct Commits(Arc<File>);

/// Make events, each with a number of its own, and one entry in the audit log.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MakeEvents {
    /// The account.
    org_id: AccountRef,
    /// The number of the first one.
    first: i32,
    /// How many.
    count: i32,
}

impl Operation for MakeEvents {
    const SPEC: Spec = Spec::post("bench.events.make", "/v1/bench/orgs/{org_id}/events")
        .scope("webhooks:write")
        .category(Category::Write);
    type Area = Commits;
    type Answer = Done;

    async fn run(self, commits: &Commits, ctx: &mut Ctx) -> Result<Done, Problem> {
        ctx.account(Some(self.org_id)).await?;
        let actor = ctx.caller().subject.clone();
        for number in self.first..self.first.saturating_add(self.count) {
            ctx.emit(&Happened { number: number.to_string(), actor: actor.clone() })?;
        }
        ctx.audit("bench.events.made", &self.first)?;
        let (commits, offset) = (commits.0.clone(), u64::try_from(self.first).unwrap_or(0) * 8);
        ctx.after_commit(Box::new(move || {
            let now = SystemClock.now().as_micros();
            // Whoever reads it misses it.
            let _ = commits.write_all_at(&now.to_ne_bytes(), offset);
        }));
        Ok(Done {})
    }
}

async fn run() -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let cli = Cli::parse();
    let folder = Config::load(cli.settings().clone())?.data_dir;
    let commits = Arc::new(Commits(Arc::new(File::create(folder.join("commits"))?)));
    let area = Area::builder("bench", commits).op::<MakeEvents>().event::<Happened>().build();
    cli.run(vec![area]).await
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("portico: {error}");
            ExitCode::FAILURE
        }
    }
}

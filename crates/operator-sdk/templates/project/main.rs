{{ header }}//! The program: without arguments it runs the operator, with `manifests` it prints what the operator
//! needs from a cluster.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use operator_runtime::prelude::*;

/// A Kubernetes operator.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    manager: operator_runtime::manager::Args,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Print the CRDs and the permissions of this operator as JSON.
    Manifests,
}

// One thread is enough for work that waits most of the time, and saves memory and CPU time. Blocking calls and long
// computations belong in `tokio::task::spawn_blocking`.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    match args.command {
        Some(Command::Manifests) => {
            let manifests = {{ crate_name }}::manifests();
            println!("{}", manifests.to_json());
            ExitCode::SUCCESS
        }
        None => match run(&args).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(%error, "the operator ends");
                ExitCode::FAILURE
            }
        },
    }
}

async fn run(args: &Args) -> Result<()> {
    args.manager.init_logging();
    let manager = Manager::builder("{{ project_name }}")
        .args(&args.manager)
        .build()
        .await?;
    {{ crate_name }}::setup(&manager)?;
    manager.run().await
}

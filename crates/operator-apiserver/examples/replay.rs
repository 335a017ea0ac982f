//! Replays recordings against a server in this process: `replay [-v] FILE_OR_FOLDER...`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use futures::StreamExt;
use operator_apiserver::ApiServer;
use operator_conformance::scenario::{self, Scenario};

#[derive(Parser)]
struct Args {
    /// Prints the first differences of each scenario that differs.
    #[arg(short)]
    verbose: bool,
    /// Only scenarios whose names contain this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Folders of recordings.
    folders: Vec<PathBuf>,
}

const SCENARIO_MAX: Duration = Duration::from_secs(60);

fn builder() -> operator_apiserver::Builder {
    ApiServer::builder().openapi_descriptions(kubernetes_descriptions::TABLE)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    for folder in &args.folders {
        let scenarios: Vec<Scenario> = scenario::read_folder(folder)?
            .into_iter()
            .filter(|scenario| scenario.name.contains(&args.only))
            .collect();
        let results: Vec<(String, Vec<String>)> = futures::stream::iter(&scenarios)
            .map(|scenario| async move {
                let lines = match builder().build() {
                    Ok(server) => {
                        let replay = operator_conformance::replay(server, scenario);
                        let result = tokio::time::timeout(SCENARIO_MAX, replay).await;
                        result.unwrap_or_else(|_| vec!["the scenario did not end".to_owned()])
                    }
                    Err(error) => vec![error.to_string()],
                };
                (scenario.name.clone(), lines)
            })
            .buffer_unordered(16)
            .collect()
            .await;
        let good = results.iter().filter(|(_, lines)| lines.is_empty()).count();
        for (name, lines) in results.iter().filter(|(_, lines)| !lines.is_empty()) {
            println!("DIFFERS {}/{name} ({})", folder.display(), lines.len());
            for line in lines.iter().take(if args.verbose { 12 } else { 0 }) {
                println!("    {line}");
            }
        }
        println!("{}: {good} of {}", folder.display(), results.len());
    }
    Ok(())
}

//! Sends random requests to a real kube-apiserver and to the embedded one, and prints the causes of different answers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytes::Bytes;
use clap::Parser;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use operator_conformance::ApiService;
use operator_conformance::differential::{Family, Options, run};

/// Compares the answers of two API servers to random requests.
///
/// The requests depend on the seed alone. Both servers should be fresh. The exit code is 1 if an answer differs for a
/// reason that is not listed.
#[derive(Parser)]
struct Args {
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of requests to send to each server.
    #[arg(long, default_value_t = 1000)]
    requests: usize,
    /// Kinds or resources to make requests for; may be repeated. The default is all.
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<String>,
    /// Families of requests; may be repeated. The default is all.
    #[arg(long, value_delimiter = ',')]
    family: Vec<Family>,
    /// The number of causes whose first sequence is minimised.
    #[arg(long, default_value_t = 0)]
    minimise: usize,
    /// Runs one sequence and prints both answers.
    #[arg(long)]
    only: Option<u64>,
    /// The kubeconfig of the real server.
    #[arg(long)]
    real: PathBuf,
    /// The kubeconfig of the embedded server.
    #[arg(long)]
    embedded: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    match compare(&Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

async fn compare(args: &Args) -> Result<bool, Box<dyn std::error::Error>> {
    let options = Options {
        seed: args.seed,
        requests: args.requests,
        kinds: args.kinds.clone(),
        families: args.family.clone(),
        minimise: args.minimise,
        only: args.only,
    };
    let report = run(client(&args.real).await?, client(&args.embedded).await?, &options).await?;
    println!("{report}");
    Ok(report.differences() == 0)
}

async fn client(path: &Path) -> Result<impl ApiService, Box<dyn std::error::Error>> {
    let kubeconfig =
        Kubeconfig::read_from(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    Ok(tower::service_fn(move |request: Request<Full<Bytes>>| {
        let client = client.clone();
        async move {
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await;
            client
                .send(Request::from_parts(head, Body::from(body.to_bytes())))
                .await
        }
    }))
}

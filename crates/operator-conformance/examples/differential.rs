//! Sends random requests to a real kube-apiserver and to the embedded one, and prints the causes of different
//! responses.

use std::fs::File;
use std::io::Write;
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
use operator_conformance::differential::{Difference, Family, Options, record, run};

/// Compares the responses of two API servers to random requests.
///
/// The requests depend only on the seed. Both servers should be new. The exit code is 1 if a response differs for a
/// reason that is not listed.
#[derive(Parser)]
struct Args {
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of requests to send to each server.
    #[arg(long, default_value_t = 1000)]
    requests: usize,
    /// Kinds or resources to send requests for; may be repeated. Default: all.
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<String>,
    /// Families of requests; may be repeated. Default: all.
    #[arg(long, value_delimiter = ',')]
    family: Vec<Family>,
    /// The number of causes whose first sequence is minimised.
    #[arg(long, default_value_t = 0)]
    minimise: usize,
    /// Runs one sequence, and prints both responses.
    #[arg(long)]
    only: Option<u64>,
    /// The kubeconfig of the real server.
    #[arg(long)]
    real: PathBuf,
    /// The kubeconfig of the embedded server; not needed for recording.
    #[arg(long, required_unless_present = "record")]
    embedded: Option<PathBuf>,
    /// A file for the sequences with different responses, one on each line as JSON.
    #[arg(long)]
    log: Option<PathBuf>,
    /// Writes the responses of the real server to some sequences as a scenario to this file.
    #[arg(long, requires = "sequences")]
    record: Option<PathBuf>,
    /// The numbers of the sequences to record.
    #[arg(long, value_delimiter = ',')]
    sequences: Vec<u64>,
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
    if let Some(file) = &args.record {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let scenario = record(client(&args.real).await?, &options, &name, &args.sequences).await?;
        std::fs::write(file, scenario)?;
        return Ok(true);
    }
    let embedded = args.embedded.as_deref().ok_or("--embedded is missing")?;
    let mut log = args.log.as_ref().map(File::create).transpose()?;
    let mut unwritten = None;
    let observe = |difference: &Difference<'_>| {
        if let Some(log) = &mut log
            && let Err(error) = write_line(log, difference)
        {
            unwritten = Some(error);
        }
    };
    let report = run(
        client(&args.real).await?,
        client(embedded).await?,
        &options,
        observe,
    )
    .await?;
    println!("{report}");
    match unwritten {
        Some(error) => Err(error.into()),
        None => Ok(report.differences() == 0),
    }
}

fn write_line(log: &mut File, difference: &Difference<'_>) -> std::io::Result<()> {
    serde_json::to_writer(&mut *log, difference)?;
    log.write_all(b"\n")
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

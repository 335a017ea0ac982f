//! Serves an empty cluster: `serve --kubeconfig FILE --port N`.

use std::path::PathBuf;

use clap::Parser;
use operator_apiserver::{ApiServer, ListenOptions, RuntimeConfig};

#[derive(Parser)]
struct Args {
    /// The file for the kubeconfig of the administrator.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// The port on 127.0.0.1; 0 selects a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The served APIs, as for a kube-apiserver: `resource.k8s.io/v1beta1=true`.
    #[arg(long, value_delimiter = ',')]
    runtime_config: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let apis = args.runtime_config.iter().map(String::as_str);
    let server = ApiServer::builder()
        .runtime_config(RuntimeConfig::parse(apis)?)
        .openapi_descriptions(kubernetes_descriptions::TABLE)
        .build()?;
    let listener = server
        .listen(ListenOptions::at(([127, 0, 0, 1], args.port).into()))
        .await?;
    std::fs::write(&args.kubeconfig, listener.kubeconfig())?;
    println!("serving on {}", listener.local_addr());
    tokio::signal::ctrl_c().await?;
    listener.shutdown().await;
    Ok(())
}

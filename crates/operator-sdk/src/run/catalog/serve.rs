//! `catalog serve`: the gRPC API of a registry, which a CatalogSource with `spec.address` calls.

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use futures::stream;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpListener;
use tonic::Status;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic_prost::ProstCodec;

use super::messages::{Empty, HealthCheckResponse, Name};
use super::queries::Queries;
use super::{CatalogError, load};
use crate::args::CatalogServeArgs;
use crate::failure::Failure;
use crate::process::cluster::ClusterError;
use crate::process::signal::Ends;
use crate::report::Report;

/// Runs `operator-sdk catalog serve`.
pub(super) fn run(args: &CatalogServeArgs, report: &Report) -> Result<ExitCode, Failure> {
    let queries = Queries::new(load(&args.path)?).map_err(CatalogError::NotServed)?;
    let queries = Arc::new(queries);
    crate::run::block_on(async {
        let mut ends = Ends::catch().map_err(ClusterError::from)?;
        let refused = |source: io::Error| CatalogError::Address {
            address: args.address.clone(),
            reason: source.to_string(),
        };
        let listener = TcpListener::bind(&args.address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let packages = queries.packages().count();
        report.line(&format!(
            "Serving {packages} package{} at {address}",
            if packages == 1 { "" } else { "s" }
        ));
        tokio::select! {
            () = accept(listener, queries) => {}
            () = ends.next() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn accept(listener: TcpListener, queries: Arc<Queries>) {
    loop {
        // The server continues after a connection that ended before it was accepted.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let queries = queries.clone();
        let service = service_fn(move |request| {
            let queries = queries.clone();
            async move { Ok::<_, Infallible>(answer(&queries, request).await) }
        });
        tokio::spawn(async move {
            let connection = http2::Builder::new(TokioExecutor::new());
            // Errors of a connection only affect its client.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(queries: &Queries, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/api.Registry/ListPackages" => {
            let names = queries.packages().map(|name| Name { name: name.clone() });
            let names: Vec<Name> = names.collect();
            list(request, |_: Empty| Ok(names.clone())).await
        }
        "/api.Registry/GetPackage" => one(request, |asked: Name| queries.package(&asked.name)).await,
        "/api.Registry/GetBundle" => one(request, |asked| queries.bundle(&asked)).await,
        "/api.Registry/GetBundleForChannel" => one(request, |asked| queries.head(&asked)).await,
        "/api.Registry/GetChannelEntriesThatReplace" => {
            list(request, |asked: Name| queries.replacing(&asked.name)).await
        }
        "/api.Registry/GetBundleThatReplaces" => one(request, |asked| queries.replacement(&asked)).await,
        "/api.Registry/GetChannelEntriesThatProvide" => {
            list(request, |asked| queries.providing(&asked)).await
        }
        "/api.Registry/GetLatestChannelEntriesThatProvide" => {
            list(request, |asked| queries.latest(&asked)).await
        }
        "/api.Registry/GetDefaultBundleThatProvides" => {
            one(request, |asked| queries.default_provider(&asked)).await
        }
        "/api.Registry/ListBundles" => list(request, |_: Empty| queries.all_bundles()).await,
        "/grpc.health.v1.Health/Check" => one(request, |_: Name| Ok(HealthCheckResponse { status: 1 })).await,
        _ => Status::unimplemented(format!("unknown method {path}")).into_http(),
    }
}

/// Answers a request with one message.
async fn one<Q, A>(request: Request<Incoming>, answer: impl Fn(Q) -> Result<A, Status>) -> Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + 'static,
{
    let service = tower::service_fn(|request: tonic::Request<Q>| {
        ready(answer(request.into_inner()).map(tonic::Response::new))
    });
    let mut grpc = Grpc::new(ProstCodec::<A, Q>::default());
    grpc.unary(service, request).await
}

/// Answers a request with a stream of messages.
async fn list<Q, A>(
    request: Request<Incoming>,
    answer: impl Fn(Q) -> Result<Vec<A>, Status>,
) -> Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + 'static,
{
    let service = tower::service_fn(|request: tonic::Request<Q>| {
        let items = answer(request.into_inner());
        ready(items.map(|items| tonic::Response::new(stream::iter(items.into_iter().map(Ok)))))
    });
    let mut grpc = Grpc::new(ProstCodec::<A, Q>::default());
    grpc.server_streaming(service, request).await
}

//! The health endpoint of etcd, for envtest.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::bad_value;
use crate::args::go_flags::{Flag, GoFlags};
use crate::failure::Failure;
use crate::process::cluster::ClusterError;
use crate::process::signal::Ends;
use crate::report::Report;

const CLIENT_URLS: &str = "listen-client-urls";

const fn flag(name: &'static str, type_: &'static str, help: &'static str) -> Flag {
    Flag { name, type_, help }
}

const NOTHING: &str = "Accepted without effect.";

/// The flags of test environments and of their users.
#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    flag(CLIENT_URLS, "strings", "URLs that serve /health, over HTTP."),
    flag("advertise-client-urls", "strings", "Accepted; there are no other members."),
    flag("listen-peer-urls", "strings", "Accepted; there are no other members."),
    flag("data-dir", "string", "Accepted; nothing is stored."),
    flag("unsafe-no-fsync", "", "Accepted; nothing is stored."),
    flag("name", "string", NOTHING),
    flag("wal-dir", "string", NOTHING),
    flag("snapshot-count", "uint", NOTHING),
    flag("heartbeat-interval", "uint", NOTHING),
    flag("election-timeout", "uint", NOTHING),
    flag("initial-election-tick-advance", "", NOTHING),
    flag("max-snapshots", "uint", NOTHING),
    flag("max-wals", "uint", NOTHING),
    flag("quota-backend-bytes", "int", NOTHING),
    flag("backend-batch-interval", "duration", NOTHING),
    flag("backend-batch-limit", "int", NOTHING),
    flag("max-txn-ops", "uint", NOTHING),
    flag("max-request-bytes", "uint", NOTHING),
    flag("max-concurrent-streams", "uint", NOTHING),
    flag("grpc-keepalive-min-time", "duration", NOTHING),
    flag("grpc-keepalive-interval", "duration", NOTHING),
    flag("grpc-keepalive-timeout", "duration", NOTHING),
    flag("initial-advertise-peer-urls", "strings", NOTHING),
    flag("initial-cluster", "string", NOTHING),
    flag("initial-cluster-state", "string", NOTHING),
    flag("initial-cluster-token", "string", NOTHING),
    flag("strict-reconfig-check", "", NOTHING),
    flag("pre-vote", "", NOTHING),
    flag("auto-compaction-retention", "string", NOTHING),
    flag("auto-compaction-mode", "string", NOTHING),
    flag("enable-pprof", "", NOTHING),
    flag("metrics", "string", NOTHING),
    flag("listen-metrics-urls", "strings", NOTHING),
    flag("logger", "string", NOTHING),
    flag("log-outputs", "strings", NOTHING),
    flag("log-level", "string", NOTHING),
    flag("log-format", "string", NOTHING),
    flag("force-new-cluster", "", NOTHING),
    flag("host-whitelist", "strings", NOTHING),
    flag("cors", "strings", NOTHING),
];

pub(super) fn run(given: &GoFlags, report: &Report) -> Result<(), Failure> {
    let urls = given.value(CLIENT_URLS).unwrap_or("http://localhost:2379");
    crate::run::block_on(async {
        let mut ends = Ends::catch().map_err(ClusterError::from)?;
        let mut listeners = JoinSet::new();
        for url in urls.split(',') {
            let listener = bind(url).await?;
            report.progress(&format!("serving /health on {url}"));
            listeners.spawn(accept(listener));
        }
        ends.next().await;
        Ok(())
    })
}

async fn bind(url: &str) -> Result<TcpListener, Failure> {
    let refused = |why: &dyn std::fmt::Display| bad_value(CLIENT_URLS, url, why);
    let uri: http::Uri = url.trim().parse().map_err(|error| refused(&error))?;
    let (Some("http"), Some(host), Some(port)) = (uri.scheme_str(), uri.host(), uri.port_u16()) else {
        return Err(refused(&"a URL such as http://127.0.0.1:2379 is needed"));
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    TcpListener::bind((host, port))
        .await
        .map_err(|error| refused(&error))
}

async fn accept(listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream))),
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}

async fn serve(stream: TcpStream) {
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
        Ok::<_, Infallible>(answer(request.uri().path()))
    });
    // An error of a connection only affects its client.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn answer(path: &str) -> Response<Full<Bytes>> {
    let (code, type_, text) = match path {
        "/health" => (StatusCode::OK, "application/json", r#"{"health":"true"}"#),
        _ => (
            StatusCode::NOT_FOUND,
            "text/plain; charset=utf-8",
            "404 page not found\n",
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = code;
    let type_ = http::HeaderValue::from_static(type_);
    response.headers_mut().insert(CONTENT_TYPE, type_);
    response
}

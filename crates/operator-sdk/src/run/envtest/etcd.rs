//! What envtest wants of etcd: an answer on its health.

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
use crate::process::cluster::ClusterError;
use crate::process::signal::Ends;
use crate::report::{Failure, Report};

const CLIENT_URLS: &str = "listen-client-urls";

/// The flags that test environments pass.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: CLIENT_URLS,
        type_: "strings",
        help: "Where /health is answered, over HTTP.",
    },
    Flag {
        name: "advertise-client-urls",
        type_: "strings",
        help: "Accepted; there are no other members.",
    },
    Flag {
        name: "listen-peer-urls",
        type_: "strings",
        help: "Accepted; there are no other members.",
    },
    Flag {
        name: "data-dir",
        type_: "string",
        help: "Accepted; nothing is stored.",
    },
    Flag {
        name: "unsafe-no-fsync",
        type_: "",
        help: "Accepted; nothing is stored.",
    },
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
    // A connection that ends badly is the client's affair.
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

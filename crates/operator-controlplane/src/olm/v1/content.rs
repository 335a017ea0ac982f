//! Serves the content of ClusterCatalogs over HTTP on the loopback interface: `/catalogs/NAME/api/v1/all`, and `metas`
//! for a part of it.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::engine::Cache;
use crate::object::Object;
use crate::olm::catalog::{Catalogs, Loaded};
use crate::olm::kinds::CLUSTER_CATALOG;

use super::catalog::is_available;

/// The maximum number of concurrent connections.
const CONNECTIONS_MAX: usize = 64;

/// Opens the socket of the server. If this fails, catalogs have no address.
pub(crate) fn listen() -> Option<(TcpListener, SocketAddr)> {
    let open = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok::<_, std::io::Error>((listener, address))
    };
    open()
        .inspect_err(|error| tracing::warn!(%error, "cannot serve the content of catalogs"))
        .ok()
}

/// Serves the content of catalogs until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, cache: Arc<Cache>, catalogs: Catalogs) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut running = tokio::task::JoinSet::new();
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else {
            return;
        };
        while running.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let (cache, catalogs) = (cache.clone(), catalogs.clone());
        running.spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let answer = answer(&request, &cache, &catalogs);
                async { Ok::<_, Infallible>(answer) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            // Clients may close the connection.
            let _ = connection.await;
            drop(permit);
        });
    }
}

fn answer<B>(request: &Request<B>, cache: &Cache, catalogs: &Catalogs) -> Response<Full<Bytes>> {
    let empty = |status: StatusCode| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = status;
        response
    };
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    let path: Vec<&str> = request.uri().path().trim_start_matches('/').split('/').collect();
    let ["catalogs", name, "api", "v1", part @ ("all" | "metas")] = path.as_slice() else {
        return empty(StatusCode::NOT_FOUND);
    };
    let loaded = {
        let objects = cache.objects.read();
        let catalog = objects
            .get(&CLUSTER_CATALOG, "", name)
            .filter(|catalog| is_available(catalog));
        catalog.and_then(|catalog| catalogs.of_cluster(&objects, catalog).ok())
    };
    let Some(loaded) = loaded else {
        return empty(StatusCode::NOT_FOUND);
    };
    let filter = match *part {
        "metas" => Filter::of(request.uri().query().unwrap_or_default()),
        _ => Filter::default(),
    };
    let mut response = Response::new(Full::new(Bytes::from(lines(&loaded, &filter))));
    let kind = http::HeaderValue::from_static("application/jsonl");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

/// The documents that a client requests. Empty fields match everything.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Filter {
    schema: String,
    package: String,
    name: String,
}

impl Filter {
    pub(super) fn of(query: &str) -> Self {
        let mut filter = Self::default();
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let field = match name {
                "schema" => &mut filter.schema,
                "package" => &mut filter.package,
                "name" => &mut filter.name,
                _ => continue,
            };
            value.clone_into(field);
        }
        filter
    }

    fn matches(&self, document: &Value) -> bool {
        let schema = document.text("/schema");
        // The package of an `olm.package` document is its name.
        let package = match schema {
            "olm.package" => document.text("/name"),
            _ => document.text("/package"),
        };
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        is(&self.schema, schema) && is(&self.package, package) && is(&self.name, document.text("/name"))
    }
}

/// Returns the documents of a catalog, one on each line.
pub(super) fn lines(loaded: &Loaded, filter: &Filter) -> String {
    let documents = loaded.catalog.documents();
    let found = documents.iter().filter(|document| filter.matches(document));
    found.map(|document| format!("{document}\n")).collect()
}

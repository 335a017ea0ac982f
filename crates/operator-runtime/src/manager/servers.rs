//! The health and metrics servers, and the addresses of all servers.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::options::MetricsOptions;
use super::{ManagerError, Runnable};
use crate::certificates::Certificates;
use crate::health::Checks;
use crate::metrics::Metrics;
use crate::metrics_server::MetricsServer;

pub(super) fn health(listener: TcpListener, checks: Checks) -> Runnable {
    let server = Runnable::new("health", move |stop| async move {
        crate::health::serve(listener, checks, stop).await;
        Ok(())
    });
    server.before_caches()
}

/// Returns the metrics server: over HTTPS with authentication and authorization, or over plain HTTP without.
pub(super) fn metrics(
    options: &MetricsOptions,
    metrics: &Metrics,
    kube: &kube::Client,
) -> Result<MetricsServer, ManagerError> {
    let server = MetricsServer::new(metrics.clone())
        .http2(options.http2)
        .min_tls_version(options.min_tls_version);
    if !options.secure {
        return Ok(server);
    }
    let certificates = match &options.certificate {
        Some((certificate, key)) => Certificates::from_files(certificate, key),
        None => Certificates::self_signed(["localhost", "127.0.0.1"]),
    };
    let certificates = certificates.map_err(ManagerError::Certificates)?;
    Ok(server.secure(certificates).authorize(kube.clone()))
}

pub(super) fn address(listener: Option<&TcpListener>) -> Option<SocketAddr> {
    listener.and_then(|listener| listener.local_addr().ok())
}

/// Binds the address of a server. `0` and an empty address disable it.
pub(super) fn listen(flag: &'static str, address: &str) -> Result<Option<TcpListener>, ManagerError> {
    if address.is_empty() || address == "0" {
        return Ok(None);
    }
    let listener = TcpListener::from_std(bind(flag, address)?);
    listener.map(Some).map_err(|source| ManagerError::Listen {
        flag,
        address: address.to_owned(),
        source,
    })
}

/// Binds an address in the form of Go: `:8081` is every interface, of IPv6 and IPv4.
pub(super) fn bind(flag: &'static str, address: &str) -> Result<std::net::TcpListener, ManagerError> {
    let listener = match address.strip_prefix(':') {
        Some(port) => std::net::TcpListener::bind(format!("[::]:{port}"))
            .or_else(|_| std::net::TcpListener::bind(format!("0.0.0.0:{port}"))),
        None => std::net::TcpListener::bind(address),
    };
    let listener = listener.and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|source| ManagerError::Listen {
        flag,
        address: address.to_owned(),
        source,
    })
}

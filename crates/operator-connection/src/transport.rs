//! [`Transport`], the connection to an API server, composed from the parts of kube's client. kube's own builder cannot
//! set keep-alive probes, applies `NO_PROXY` to the address of the proxy, and ignores the proxies of the environment in
//! a pod.

use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use tokio::time::timeout;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};

use crate::proxy::Proxy;

/// A service that sends requests to an API server.
pub type Transport = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// Time without traffic after which the kernel probes the connection.
const PROBE_AFTER: Duration = Duration::from_secs(20);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 4;

/// Time without an acknowledgement after which the connection is closed. client-go takes up to 45 s.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(40);

/// The error of a connection that was not established in time.
#[derive(Debug, thiserror::Error)]
#[error("no connection to the API server within {0:?}")]
struct ConnectTimeout(Duration);

/// Creates the transport of a configuration. `config.proxy_url` and `config.default_retry` are ignored.
///
/// # Errors
/// Returns an error if the certificates or the credentials are invalid.
pub(crate) fn transport(config: &kube::Config, proxy: Option<Proxy>) -> kube::Result<Transport> {
    let tcp = tcp();
    match proxy {
        None => over(tcp, config),
        Some(Proxy::Http(proxy)) if proxy.uri().scheme_str() == Some("https") => {
            let tls = config.rustls_https_connector_with_connector(tcp)?;
            let tunnel = Tunnel::new(proxy.uri().clone(), tls);
            over(authorized(tunnel, proxy.basic_auth()), config)
        }
        Some(Proxy::Http(proxy)) => {
            let tunnel = Tunnel::new(proxy.uri().clone(), tcp);
            over(authorized(tunnel, proxy.basic_auth()), config)
        }
        Some(Proxy::Socks(uri, proxy)) => {
            let socks = SocksV5::new(uri, tcp);
            match proxy.raw_auth() {
                Some((user, password)) => over(socks.with_auth(user.to_owned(), password.to_owned()), config),
                None => over(socks, config),
            }
        }
    }
}

/// Returns a connector for TCP connections that detect a dead peer within 45 s.
fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(PROBE_AFTER));
    tcp.set_keepalive_interval(Some(PROBE_EVERY));
    tcp.set_keepalive_retries(Some(PROBES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    tcp
}

fn authorized<C>(tunnel: Tunnel<C>, credentials: Option<&http::HeaderValue>) -> Tunnel<C> {
    match credentials {
        Some(credentials) => tunnel.with_auth(credentials.clone()),
        None => tunnel,
    }
}

fn over<C>(connector: C, config: &kube::Config) -> kube::Result<Transport>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let limit = config.connect_timeout;
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let connector = connector.map_future(move |connecting| {
        Box::pin(async move {
            match limit {
                Some(limit) => timeout(limit, connecting)
                    .await
                    .map_err(|_| ConnectTimeout(limit))?,
                None => connecting.await,
            }
        })
    });
    let client: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(BoxCloneSyncService::new(service))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// `/proc/net/tcp` shows the timer of each socket: kind 2 is keep-alive, followed by the remaining ticks.
    #[tokio::test]
    async fn idle_connections_are_probed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let uri: Uri = format!("http://127.0.0.1:{port}").parse().unwrap();
        let connection = tcp().oneshot(uri).await.unwrap();
        let client = connection.inner().local_addr().unwrap().port();
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let ours = format!("0100007F:{client:04X} 0100007F:{port:04X}");
        let line = table.lines().find(|line| line.contains(&ours)).unwrap();
        let timer = line.split_whitespace().nth(5).unwrap();
        let (kind, ticks) = timer.split_once(':').unwrap();
        assert_eq!(kind, "02", "{line}");
        let ticks = u64::from_str_radix(ticks, 16).unwrap();
        assert!(ticks <= PROBE_AFTER.as_secs() * 100, "{line}");
        let longest = PROBE_AFTER + PROBE_EVERY * PROBES;
        assert!(longest.max(UNACKNOWLEDGED) <= Duration::from_secs(45));
    }
}

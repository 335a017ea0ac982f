//! Connections to extension API servers.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::client_config;

/// The client certificate and its key, in PEM, for extension API servers.
#[derive(Clone)]
pub(crate) struct ClientIdentity {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl std::fmt::Debug for ClientIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClientIdentity").finish_non_exhaustive()
    }
}

/// The address of an extension API server, and the trust in its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The address of the Service; `None` while it has no endpoint.
    pub(crate) address: Option<SocketAddr>,
    /// The name in the server's certificate.
    pub(crate) host: String,
    pub(crate) authorities: Vec<u8>,
    pub(crate) is_insecure: bool,
}

/// Connects to a server. The connection can change its protocol.
///
/// # Errors
/// Returns the reason why the server cannot be reached.
pub(crate) async fn connect(
    endpoint: &Endpoint,
    identity: Option<&ClientIdentity>,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let address = endpoint.address.ok_or("it has no address")?;
    let identity = identity.map(|identity| (identity.certificate.as_slice(), identity.key.as_slice()));
    let tls = client_config(&endpoint.authorities, identity, endpoint.is_insecure)?;
    let name = ServerName::try_from(endpoint.host.clone()).map_err(|error| error.to_string())?;
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(tls).connect(name, stream).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(connection.with_upgrades());
    Ok(sender)
}

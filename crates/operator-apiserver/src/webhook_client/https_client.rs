//! Fetches documents over HTTPS: [`HttpsClient`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use rustls::{ClientConfig, RootCertStore};

use super::target::Target;
use super::{Broken, Sent, Services, WebhookClient, client_config};

const USER_AGENT: &str = "Go-http-client/1.1";

/// A client that fetches documents of a limited size.
#[derive(Debug)]
pub(crate) struct HttpsClient {
    tls: Arc<ClientConfig>,
    bytes_max: usize,
}

impl HttpsClient {
    /// Returns a client that trusts the authorities of a PEM text, or those of the system if the text is empty.
    ///
    /// # Errors
    /// Returns an error if there are no authorities.
    pub(crate) fn new(authorities: &[u8], bytes_max: usize) -> Result<Self, String> {
        let tls = if authorities.is_empty() {
            of_system()?
        } else {
            client_config(authorities, None, false)?
        };
        Ok(Self { tls, bytes_max })
    }

    /// Returns the status and the content of a document. Redirects to other HTTPS URLs are followed.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached, or the response is late or too long.
    pub(crate) async fn get(
        &self,
        services: &Services,
        url: &str,
        timeout: Duration,
    ) -> Result<(u16, Bytes), String> {
        if !url.starts_with("https://") {
            return Err(format!("Get {url:?}: unsupported protocol scheme"));
        }
        let target = Target::of_https(url);
        let client = WebhookClient {
            target: target.clone(),
            tls: Ok(self.tls.clone()),
            authorization: None,
            idle: Mutex::default(),
            answer_bytes_max: self.bytes_max,
        };
        let sent = Sent {
            user_agent: USER_AGENT,
            authorization: None,
            body: Bytes::new(),
            has_body: false,
            tls: self.tls.clone(),
        };
        let answer = tokio::time::timeout(timeout, client.follow(services, target.clone(), &sent)).await;
        let answer = answer.unwrap_or_else(|_| Err(Broken::at(&target, "context deadline exceeded")));
        let answer = answer.map_err(|broken| format!("Get {:?}: {}", broken.url, broken.why))?;
        Ok((answer.code, answer.body))
    }
}

/// Returns a configuration that trusts the authorities of the system.
fn of_system() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

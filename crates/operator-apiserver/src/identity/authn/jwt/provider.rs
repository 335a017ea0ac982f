//! The discovery document and the keys of an issuer ([`Provider`]). They are fetched when a token of the issuer is
//! first received.
//!
//! Only requests with a token of the issuer wait for it.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::go::quote;
use apimachinery::object;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::claims::Signature;
use super::keys::{self, Key};
use crate::webhook_client::{HttpsClient, Services};

/// The time limit of one document.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of a document.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// The time after a failed attempt during which tokens are rejected at once.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// The minimum time between two fetches of the keys. Every token with an invalid signature causes a fetch.
const REFRESH_AFTER: Duration = Duration::from_millis(200);

const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";
const NOT_READY: &str = "authenticator not initialized";

/// The provider of an issuer.
#[derive(Debug)]
pub(super) struct Provider {
    client: HttpsClient,
    /// The URL of the discovery document, if it differs from the issuer's.
    discovery: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The URL of the keys, from the discovery document.
    keys_url: Option<String>,
    /// The time of the last failed discovery.
    failed: Option<Instant>,
    keys: Arc<Vec<Key>>,
    fetched: Option<Instant>,
}

impl Provider {
    /// Parses the `issuer` of a `jwt` entry.
    pub(super) fn new(issuer: &Value) -> Result<Self, String> {
        let authority = object::text(issuer, &["certificateAuthority"]);
        Ok(Self {
            client: HttpsClient::new(authority.as_bytes(), DOCUMENT_BYTES_MAX)?,
            discovery: object::text(issuer, &["discoveryURL"]).to_owned(),
            state: Mutex::default(),
        })
    }

    /// Waits until the discovery document is known.
    ///
    /// # Errors
    /// Returns an error if the document cannot be fetched, or is for another issuer.
    pub(super) async fn ready(&self, services: &Services, issuer: &str) -> Result<(), String> {
        let mut state = self.state.lock().await;
        if state.keys_url.is_some() {
            return Ok(());
        }
        if state.failed.is_some_and(|failed| failed.elapsed() < RETRY_AFTER) {
            return Err(NOT_READY.to_owned());
        }
        match self.discover(services, issuer).await {
            Ok(url) => {
                state.keys_url = Some(url);
                Ok(())
            }
            Err(why) => {
                tracing::warn!(issuer, why, "the discovery of an issuer failed");
                state.failed = Some(Instant::now());
                Err(NOT_READY.to_owned())
            }
        }
    }

    async fn discover(&self, services: &Services, issuer: &str) -> Result<String, String> {
        let url = match self.discovery.as_str() {
            "" => format!("{}{DISCOVERY_PATH}", issuer.trim_end_matches('/')),
            url => url.to_owned(),
        };
        let document = self.fetch(services, &url).await?;
        let named = object::text(&document, &["issuer"]);
        if named != issuer {
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {} got {}",
                quote(issuer),
                quote(named)
            ));
        }
        Ok(object::text(&document, &["jwks_uri"]).to_owned())
    }

    async fn fetch(&self, services: &Services, url: &str) -> Result<Value, String> {
        let (code, body) = self.client.get(services, url, TIMEOUT).await?;
        if code != 200 {
            return Err(format!("{url} responded with the status code {code}"));
        }
        serde_json::from_slice(&body).map_err(|error| format!("{url}: {error}"))
    }

    /// Verifies the signature of a message. If no key verifies it, the keys are fetched again.
    ///
    /// # Errors
    /// Returns an error if no key verifies the signature, or the keys cannot be fetched.
    pub(super) async fn verify(
        &self,
        services: &Services,
        message: &str,
        signature: &Signature,
    ) -> Result<(), String> {
        const INVALID: &str = "failed to verify id token signature";
        let (known, fetched) = {
            let state = self.state.lock().await;
            (state.keys.clone(), state.fetched)
        };
        if keys::verify(&known, message, signature) {
            return Ok(());
        }
        let mut state = self.state.lock().await;
        // Another request may have fetched the keys in the meantime.
        if state.fetched == fetched {
            if fetched.is_some_and(|fetched| fetched.elapsed() < REFRESH_AFTER) {
                return Err(INVALID.to_owned());
            }
            let url = state.keys_url.clone().unwrap_or_default();
            let set = self.fetch(services, &url).await;
            state.fetched = Some(Instant::now());
            let set = set.and_then(|set| keys::read(&set));
            state.keys = Arc::new(set.map_err(|why| format!("fetching keys {why}"))?);
        }
        let known = state.keys.clone();
        drop(state);
        if keys::verify(&known, message, signature) {
            Ok(())
        } else {
            Err(INVALID.to_owned())
        }
    }
}

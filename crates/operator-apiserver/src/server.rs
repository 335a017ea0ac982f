//! The handle of a server ([`ApiServer`]) and its builder.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};

use crate::admission::AdmissionConfiguration;
use crate::bootstrap;
use crate::client::Client;
use crate::clock::{Clock, WallClock};
use crate::error::Error;
use crate::features::FeatureGates;
use crate::http::audit::{Audit, AuditOptions};
use crate::http::call::Body;
use crate::http::discovery::DocumentCache;
use crate::http::handler::{BoxError, Handler};
use crate::http::in_flight::InFlight;
use crate::http::listener::{self, ListenOptions, Listener};
use crate::http::offload::Offload;
use crate::http::openapi::Descriptions;
use crate::identity::authn::{
    Anonymous, AuthenticationConfiguration, Authenticator, FrontProxy, TokenWebhook, User,
};
use crate::identity::authz::Authorization;
use crate::identity::keyring::Keyring;
use crate::identity::token::{Issuer, KeyError};
use crate::metrics::Metrics;
use crate::random::Random;
use crate::registry::expiry::EVENT_TTL;
use crate::registry::{self, Registry, ServiceNetwork, aggregation};
use crate::resource::RuntimeConfig;
use crate::store::journal;
use crate::store::{Frozen, Horizon, Store};
use crate::webhook_client::extension::ClientIdentity;

/// The default size of the history.
const HISTORY: Horizon = Horizon {
    events: 20_000,
    bytes: 128 << 20,
};

/// One API server, isolated from all others. Clones are handles of the same server.
///
/// As a [`tower::Service`], it handles requests in-process, as the administrator.
#[derive(Clone, Debug)]
pub struct ApiServer {
    handler: Arc<Handler>,
}

/// The parts of a server; see [`ApiServer::builder`].
#[derive(Debug)]
pub struct Builder {
    clock: Arc<dyn Clock>,
    seed: Option<u64>,
    history: Horizon,
    snapshot: Option<Snapshot>,
    data_directory: Option<PathBuf>,
    fsync: bool,
    disabled_plugins: BTreeSet<String>,
    enabled_plugins: BTreeSet<String>,
    authorizers: Vec<Authorization>,
    service_network: ServiceNetwork,
    anonymous: bool,
    tokens: Tokens,
    flags: BTreeMap<String, String>,
    min_request_timeout: Duration,
    event_ttl: Duration,
    audit: Option<AuditOptions>,
    proxy_client: Option<ClientIdentity>,
    authentication: Option<AuthenticationConfiguration>,
    token_webhook: Option<TokenWebhook>,
    front_proxy: Option<FrontProxy>,
    admission: AdmissionConfiguration,
    descriptions: &'static [u8],
    runtime_config: RuntimeConfig,
    gates: FeatureGates,
}

/// The objects of a server at one time; see [`ApiServer::snapshot`].
#[derive(Clone, Debug)]
pub struct Snapshot(Frozen);

/// The builder's options for tokens.
#[derive(Default)]
struct Tokens {
    issuer: Option<String>,
    further_issuers: Vec<String>,
    audiences: Vec<String>,
    signing_key: Option<Vec<u8>>,
    keys: Vec<Vec<u8>>,
    fixed: HashMap<String, User>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Tokens")
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Returns a builder with the machine's clock, random names, and a history of 20,000 events.
    pub fn builder() -> Builder {
        Builder {
            clock: Arc::new(WallClock),
            seed: None,
            history: HISTORY,
            snapshot: None,
            data_directory: None,
            fsync: false,
            disabled_plugins: BTreeSet::new(),
            enabled_plugins: BTreeSet::new(),
            authorizers: vec![Authorization::default()],
            service_network: ServiceNetwork::default(),
            anonymous: true,
            tokens: Tokens::default(),
            flags: BTreeMap::new(),
            min_request_timeout: Duration::from_secs(1800),
            event_ttl: EVENT_TTL,
            audit: None,
            proxy_client: None,
            authentication: None,
            token_webhook: None,
            front_proxy: None,
            admission: AdmissionConfiguration::default(),
            descriptions: &[],
            runtime_config: RuntimeConfig::default(),
            gates: FeatureGates::default(),
        }
    }

    /// Returns a client that calls the registry without HTTP, as the administrator.
    pub fn client(&self) -> Client {
        Client::new(self.handler.registry.clone())
    }

    /// Sets the address at which webhooks behind a Service are called, because Services have no network here. The
    /// certificate of the webhook must be valid for the Service (`NAME.NAMESPACE.svc`).
    pub fn route_service(&self, namespace: &str, name: &str, address: std::net::SocketAddr) {
        let registry = &self.handler.registry;
        registry.services.routes.set(namespace, name, address);
        aggregation::update(registry);
    }

    /// Serves HTTPS on a local address, with generated certificates.
    ///
    /// # Errors
    /// Returns an error if the address is in use, or the certificates cannot be made.
    pub async fn listen(&self, options: ListenOptions) -> Result<Listener, Error> {
        listener::listen(self.handler.clone(), options).await
    }

    /// Replaces the issuers of tokens and the anonymous paths while the server runs, as kube-apiserver does when the
    /// file of `--authentication-config` changes.
    ///
    /// # Errors
    /// Returns an error if a certificate authority of an issuer is invalid; the configuration then stays unchanged.
    pub fn set_authentication(&self, configuration: &AuthenticationConfiguration) -> Result<(), Error> {
        let authenticator = &self.handler.authenticator;
        let configured = authenticator.configure(configuration);
        configured.map_err(Error::Authentication)
    }

    /// Replaces the authorizers while the server runs, as kube-apiserver does when the file of `--authorization-config`
    /// changes.
    ///
    /// # Errors
    /// Returns an error if the kubeconfig of a webhook is invalid; the authorizers then stay unchanged.
    pub fn set_authorizers(&self, authorizers: Vec<Authorization>) -> Result<(), Error> {
        let set = self.handler.registry.authorizer.set_modes(authorizers);
        set.map_err(Error::Authorization)
    }

    /// Returns the current objects, from which other servers can start ([`Builder::snapshot`]). The objects are shared
    /// and not copied, so the time does not depend on their number.
    ///
    /// ```
    /// # fn example() -> Result<(), operator_apiserver::Error> {
    /// use operator_apiserver::ApiServer;
    ///
    /// let first = ApiServer::builder().build()?;
    /// let second = ApiServer::builder().snapshot(&first.snapshot()).build()?;
    /// # drop(second);
    /// # Ok(()) }
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.handler.registry.store.freeze())
    }

    /// Ends all watches. Requests are still handled; the objects are dropped with the last handle of the server.
    pub fn shutdown(&self) {
        self.handler.registry.stop.cancel();
    }
}

impl<B> tower::Service<Request<B>> for ApiServer
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let handler = self.handler.clone();
        Box::pin(async move { Ok(handler.answer(request).await) })
    }
}

impl Tokens {
    /// Returns the issuer of service account tokens, with the given keys or those in the data directory.
    fn issuer(&self, keyring: &Keyring) -> Result<Issuer, Error> {
        let refuse = |which| {
            move |error: KeyError| Error::ServiceAccountKey {
                which,
                problem: error.to_string(),
            }
        };
        let mut issuer = Issuer::default();
        if let Some(url) = &self.issuer {
            issuer.set_url(url.clone());
        }
        issuer.set_audiences(self.further_issuers.clone(), self.audiences.clone());
        if let Some(pem) = &self.signing_key {
            let set = issuer.set_signing_key(pem);
            set.map_err(refuse("service account signing key"))?;
        }
        for pem in &self.keys {
            let added = issuer.add_keys(pem);
            added.map_err(refuse("service account verification key"))?;
        }
        issuer.keep_key(keyring)?;
        Ok(issuer)
    }
}

// === impl Builder ===

impl Builder {
    /// Sets the source of the server's time.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Starts with the objects of another server instead of those of a new cluster. Watches from revisions before the
    /// snapshot get `Expired`. Has no effect with a data directory.
    #[must_use]
    pub fn snapshot(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// Makes uids and generated names repeatable.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the number of events in the history, which limits how far back a watch or an exact list may begin. The
    /// default is 20,000.
    #[must_use]
    pub fn history_events(mut self, events: usize) -> Self {
        self.history.events = events;
        self
    }

    /// Sets the memory limit of the objects in the history, in bytes. Older events are dropped first, so that many
    /// updates of large objects do not fill the memory. The default is 128 MiB.
    #[must_use]
    pub fn history_bytes(mut self, bytes: usize) -> Self {
        self.history.bytes = bytes;
        self
    }

    /// Stores every commit in a journal in this directory, which is created if missing; a later server with the same
    /// directory has the same objects. Acknowledged writes survive the end of the process, including SIGKILL. The CA of
    /// its certificates is stored there, too, so that kubeconfigs stay valid.
    ///
    /// Without it, everything is in memory. For power failures, see [`fsync`](Self::fsync).
    #[must_use]
    pub fn data_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_directory = Some(directory.into());
        self
    }

    /// Sets whether each commit waits until it is on disk. Default: false; an acknowledged write survives the end of
    /// the process, but a power failure or a crash of the operating system can lose the writes of the last seconds. Has
    /// no effect without a data directory.
    #[must_use]
    pub fn fsync(mut self, fsync: bool) -> Self {
        self.fsync = fsync;
        self
    }

    /// Disables admission plug-ins by their names in kube-apiserver. Without controllers, disable `ServiceAccount` to
    /// create pods.
    #[must_use]
    pub fn disable_admission_plugins(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.disabled_plugins.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the authorizers, `--authorization-mode` of kube-apiserver. The default is [`Authorization::Rbac`].
    #[must_use]
    pub fn authorization(self, authorization: Authorization) -> Self {
        self.authorizers([authorization])
    }

    /// Sets several authorizers: a request is allowed if one of them allows it.
    #[must_use]
    pub fn authorizers(mut self, authorizers: impl IntoIterator<Item = Authorization>) -> Self {
        self.authorizers = authorizers.into_iter().collect();
        self
    }

    /// Enables admission plug-ins that are off by default: `NodeRestriction`. Other names have no effect.
    #[must_use]
    pub fn enable_admission_plugins(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.enabled_plugins.extend(names.into_iter().map(Into::into));
        self
    }

    /// Configures admission plug-ins, `--admission-control-config-file` of kube-apiserver.
    #[must_use]
    pub fn admission(mut self, configuration: AdmissionConfiguration) -> Self {
        self.admission = configuration;
        self
    }

    /// Sets the minimum duration of a watch without a timeout, `--min-request-timeout` of kube-apiserver. Such a watch
    /// ends after one to two times this duration; zero means never. The default is 30 minutes.
    #[must_use]
    pub fn min_request_timeout(mut self, timeout: Duration) -> Self {
        self.min_request_timeout = timeout;
        self
    }

    /// Records requests in a file or with a webhook, `--audit-*` of kube-apiserver.
    #[must_use]
    pub fn audit(mut self, options: AuditOptions) -> Self {
        self.audit = Some(options);
        self
    }

    /// Sets the client certificate and the key, in PEM, for the servers of extension APIs, `--proxy-client-cert-file`
    /// and `--proxy-client-key-file` of kube-apiserver.
    #[must_use]
    pub fn proxy_client(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.proxy_client = Some(ClientIdentity {
            certificate: certificate.into(),
            key: key.into(),
        });
        self
    }

    /// Accepts the tokens of OpenID Connect issuers, and limits anonymous requests: `--authentication-config` or
    /// `--oidc-*` of kube-apiserver. The documents of an issuer are fetched when its first token is seen.
    #[must_use]
    pub fn authentication(mut self, configuration: AuthenticationConfiguration) -> Self {
        self.authentication = Some(configuration);
        self
    }

    /// Accepts bearer tokens that a webhook authenticates, `--authentication-token-webhook-*` of kube-apiserver.
    #[must_use]
    pub fn token_webhook(mut self, webhook: TokenWebhook) -> Self {
        self.token_webhook = Some(webhook);
        self
    }

    /// Trusts the headers of front proxies, `--requestheader-*` of kube-apiserver.
    #[must_use]
    pub fn front_proxy(mut self, proxy: FrontProxy) -> Self {
        self.front_proxy = Some(proxy);
        self
    }

    /// Sets the time after which events are deleted, counted from their last write: `--event-ttl` of kube-apiserver.
    /// Zero keeps them. The default is one hour.
    ///
    /// Expired events are deleted by the next request for events.
    #[must_use]
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.event_ttl = ttl;
        self
    }

    /// Sets the flags that `/flagz` shows, by name. They have no other effect.
    #[must_use]
    pub fn flags(mut self, flags: impl IntoIterator<Item = (String, String)>) -> Self {
        self.flags = flags.into_iter().collect();
        self
    }

    /// Sets the descriptions of built-in types and fields in OpenAPI documents: the table of the crate
    /// `kubernetes-descriptions`. It is decompressed when the first document is requested. By default there are no
    /// descriptions.
    #[must_use]
    pub fn openapi_descriptions(mut self, table: &'static [u8]) -> Self {
        self.descriptions = table;
        self
    }

    /// Sets the built-in APIs that are served, `--runtime-config` of kube-apiserver.
    #[must_use]
    pub fn runtime_config(mut self, config: RuntimeConfig) -> Self {
        self.runtime_config = config;
        self
    }

    /// Sets the feature gates, `--feature-gates` of kube-apiserver.
    #[must_use]
    pub fn feature_gates(mut self, gates: FeatureGates) -> Self {
        self.gates = gates;
        self
    }

    /// Sets the range of the cluster addresses of services, `--service-cluster-ip-range` of kube-apiserver. The default
    /// is 10.0.0.0/24.
    #[must_use]
    pub fn service_network(mut self, network: ServiceNetwork) -> Self {
        self.service_network = network;
        self
    }

    /// Sets if HTTPS requests without credentials are accepted, as `system:anonymous`: `--anonymous-auth` of
    /// kube-apiserver. Default: true. With [`Authorization::AlwaysAllow`] they are always rejected.
    #[must_use]
    pub fn anonymous_auth(mut self, allowed: bool) -> Self {
        self.anonymous = allowed;
        self
    }

    /// Sets the issuer URL of service account tokens, `--service-account-issuer` of kube-apiserver; tokens for the
    /// server itself have it as their audience. Nothing is fetched from it. The default is `https://127.0.0.1:16443/`.
    #[must_use]
    pub fn service_account_issuer(mut self, url: impl Into<String>) -> Self {
        self.tokens.issuer = Some(url.into());
        self
    }

    /// Adds an accepted issuer URL of service account tokens. New tokens do not use it: it is a second or later
    /// `--service-account-issuer` of kube-apiserver.
    #[must_use]
    pub fn accepted_service_account_issuer(mut self, url: impl Into<String>) -> Self {
        self.tokens.further_issuers.push(url.into());
        self
    }

    /// Sets the audiences that the server accepts, and that new tokens of service accounts have, `--api-audiences` of
    /// kube-apiserver. The default is the issuers.
    #[must_use]
    pub fn api_audiences(mut self, audiences: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tokens.audiences = audiences.into_iter().map(Into::into).collect();
        self
    }

    /// Signs tokens of service accounts with this private key in PEM: RSA of at least 2048 bits, or EC on the curve
    /// P-256.
    ///
    /// By default, a key of 2048 bits is created when the first token is requested, and kept in the data directory if
    /// there is one.
    #[must_use]
    pub fn service_account_signing_key(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tokens.signing_key = Some(pem.into());
        self
    }

    /// Accepts also tokens of service accounts that were signed by these keys in PEM: public keys, certificates or
    /// private keys.
    #[must_use]
    pub fn service_account_key(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tokens.keys.push(pem.into());
        self
    }

    /// Adds a user with a static bearer token, `--token-auth-file` of kube-apiserver. `system:authenticated` is added
    /// to the groups.
    ///
    /// ```
    /// # fn example() -> Result<(), operator_apiserver::Error> {
    /// let server = operator_apiserver::ApiServer::builder()
    ///     .token("secret", "jane", ["developers"])
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn token(
        self,
        token: impl Into<String>,
        user: impl Into<String>,
        groups: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.token_with_uid(token, user, "", groups)
    }

    /// Like [`token`](Self::token), for a user with a uid.
    #[must_use]
    pub fn token_with_uid(
        mut self,
        token: impl Into<String>,
        user: impl Into<String>,
        uid: impl Into<String>,
        groups: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let mut user = User::named(user.into(), groups.into_iter().map(Into::into).collect());
        user.uid = uid.into();
        self.tokens.fixed.insert(token.into(), user);
        self
    }

    /// Builds the server, with the objects of a new cluster, or those of its data directory.
    ///
    /// # Errors
    /// Returns an error if the data directory is in use, damaged, or cannot be read or written, or if a given key
    /// cannot be used.
    pub fn build(self) -> Result<ApiServer, Error> {
        let random = Random::new(self.seed);
        let snapshot = self.snapshot.filter(|_| self.data_directory.is_none());
        let store = match (&self.data_directory, &snapshot) {
            (None, None) => Store::new(self.history),
            (None, Some(snapshot)) => Store::thaw(self.history, &snapshot.0),
            (Some(directory), _) => {
                Store::open(self.history, directory, journal::Options { sync: self.fsync })
                    .map_err(|error| Error::DataDirectory(error.to_string()))?
            }
        };
        let keyring = self
            .data_directory
            .as_deref()
            .map(Keyring::of)
            .unwrap_or_default();
        let issuer = Arc::new(self.tokens.issuer(&keyring)?);
        let audit = self.audit.map(Audit::new).transpose();
        let audit = audit.map_err(Error::Audit)?.map(Arc::new);
        let anonymous = if self.anonymous && !self.authorizers.contains(&Authorization::AlwaysAllow) {
            Anonymous::All
        } else {
            Anonymous::Nothing
        };
        let metrics = Arc::<Metrics>::default();
        let options = registry::Options {
            service_network: self.service_network,
            disabled_plugins: self.disabled_plugins,
            enabled_plugins: self.enabled_plugins,
            admission: self.admission,
            event_ttl: self.event_ttl,
            proxy_identity: self.proxy_client,
            runtime_config: self.runtime_config,
        };
        let registry = Registry::new(store, self.clock.clone(), random, metrics.clone(), options);
        let set = registry.authorizer.set_modes(self.authorizers);
        set.map_err(Error::Authorization)?;
        if snapshot.is_none() {
            bootstrap::populate(&registry);
        }
        registry.establish_stored();
        registry.store.begin_history();
        let mut authenticator = Authenticator::new(
            registry.store.clone(),
            self.clock.clone(),
            issuer,
            self.tokens.fixed,
            registry.services.clone(),
            anonymous,
        );
        if let Some(configuration) = &self.authentication {
            let configured = authenticator.configure(configuration);
            configured.map_err(Error::Authentication)?;
        }
        if let Some(webhook) = self.token_webhook {
            let set = authenticator.set_webhook(webhook);
            set.map_err(Error::Authentication)?;
        }
        let handler = Handler {
            registry: Arc::new(registry),
            authenticator,
            front_proxy: self.front_proxy,
            audit,
            metrics,
            in_flight: InFlight::default(),
            offload: Offload::default(),
            documents: DocumentCache::default(),
            descriptions: Descriptions::new(self.descriptions),
            gates: self.gates,
            keyring,
            started: self.clock.now(),
            flags: self.flags,
            min_request_timeout: self.min_request_timeout,
        };
        Ok(ApiServer {
            handler: Arc::new(handler),
        })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[test]
    fn the_future_of_a_request_is_small() {
        let server = ApiServer::builder().build().unwrap();
        let request = Request::new(Full::<bytes::Bytes>::default());
        // It is copied to the heap for each request.
        let size = size_of_val(&server.handler.answer(request));
        assert!(size <= 12 << 10, "{size}");
    }
}

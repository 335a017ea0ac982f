//! The connection of a manager to an API server: what every request of the manager passes on its way, whether it made the
//! client or was handed one. Requests are counted, carry the name of the operator, and do not wait for ever; the warnings
//! in the answers are told in the log.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tower::buffer::BufferLayer;
use tower::retry::RetryLayer;
use tower::util::{MapResponseLayer, option_layer};

use self::silence::SilenceLayer;
use self::token_file::TokenFileLayer;
use super::builder::Options;
use super::{ManagerError, user_agent};
use crate::client::warnings::Warnings;
use crate::metrics::{Metrics, RestClientLayer};

mod silence;
mod token_file;

/// How long the server may say nothing, unless somebody says otherwise: longer than an API server takes to give up a
/// request, and than it leaves a watch without a bookmark, which is a minute for both.
pub(super) const SILENCE: Duration = Duration::from_secs(75);

/// Requests that may wait for the connection; kube's client has as many.
const CONCURRENT_REQUESTS: usize = 1024;

/// A client from the kubeconfig or the service account, whose requests are counted, each attempt for itself.
pub(super) async fn connect(
    options: &Options,
    metrics: &Metrics,
) -> Result<(kube::Client, RestClientLayer), ManagerError> {
    let mut config = match &options.kubeconfig {
        Some(path) => config_of(path).await?,
        None => kube::Config::infer()
            .await
            .map_err(|error| ManagerError::Connect(kube::Error::InferConfig(error)))?,
    };
    config.headers.push(user_agent::header(&options.name));
    let host = config
        .cluster_url
        .authority()
        .map_or("", |authority| authority.as_str());
    let requests = metrics.rest_client_layer(host);
    let retries = std::mem::take(&mut config.default_retry).then(|| requests.retries());
    let token = TokenFileLayer::take(&mut config.auth_info)?;
    let client = ClientBuilder::try_from(config).map_err(ManagerError::Connect)?;
    let client = client
        .with_layer(&SilenceLayer::new(options.silence_timeout))
        .with_layer(&option_layer(token))
        .with_layer(&requests)
        .with_layer(&told());
    let client = match retries {
        Some(retries) => client
            .with_layer(&BufferLayer::new(CONCURRENT_REQUESTS))
            .with_layer(&RetryLayer::new(retries))
            .build(),
        None => client.build(),
    };
    Ok((client, requests))
}

/// A client that sends everything through another one, in the name of the operator, and does not wait for ever. Whatever
/// the other one tries again by itself is one request.
pub(super) fn adopt(client: kube::Client, options: &Options, requests: &RestClientLayer) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let (key, value) = user_agent::header(&options.name);
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request
            .headers_mut()
            .entry(key.clone())
            .or_insert_with(|| value.clone());
        let client = client.clone();
        async move { client.send(request).await }
    });
    ClientBuilder::new(service, namespace)
        .with_layer(&SilenceLayer::new(options.silence_timeout))
        .with_layer(requests)
        .with_layer(&told())
        .build()
}

/// Logs the warnings of answers, each once.
fn told<B>() -> MapResponseLayer<impl FnMut(Response<B>) -> Response<B> + Clone> {
    let warnings = Arc::new(Warnings::default());
    MapResponseLayer::new(move |answer: Response<B>| {
        warnings.log(answer.headers());
        answer
    })
}

async fn config_of(path: &Path) -> Result<kube::Config, ManagerError> {
    let failed = |source| ManagerError::Kubeconfig {
        path: path.to_owned(),
        source,
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(failed)
}

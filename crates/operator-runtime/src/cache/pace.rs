//! A client for one watch that does not open it again at once when it has just been opened.
//!
//! kube's `watcher` opens a watch that ended without an error again immediately. A server, or a proxy before it, that
//! ends watches as fast as they are opened would keep both sides busy for nothing.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::service_fn;

use crate::metrics::{RestClientLayer, is_watch};

/// `client`, with at least `pause` from the opening of one watch to that of the next. How long each was held back is
/// told to `requests`.
pub(super) fn paced(client: kube::Client, pause: Duration, requests: RestClientLayer) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let earliest = Arc::new(Mutex::new(Instant::now()));
    let service = service_fn(move |request: Request<Body>| {
        let (client, earliest, requests) = (client.clone(), earliest.clone(), requests.clone());
        let answer: BoxFuture<'static, kube::Result<Response<Body>>> = Box::pin(async move {
            if is_watch(&request) {
                let (until, since) = (*earliest.lock(), Instant::now());
                tokio::time::sleep_until(until).await;
                requests.held_back(request.method(), since.elapsed());
                *earliest.lock() = Instant::now() + pause;
            }
            client.send(request).await
        });
        answer
    });
    kube::Client::new(service, namespace)
}

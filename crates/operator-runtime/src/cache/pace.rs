//! [`paced`], a client for one watch that sends its requests as client-go does. kube's `watcher` differs:
//!
//! * kube's watcher immediately reopens a watch that ended without an error. If a server or proxy ends watches as soon
//!   as they are opened, both sides would be busy.
//! * It limits every watch to 290 s, so watches that were opened together are reopened together.
//! * It accepts any old state for a streamed list. A reader could see a state before its own writes.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::service_fn;

use crate::metrics::RestClientLayer;

/// Minimum timeout of a watch. Up to the same time is added at random.
const WATCH_SECONDS: f64 = 300.0;

/// Returns `client` with at least `pause` between two watch requests. The delays are reported to `requests`.
pub(super) fn paced(client: kube::Client, pause: Duration, requests: RestClientLayer) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let earliest = Arc::new(Mutex::new(Instant::now()));
    let service = service_fn(move |mut request: Request<Body>| {
        let (client, earliest, requests) = (client.clone(), earliest.clone(), requests.clone());
        let answer: BoxFuture<'static, kube::Result<Response<Body>>> = Box::pin(async move {
            let opened = Opened::of(request.uri());
            let since = Instant::now();
            if opened == Opened::Watch {
                let until = *earliest.lock();
                tokio::time::sleep_until(until).await;
            }
            if opened != Opened::Nothing {
                requests.held_back(request.method(), since.elapsed());
                *earliest.lock() = Instant::now() + pause;
                let seconds = WATCH_SECONDS * (1.0 + crate::clock::jitter());
                if let Some(uri) = as_client_go(request.uri(), seconds) {
                    *request.uri_mut() = uri;
                }
            }
            client.send(request).await
        });
        answer
    });
    kube::Client::new(service, namespace)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    Nothing,
    /// A watch that is resumed.
    Watch,
    /// A streamed list followed by a watch.
    List,
}

// === impl Opened ===

impl Opened {
    fn of(uri: &Uri) -> Self {
        let has = |wanted: &str| pairs(uri).any(|pair| pair == wanted);
        match (has("watch=true"), has("sendInitialEvents=true")) {
            (false, _) => Self::Nothing,
            (true, false) => Self::Watch,
            (true, true) => Self::List,
        }
    }
}

fn pairs(uri: &Uri) -> impl Iterator<Item = &str> {
    let query = uri.query().unwrap_or_default();
    query.split('&').filter(|pair| !pair.is_empty())
}

/// Returns the URI of a watch with this timeout. A streamed list gets the newest state.
fn as_client_go(uri: &Uri, seconds: f64) -> Option<Uri> {
    let is_list = Opened::of(uri) == Opened::List;
    let pair = |pair: &str| match pair.split_once('=') {
        Some(("timeoutSeconds", _)) => format!("timeoutSeconds={seconds:.0}"),
        Some(("resourceVersion", _)) if is_list => "resourceVersion=".to_owned(),
        _ => pair.to_owned(),
    };
    let query: Vec<_> = pairs(uri).map(pair).collect();
    let mut parts = uri.clone().into_parts();
    let path = format!("{}?{}", uri.path(), query.join("&"));
    parts.path_and_query = Some(path.parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(uri: &str) -> String {
        as_client_go(&uri.parse().unwrap(), 421.4).unwrap().to_string()
    }

    #[test]
    fn streamed_list_has_the_newest_state() {
        let list = "/api/v1/pods?&watch=true&timeoutSeconds=290&sendInitialEvents=true&resourceVersion=0";
        let newest = "/api/v1/pods?watch=true&timeoutSeconds=421&sendInitialEvents=true&resourceVersion=";
        assert_eq!(sent(list), newest);
        assert_eq!(Opened::of(&list.parse().unwrap()), Opened::List);
    }

    #[test]
    fn watch_is_resumed() {
        let watch = "/api/v1/pods?&watch=true&timeoutSeconds=290&resourceVersion=7";
        assert_eq!(
            sent(watch),
            "/api/v1/pods?watch=true&timeoutSeconds=421&resourceVersion=7"
        );
        assert_eq!(Opened::of(&watch.parse().unwrap()), Opened::Watch);
        assert_eq!(
            Opened::of(&Uri::from_static("/api/v1/pods?limit=1")),
            Opened::Nothing
        );
    }
}

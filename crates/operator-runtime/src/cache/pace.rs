//! A client for one watch, which asks as client-go does where kube's `watcher` asks otherwise.
//!
//! * The watcher opens a watch that ended without an error again immediately. A server, or a proxy before it, that ends
//!   watches as fast as they are opened would keep both sides busy for nothing.
//! * It lets every watch last 290 s. Watches that were opened together end together then, and all come back at once.
//! * It takes any state, however old, for a list that is streamed. A reader would see what was before its own writes.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::service_fn;

use crate::metrics::RestClientLayer;

/// How long the server is asked to let a watch last: this long, and up to as much again at random.
const WATCH_SECONDS: f64 = 300.0;

/// `client`, with at least `pause` from the opening of one watch to that of the next. How long each was held back is
/// told to `requests`.
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
    /// A watch that goes on where another one ended.
    Watch,
    /// A list that is streamed, and the watch after it.
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

/// The request for a watch that lasts so long; and, if it streams a list, of the newest state.
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

    fn asked(uri: &str) -> String {
        as_client_go(&uri.parse().unwrap(), 421.4).unwrap().to_string()
    }

    #[test]
    fn list_that_is_streamed_is_the_newest() {
        let list = "/api/v1/pods?&watch=true&timeoutSeconds=290&sendInitialEvents=true&resourceVersion=0";
        let newest = "/api/v1/pods?watch=true&timeoutSeconds=421&sendInitialEvents=true&resourceVersion=";
        assert_eq!(asked(list), newest);
        assert_eq!(Opened::of(&list.parse().unwrap()), Opened::List);
    }

    #[test]
    fn watch_goes_on_where_it_was() {
        let watch = "/api/v1/pods?&watch=true&timeoutSeconds=290&resourceVersion=7";
        assert_eq!(
            asked(watch),
            "/api/v1/pods?watch=true&timeoutSeconds=421&resourceVersion=7"
        );
        assert_eq!(Opened::of(&watch.parse().unwrap()), Opened::Watch);
        assert_eq!(
            Opened::of(&Uri::from_static("/api/v1/pods?limit=1")),
            Opened::Nothing
        );
    }
}

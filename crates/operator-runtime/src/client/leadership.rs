//! [`LeaderLayer`] rejects writes while this instance is not the leader.
//!
//! The layer is the innermost one of a client. It checks each attempt of a request, and again whenever the request
//! makes progress. The process may be suspended while a request waits for a connection, or between two attempts: after
//! it has lost the leadership, it sends nothing more.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, ready};
use futures::{FutureExt as _, TryFutureExt as _};
use http::{Method, Request, header};
use tokio::sync::watch;
use tower::{BoxError, Layer, Service};

use crate::election::Leadership;

/// API groups whose objects are queries: creating one changes nothing.
const REVIEWS: [&str; 2] = ["/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/"];

/// Allows writes only while this instance is the leader.
#[derive(Clone, Debug)]
pub(crate) struct LeaderLayer(watch::Receiver<Leadership>);

/// A service that writes only while this instance is the leader.
#[derive(Clone, Debug)]
pub(crate) struct LeaderOnly<S> {
    inner: S,
    leadership: watch::Receiver<Leadership>,
}

/// A write that was rejected or abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotLeader {
    /// Nothing was sent.
    #[error("this instance is not the leader")]
    NotSent,
    /// The leadership ended while the request was in progress.
    #[error(
        "this instance lost its leadership while the request was in progress; it may have been carried out"
    )]
    Unknown,
}

// === impl LeaderLayer ===

impl LeaderLayer {
    pub(crate) fn new(leadership: watch::Receiver<Leadership>) -> Self {
        Self(leadership)
    }
}

impl<S> Layer<S> for LeaderLayer {
    type Service = LeaderOnly<S>;

    fn layer(&self, inner: S) -> LeaderOnly<S> {
        let leadership = self.0.clone();
        LeaderOnly { inner, leadership }
    }
}

// === impl LeaderOnly ===

impl<S, B> Service<Request<B>> for LeaderOnly<S>
where
    S: Service<Request<B>>,
    S::Response: Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if !is_write(&request) {
            return self.inner.call(request).err_into().boxed();
        }
        if !self.leadership.borrow().is_leader() {
            return ready(Err(NotLeader::NotSent.into())).boxed();
        }
        let (mut answer, leadership) = (Box::pin(self.inner.call(request)), self.leadership.clone());
        let mut is_first = true;
        poll_fn(move |context| {
            if !leadership.borrow().is_leader() {
                let error = if is_first {
                    NotLeader::NotSent
                } else {
                    NotLeader::Unknown
                };
                return Poll::Ready(Err(error.into()));
            }
            is_first = false;
            Pin::new(&mut answer).poll(context).map_err(Into::into)
        })
        .boxed()
    }
}

/// Returns true if a request may change something. A connection of `exec` counts as a write.
fn is_write<B>(request: &Request<B>) -> bool {
    match *request.method() {
        Method::GET | Method::HEAD | Method::OPTIONS => request.headers().contains_key(header::UPGRADE),
        Method::POST => !REVIEWS
            .iter()
            .any(|group| request.uri().path().starts_with(group)),
        _ => true,
    }
}

// === impl NotLeader ===

impl NotLeader {
    /// Returns this error if it is the cause of the error of a request.
    pub(crate) fn of(error: &kube::Error) -> Option<Self> {
        match error {
            kube::Error::Service(source) => source.downcast_ref().copied(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use tokio::sync::oneshot;
    use tower::service_fn;

    use super::*;

    const LEADER: Leadership = Leadership::Leader { until: None };

    fn request(method: &str, uri: &str) -> Request<()> {
        Request::builder().method(method).uri(uri).body(()).unwrap()
    }

    #[test]
    fn reviews_are_no_writes_and_upgrades_are() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/pods", false),
            ("POST", "/api/v1/namespaces/a/pods", true),
            ("DELETE", "/api/v1/namespaces/a/pods", true),
            ("PATCH", "/apis/authorization.k8s.io/v1/x", true),
            (
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                false,
            ),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", false),
            ("POST", "/api/v1/namespaces/a/serviceaccounts/b/token", true),
        ] {
            assert_eq!(is_write(&request(method, uri)), expected, "{method} {uri}");
        }
        let exec = Request::get("/api/v1/namespaces/a/pods/b/exec").header("Upgrade", "websocket");
        assert!(is_write(&exec.body(()).unwrap()));
    }

    /// A write that waits for its connection when leadership ends.
    #[tokio::test]
    async fn write_that_waits_is_not_sent_after_the_leadership_has_ended() {
        let (leadership, receiver) = watch::channel(LEADER);
        let sent = Arc::new(AtomicUsize::new(0));
        let (connect, connected) = oneshot::channel::<()>();
        let connected = Arc::new(parking_lot::Mutex::new(Some(connected)));
        let transport = {
            let sent = sent.clone();
            service_fn(move |_: Request<()>| {
                let (sent, connected) = (sent.clone(), connected.lock().take());
                async move {
                    if let Some(connected) = connected {
                        // The connection is being opened.
                        let _ = connected.await;
                    }
                    sent.fetch_add(1, SeqCst);
                    Ok::<_, Infallible>(())
                }
            })
        };
        let mut client = LeaderLayer::new(receiver).layer(transport);
        let waiting = tokio::spawn(client.call(request("PUT", "/api/v1/namespaces/a")));
        tokio::task::yield_now().await;
        leadership.send_replace(Leadership::Lost);
        connect.send(()).unwrap();
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&NotLeader::Unknown));
        assert_eq!(sent.load(SeqCst), 0);

        let error = client
            .call(request("PUT", "/api/v1/namespaces/a"))
            .await
            .unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&NotLeader::NotSent));
        client.call(request("GET", "/api/v1/namespaces/a")).await.unwrap();
        leadership.send_replace(LEADER);
        client.call(request("PUT", "/api/v1/namespaces/a")).await.unwrap();
        assert_eq!(sent.load(SeqCst), 2);
    }
}

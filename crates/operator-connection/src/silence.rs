//! [`SilenceLayer`], a time limit for silent connections. A connection can be dead although neither side closed it, for
//! example because the peer lost its power or a router dropped the connection from its table.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response, header};
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep, timeout};
use tower::{BoxError, Layer, Service};

use crate::is_watch;

/// Suffixes of the paths of streams that may be silent for any time.
const STREAMS: [&str; 5] = ["/log", "/exec", "/attach", "/portforward", "/proxy"];

/// A [`tower::Layer`] that ends requests whose response does not arrive or stops. Logs, `exec`, `attach`, `portforward`
/// and proxies are exempt.
#[derive(Clone, Copy, Debug)]
pub struct SilenceLayer(Option<Duration>);

/// The service of a [`SilenceLayer`].
#[derive(Clone, Debug)]
pub struct Silence<S> {
    inner: S,
    limit: Option<Duration>,
}

/// The body of a response with a time limit for silence.
#[derive(Debug)]
pub struct SilenceBody<R> {
    inner: R,
    limit: Option<Duration>,
    /// True for a watch: if it is silent, it ends without an error, and the client resumes it.
    is_watch: bool,
    /// The timer while data is awaited.
    silence: Option<Pin<Box<Sleep>>>,
}

/// The server sent no data in time.
#[derive(Debug, thiserror::Error)]
#[error("the API server sent nothing for {0:?}; the request was aborted and may have been carried out")]
pub(crate) struct Silent(Duration);

// === impl SilenceLayer ===

impl SilenceLayer {
    /// Creates a layer. `None` means no limit.
    pub fn new(limit: Option<Duration>) -> Self {
        Self(limit)
    }
}

impl<S> Layer<S> for SilenceLayer {
    type Service = Silence<S>;

    fn layer(&self, inner: S) -> Silence<S> {
        let limit = self.0;
        Silence { inner, limit }
    }
}

// === impl Silence ===

impl<S, B, R> Service<Request<B>> for Silence<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<SilenceBody<R>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let limit = self.limit.filter(|_| !may_be_silent(&request));
        let is_watch = is_watch(&request);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = match limit {
                Some(limit) => timeout(limit, answer).await.map_err(|_| Silent(limit))?,
                None => answer.await,
            };
            let body = |inner| SilenceBody {
                inner,
                limit,
                is_watch,
                silence: None,
            };
            Ok(answer.map_err(Into::<BoxError>::into)?.map(body))
        })
    }
}

fn may_be_silent<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    request.headers().contains_key(header::UPGRADE)
        || path.contains("/proxy/")
        || STREAMS.iter().any(|stream| path.ends_with(stream))
}

// === impl SilenceBody ===

impl<R> Body for SilenceBody<R>
where
    R: Body + Unpin,
    R::Error: Into<BoxError>,
{
    type Data = R::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            self.silence = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some(limit) = self.limit else {
            return Poll::Pending;
        };
        let silence = self.silence.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(silence.as_mut().poll(context));
        Poll::Ready(match self.is_watch {
            true => None,
            false => Some(Err(Silent(limit).into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str) -> Request<()> {
        Request::get(uri).body(()).unwrap()
    }

    #[test]
    fn streams_may_be_silent() {
        for uri in [
            "/api/v1/namespaces/a/pods/b/log?follow=true",
            "/api/v1/namespaces/a/services/b/proxy/status",
            "/api/v1/namespaces/a/pods/b/proxy",
        ] {
            assert!(may_be_silent(&request(uri)), "{uri}");
        }
        let upgrade = Request::get("/anything").header("Upgrade", "websocket");
        assert!(may_be_silent(&upgrade.body(()).unwrap()));
        for uri in [
            "/api/v1/pods?watch=true",
            "/apis/apps/v1/namespaces/log/deployments/proxy",
        ] {
            assert_eq!(may_be_silent(&request(uri)), uri.ends_with("/proxy"), "{uri}");
        }
    }
}

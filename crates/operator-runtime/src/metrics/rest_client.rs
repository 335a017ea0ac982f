//! Metrics of requests to the API server, and the layers that record them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Buf;
use http::{Method, Request, Response};
use hyper::body::{Body, Frame, SizeHint};
use operator_connection::is_watch;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tower::{Layer, Service};

use super::retry::Retries;
use super::{Buckets, Label, counters, histograms};

/// The value of client-go's label `code` for requests without a response.
const NO_ANSWER: &str = "<error>";

const SECONDS: Buckets = Buckets(&[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]);

/// From 64 B to 16 MiB.
const BYTES: Buckets = Buckets(&[
    64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0,
]);

/// A [`tower::Layer`] that counts requests by status code, method and host, and measures them.
///
/// Watches are only counted, because their duration and size are meaningless.
#[derive(Clone, Debug)]
pub(crate) struct RestClientLayer {
    families: Families,
    host: Arc<str>,
}

/// The service of [`RestClientLayer`], which counts requests.
#[derive(Clone, Debug)]
pub(crate) struct RestClientService<S> {
    inner: S,
    layer: RestClientLayer,
}

/// A response body whose size and duration are recorded when it has been read or is dropped.
#[derive(Debug)]
pub(crate) struct Measured<R> {
    inner: R,
    exchange: Option<Exchange>,
}

/// One request and its response. It is recorded when it is dropped.
#[derive(Debug)]
struct Exchange {
    layer: RestClientLayer,
    method: Method,
    since: Instant,
    /// The received bytes of the response. `None` before the response.
    received: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Families {
    requests: Family<[Label; 3], Counter>,
    retries: Family<[Label; 3], Counter>,
    duration: Family<[Label; 2], Histogram, Buckets>,
    request_size: Family<[Label; 2], Histogram, Buckets>,
    response_size: Family<[Label; 2], Histogram, Buckets>,
    limiter: Family<[Label; 2], Histogram, Buckets>,
}

// === impl RestClientLayer ===

impl RestClientLayer {
    /// Returns the policy that retries requests if the server asks for it, and counts the retries.
    pub(crate) fn retries(&self) -> Retries {
        Retries::new(self.clone())
    }

    /// Counts a retry by the status that caused it.
    pub(super) fn retried(&self, status: &str, method: &Method) {
        let [verb, host] = self.of(method);
        let labels = [("code", status.to_owned()), verb, host];
        self.families.retries.get_or_create(&labels).inc();
    }

    /// Records the time for which the operator delayed a request.
    pub(crate) fn held_back(&self, method: &Method, waited: Duration) {
        observe(&self.families.limiter, &self.of(method), waited.as_secs_f64());
    }

    fn count(&self, code: &str, method: &Method) {
        let [method, host] = self.of(method);
        let labels = [("code", code.to_owned()), ("method", method.1), host];
        self.families.requests.get_or_create(&labels).inc();
    }

    fn begin<B: Body>(&self, request: &Request<B>) -> Option<Exchange> {
        if is_watch(request) {
            return None;
        }
        let method = request.method().clone();
        if let Some(size) = request.body().size_hint().exact().filter(|size| *size > 0) {
            observe(&self.families.request_size, &self.of(&method), as_number(size));
        }
        Some(Exchange {
            layer: self.clone(),
            method,
            since: Instant::now(),
            received: None,
        })
    }

    fn of(&self, method: &Method) -> [Label; 2] {
        [
            ("verb", method.as_str().to_owned()),
            ("host", self.host.as_ref().to_owned()),
        ]
    }
}

impl<S> Layer<S> for RestClientLayer {
    type Service = RestClientService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let layer = self.clone();
        RestClientService { inner, layer }
    }
}

impl<S, B, R> Service<Request<B>> for RestClientService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    B: Body,
    R: Body,
{
    type Response = Response<Measured<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let method = request.method().clone();
        let layer = self.layer.clone();
        let mut exchange = layer.begin(&request);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            match &answer {
                Ok(response) => layer.count(response.status().as_str(), &method),
                Err(_) => layer.count(NO_ANSWER, &method),
            }
            let response = answer?;
            if let Some(exchange) = &mut exchange {
                exchange.received = Some(0);
            }
            Ok(response.map(|inner| Measured { inner, exchange }))
        })
    }
}

// === impl Measured ===

impl<R: Body + Unpin> Body for Measured<R> {
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, Buf::remaining);
                if let Some(received) = self.exchange.as_mut().and_then(|it| it.received.as_mut()) {
                    *received += u64::try_from(length).unwrap_or_default();
                }
            }
            Poll::Ready(Some(Err(_)) | None) => self.exchange = None,
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let labels = self.layer.of(&self.method);
        let took = self.since.elapsed().as_secs_f64();
        observe(&self.layer.families.duration, &labels, took);
        if let Some(received) = self.received {
            observe(&self.layer.families.response_size, &labels, as_number(received));
        }
    }
}

fn observe(family: &Family<[Label; 2], Histogram, Buckets>, labels: &[Label; 2], value: f64) {
    family.get_or_create(labels).observe(value);
}

/// Sizes of bodies are far below the limit of exact floats.
fn as_number(size: u64) -> f64 {
    size as f64
}

// === impl Families ===

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            requests: counters(
                registry,
                "rest_client_requests",
                "Number of HTTP requests, partitioned by status code, method, and host",
            ),
            retries: counters(
                registry,
                "rest_client_request_retries",
                "Number of request retries, partitioned by status code, verb, and host",
            ),
            duration: histograms(
                registry,
                "rest_client_request_duration_seconds",
                "Request latency in seconds, partitioned by verb and host",
                SECONDS,
            ),
            request_size: histograms(
                registry,
                "rest_client_request_size_bytes",
                "Request size in bytes, partitioned by verb and host",
                BYTES,
            ),
            response_size: histograms(
                registry,
                "rest_client_response_size_bytes",
                "Response size in bytes, partitioned by verb and host",
                BYTES,
            ),
            limiter: histograms(
                registry,
                "rest_client_rate_limiter_duration_seconds",
                "Client side rate limiter latency in seconds, partitioned by verb and host",
                SECONDS,
            ),
        }
    }

    pub(super) fn layer(&self, host: &str) -> RestClientLayer {
        RestClientLayer {
            families: self.clone(),
            host: host.into(),
        }
    }
}

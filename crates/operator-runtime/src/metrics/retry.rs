//! [`Retries`], the policy that retries requests to the API server.
//!
//! A request is retried only if the response has `Retry-After` and a retry is safe. After 429 the request was not
//! processed. After 503 this is unknown, so requests that are not idempotent are not retried.

use operator_connection::is_watch;
use std::time::Duration;

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use kube::client::Body;
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;
use tower::retry::Policy;

use super::rest_client::RestClientLayer;

/// Maximum number of retries of a request, as in client-go.
const MAX_RETRIES: u32 = 10;

/// Maximum time from the first attempt to the last.
const MAX_TIME: Duration = Duration::from_secs(30);

const JSON_PATCH: &str = "application/json-patch+json";

/// The policy of one client. Each request gets a clone of it.
#[derive(Clone)]
pub(crate) struct Retries {
    layer: RestClientLayer,
    retries: u32,
    /// The time of the first attempt.
    since: Instant,
}

// === impl Retries ===

impl Retries {
    pub(super) fn new(layer: RestClientLayer) -> Self {
        Self {
            layer,
            retries: 0,
            since: Instant::now(),
        }
    }

    /// Returns the delay before the request is retried, or `None` if it is not retried.
    fn pause<B, R>(&self, request: &Request<B>, answer: &Response<R>) -> Option<Duration> {
        let is_safe = match answer.status() {
            StatusCode::TOO_MANY_REQUESTS => true,
            // A watch has its own backoff, which also reports the failure.
            StatusCode::SERVICE_UNAVAILABLE => may_run_twice(request) && !is_watch(request),
            _ => false,
        };
        let pause = retry_after(answer.headers()).filter(|_| is_safe && self.retries < MAX_RETRIES)?;
        let total = self.since.elapsed().checked_add(pause)?;
        (total <= MAX_TIME).then_some(pause)
    }
}

impl<R> Policy<Request<Body>, Response<R>, BoxError> for Retries {
    type Future = Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        answer: &mut Result<Response<R>, BoxError>,
    ) -> Option<Sleep> {
        let answer = answer.as_ref().ok()?;
        let pause = self.pause(request, answer)?;
        self.retries += 1;
        tracing::info!(
            method = %request.method(),
            path = request.uri().path(),
            status = answer.status().as_u16(),
            retry_after = ?pause,
            retry = self.retries,
            "API server is busy, repeating the request"
        );
        self.layer.retried(answer.status().as_str(), request.method());
        Some(sleep(pause))
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        if self.retries == 0 {
            self.since = Instant::now();
        }
        let mut copy = Request::new(request.body().try_clone()?);
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.version_mut() = request.version();
        *copy.headers_mut() = request.headers().clone();
        *copy.extensions_mut() = request.extensions().clone();
        Some(copy)
    }
}

/// Returns true if a retried request has the same effect as a single one.
fn may_run_twice<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let is_json_patch = content_type.is_some_and(|value| value.as_bytes().starts_with(JSON_PATCH.as_bytes()));
    match *request.method() {
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE => true,
        Method::PATCH => !is_json_patch,
        _ => false,
    }
}

/// Returns the seconds of `Retry-After`. The API server sends no dates.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    /// Returns the number of attempts if every response is this one, and the seconds from the first to the last.
    async fn attempts(method: &str, content_type: &str, status: u16, after: Option<&str>) -> (u32, u64) {
        let request = Request::builder()
            .method(method)
            .uri("/api/v1/namespaces/default/configmaps");
        let request = request.header("Content-Type", content_type);
        let mut request = request.body(Body::from(b"{}".to_vec())).unwrap();
        let mut answer = Response::builder().status(status);
        if let Some(after) = after {
            answer = answer.header("Retry-After", after);
        }
        let mut answer = Ok(answer.body(()).unwrap());

        let mut policy = Metrics::default().rest_client_layer("test").retries();
        let (mut count, mut took) = (1, Duration::ZERO);
        assert!(Policy::<_, Response<()>, _>::clone_request(&mut policy, &request).is_some());
        while let Some(pause) = policy.retry(&mut request, &mut answer) {
            let pause = pause.deadline().saturating_duration_since(Instant::now());
            let pause = Duration::from_secs(pause.as_secs_f64().round() as u64);
            // Advances the time.
            policy.since -= pause;
            (count, took) = (count + 1, took + pause);
            assert!(Policy::<_, Response<()>, _>::clone_request(&mut policy, &request).is_some());
        }
        (count, took.as_secs())
    }

    #[tokio::test]
    async fn only_safe_requests_are_repeated() {
        let retry = Some("1");
        let (merge, apply) = ("application/merge-patch+json", "application/apply-patch+yaml");
        for (method, content_type, status, after, is_repeated) in [
            ("GET", "", 429, retry, true),
            ("GET", "", 429, None, false),
            ("GET", "", 429, Some("soon"), false),
            ("GET", "", 503, retry, true),
            ("GET", "", 503, None, false),
            ("GET", "", 504, retry, false),
            ("GET", "", 500, retry, false),
            ("PUT", "", 503, retry, true),
            ("DELETE", "", 503, retry, true),
            ("PATCH", merge, 503, retry, true),
            ("PATCH", apply, 503, retry, true),
            ("PATCH", JSON_PATCH, 503, retry, false),
            ("PATCH", JSON_PATCH, 429, retry, true),
            ("POST", "application/json", 503, retry, false),
            ("POST", "application/json", 504, retry, false),
            ("POST", "application/json", 429, retry, true),
            // An eviction that a PodDisruptionBudget forbids.
            ("POST", "application/json", 429, None, false),
        ] {
            let (count, _) = attempts(method, content_type, status, after).await;
            let expected = if is_repeated { MAX_RETRIES + 1 } else { 1 };
            assert_eq!(count, expected, "{method} {content_type} {status} {after:?}");
        }
    }

    #[tokio::test]
    async fn total_time_is_bounded() {
        assert_eq!(attempts("GET", "", 429, Some("7")).await, (5, 28));
        assert_eq!(attempts("GET", "", 429, Some("31")).await, (1, 0));
        assert_eq!(
            attempts("GET", "", 429, Some("18446744073709551615")).await,
            (1, 0)
        );
    }
}

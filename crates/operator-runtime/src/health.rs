//! The endpoints `/healthz` and `/readyz`, with the responses of Kubernetes components.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, StatusCode, Uri, header};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::error::{Error, Result, panic_text};
use crate::serve::{self, Answer, Server};

/// Time for open connections at shutdown, after which probes may be aborted.
const GRACE: Duration = Duration::from_secs(1);

type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// The checks of a manager. Clones share them.
#[derive(Clone)]
pub(crate) struct Checks {
    health: Arc<Mutex<BTreeMap<String, Check>>>,
    ready: Arc<Mutex<BTreeMap<String, Check>>>,
    /// The paths of the endpoints.
    endpoints: [String; 2],
}

/// The parameters of a query.
struct Query<'a> {
    verbose: bool,
    excluded: Vec<&'a str>,
}

// === impl Checks ===

impl Checks {
    /// Creates the checks with `ping` in both endpoints.
    pub(crate) fn new(endpoints: [String; 2]) -> Self {
        let checks = Self {
            health: Arc::default(),
            ready: Arc::default(),
            endpoints,
        };
        checks.add_health("ping", || async { Ok(()) });
        checks.add_ready("ping", || async { Ok(()) });
        checks
    }

    /// Adds a readiness check that fails while a watch of a cache fails.
    pub(crate) fn add_cache(&self, name: &str, cache: Cache) {
        self.add_ready(name, move || {
            std::future::ready(match cache.unhealthy() {
                unhealthy if unhealthy.is_empty() => Ok(()),
                unhealthy => Err(Error::msg(unhealthy.join("; "))),
            })
        });
    }

    pub(crate) fn add_health<F, R>(&self, name: &str, check: F)
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.health.lock().insert(name.to_owned(), caught(check));
    }

    pub(crate) fn add_ready<F, R>(&self, name: &str, check: F)
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.ready.lock().insert(name.to_owned(), caught(check));
    }

    /// Returns the response to a path and a query.
    async fn answer(&self, path: &str, query: &str) -> (StatusCode, String) {
        let [liveness, readiness] = &self.endpoints;
        let (endpoint, checks, one) = match (below(path, liveness), below(path, readiness)) {
            (Some(one), _) => ("healthz", &self.health, one),
            (None, Some(one)) => ("readyz", &self.ready, one),
            (None, None) => return not_found(),
        };
        let checks = checks.lock().clone();
        if one.is_empty() {
            return all(endpoint, &checks, &Query::parse(query)).await;
        }
        match checks.get(one) {
            Some(check) => single(check().await),
            None => not_found(),
        }
    }
}

/// Returns the part of a path after an endpoint: empty, or the name of a check.
fn below<'a>(path: &'a str, endpoint: &str) -> Option<&'a str> {
    let rest = path.trim_matches('/').strip_prefix(endpoint.trim_matches('/'))?;
    if rest.is_empty() {
        return Some(rest);
    }
    rest.strip_prefix('/')
}

/// Returns a check that also fails if `check` panics.
fn caught<F, R>(check: F) -> Check
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output = Result<()>> + Send + 'static,
{
    let check = Arc::new(check);
    Arc::new(move || {
        let check = check.clone();
        Box::pin(async move {
            let checked = AssertUnwindSafe(async { check().await }).catch_unwind().await;
            checked.unwrap_or_else(|panic| Err(Error::msg(panic_text(&*panic))))
        })
    })
}

fn not_found() -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
}

/// Returns the response for a single check, with the reason of its failure.
fn single(outcome: Result<()>) -> (StatusCode, String) {
    match outcome {
        Ok(()) => (StatusCode::OK, "ok".to_owned()),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {error}\n"),
        ),
    }
}

/// Runs the checks. The response lists them with `?verbose` and after a failure; `?exclude=NAME` skips one.
async fn all(endpoint: &str, checks: &BTreeMap<String, Check>, query: &Query<'_>) -> (StatusCode, String) {
    let lines = checks.iter().map(|(name, check)| async move {
        if query.excluded.contains(&name.as_str()) {
            return (true, format!("[+]{name} excluded: ok\n"));
        }
        match check().await {
            Ok(()) => (true, format!("[+]{name} ok\n")),
            Err(error) => {
                tracing::info!(check = name, %error, "{endpoint} check failed");
                (false, format!("[-]{name} failed: reason withheld\n"))
            }
        }
    });
    let lines = futures::future::join_all(lines).await;
    let failed = lines.iter().any(|(passed, _)| !passed);
    if !failed && !query.verbose {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut text: String = lines.into_iter().map(|(_, line)| line).collect();
    text.push_str(&query.unmatched(checks));
    match failed {
        true => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("{text}{endpoint} check failed\n"),
        ),
        false => (StatusCode::OK, format!("{text}{endpoint} check passed\n")),
    }
}

// === impl Query ===

impl<'a> Query<'a> {
    fn parse(query: &'a str) -> Self {
        let mut pairs = query.split('&');
        let mut excluded: Vec<_> = query
            .split('&')
            .filter_map(|pair| pair.strip_prefix("exclude="))
            .collect();
        excluded.sort_unstable();
        excluded.dedup();
        Self {
            verbose: pairs.any(|pair| pair == "verbose" || pair.starts_with("verbose=")),
            excluded,
        }
    }

    /// Returns a warning about excluded checks that do not exist.
    fn unmatched(&self, checks: &BTreeMap<String, Check>) -> String {
        let unmatched = self.excluded.iter().filter(|name| !checks.contains_key(**name));
        let quoted: Vec<_> = unmatched.map(|name| format!("{name:?}")).collect();
        match quoted.is_empty() {
            true => String::new(),
            false => format!(
                "warn: some health checks cannot be excluded: no matches for {}\n",
                quoted.join(", ")
            ),
        }
    }
}

/// Serves the checks until `stop`.
pub(crate) async fn serve(listener: TcpListener, checks: Checks, stop: CancellationToken) {
    let server = Server {
        handler: Arc::new(move |request| {
            let (checks, method, uri) = (checks.clone(), request.method().clone(), request.uri().clone());
            Box::pin(async move { respond(&checks, &method, &uri).await })
        }),
        tls: None,
        http2: false,
        grace: Some(GRACE),
        limits: serve::Limits::default(),
    };
    server.serve(listener, stop).await;
}

async fn respond(checks: &Checks, method: &Method, uri: &Uri) -> Answer {
    let (status, text) = match *method {
        Method::GET | Method::HEAD => checks.answer(uri.path(), uri.query().unwrap_or_default()).await,
        _ => (StatusCode::METHOD_NOT_ALLOWED, String::new()),
    };
    let mut answer = serve::text(status, text);
    let headers = answer.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks() -> Checks {
        let checks = Checks {
            health: Arc::default(),
            ready: Arc::default(),
            endpoints: ["/healthz", "/readyz"].map(str::to_owned),
        };
        checks.add_health("ping", || async { Ok(()) });
        checks.add_ready("ping", || async { Ok(()) });
        checks.add_ready("database", || async { Err(Error::msg("password is wrong")) });
        checks
    }

    async fn check(path: &str, query: &str, status: u16, text: &str) {
        let (actual, body) = checks().answer(path, query).await;
        assert_eq!((actual.as_u16(), body.as_str()), (status, text), "{path}?{query}");
    }

    #[tokio::test]
    async fn passing_checks_say_ok() {
        check("/healthz", "", 200, "ok").await;
        check("/healthz/", "", 200, "ok").await;
        let verbose = "[+]ping ok\nhealthz check passed\n";
        check("/healthz", "verbose", 200, verbose).await;
        check("/healthz", "verbose=true", 200, verbose).await;
    }

    #[tokio::test]
    async fn failing_check_is_named_without_its_reason() {
        let text = "[-]database failed: reason withheld\n[+]ping ok\nreadyz check failed\n";
        check("/readyz", "", 500, text).await;
    }

    #[tokio::test]
    async fn single_checks_have_their_own_paths() {
        check("/readyz/ping", "", 200, "ok").await;
        check("/readyz/ping", "verbose", 200, "ok").await;
        let reason = "internal server error: password is wrong\n";
        check("/readyz/database", "", 500, reason).await;
        check("/readyz/missing", "", 404, "404 page not found\n").await;
        check("/metrics", "", 404, "404 page not found\n").await;
    }

    #[tokio::test]
    async fn excluded_check_does_not_count() {
        let text = "[+]database excluded: ok\n[+]ping ok\nreadyz check passed\n";
        check("/readyz", "verbose&exclude=database", 200, text).await;
        check("/readyz", "exclude=database", 200, "ok").await;
    }

    #[tokio::test]
    async fn checks_may_wait() {
        let checks = checks();
        checks.add_health("slow", || async {
            tokio::task::yield_now().await;
            Err(Error::msg("too slow"))
        });
        let (code, text) = checks.answer("/healthz", "").await;
        let wanted = "[+]ping ok\n[-]slow failed: reason withheld\nhealthz check failed\n";
        assert_eq!((code.as_u16(), text.as_str()), (500, wanted));
        let (_, text) = checks.answer("/healthz/slow", "").await;
        assert_eq!(text, "internal server error: too slow\n");
    }

    #[tokio::test]
    async fn check_that_panics_fails() {
        let checks = checks();
        checks.add_health("broken", || async { panic!("no such table") });
        let (code, text) = checks.answer("/healthz/broken", "").await;
        let expected = "internal server error: panic: no such table\n";
        assert_eq!((code.as_u16(), text.as_str()), (500, expected));
        let (code, _) = checks.answer("/healthz", "").await;
        assert_eq!(code.as_u16(), 500);
    }

    #[tokio::test]
    async fn unknown_check_cannot_be_excluded() {
        let warning = "warn: some health checks cannot be excluded: no matches for \"disk\", \"fan\"\n";
        let text = format!("[+]ping ok\n{warning}healthz check passed\n");
        check(
            "/healthz",
            "verbose&exclude=fan&exclude=disk&exclude=fan",
            200,
            &text,
        )
        .await;
    }
    #[tokio::test]
    async fn endpoints_have_the_configured_paths() {
        let checks = Checks {
            endpoints: ["/", "/probes/ready/"].map(str::to_owned),
            ..checks()
        };
        let code = async |path: &str| checks.answer(path, "").await.0.as_u16();
        assert_eq!(code("/").await, 200);
        assert_eq!(code("/probes/ready").await, 500);
        assert_eq!(code("/probes/ready/ping").await, 200);
        assert_eq!(code("/probes/readyz").await, 404);
    }
}

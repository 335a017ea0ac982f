//! `/healthz` and `/readyz`, with the answers that kubelets and people know from Kubernetes' own components.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, StatusCode, Uri, header};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::serve::{self, Answer, Server};

/// Nobody minds a probe that is cut short.
const GRACE: Duration = Duration::from_secs(1);

type Check = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// The checks of a manager; clones share them.
#[derive(Clone)]
pub(crate) struct Checks {
    health: Arc<Mutex<BTreeMap<String, Check>>>,
    ready: Arc<Mutex<BTreeMap<String, Check>>>,
}

// === impl Checks ===

impl Checks {
    /// `ping` for both, and `caches` for readiness.
    pub(crate) fn new(cache: Cache) -> Self {
        let checks = Self {
            health: Arc::default(),
            ready: Arc::default(),
        };
        checks.add_health("ping", || Ok(()));
        checks.add_ready("ping", || Ok(()));
        checks.add_caches("caches", cache);
        checks
    }

    /// Adds a check for readiness that fails while a watch of `cache` does.
    pub(crate) fn add_caches(&self, name: &str, cache: Cache) {
        self.add_ready(name, move || match cache.unhealthy() {
            unhealthy if unhealthy.is_empty() => Ok(()),
            unhealthy => Err(Error::msg(unhealthy.join("; "))),
        });
    }

    pub(crate) fn add_health(&self, name: &str, check: impl Fn() -> Result<()> + Send + Sync + 'static) {
        self.health.lock().insert(name.to_owned(), Arc::new(check));
    }

    pub(crate) fn add_ready(&self, name: &str, check: impl Fn() -> Result<()> + Send + Sync + 'static) {
        self.ready.lock().insert(name.to_owned(), Arc::new(check));
    }

    /// The answer to a path and its query.
    fn answer(&self, path: &str, query: &str) -> (StatusCode, String) {
        let (endpoint, one) = match path.trim_matches('/').split_once('/') {
            Some((endpoint, one)) => (endpoint, Some(one)),
            None => (path.trim_matches('/'), None),
        };
        let checks = match endpoint {
            "healthz" => self.health.lock().clone(),
            "readyz" => self.ready.lock().clone(),
            _ => return (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        };
        match one {
            None => all(endpoint, &checks, query),
            Some(name) => match checks.get(name) {
                Some(check) => all(endpoint, &[(name.to_owned(), check.clone())].into(), query),
                None => (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
            },
        }
    }
}

/// Runs the checks; `?verbose` lists them, and a failure always does; `?exclude=NAME` leaves one out.
fn all(endpoint: &str, checks: &BTreeMap<String, Check>, query: &str) -> (StatusCode, String) {
    let verbose = query
        .split('&')
        .any(|pair| pair == "verbose" || pair.starts_with("verbose="));
    let excluded: Vec<_> = query
        .split('&')
        .filter_map(|pair| pair.strip_prefix("exclude="))
        .collect();
    let (mut text, mut failed) = (String::new(), false);
    for (name, check) in checks {
        let line = if excluded.contains(&name.as_str()) {
            format!("[+]{name} excluded: ok")
        } else {
            match check() {
                Ok(()) => format!("[+]{name} ok"),
                Err(error) => {
                    failed = true;
                    tracing::info!(check = name, %error, "{endpoint} check failed");
                    format!("[-]{name} failed: reason withheld")
                }
            }
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    if failed {
        return (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("{text}{endpoint} check failed\n"),
        );
    }
    let text = if verbose {
        format!("{text}{endpoint} check passed\n")
    } else {
        "ok".to_owned()
    };
    (StatusCode::OK, text)
}

/// Serves the checks until `stop`.
pub(crate) async fn serve(listener: TcpListener, checks: Checks, stop: CancellationToken) {
    let server = Server {
        handler: Arc::new(move |request| {
            let answer = respond(&checks, request.method(), request.uri());
            Box::pin(std::future::ready(answer))
        }),
        tls: None,
        http2: false,
        grace: GRACE,
    };
    server.serve(listener, stop).await;
}

fn respond(checks: &Checks, method: &Method, uri: &Uri) -> Answer {
    let (status, text) = match *method {
        Method::GET | Method::HEAD => checks.answer(uri.path(), uri.query().unwrap_or_default()),
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
        };
        checks.add_health("ping", || Ok(()));
        checks.add_ready("ping", || Ok(()));
        checks.add_ready("database", || Err(Error::msg("password is wrong")));
        checks
    }

    #[track_caller]
    fn check(path: &str, query: &str, status: u16, text: &str) {
        let (actual, body) = checks().answer(path, query);
        assert_eq!((actual.as_u16(), body.as_str()), (status, text));
    }

    #[test]
    fn passing_checks_say_ok() {
        check("/healthz", "", 200, "ok");
        check("/healthz/", "", 200, "ok");
        check("/healthz", "verbose", 200, "[+]ping ok\nhealthz check passed\n");
        check(
            "/healthz",
            "verbose=true",
            200,
            "[+]ping ok\nhealthz check passed\n",
        );
    }

    #[test]
    fn failing_check_is_named_and_its_reason_withheld() {
        let text = "[-]database failed: reason withheld\n[+]ping ok\nreadyz check failed\n";
        check("/readyz", "", 500, text);
    }

    #[test]
    fn single_checks_have_paths_of_their_own() {
        check("/readyz/ping", "", 200, "ok");
        check(
            "/readyz/database",
            "",
            500,
            "[-]database failed: reason withheld\nreadyz check failed\n",
        );
        check("/readyz/missing", "", 404, "404 page not found\n");
        check("/metrics", "", 404, "404 page not found\n");
    }

    #[test]
    fn excluded_check_does_not_count() {
        let text = "[+]database excluded: ok\n[+]ping ok\nreadyz check passed\n";
        check("/readyz", "verbose&exclude=database", 200, text);
    }
}

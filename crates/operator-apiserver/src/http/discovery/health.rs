//! `/healthz`, `/livez` and `/readyz` with their named checks, and `/statusz` and `/flagz`.

use std::fmt::Write as _;

use apimachinery::go::quote;
use http::StatusCode;
use jiff::Timestamp;

use super::GIT_VERSION;
use crate::clock::unix_seconds;
use crate::http::call::{Answer, Call};
use crate::http::handler::Handler;

/// The checks of all paths. Only those in [`STORAGE`] can fail here.
const COMMON: &[&str] = &[
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-wait-for-first-sync",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];
const LIVE: &[&str] = &["ping", "log", "loopback-serving-certificate", "etcd"];
const READY: &[&str] = &["ping", "log", "informer-sync"];
const READY_LAST: &[&str] = &["shutdown"];
/// Checks that fail while the journal cannot be written.
const STORAGE: [&str; 2] = ["etcd", "poststarthook/storage-readiness"];

/// Returns the checks of a path, in order.
fn checks(path: &str) -> impl Iterator<Item = &'static str> {
    let (first, last) = if path == "readyz" {
        (READY, READY_LAST)
    } else {
        (LIVE, &[][..])
    };
    first.iter().chain(COMMON).chain(last).copied()
}

/// Returns every path below `/healthz`, `/livez` and `/readyz`, for the index.
pub(super) fn paths() -> Vec<String> {
    let of = |path: &'static str| {
        let named = checks(path).map(move |check| format!("/{path}/{check}"));
        std::iter::once(format!("/{path}")).chain(named)
    };
    ["healthz", "livez", "readyz"].into_iter().flat_map(of).collect()
}

/// Returns the reason why a check fails; `None` if it succeeds.
fn failure(handler: &Handler, check: &str) -> Option<String> {
    if !STORAGE.contains(&check) {
        return None;
    }
    handler
        .registry
        .store
        .check_journal()
        .err()
        .map(|error| error.to_string())
}

/// Serves a health check; `name` is the rest of the path.
pub(super) fn serve(handler: &Handler, call: &Call, path: &str, name: &str) -> Answer {
    if name.is_empty() {
        return all(handler, call, path);
    }
    if !checks(path).any(|check| check == name) {
        return Answer::not_found();
    }
    match failure(handler, name) {
        None => Answer::text(StatusCode::OK, "ok"),
        Some(why) => {
            let text = format!("internal server error: {why}\n");
            Answer::text(StatusCode::INTERNAL_SERVER_ERROR, &text)
        }
    }
}

fn all(handler: &Handler, call: &Call, path: &str) -> Answer {
    let excluded: Vec<&str> = call.query.all("exclude").collect();
    let (mut lines, mut failed) = (String::new(), false);
    for check in checks(path) {
        let result = if excluded.contains(&check) {
            Ok("excluded: ok")
        } else {
            match failure(handler, check) {
                None => Ok("ok"),
                Some(why) => {
                    tracing::warn!(check, why, "a health check failed");
                    failed = true;
                    Err("failed: reason withheld")
                }
            }
        };
        let _ = match result {
            Ok(text) => writeln!(lines, "[+]{check} {text}"),
            Err(text) => writeln!(lines, "[-]{check} {text}"),
        };
    }
    let unmatched: Vec<String> = excluded
        .iter()
        .filter(|name| !checks(path).any(|check| check == **name))
        .map(|name| quote(name))
        .collect();
    if !unmatched.is_empty() {
        let names = unmatched.join(",");
        let _ = writeln!(
            lines,
            "warn: some health checks cannot be excluded: no matches for {names}"
        );
    }
    if failed {
        return Answer::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("{lines}{path} check failed\n"),
        );
    }
    if call.query.get("verbose").is_none() {
        return Answer::text(StatusCode::OK, "ok");
    }
    Answer::text(StatusCode::OK, &format!("{lines}{path} check passed\n"))
}

const NOT_MACHINE_READABLE: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";

/// Serves `/statusz`: the start time of the server, and its version.
pub(super) fn status(handler: &Handler) -> Answer {
    let started = unix_seconds(handler.started);
    let up = (unix_seconds(handler.registry.clock.now()) - started).max(0);
    let started = Timestamp::from_second(started).unwrap_or_default();
    let text = format!(
        "\napiserver statusz\n{NOT_MACHINE_READABLE}\n\nStarted  {}\nUp  {} hr {:02} min {:02} sec\nBinary version  {}\nEmulation version  1.36\nPaths  /flagz /healthz /livez /metrics /readyz /statusz /version\n",
        started.strftime("%a %b %e %H:%M:%S UTC %Y"),
        up / 3600,
        up / 60 % 60,
        up % 60,
        GIT_VERSION.trim_start_matches('v'),
    );
    Answer::text(StatusCode::OK, &text)
}

/// Serves `/flagz`: the flags that the server was started with.
pub(super) fn flags(handler: &Handler) -> Answer {
    let mut text = format!("\napiserver flagz\n{NOT_MACHINE_READABLE}\n");
    for (name, value) in &handler.flags {
        let _ = writeln!(text, "{name}:{value}");
    }
    Answer::text(StatusCode::OK, &text)
}

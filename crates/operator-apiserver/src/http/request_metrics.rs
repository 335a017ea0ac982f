//! The labels of request metrics.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use tokio::time::Instant;

use crate::http::call::{Body, Call, hold};
use crate::http::handler::Handler;
use crate::http::subresource;
use crate::metrics::{InFlight, Metrics, RequestLabels};
use crate::resource::Resources;

/// Counts a running request until the guard is dropped.
pub(crate) fn begin<'a>(metrics: &'a Metrics, call: &Call) -> InFlight<'a> {
    metrics.begin(!matches!(
        call.info.verb,
        "get" | "list" | "watch" | "head" | "options" | "proxy"
    ))
}

/// Counts a completed request.
pub(crate) fn answered(handler: &Handler, call: &Call, code: u16, size: usize) {
    let labels = labels_of(&handler.registry.resources, call);
    handler.metrics.finished(labels, code, call.started, Some(size));
}

/// Counts a request with a stream as its response: as running until the stream ends, and then as completed.
pub(crate) fn follow(handler: &Handler, call: &Call, code: u16, body: Body) -> Body {
    let labels = labels_of(&handler.registry.resources, call);
    handler.metrics.change_long_running(&labels, 1);
    let running = LongRunning {
        metrics: handler.metrics.clone(),
        labels,
        code,
        started: call.started,
    };
    hold(body, running)
}

/// A long-running request, counted until it is dropped.
struct LongRunning {
    metrics: Arc<Metrics>,
    labels: RequestLabels,
    code: u16,
    started: Instant,
}

impl Drop for LongRunning {
    fn drop(&mut self) {
        self.metrics.change_long_running(&self.labels, -1);
        let labels = self.labels.clone();
        self.metrics.finished(labels, self.code, self.started, None);
    }
}

/// Paths with their own label value.
const PATHS: [&str; 10] = [
    "/api",
    "/apis",
    "/flagz",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/readyz",
    "/statusz",
    "/version",
];

/// Returns the verb of a request in metrics.
fn verb(call: &Call) -> &'static str {
    let info = &call.info;
    let connects = subresource::connects(&info.subresource);
    match info.verb {
        _ if info.is_resource && connects => "CONNECT",
        "get" | "head" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" if call.header(CONTENT_TYPE).starts_with("application/apply-patch") => "APPLY",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    }
}

fn labels_of(resources: &Resources, call: &Call) -> RequestLabels {
    let info = &call.info;
    let mut labels = RequestLabels {
        component: "",
        dry_run: "",
        group: String::new(),
        resource: String::new(),
        scope: "",
        subresource: String::new(),
        verb: verb(call),
        version: String::new(),
    };
    if !info.is_resource {
        if PATHS.contains(&info.path.as_str()) {
            labels.subresource.clone_from(&info.path);
        } else if info.path.starts_with("/openapi/v3") {
            labels.subresource = "openapi/v3".to_owned();
        }
        return labels;
    }
    let Some(definition) = resources.find(&info.group, &info.version, &info.resource) else {
        return labels;
    };
    labels.component = "apiserver";
    labels.group.clone_from(&definition.subject.group);
    labels.resource.clone_from(&definition.subject.resource);
    labels.version.clone_from(&definition.version);
    if definition.subresource(&info.subresource).is_some() {
        labels.subresource.clone_from(&info.subresource);
    }
    if call.query.all("dryRun").any(|value| value == "All") {
        labels.dry_run = "All";
    }
    labels.scope = if !info.name.is_empty() || info.verb == "create" {
        "resource"
    } else if info.namespace.is_empty() {
        "cluster"
    } else {
        "namespace"
    };
    labels
}

/// Renders all metrics of a server.
pub(crate) fn render(handler: &Handler) -> String {
    crate::metrics::render(&handler.metrics, &objects(handler), super::discovery::GIT_VERSION)
}

/// Returns the numbers of stored objects by group and resource.
fn objects(handler: &Handler) -> Vec<(String, String, usize)> {
    let custom = handler.registry.resources.custom();
    let mut counts = Vec::new();
    for definition in handler
        .registry
        .resources
        .builtin()
        .definitions()
        .iter()
        .chain(custom.definitions())
    {
        if !definition.allows("list") {
            continue;
        }
        let subject = &definition.subject;
        let count = handler.registry.store.count(&definition.table);
        counts.push((subject.group.clone(), subject.resource.clone(), count));
    }
    counts.sort();
    counts.dedup();
    counts
}

//! The counters in the text format of Prometheus.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering;

use super::{Answered, Histogram, Labels, Metrics, RequestLabels, process};

const REQUEST: &[&str] = &[
    "component",
    "group",
    "resource",
    "scope",
    "subresource",
    "verb",
    "version",
];
const TIMED: &[&str] = &[
    "component",
    "dry_run",
    "group",
    "resource",
    "scope",
    "subresource",
    "verb",
    "version",
];
const COUNTED: &[&str] = &[
    "code",
    "component",
    "dry_run",
    "group",
    "resource",
    "scope",
    "subresource",
    "system_client",
    "verb",
    "version",
];

type Series<T> = BTreeMap<Labels, T>;

/// Returns the counts, durations and sizes of completed requests, each by the labels of its metric.
fn by_metric(
    requests: &HashMap<(RequestLabels, u16), Answered>,
) -> (Series<u64>, Series<Histogram>, Series<Histogram>) {
    let (mut counts, mut durations, mut sizes) = (Series::new(), Series::new(), Series::new());
    for ((labels, code), answered) in requests {
        counts.insert(labels.with_code(*code), answered.durations.count);
        add(&mut durations, labels.timed(), &answered.durations);
        if answered.sizes.count > 0 {
            add(&mut sizes, labels.plain(), &answered.sizes);
        }
    }
    (counts, durations, sizes)
}

fn add(series: &mut Series<Histogram>, labels: Labels, histogram: &Histogram) {
    let sum = series.entry(labels);
    sum.and_modify(|sum| sum.add(histogram))
        .or_insert_with(|| histogram.clone());
}

/// Renders all metrics of a server; `objects` are the numbers of stored objects by group and resource.
pub(crate) fn render(metrics: &Metrics, objects: &[(String, String, usize)], version: &str) -> String {
    let Metrics {
        requests,
        long_running,
        steps,
        webhooks,
        webhook_requests,
        webhook_rejections,
        authorizations,
        mutating,
        read_only,
    } = metrics;
    let (counts, durations, sizes) = by_metric(&requests.lock());
    let mut page = Page::default();
    page.histograms(
        "apiserver_admission_step_admission_duration_seconds",
        "Admission sub-step latency histogram in seconds, for each operation and step type.",
        &["operation", "rejected", "type"],
        &steps.0.lock(),
    );
    page.histograms(
        "apiserver_admission_webhook_admission_duration_seconds",
        "Admission webhook latency histogram in seconds, by name, operation and type.",
        &["name", "operation", "rejected", "type"],
        &webhooks.0.lock(),
    );
    page.numbers(
        "apiserver_admission_webhook_rejection_count",
        "counter",
        "Admission webhook rejections, by name, operation, type, and kind of error.",
        &["error_type", "name", "operation", "rejection_code", "type"],
        &webhook_rejections.0.lock(),
    );
    page.numbers(
        "apiserver_admission_webhook_request_total",
        "counter",
        "Admission webhook requests, by name, operation, type and response code.",
        &["code", "name", "operation", "rejected", "type"],
        &webhook_requests.0.lock(),
    );
    page.numbers(
        "apiserver_authorization_decisions_total",
        "counter",
        "Terminal decisions of authorizers.",
        &["decision", "name", "type"],
        &authorizations.0.lock(),
    );
    page.head(
        "apiserver_current_inflight_requests",
        "gauge",
        "Requests that are being handled.",
    );
    for (kind, count) in [("mutating", mutating), ("readOnly", read_only)] {
        let count = count.load(Ordering::Relaxed);
        page.line(
            "apiserver_current_inflight_requests",
            &["request_kind"],
            &[kind],
            count,
        );
    }
    page.numbers(
        "apiserver_longrunning_requests",
        "gauge",
        "Active long-running requests, by verb, group, version, resource, scope and component.",
        REQUEST,
        &long_running.0.lock(),
    );
    page.histograms(
        "apiserver_request_duration_seconds",
        "Response latency distribution in seconds, by verb, dry run, group, version, resource, subresource and scope.",
        TIMED,
        &durations,
    );
    page.numbers(
        "apiserver_request_total",
        "counter",
        "Requests, by verb, dry run, group, version, resource, scope, component and response code.",
        COUNTED,
        &counts,
    );
    page.objects(objects);
    page.histograms(
        "apiserver_response_sizes",
        "Response size distribution in bytes, by group, version, verb, resource, subresource and scope.",
        REQUEST,
        &sizes,
    );
    page.build(version);
    page.process();
    page.0
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, keys: &[&str], values: &[impl AsRef<str>], number: impl Display) {
        self.0.push_str(name);
        let pairs: Vec<String> = keys
            .iter()
            .zip(values)
            .map(|(key, value)| format!("{key}=\"{}\"", escape(value.as_ref())))
            .collect();
        if !pairs.is_empty() {
            let _ = write!(self.0, "{{{}}}", pairs.join(","));
        }
        let _ = writeln!(self.0, " {number}");
    }

    fn numbers<T: Display>(&mut self, name: &str, kind: &str, help: &str, keys: &[&str], series: &Series<T>) {
        if series.is_empty() {
            return;
        }
        self.head(name, kind, help);
        for (labels, number) in series {
            self.line(name, keys, labels, number);
        }
    }

    fn histograms(&mut self, name: &str, help: &str, keys: &[&str], series: &Series<Histogram>) {
        if series.is_empty() {
            return;
        }
        self.head(name, "histogram", help);
        let (buckets, sum, count) = (
            format!("{name}_bucket"),
            format!("{name}_sum"),
            format!("{name}_count"),
        );
        let mut bounded = keys.to_vec();
        bounded.push("le");
        for (labels, histogram) in series {
            let mut values = labels.clone();
            values.push(String::new());
            let mut total = 0;
            let bounds = histogram.bounds.iter().map(ToString::to_string);
            for (bound, held) in bounds.zip(&histogram.buckets) {
                total += held;
                if let Some(last) = values.last_mut() {
                    *last = bound;
                }
                self.line(&buckets, &bounded, &values, total);
            }
            if let Some(last) = values.last_mut() {
                "+Inf".clone_into(last);
            }
            self.line(&buckets, &bounded, &values, histogram.count);
            self.line(&sum, keys, labels, histogram.sum);
            self.line(&count, keys, labels, histogram.count);
        }
    }

    /// Renders the numbers of stored objects of each resource.
    fn objects(&mut self, counts: &[(String, String, usize)]) {
        let name = "apiserver_resource_objects";
        self.head(name, "gauge", "Stored objects, by resource.");
        for (group, resource, count) in counts {
            self.line(name, &["group", "resource"], &[group, resource], count);
        }
        let name = "apiserver_storage_objects";
        self.head(
            name,
            "gauge",
            "Stored objects, by resource. Deprecated: use apiserver_resource_objects.",
        );
        for (group, resource, count) in counts {
            let full = match group.as_str() {
                "" => resource.clone(),
                group => format!("{resource}.{group}"),
            };
            self.line(name, &["resource"], &[full], count);
        }
    }

    fn build(&mut self, version: &str) {
        let name = "kubernetes_build_info";
        self.head(name, "gauge", "A constant 1, labelled with the version.");
        self.line(name, &["git_version", "major", "minor"], &[version, "1", "36"], 1);
    }

    fn process(&mut self) {
        for figure in process::figures() {
            self.head(figure.name, figure.kind, figure.help);
            self.line(figure.name, &[], &[""; 0], figure.value);
        }
    }
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

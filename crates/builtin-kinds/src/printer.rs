//! Printer columns: the rows that `kubectl get` shows.
//!
//! The columns are a table (`columns-1.36.txt`); the cells are functions of an object and the time. A kind without
//! columns of its own has a name and an age.

mod cluster;
mod duration;
pub(crate) mod generic;
mod network;
mod platform;
mod pod;
mod workload;

use std::collections::HashMap;
use std::sync::LazyLock;

use apimachinery::time::unix_seconds;
use serde_json::Value;

use crate::tree::{at, entries, list, text};
use apimachinery::gvk::Gvk;

pub(crate) use duration::human_duration;

/// One column of a Table: name, type, format, description, priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The column heading.
    pub name: String,
    /// The OpenAPI type of the cells, such as `string`.
    pub kind: String,
    /// The OpenAPI format of the cells, such as `name`; often empty.
    pub format: String,
    /// The description that clients show.
    pub description: String,
    /// The priority: 0 is always shown, 1 only with `-o wide`.
    pub priority: i32,
}

static COLUMNS: LazyLock<HashMap<&'static str, Vec<Column>>> =
    LazyLock::new(|| parse(include_str!("columns-1.36.txt")));

/// Returns the printer columns of a kind; Name and Age if the kind has none.
pub fn columns(gvk: &Gvk) -> Vec<Column> {
    let group = match gvk.group {
        "events.k8s.io" => "",
        group => group,
    };
    let own = COLUMNS.get(format!("{group}/{}", gvk.kind).as_str());
    let columns = own.or_else(|| COLUMNS.get("*/*"));
    columns.cloned().unwrap_or_default()
}

fn parse(text: &'static str) -> HashMap<&'static str, Vec<Column>> {
    let mut columns: HashMap<&str, Vec<Column>> = HashMap::new();
    let mut last: HashMap<&str, String> = HashMap::new();
    let mut kind = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some(fields) = line.strip_prefix('\t') else {
            kind = line;
            continue;
        };
        let mut fields = fields.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        let (name, form, priority, description) = (next(), next(), next(), next());
        if description != "=" {
            last.insert(name, description.replace("\\n", "\n"));
        }
        let (form, format) = form.split_once('/').unwrap_or((form, ""));
        columns.entry(kind).or_default().push(Column {
            name: name.to_owned(),
            kind: form.to_owned(),
            format: format.to_owned(),
            description: last.get(name).cloned().unwrap_or_default(),
            priority: priority.parse().unwrap_or(0),
        });
    }
    columns
}

/// Returns the cells of one object for [`columns`]; `now` is in Unix seconds, for ages.
pub fn cells(gvk: &Gvk, object: &Value, now: i64) -> Vec<Value> {
    let row = Row { object, now };
    let cells: fn(&Row<'_>) -> Vec<Value> = match (gvk.group, gvk.kind) {
        ("", "Pod") => pod::pod,
        ("", "PodTemplate") => workload::pod_template,
        ("", "ReplicationController") | ("apps", "ReplicaSet") => workload::replica_set,
        ("apps", "DaemonSet") => workload::daemon_set,
        ("apps", "Deployment") => workload::deployment,
        ("apps", "StatefulSet") => workload::stateful_set,
        ("apps", "ControllerRevision") => workload::revision,
        ("batch", "Job") => workload::job,
        ("batch", "CronJob") => workload::cron_job,
        ("autoscaling", "HorizontalPodAutoscaler") => workload::autoscaler,
        ("policy", "PodDisruptionBudget") => workload::disruption_budget,
        ("", "Service") => network::service,
        ("", "Endpoints") => network::endpoints,
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice,
        ("networking.k8s.io", "Ingress") => network::ingress,
        ("networking.k8s.io", "IngressClass") => network::ingress_class,
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy,
        ("", "Node") => cluster::node,
        ("", "Event") | ("events.k8s.io", "Event") => cluster::event,
        ("", "Namespace") => cluster::namespace,
        ("", "Secret") => cluster::secret,
        ("", "ConfigMap") => cluster::config_map,
        ("", "PersistentVolume") => cluster::persistent_volume,
        ("", "PersistentVolumeClaim") => cluster::claim,
        ("", "ResourceQuota") => cluster::quota,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => cluster::binding,
        ("certificates.k8s.io", "CertificateSigningRequest") => cluster::signing_request,
        ("coordination.k8s.io", "Lease") => cluster::lease,
        ("storage.k8s.io", "StorageClass") => cluster::storage_class,
        ("storage.k8s.io", "VolumeAttachment") => cluster::volume_attachment,
        ("scheduling.k8s.io", "PriorityClass") => cluster::priority_class,
        ("node.k8s.io", "RuntimeClass") => cluster::runtime_class,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => cluster::webhooks,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            |row| cluster::policy(row, "validations")
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => {
            |row| cluster::policy(row, "mutations")
        }
        (
            "admissionregistration.k8s.io",
            "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding",
        ) => cluster::policy_binding,
        ("apiregistration.k8s.io", "APIService") => platform::api_service,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => platform::flow_schema,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => platform::priority_level,
        ("networking.k8s.io", "IPAddress") => platform::ip_address,
        ("networking.k8s.io", "ServiceCIDR") => platform::service_cidr,
        ("resource.k8s.io", "ResourceClaim") => platform::resource_claim,
        ("resource.k8s.io", "ResourceSlice") => platform::resource_slice,
        ("storage.k8s.io", "CSIDriver") => platform::csi_driver,
        ("storage.k8s.io", "CSINode") => platform::csi_node,
        ("storage.k8s.io", "VolumeAttributesClass") => platform::volume_attributes_class,
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole")
        | ("", "LimitRange")
        | ("storage.k8s.io", "CSIStorageCapacity")
        | ("apiextensions.k8s.io", "CustomResourceDefinition") => |row| row.name_and_creation(),
        _ => |row| row.name_and_age(),
    };
    cells(&row)
}

/// An object and the current time.
struct Row<'a> {
    object: &'a Value,
    now: i64,
}

impl<'a> Row<'a> {
    fn text(&self, path: &[&str]) -> &'a str {
        text(self.object, path)
    }

    fn at(&self, path: &[&str]) -> &'a Value {
        at(self.object, path)
    }

    fn list(&self, path: &[&str]) -> &'a [Value] {
        list(self.object, path)
    }

    /// Returns the number at a path; 0 if it is missing.
    fn number(&self, path: &[&str]) -> i64 {
        at(self.object, path).as_i64().unwrap_or(0)
    }

    fn name(&self) -> Value {
        self.text(&["metadata", "name"]).into()
    }

    fn age(&self) -> Value {
        self.since(self.text(&["metadata", "creationTimestamp"])).into()
    }

    /// Returns the time since a time stamp.
    fn since(&self, time: &str) -> String {
        match unix_seconds(time) {
            Some(time) => human_duration(self.now.saturating_sub(time)),
            None => "<unknown>".to_owned(),
        }
    }

    fn is_deleted(&self) -> bool {
        !self.at(&["metadata", "deletionTimestamp"]).is_null()
    }

    fn name_and_age(&self) -> Vec<Value> {
        vec![self.name(), self.age()]
    }

    fn name_and_creation(&self) -> Vec<Value> {
        vec![self.name(), self.text(&["metadata", "creationTimestamp"]).into()]
    }
}

const NONE: &str = "<none>";
const UNSET: &str = "<unset>";

/// Returns a string, or the default if it is empty.
fn or<'a>(value: &'a str, other: &'a str) -> &'a str {
    if value.is_empty() { other } else { value }
}

/// Returns a number or string without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Returns comma-separated strings, or `<none>`.
fn joined<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<&str> = items.collect();
    or(&items.join(","), NONE).to_owned()
}

/// Returns labels as `a=b,c=d`, or `<none>`.
fn format_labels(labels: &Value) -> String {
    let pairs: Vec<String> = entries(labels, &[])
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    joined(pairs.iter().map(String::as_str))
}

/// Returns a label selector as `a=b,c in (d,e)`; `<none>` if it is empty.
fn format_selector(selector: &Value) -> String {
    let labels = entries(selector, &["matchLabels"])
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let expressions = list(selector, &["matchExpressions"]).iter().map(|expression| {
        let key = text(expression, &["key"]);
        let mut values: Vec<&str> = list(expression, &["values"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let values = values.join(",");
        match text(expression, &["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        }
    });
    let mut all: Vec<String> = labels.chain(expressions).collect();
    all.sort();
    joined(all.iter().map(String::as_str))
}

/// Returns the names and the images of containers.
fn containers(spec: &Value) -> [Value; 2] {
    ["name", "image"].map(|field| {
        let containers = list(spec, &["containers"]).iter();
        let texts: Vec<&str> = containers.map(|container| text(container, &[field])).collect();
        texts.join(",").into()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::resources;

    fn gvk(kind: &str) -> &'static Gvk {
        let found = resources().iter().find(|resource| resource.gvk.kind == kind);
        &found.unwrap().gvk
    }

    /// Returns the cells of an object that is a minute old.
    fn row(kind: &str, mut object: Value) -> Vec<Value> {
        object["metadata"] = json!({ "name": "n", "creationTimestamp": "2024-01-01T00:00:00Z" });
        let now = unix_seconds("2024-01-01T00:01:00Z").unwrap();
        cells(gvk(kind), &object, now)
    }

    #[test]
    fn every_kind_has_as_many_cells_as_columns() {
        for resource in resources() {
            for object in [
                json!({}),
                json!({ "spec": {}, "status": {}, "metadata": { "name": "n" } }),
            ] {
                let cells = cells(&resource.gvk, &object, 0);
                // The API server adds the age of an IPAddress without a column for it.
                let more = usize::from(resource.gvk.kind == "IPAddress");
                assert_eq!(
                    cells.len(),
                    columns(&resource.gvk).len() + more,
                    "{:?}",
                    resource.gvk
                );
            }
        }
    }

    #[test]
    fn a_deployment_shows_how_many_pods_are_ready() {
        let deployment = json!({
            "spec": {
                "replicas": 3,
                "selector": { "matchLabels": { "a": "b" } },
                "template": { "spec": { "containers": [
                    { "name": "c", "image": "example.com/c:1" },
                    { "name": "e", "image": "example.com/e:2" },
                ] } },
            },
            "status": { "readyReplicas": 1, "updatedReplicas": 2 },
        });
        assert_eq!(
            row("Deployment", deployment),
            [
                json!("n"),
                json!("1/3"),
                json!(2),
                json!(0),
                json!("60s"),
                json!("c,e"),
                json!("example.com/c:1,example.com/e:2"),
                json!("a=b"),
            ]
        );
    }

    #[test]
    fn a_pod_shows_why_its_container_waits() {
        let pod = json!({
            "spec": { "containers": [{ "name": "c" }], "nodeName": "node" },
            "status": {
                "phase": "Running",
                "podIP": "10.9.8.7",
                "containerStatuses": [{
                    "name": "c",
                    "restartCount": 3,
                    "state": { "waiting": { "reason": "CrashLoopBackOff" } },
                    "lastState": { "terminated": { "finishedAt": "2024-01-01T00:00:50Z" } },
                }],
            },
        });
        assert_eq!(
            row("Pod", pod),
            [
                "n",
                "0/1",
                "CrashLoopBackOff",
                "3 (10s ago)",
                "60s",
                "10.9.8.7",
                "node",
                "<none>",
                "<none>"
            ]
        );
    }

    #[test]
    fn a_service_shows_its_addresses_and_ports() {
        let service = json!({
            "spec": {
                "type": "LoadBalancer",
                "clusterIP": "10.0.0.9",
                "clusterIPs": ["10.0.0.9"],
                "ports": [{ "port": 80, "nodePort": 30080, "protocol": "TCP" }],
                "selector": { "app": "a" },
            },
        });
        assert_eq!(
            row("Service", service),
            [
                "n",
                "LoadBalancer",
                "10.0.0.9",
                "<pending>",
                "80:30080/TCP",
                "60s",
                "app=a"
            ]
        );
    }

    #[test]
    fn a_job_shows_its_progress() {
        let job = json!({
            "spec": { "completions": 2, "template": {}, "selector": {} },
            "status": {
                "succeeded": 1,
                "startTime": "2024-01-01T00:00:10Z",
                "conditions": [{ "type": "Complete", "status": "True" }],
                "completionTime": "2024-01-01T00:00:40Z",
            },
        });
        let cells = row("Job", job);
        assert_eq!(cells[1..5], ["Complete", "1/2", "30s", "60s"].map(Value::from));
    }
}

//! Requests that list, get and watch.

use serde_json::{Value, json};

use super::Making;
use crate::differential::catalog::Kind;
use crate::differential::sequence::{Sequence, patch, request};
use crate::scenario::Step;

/// The media type of protobuf.
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

const ACCEPTS: [&str; 20] = [
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=nope;v=v1;g=meta.k8s.io,application/json",
    "application/json;g=meta.k8s.io;v=v1",
    "application/yaml",
    "application/yaml;as=Table;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
    PROTOBUF,
    PROTOBUF,
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;stream=watch",
    "application/xml",
    "application/xml, */*",
    "application/json;q=0.1, application/yaml",
    "*/*",
];

/// Gets two objects and their collection.
pub(super) fn list(making: &mut Making<'_>) -> Sequence {
    let kind = making.kind("list");
    let first = making.object(&kind);
    let mut sequence = making.begin(&kind, &first);
    let path = making.path(&kind, &first);
    sequence.steps.push(making.create(&kind, &first));
    for _ in 0..2 {
        let step = read_step(making, &kind, &first, &path);
        sequence.steps.push(step);
    }
    sequence
}

fn read_step(making: &mut Making<'_>, kind: &Kind, object: &Value, path: &str) -> Step {
    let random = &mut making.random;
    let accept = if random.chance(60) {
        random.text(&ACCEPTS)
    } else {
        "application/json"
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if random.chance(35) {
        let step = request("GET", path).header("Accept", accept);
        return match random.below(6) {
            0 => step.query("resourceVersion", random.text(&["0", "1", "x"])),
            1 => step.query("pretty", random.text(&["true", "1", "x"])),
            2 => step.query("export", "true"),
            3 => step.query("includeObject", random.text(&["None", "Object", "Metadata", "x"])),
            _ => step,
        };
    }
    let mut step = request("GET", kind.collection(making.namespace)).header("Accept", accept);
    // Other objects of the cluster differ between the servers.
    let mut only = format!("metadata.name={name}");
    if random.chance(40) {
        let label = field_label(kind, object, random.below(8));
        only = format!("{only},{label}");
    }
    step = step.query("fieldSelector", &only);
    match random.below(12) {
        0 => step.query(
            "labelSelector",
            random.text(&[
                "k=v",
                "k",
                "!k",
                "k in (a,b)",
                "k notin (a)",
                "a b",
                "k=,x",
                "k in ()",
                "k>1",
                "k in (v),k",
            ]),
        ),
        1 => step.query("limit", random.text(&["1", "0", "-1", "x"])),
        2 => step.query("resourceVersion", random.text(&["0", "x", ""])),
        3 => step.query(
            "resourceVersionMatch",
            random.text(&["Exact", "NotOlderThan", "nope"]),
        ),
        4 => step.query(
            "continue",
            random.text(&["x", "", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0"]),
        ),
        5 => step.query("includeObject", random.text(&["None", "Object", "Metadata", "x"])),
        6 => step.query("sendInitialEvents", random.text(&["true", "false", "x"])),
        7 => step.query("timeoutSeconds", random.text(&["1", "x"])),
        8 => step.query("timeout", random.text(&["1s", "x", "-1s", "0"])),
        _ => step,
    }
}

/// Returns a requirement of a field selector.
fn field_label(kind: &Kind, object: &Value, choice: usize) -> String {
    let labels: &[&str] = match kind.resource.as_str() {
        "pods" => &[
            "spec.nodeName=",
            "status.phase=Pending",
            "spec.restartPolicy!=Always",
            "spec.schedulerName=default-scheduler",
            "spec.serviceAccountName=default",
            "status.podIP=",
            "status.nominatedNodeName=",
            "spec.hostNetwork=false",
        ],
        "events" => &[
            "involvedObject.name=p",
            "regarding.name=p",
            "reason=R",
            "type=Normal",
            "involvedObject.kind=Pod",
            "regarding.kind=Pod",
            "reportingController=c.example.com/x",
            "source=c",
        ],
        "services" => &[
            "spec.clusterIP=None",
            "spec.type=ClusterIP",
            "spec.type!=ClusterIP",
        ],
        "secrets" => &["type=Opaque", "type!=Opaque"],
        "nodes" => &["spec.unschedulable=true", "spec.unschedulable=false"],
        "namespaces" => &["status.phase=Active", "name=x"],
        "jobs" => &["status.successful=0", "status.successful=1"],
        "replicasets" | "replicationcontrollers" => &["status.replicas=0", "status.replicas=1"],
        "certificatesigningrequests" => &["spec.signerName=example.com/s"],
        "resourceslices" => &["spec.nodeName=n", "spec.driver=d.example.com"],
        "ipaddresses" => &["spec.parentRef.name=s"],
        _ => &[
            "metadata.namespace!=x",
            "spec.x=1",
            "metadata.uid=1",
            "metadata.name!=x",
            "nope=1",
            "=",
            "a,b",
            "metadata.namespace=x",
        ],
    };
    let _ = object;
    labels
        .get(choice % labels.len())
        .copied()
        .unwrap_or_default()
        .to_owned()
}

/// Watches one object that is created, changed and deleted.
pub(super) fn watch(making: &mut Making<'_>) -> Sequence {
    let kind = making.kind("watch");
    let object = making.object(&kind);
    let mut sequence = making.begin(&kind, &object);
    let path = making.path(&kind, &object);
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let random = &mut making.random;
    let accept = match random.text(&ACCEPTS) {
        accept if random.chance(50) && !accept.starts_with(PROTOBUF) => accept,
        // Events are read line by line.
        _ => "application/json",
    };
    let mut open = Step {
        watch: Some("w".to_owned()),
        path: Some(kind.collection(making.namespace)),
        ..Step::default()
    }
    .header("Accept", accept)
    .query("fieldSelector", &format!("metadata.name={name}"));
    let early = random.chance(50);
    let mut expected = 2;
    open = match random.below(8) {
        0 => open.query("labelSelector", random.text(&["z=1", "!z", "a b"])),
        1 if !early => open.query("resourceVersion", random.text(&["${rv}", "0", "x"])),
        2 => {
            // A bookmark ends the initial events.
            expected += 1;
            open.query("sendInitialEvents", "true")
                .query("resourceVersionMatch", random.text(&["NotOlderThan", "Exact"]))
                .query("allowWatchBookmarks", random.text(&["true", "false"]))
        }
        3 => open.query("includeObject", random.text(&["None", "Object", "Metadata"])),
        _ => open,
    };
    let create = making
        .create(&kind, &object)
        .capture("rv", "metadata.resourceVersion");
    let change = patch(
        path.clone(),
        "merge-patch+json",
        json!({"metadata": {"labels": {"z": "1"}}}),
    );
    let first = if early { [open, create] } else { [create, open] };
    sequence.steps.extend(first);
    sequence.steps.push(change);
    if kind.kind != "Namespace" {
        sequence
            .steps
            .push(request("DELETE", path).query("gracePeriodSeconds", "0"));
        expected += 1;
    }
    if kind.allows("list") {
        // A list waits until the watch cache of the real server has the last revision, so that events cannot be late.
        let all = request("GET", kind.collection(making.namespace));
        sequence
            .steps
            .push(all.query("fieldSelector", &format!("metadata.name={name}")));
    }
    sequence.steps.push(Step {
        events: Some("w".to_owned()),
        count: expected,
        seconds: Some(10.0),
        quiet: Some(1.0),
        ..Step::default()
    });
    sequence
}

//! HorizontalPodAutoscalers in `autoscaling/v1` and `autoscaling/v2`: one object in two versions.
//!
//! Fields that do not exist in v1 are stored in annotations, as JSON in the field order of the API server's structs.
//! The conversion to v2 reads the annotations and removes them.

use apimachinery::quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::tree::{Object, at, copy_entry, list, object_in};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const ANNOTATIONS: [&str; 4] = [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR];

/// The common fields of the two versions.
const SPEC: [&str; 3] = ["scaleTargetRef", "minReplicas", "maxReplicas"];
const STATUS: [&str; 4] = [
    "observedGeneration",
    "lastScaleTime",
    "currentReplicas",
    "desiredReplicas",
];

/// The default target utilization of v1, in percent.
const DEFAULT_UTILIZATION: i64 = 80;

/// The encoding of a struct field.
#[derive(Clone, Copy)]
enum Form {
    /// Always written, empty or not.
    Text,
    /// An optional string or number.
    Optional,
    /// A required quantity.
    Amount,
    /// An optional quantity.
    OptionalAmount,
    /// A quantity that is null if missing.
    NullableAmount,
    /// Any value that is null if missing.
    Nullable,
    /// An optional struct.
    Struct(&'static [Field]),
    /// An optional list of structs.
    List(&'static [Field]),
    /// A list of structs that is null if missing.
    NullableList(&'static [Field]),
    /// A struct that is null if missing.
    NullableStruct(&'static [Field]),
}

/// The name of a field in an annotation, its path in v2, and its form.
type Field = (&'static str, &'static [&'static str], Form);

use Form::{
    Amount, List, Nullable, NullableAmount, NullableList, NullableStruct, Optional, OptionalAmount, Struct,
    Text,
};

const REFERENCE: &[Field] = &[
    ("kind", &["kind"], Text),
    ("name", &["name"], Text),
    ("apiVersion", &["apiVersion"], Optional),
];
const SELECTOR: &[Field] = &[
    ("matchLabels", &["matchLabels"], Optional),
    (
        "matchExpressions",
        &["matchExpressions"],
        List(&[
            ("key", &["key"], Text),
            ("operator", &["operator"], Text),
            ("values", &["values"], Optional),
        ]),
    ),
];

const TARGET_UTILIZATION: Field = (
    "targetAverageUtilization",
    &["target", "averageUtilization"],
    Optional,
);
const TARGET_AVERAGE: Field = ("targetAverageValue", &["target", "averageValue"], OptionalAmount);
const CURRENT_UTILIZATION: Field = (
    "currentAverageUtilization",
    &["current", "averageUtilization"],
    Optional,
);
const CURRENT_AVERAGE: Field = ("currentAverageValue", &["current", "averageValue"], Amount);
const NAME: Field = ("name", &["name"], Text);
const CONTAINER: Field = ("container", &["container"], Text);
const METRIC_NAME: Field = ("metricName", &["metric", "name"], Text);
const METRIC_SELECTOR: &[&str] = &["metric", "selector"];

const METRIC: &[Field] = &[
    ("type", &["type"], Text),
    (
        "object",
        &["object"],
        Struct(&[
            ("target", &["describedObject"], Struct(REFERENCE)),
            METRIC_NAME,
            ("targetValue", &["target", "value"], Amount),
            ("selector", METRIC_SELECTOR, Struct(SELECTOR)),
            ("averageValue", &["target", "averageValue"], OptionalAmount),
        ]),
    ),
    (
        "pods",
        &["pods"],
        Struct(&[
            METRIC_NAME,
            ("targetAverageValue", &["target", "averageValue"], Amount),
            ("selector", METRIC_SELECTOR, Struct(SELECTOR)),
        ]),
    ),
    (
        "resource",
        &["resource"],
        Struct(&[NAME, TARGET_UTILIZATION, TARGET_AVERAGE]),
    ),
    (
        "containerResource",
        &["containerResource"],
        Struct(&[NAME, TARGET_UTILIZATION, TARGET_AVERAGE, CONTAINER]),
    ),
    (
        "external",
        &["external"],
        Struct(&[
            METRIC_NAME,
            ("metricSelector", METRIC_SELECTOR, Struct(SELECTOR)),
            ("targetValue", &["target", "value"], OptionalAmount),
            TARGET_AVERAGE,
        ]),
    ),
];

const METRIC_STATUS: &[Field] = &[
    ("type", &["type"], Text),
    (
        "object",
        &["object"],
        Struct(&[
            ("target", &["describedObject"], Struct(REFERENCE)),
            METRIC_NAME,
            ("currentValue", &["current", "value"], Amount),
            ("selector", METRIC_SELECTOR, Struct(SELECTOR)),
            ("averageValue", &["current", "averageValue"], OptionalAmount),
        ]),
    ),
    (
        "pods",
        &["pods"],
        Struct(&[
            METRIC_NAME,
            CURRENT_AVERAGE,
            ("selector", METRIC_SELECTOR, Struct(SELECTOR)),
        ]),
    ),
    (
        "resource",
        &["resource"],
        Struct(&[NAME, CURRENT_UTILIZATION, CURRENT_AVERAGE]),
    ),
    (
        "containerResource",
        &["containerResource"],
        Struct(&[NAME, CURRENT_UTILIZATION, CURRENT_AVERAGE, CONTAINER]),
    ),
    (
        "external",
        &["external"],
        Struct(&[
            METRIC_NAME,
            ("metricSelector", METRIC_SELECTOR, Struct(SELECTOR)),
            ("currentValue", &["current", "value"], Amount),
            (
                "currentAverageValue",
                &["current", "averageValue"],
                OptionalAmount,
            ),
        ]),
    ),
];

const CONDITION: &[Field] = &[
    ("type", &["type"], Text),
    ("status", &["status"], Text),
    ("lastTransitionTime", &["lastTransitionTime"], Nullable),
    ("reason", &["reason"], Optional),
    ("message", &["message"], Optional),
];

const SCALING_RULES: &[Field] = &[
    (
        "StabilizationWindowSeconds",
        &["stabilizationWindowSeconds"],
        Nullable,
    ),
    ("SelectPolicy", &["selectPolicy"], Nullable),
    (
        "Policies",
        &["policies"],
        NullableList(&[
            ("Type", &["type"], Text),
            ("Value", &["value"], Nullable),
            ("PeriodSeconds", &["periodSeconds"], Nullable),
        ]),
    ),
    ("Tolerance", &["tolerance"], NullableAmount),
];
const BEHAVIOR_RULES: &[Field] = &[
    ("ScaleUp", &["scaleUp"], NullableStruct(SCALING_RULES)),
    ("ScaleDown", &["scaleDown"], NullableStruct(SCALING_RULES)),
];

/// Converts an object between v1 and v2; returns `None` if `api_version` is another version.
pub fn convert(object: &Value, api_version: &str) -> Option<Value> {
    match api_version {
        _ if at(object, &["apiVersion"]) == api_version => Some(object.clone()),
        "autoscaling/v1" => Some(to_v1(object)),
        "autoscaling/v2" => Some(to_v2(object)),
        _ => None,
    }
}

/// Normalizes a v1 object as the server does when it reads it: the annotations are written again, and the utilization
/// gets its default if other metrics are missing.
pub fn settle(object: &mut Value) {
    if at(object, &["spec"]).is_object() {
        *object = to_v1(&to_v2(object));
    }
}

/// Keeps the annotations of a v1 object that contain a part of the stored object: that of the status, or of the spec.
pub(crate) fn keep_annotations(object: &mut Object, old: &Value, of_status: bool) {
    let kept = if of_status {
        [CURRENT_METRICS, CONDITIONS]
    } else {
        [METRICS, BEHAVIOR]
    };
    let Some(metadata) = object_in(object, "metadata") else {
        return;
    };
    let mut annotations = match metadata.remove("annotations") {
        Some(Value::Object(annotations)) => annotations,
        _ => Map::new(),
    };
    for name in kept {
        copy_entry(&mut annotations, at(old, &["metadata", "annotations"]), name);
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
}

fn to_v1(v2: &Value) -> Value {
    let (spec, status) = (at(v2, &["spec"]), at(v2, &["status"]));
    let mut annotations = foreign_annotations(v2);
    let metrics = list(spec, &["metrics"]);
    let others: Vec<&Value> = metrics
        .iter()
        .filter(|metric| !is_cpu_utilization(metric))
        .collect();
    if !others.is_empty() {
        annotations.insert(METRICS.to_owned(), texts(&others, METRIC).into());
    }
    for (field, key, fields) in [
        ("currentMetrics", CURRENT_METRICS, METRIC_STATUS),
        ("conditions", CONDITIONS, CONDITION),
    ] {
        let items: Vec<&Value> = list(status, &[field]).iter().collect();
        if !items.is_empty() {
            annotations.insert(key.to_owned(), texts(&items, fields).into());
        }
    }
    if let Some(behavior) = spec.get("behavior").filter(|behavior| behavior.is_object()) {
        annotations.insert(BEHAVIOR.to_owned(), text(behavior, BEHAVIOR_RULES).into());
    }

    let mut new_spec = kept(spec, &SPEC);
    new_spec.entry("maxReplicas").or_insert(0.into());
    let first_cpu = metrics.iter().find(|metric| is_cpu(metric));
    set(
        &mut new_spec,
        "targetCPUUtilizationPercentage",
        first_cpu.map(|metric| at(metric, &["resource", "target", "averageUtilization"])),
    );
    let mut new_status = kept(status, &STATUS);
    for field in ["currentReplicas", "desiredReplicas"] {
        new_status.entry(field).or_insert(0.into());
    }
    let used = list(status, &["currentMetrics"])
        .iter()
        .filter(|metric| is_cpu(metric));
    let used = used
        .map(|metric| at(metric, &["resource", "current", "averageUtilization"]))
        .rfind(|value| !value.is_null());
    set(&mut new_status, "currentCPUUtilizationPercentage", used);
    assemble(v2, "autoscaling/v1", annotations, new_spec, new_status)
}

fn to_v2(v1: &Value) -> Value {
    let (spec, status) = (at(v1, &["spec"]), at(v1, &["status"]));
    let mut metrics = annotated(v1, METRICS, METRIC).unwrap_or_default();
    for metric in &mut metrics {
        fill_target_type(metric);
    }
    let utilization = at(spec, &["targetCPUUtilizationPercentage"]);
    if !utilization.is_null() {
        metrics.push(cpu_metric(utilization));
    }
    if metrics.is_empty() {
        metrics.push(cpu_metric(&DEFAULT_UTILIZATION.into()));
    }
    let mut new_spec = kept(spec, &SPEC);
    new_spec.entry("maxReplicas").or_insert(0.into());
    new_spec.insert("metrics".to_owned(), metrics.into());
    if let Some(behavior) = annotated_behavior(v1) {
        new_spec.insert("behavior".to_owned(), behavior);
    }

    let mut new_status = kept(status, &STATUS);
    if new_status.get("currentReplicas") == Some(&json!(0)) {
        new_status.remove("currentReplicas");
    }
    new_status.entry("desiredReplicas").or_insert(0.into());
    let used = at(status, &["currentCPUUtilizationPercentage"]);
    let from_field = (!used.is_null()).then(|| {
        json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}}])
    });
    let current = annotated(v1, CURRENT_METRICS, METRIC_STATUS).map(Value::from);
    new_status.insert(
        "currentMetrics".to_owned(),
        current.or(from_field).unwrap_or_default(),
    );
    if let Some(conditions) = annotated(v1, CONDITIONS, CONDITION).filter(|conditions| !conditions.is_empty())
    {
        new_status.insert("conditions".to_owned(), conditions.into());
    }
    assemble(
        v1,
        "autoscaling/v2",
        foreign_annotations(v1),
        new_spec,
        new_status,
    )
}

fn assemble(
    from: &Value,
    api_version: &str,
    annotations: Map<String, Value>,
    spec: Map<String, Value>,
    status: Map<String, Value>,
) -> Value {
    let mut metadata = at(from, &["metadata"]).as_object().cloned().unwrap_or_default();
    if annotations.is_empty() {
        metadata.remove("annotations");
    } else {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    json!({
        "apiVersion": api_version,
        "kind": at(from, &["kind"]),
        "metadata": metadata,
        "spec": Value::Object(spec),
        "status": Value::Object(status),
    })
}

fn foreign_annotations(object: &Value) -> Map<String, Value> {
    let mut annotations = at(object, &["metadata", "annotations"])
        .as_object()
        .cloned()
        .unwrap_or_default();
    annotations.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
    annotations
}

fn kept(from: &Value, fields: &[&str]) -> Map<String, Value> {
    let value = |field: &&str| Some(((*field).to_owned(), from.get(*field)?.clone()));
    fields.iter().filter_map(value).collect()
}

fn set(into: &mut Map<String, Value>, field: &str, value: Option<&Value>) {
    if let Some(value) = value.filter(|value| !value.is_null()) {
        into.insert(field.to_owned(), value.clone());
    }
}

fn is_cpu(metric: &Value) -> bool {
    at(metric, &["type"]) == "Resource" && at(metric, &["resource", "name"]) == "cpu"
}

fn is_cpu_utilization(metric: &Value) -> bool {
    is_cpu(metric) && !at(metric, &["resource", "target", "averageUtilization"]).is_null()
}

fn cpu_metric(utilization: &Value) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": utilization}},
    })
}

/// Sets the target type from the values that are set, because v1 does not contain it.
fn fill_target_type(metric: &mut Value) {
    for source in ["object", "pods", "resource", "containerResource", "external"] {
        let Some(target) = metric.get_mut(source).and_then(|source| source.get_mut("target")) else {
            continue;
        };
        let has = |field: &str| target.get(field).is_some();
        let kind = match source {
            "object" if !has("averageValue") => "Value",
            "external" if has("value") => "Value",
            "resource" | "containerResource" if has("averageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        target["type"] = kind.into();
    }
}

/// Parses the structs of an annotation to their v2 form; returns `None` if the annotation is missing or invalid.
fn annotated(v1: &Value, key: &str, fields: &[Field]) -> Option<Vec<Value>> {
    let text = at(v1, &["metadata", "annotations", key]).as_str()?;
    let items: Vec<Value> = serde_json::from_str(text).ok()?;
    items.iter().map(|item| read(item, fields)).collect()
}

fn annotated_behavior(v1: &Value) -> Option<Value> {
    let text = at(v1, &["metadata", "annotations", BEHAVIOR]).as_str()?;
    let behavior = read(&serde_json::from_str(text).ok()?, BEHAVIOR_RULES)?;
    behavior
        .as_object()
        .is_some_and(|rules| !rules.is_empty())
        .then_some(behavior)
}

fn read(item: &Value, fields: &[Field]) -> Option<Value> {
    let item = item.as_object()?;
    let mut read_item = json!({});
    for (name, path, form) in fields {
        // Names are case-insensitive, as in Go's decoder.
        let given = item
            .iter()
            .find(|(key, value)| key.eq_ignore_ascii_case(name) && !value.is_null());
        let value = match (given, form) {
            (Some((_, value)), form) => read_field(value, *form)?,
            (None, Text) => "".into(),
            (None, Amount) => "0".into(),
            (None, _) => continue,
        };
        put(&mut read_item, path, value);
    }
    Some(read_item)
}

fn read_field(value: &Value, form: Form) -> Option<Value> {
    match form {
        Text => value.is_string().then(|| value.clone()),
        Optional | Nullable => Some(value.clone()),
        Amount | OptionalAmount | NullableAmount => Some(Quantity::from_json(value).ok()?.to_string().into()),
        Struct(fields) | NullableStruct(fields) => read(value, fields),
        List(fields) | NullableList(fields) => {
            value.as_array()?.iter().map(|item| read(item, fields)).collect()
        }
    }
}

fn put(into: &mut Value, path: &[&str], value: Value) {
    let mut place = into;
    for step in path {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[*step];
    }
    *place = value;
}

/// Formats structs of v2 as the JSON of an annotation.
fn texts(items: &[&Value], fields: &[Field]) -> String {
    let texts: Vec<String> = items.iter().map(|item| text(item, fields)).collect();
    format!("[{}]", texts.join(","))
}

fn text(item: &Value, fields: &[Field]) -> String {
    let fields = fields.iter().filter_map(|(name, path, form)| {
        let value = field_text(at(item, path), *form)?;
        Some(format!("\"{name}\":{value}"))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn field_text(value: &Value, form: Form) -> Option<String> {
    if value.is_null() {
        return match form {
            Text => Some("\"\"".to_owned()),
            Amount => Some("\"0\"".to_owned()),
            Nullable | NullableAmount | NullableList(_) | NullableStruct(_) => Some("null".to_owned()),
            Optional | OptionalAmount | Struct(_) | List(_) => None,
        };
    }
    Some(match form {
        Struct(fields) | NullableStruct(fields) => text(value, fields),
        List(fields) | NullableList(fields) => texts(&value.as_array()?.iter().collect::<Vec<_>>(), fields),
        _ => escaped(value),
    })
}

/// Formats a value as JSON with the escapes of Go's encoder, which escapes the special characters of HTML.
fn escaped(value: &Value) -> String {
    let text = value.to_string();
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{BEHAVIOR, CONDITIONS, METRICS, to_v1, to_v2};

    fn full() -> Value {
        let selector = json!({"matchLabels": {"b": "1", "a": "<&>"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]});
        json!({
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a", "annotations": {"mine": "kept"}},
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
                "minReplicas": 1,
                "maxReplicas": 5,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                    {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 3}}},
                    {"type": "Pods", "pods": {"metric": {"name": "q", "selector": selector}, "target": {"type": "AverageValue", "averageValue": "10"}}},
                    {"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "i"}, "metric": {"name": "r"}, "target": {"type": "Value", "value": "2k"}}},
                    {"type": "External", "external": {"metric": {"name": "x"}, "target": {"type": "Value", "value": "30"}}},
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                ],
                "behavior": {
                    "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "tolerance": "100m",
                        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]},
                },
            },
            "status": {
                "currentReplicas": 2,
                "desiredReplicas": 3,
                "currentMetrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40, "averageValue": "400m"}}},
                ],
                "conditions": [{"type": "AbleToScale", "status": "True", "reason": "R", "message": "a < b"}],
            },
        })
    }

    #[test]
    fn fields_that_v1_lacks_survive_in_annotations() {
        assert_eq!(to_v2(&to_v1(&full())), full());
    }

    #[test]
    fn v1_shows_the_utilization_and_texts_in_the_order_of_the_structs() {
        let v1 = to_v1(&full());
        assert_eq!(v1["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(v1["status"]["currentCPUUtilizationPercentage"], 40);
        let annotations = &v1["metadata"]["annotations"];
        assert_eq!(annotations["mine"], "kept");
        let metrics = annotations[METRICS].as_str().unwrap();
        assert!(metrics.starts_with(
            r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}},{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageUtilization":3,"container":"c"}},{"type":"Pods","pods":{"metricName":"q","targetAverageValue":"10","selector":{"matchLabels":{"a":"\u003c\u0026\u003e","b":"1"},"matchExpressions":[{"key":"k","operator":"Exists"}]}}}"#
        ), "{metrics}");
        assert_eq!(
            annotations[CONDITIONS],
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":null,"reason":"R","message":"a \u003c b"}]"#
        );
        assert!(
            annotations[BEHAVIOR]
                .as_str()
                .unwrap()
                .ends_with(r#""Tolerance":"100m"},"ScaleDown":null}"#)
        );
    }

    #[test]
    fn annotations_that_cannot_be_read_are_dropped() {
        let v1 = json!({
            "apiVersion": "autoscaling/v1",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"annotations": {METRICS: "[1", BEHAVIOR: "{}"}},
            "spec": {"maxReplicas": 1},
        });
        let v2 = to_v2(&v1);
        assert_eq!(v2["metadata"].get("annotations"), None);
        assert_eq!(v2["spec"].get("behavior"), None);
        assert_eq!(
            v2["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"],
            80
        );
    }
}

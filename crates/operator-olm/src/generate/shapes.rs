//! The Go types of the fields that the generation reads.

use apimachinery::go;
use serde_json::Value;

use super::collect::kind;

/// The type of a field.
enum Shape {
    Text,
    Bool,
    Int32,
    Int64,
    Texts,
    TextMap,
    One(&'static [Field]),
    List(&'static [Field]),
}

type Field = (&'static str, Shape);

use Shape::{Bool, Int32, Int64, List, One, Text, TextMap, Texts};

const METADATA: &[Field] = &[
    ("name", Text),
    ("namespace", Text),
    ("generateName", Text),
    ("labels", TextMap),
    ("annotations", TextMap),
];
const ENV: &[Field] = &[("name", Text), ("value", Text), ("valueFrom", One(&[]))];
const CONTAINER: &[Field] = &[
    ("name", Text),
    ("image", Text),
    ("command", Texts),
    ("args", Texts),
    ("workingDir", Text),
    ("imagePullPolicy", Text),
    ("env", List(ENV)),
    (
        "ports",
        List(&[("name", Text), ("containerPort", Int32), ("protocol", Text)]),
    ),
    ("resources", One(&[("limits", One(&[])), ("requests", One(&[]))])),
    (
        "volumeMounts",
        List(&[
            ("name", Text),
            ("mountPath", Text),
            ("readOnly", Bool),
            ("subPath", Text),
        ]),
    ),
    (
        "securityContext",
        One(&[("runAsUser", Int64), ("runAsNonRoot", Bool), ("privileged", Bool)]),
    ),
];
const POD: &[Field] = &[
    ("serviceAccountName", Text),
    ("hostNetwork", Bool),
    ("nodeSelector", TextMap),
    ("terminationGracePeriodSeconds", Int64),
    ("containers", List(CONTAINER)),
    ("initContainers", List(CONTAINER)),
    ("volumes", List(&[("name", Text)])),
    (
        "securityContext",
        One(&[("runAsUser", Int64), ("runAsNonRoot", Bool), ("fsGroup", Int64)]),
    ),
    ("priorityClassName", Text),
];
const SELECTOR: &[Field] = &[("matchLabels", TextMap), ("matchExpressions", List(&[]))];
const TEMPLATE: &[Field] = &[("metadata", One(METADATA)), ("spec", One(POD))];
const DEPLOYMENT: &[Field] = &[
    ("metadata", One(METADATA)),
    (
        "spec",
        One(&[
            ("replicas", Int32),
            ("minReadySeconds", Int32),
            ("revisionHistoryLimit", Int32),
            ("paused", Bool),
            ("selector", One(SELECTOR)),
            ("strategy", One(&[("type", Text)])),
            ("template", One(TEMPLATE)),
        ]),
    ),
];
const RULE: &[Field] = &[
    ("apiGroups", Texts),
    ("resources", Texts),
    ("resourceNames", Texts),
    ("nonResourceURLs", Texts),
    ("verbs", Texts),
];
const ROLE: &[Field] = &[("metadata", One(METADATA)), ("rules", List(RULE))];
const BINDING: &[Field] = &[
    ("metadata", One(METADATA)),
    (
        "roleRef",
        One(&[("apiGroup", Text), ("kind", Text), ("name", Text)]),
    ),
    (
        "subjects",
        List(&[
            ("kind", Text),
            ("name", Text),
            ("namespace", Text),
            ("apiGroup", Text),
        ]),
    ),
];
const SERVICE: &[Field] = &[
    ("metadata", One(METADATA)),
    (
        "spec",
        One(&[
            ("type", Text),
            ("selector", TextMap),
            (
                "ports",
                List(&[
                    ("name", Text),
                    ("port", Int32),
                    ("nodePort", Int32),
                    ("protocol", Text),
                ]),
            ),
        ]),
    ),
];
const SERVICE_REFERENCE: &[Field] = &[
    ("name", Text),
    ("namespace", Text),
    ("path", Text),
    ("port", Int32),
];
const CLIENT: &[Field] = &[("url", Text), ("service", One(SERVICE_REFERENCE))];
const WEBHOOKS: &[Field] = &[
    ("metadata", One(METADATA)),
    (
        "webhooks",
        List(&[
            ("name", Text),
            ("admissionReviewVersions", Texts),
            ("sideEffects", Text),
            ("failurePolicy", Text),
            ("matchPolicy", Text),
            ("reinvocationPolicy", Text),
            ("timeoutSeconds", Int32),
            ("objectSelector", One(SELECTOR)),
            ("clientConfig", One(CLIENT)),
            (
                "rules",
                List(&[
                    ("apiGroups", Texts),
                    ("apiVersions", Texts),
                    ("operations", Texts),
                    ("resources", Texts),
                    ("scope", Text),
                ]),
            ),
        ]),
    ),
];
const DEFINITION: &[Field] = &[
    ("metadata", One(METADATA)),
    (
        "spec",
        One(&[
            ("group", Text),
            ("scope", Text),
            (
                "names",
                One(&[
                    ("kind", Text),
                    ("listKind", Text),
                    ("plural", Text),
                    ("singular", Text),
                    ("shortNames", Texts),
                    ("categories", Texts),
                ]),
            ),
            (
                "versions",
                List(&[
                    ("name", Text),
                    ("served", Bool),
                    ("storage", Bool),
                    ("schema", One(&[])),
                ]),
            ),
            (
                "conversion",
                One(&[
                    ("strategy", Text),
                    (
                        "webhook",
                        One(&[("conversionReviewVersions", Texts), ("clientConfig", One(CLIENT))]),
                    ),
                ]),
            ),
            ("preserveUnknownFields", Bool),
        ]),
    ),
];
const ACCOUNT: &[Field] = &[
    ("metadata", One(METADATA)),
    ("automountServiceAccountToken", Bool),
];
const BASE: &[Field] = &[
    ("metadata", One(METADATA)),
    ("spec", One(&[("displayName", Text), ("replaces", Text)])),
];

/// Checks the types of an object's fields, if the Go program decodes its kind.
pub(super) fn check(object: &Value) -> Result<(), String> {
    let (name, fields) = match kind(object) {
        "Deployment" => ("Deployment", DEPLOYMENT),
        "Role" => ("Role", ROLE),
        "ClusterRole" => ("ClusterRole", ROLE),
        "RoleBinding" => ("RoleBinding", BINDING),
        "ClusterRoleBinding" => ("ClusterRoleBinding", BINDING),
        "Service" => ("Service", SERVICE),
        "ServiceAccount" => ("ServiceAccount", ACCOUNT),
        "CustomResourceDefinition" => ("CustomResourceDefinition", DEFINITION),
        "ClusterServiceVersion" => ("ClusterServiceVersion", BASE),
        "ValidatingWebhookConfiguration" => ("ValidatingWebhookConfiguration", WEBHOOKS),
        "MutatingWebhookConfiguration" => ("MutatingWebhookConfiguration", WEBHOOKS),
        _ => return Ok(()),
    };
    check_fields(object, fields, name, "")
}

/// Checks the fields of a value. The recursion is as deep as the tables.
fn check_fields(value: &Value, fields: &[Field], root: &str, path: &str) -> Result<(), String> {
    for (name, shape) in fields {
        let Some(field) = value.get(name).filter(|field| !field.is_null()) else {
            continue;
        };
        let path = if path.is_empty() {
            (*name).to_owned()
        } else {
            format!("{path}.{name}")
        };
        check_shape(field, shape, root, &path)?;
    }
    Ok(())
}

fn check_shape(value: &Value, shape: &Shape, root: &str, path: &str) -> Result<(), String> {
    let fault = |value: &Value, go_type: &str| {
        let kind = go::json_kind(value);
        Err(format!(
            "json: cannot unmarshal {kind} into Go struct field {root}.{path} of type {go_type}"
        ))
    };
    match (shape, value) {
        (Text, Value::String(_)) | (Bool, Value::Bool(_)) => Ok(()),
        (Text, _) => fault(value, "string"),
        (Bool, _) => fault(value, "bool"),
        (Int32, Value::Number(number))
            if number
                .as_i64()
                .is_some_and(|number| i32::try_from(number).is_ok()) =>
        {
            Ok(())
        }
        (Int32, _) => fault(value, "int32"),
        (Int64, Value::Number(number)) if number.is_i64() => Ok(()),
        (Int64, _) => fault(value, "int64"),
        (Texts, Value::Array(items)) => {
            let other = items.iter().find(|item| !item.is_string() && !item.is_null());
            other.map_or(Ok(()), |other| fault(other, "string"))
        }
        (Texts, _) => fault(value, "[]string"),
        (TextMap, Value::Object(fields)) => {
            let other = fields
                .values()
                .find(|value| !value.is_string() && !value.is_null());
            other.map_or(Ok(()), |other| fault(other, "string"))
        }
        (TextMap, _) => fault(value, "map[string]string"),
        (One(fields), Value::Object(_)) => check_fields(value, fields, root, path),
        (One(_), _) => fault(value, "struct"),
        (List(fields), Value::Array(items)) => items.iter().try_for_each(|item| match item {
            Value::Object(_) => check_fields(item, fields, root, path),
            Value::Null => Ok(()),
            other => fault(other, "struct"),
        }),
        (List(_), _) => fault(value, "slice"),
    }
}

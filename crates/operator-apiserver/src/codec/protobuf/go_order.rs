//! The JSON text of an object of a built-in kind with its fields in the order of the Go structs.
//!
//! The numbers of protobuf fields follow the order of the structs, except for fields that were added later.

use std::fmt::Write;

use serde_json::{Map, Value};
use structured_merge::builtin::Type;

use super::Special;
use super::table::{Cardinality, Field, FieldType, messages};

/// Fields whose number differs from their position: message, field, and the number of the field before it.
const MOVED: &[(&str, &str, u32)] = &[
    ("autoscaling.v2.HPAScalingRules", "stabilizationWindowSeconds", 0),
    ("networking.v1.HTTPIngressPath", "pathType", 1),
    ("core.v1.PodSpec", "initContainers", 1),
    ("core.v1.PodSpec", "ephemeralContainers", 2),
    ("core.v1.PodSpec", "automountServiceAccountToken", 9),
    ("core.v1.PodSpec", "shareProcessNamespace", 13),
    ("core.v1.Container", "envFrom", 6),
    ("core.v1.Container", "resizePolicy", 8),
    ("core.v1.Container", "restartPolicy", 8),
    ("core.v1.Container", "restartPolicyRules", 8),
    ("core.v1.Container", "volumeDevices", 9),
    ("core.v1.Container", "startupProbe", 11),
    ("core.v1.Container", "terminationMessagePolicy", 13),
    ("core.v1.ServiceSpec", "clusterIPs", 3),
    ("core.v1.ServiceSpec", "ipFamilies", 14),
    ("core.v1.PersistentVolumeClaimSpec", "selector", 1),
    ("batch.v1.JobSpec", "podFailurePolicy", 3),
    ("batch.v1.JobSpec", "successPolicy", 3),
    ("batch.v1.JobSpec", "backoffLimit", 3),
    ("batch.v1.JobSpec", "backoffLimitPerIndex", 3),
    ("batch.v1.JobSpec", "maxFailedIndexes", 3),
    ("batch.v1.CronJobSpec", "timeZone", 1),
    ("certificates.v1.CertificateSigningRequestSpec", "signerName", 1),
    (
        "certificates.v1.CertificateSigningRequestSpec",
        "expirationSeconds",
        1,
    ),
    ("certificates.v1.CertificateSigningRequestSpec", "usages", 1),
    ("admissionregistration.v1.MutatingWebhook", "matchPolicy", 4),
    ("admissionregistration.v1.MutatingWebhook", "objectSelector", 5),
    ("admissionregistration.v1.ValidatingWebhook", "matchPolicy", 4),
    ("admissionregistration.v1.ValidatingWebhook", "objectSelector", 5),
];

/// Returns the text of a patched object as the API server's patch library writes it: the objects on the paths of the
/// patch have sorted fields; the others keep their encoded order.
///
/// `touched` contains each object that the patch modifies.
pub(crate) fn patched_text(patched: &Value, live: &Value, touched: &Value, kind: (&str, &str)) -> String {
    let mut text = String::new();
    let message = messages().for_kind(kind.0, kind.1);
    write_patched(&mut text, patched, Some(live), Some(touched), message);
    text
}

fn write_patched(
    text: &mut String,
    value: &Value,
    live: Option<&Value>,
    touched: Option<&Value>,
    message: Option<usize>,
) {
    let Some(touched) = touched else {
        return write_struct(text, value, message);
    };
    match (value, touched, live) {
        (Value::Object(fields), Value::Object(below), Some(Value::Object(before))) => {
            let parts = fields.iter().map(|(name, value)| {
                let write = move |text: &mut String| {
                    write_patched(
                        text,
                        value,
                        before.get(name),
                        below.get(name),
                        member(message, name),
                    );
                };
                (name.as_str(), write)
            });
            write_fields(text, parts);
        }
        (Value::Array(items), Value::Object(below), Some(Value::Array(before))) => {
            write_items(text, items, |text, index, item| {
                let name = index.to_string();
                write_patched(text, item, before.get(index), below.get(&name), message);
            });
        }
        _ => write_scalar(text, value),
    }
}

/// Writes a value in the order of its struct.
fn write_struct(text: &mut String, value: &Value, message: Option<usize>) {
    match value {
        Value::Array(items) => write_items(text, items, |text, _, item| write_struct(text, item, message)),
        Value::Object(fields) => {
            let ordered = in_order(fields, message);
            let parts = ordered.into_iter().map(|(name, value)| {
                (name, move |text: &mut String| {
                    write_struct(text, value, member(message, name));
                })
            });
            write_fields(text, parts);
        }
        scalar => write_scalar(text, scalar),
    }
}

fn write_fields<'a, W: FnOnce(&mut String)>(text: &mut String, fields: impl Iterator<Item = (&'a str, W)>) {
    text.push('{');
    for (index, (name, write)) in fields.enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_scalar(text, &Value::from(name));
        text.push(':');
        write(text);
    }
    text.push('}');
}

fn write_items(text: &mut String, items: &[Value], write: impl Fn(&mut String, usize, &Value)) {
    text.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(text, index, item);
    }
    text.push(']');
}

/// Writes a value with sorted fields. Go escapes the special characters of HTML.
fn write_scalar(text: &mut String, value: &Value) {
    for character in apimachinery::json::to_string(value).chars() {
        match character {
            '<' | '>' | '&' => {
                let written = write!(text, "\\u{:04x}", u32::from(character));
                debug_assert!(written.is_ok());
            }
            other => text.push(other),
        }
    }
}

/// Returns the fields of an object in the order of its struct; the keys of a map are sorted.
fn in_order(fields: &Map<String, Value>, message: Option<usize>) -> Vec<(&str, &Value)> {
    let mut ordered: Vec<_> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    if let Some(message) = message
        && fields_of(message).next().is_some()
    {
        ordered.sort_by_key(|(name, _)| place(message, name));
    }
    ordered
}

/// Returns the position of a field in the struct of an OpenAPI type.
pub(crate) fn position(of_type: &Type, name: &str) -> (u32, u32, u32) {
    let of_type = of_type.name.as_str();
    let message = ["io.k8s.api.", "io.k8s.apimachinery.pkg.apis."]
        .iter()
        .find_map(|prefix| messages().by_name(of_type.strip_prefix(prefix)?));
    message.map_or((0, 0, 0), |message| place(message, name))
}

/// Returns the position of a field in its struct. Type fields, which are not in the message, come first.
fn place(message: usize, name: &str) -> (u32, u32, u32) {
    let Some((outer, field)) = find(message, name) else {
        return (0, u32::from(name == "apiVersion"), 0);
    };
    let moved = MOVED
        .iter()
        .find(|(owner, moved, _)| *moved == name && messages().by_name(owner) == Some(message));
    match (moved, outer) {
        (Some((_, _, before)), _) => (*before, 1, moved_rank(name)),
        (None, Some((outer, inner))) => (outer, 0, inner),
        (None, None) => (field.number, 0, 0),
    }
}

/// Returns the order of a field among those that were moved to the same position.
fn moved_rank(name: &str) -> u32 {
    let rank = MOVED.iter().position(|(_, moved, _)| *moved == name);
    rank.and_then(|rank| u32::try_from(rank).ok()).unwrap_or_default()
}

/// Returns the message of a field's value, or of the items or values in it.
fn member(message: Option<usize>, name: &str) -> Option<usize> {
    let message = message?;
    let (_, field) = find(message, name)?;
    match field.kind {
        FieldType::Message(inner) if field.cardinality != Cardinality::Map => {
            let is_raw = matches!(messages().special(inner), Some(Special::Json));
            (!is_raw).then_some(inner)
        }
        _ => None,
    }
}

/// An upper bound of the field numbers.
const NUMBERS: u32 = 1000;

/// Finds a field by its JSON name, also in inlined messages. Returns the number of the inlined message, and the
/// position in it.
fn find(message: usize, name: &str) -> Option<(Option<(u32, u32)>, &'static Field)> {
    fields_of(message).find_map(|field| match (field.cardinality, field.kind) {
        (Cardinality::Inlined, FieldType::Message(inner)) => find(inner, name).map(|(place, found)| {
            let place = match place {
                Some((outer, inner)) => outer * NUMBERS + inner,
                None => found.number * NUMBERS,
            };
            (Some((field.number, place)), found)
        }),
        _ => (field.name == name).then_some((None, field)),
    })
}

fn fields_of(message: usize) -> impl Iterator<Item = &'static Field> {
    messages().fields(message).iter()
}

/// Returns a tree with an entry for each object or list on the paths of a JSON patch.
pub(crate) fn touched_by(operations: &[Value]) -> Value {
    let mut touched = Map::new();
    for operation in operations {
        for name in ["path", "from"] {
            let path = operation.get(name).and_then(Value::as_str).unwrap_or_default();
            let mut place = &mut touched;
            let mut segments = path.split('/').skip(1).peekable();
            while let Some(segment) = segments.next() {
                let segment = segment.replace("~1", "/").replace("~0", "~");
                let is_last = segments.peek().is_none();
                let entry = place.entry(segment).or_insert(Value::Null);
                if is_last {
                    break;
                }
                if !entry.is_object() {
                    *entry = Value::Object(Map::new());
                }
                let Value::Object(below) = entry else { break };
                place = below;
            }
        }
    }
    Value::Object(touched)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn untouched_parts_keep_the_order_of_their_structs() {
        let live = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"labels": {"b": "<", "a": "2"}, "managedFields": [{"apiVersion": "v1", "manager": "m",
                "operation": "Update", "fieldsV1": {"f:z": {}, "f:a": {}}}], "name": "n", "uid": "u"},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"env": [], "envFrom": [], "image": "i",
                "name": "c"}], "initContainers": [], "nodeName": "x", "volumes": []}}, "selector": {}}});
        let mut patched = live.clone();
        patched["spec"]["replicas"] = json!("x");
        let touched = json!({"spec": {"replicas": "x"}});
        assert_eq!(
            patched_text(&patched, &live, &touched, ("apps/v1", "Deployment")),
            concat!(
                r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"n","uid":"u","labels":"#,
                r#"{"a":"2","b":"\u003c"},"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","#,
                r#""fieldsV1":{"f:a":{},"f:z":{}}}]},"spec":{"replicas":"x","selector":{},"template":{"spec":"#,
                r#"{"volumes":[],"initContainers":[],"containers":[{"name":"c","image":"i","envFrom":[],"env":[]}],"#,
                r#""nodeName":"x"}}}}"#,
            )
        );
    }

    #[test]
    fn operations_touch_the_objects_above_their_paths() {
        let operations = [
            json!({"op": "add", "path": "/metadata/labels/a~1b", "value": {"x": 1}}),
            json!({"op": "remove", "path": "/spec/ports/0/name"}),
        ];
        assert_eq!(
            touched_by(&operations),
            json!({"metadata": {"labels": {"a/b": null}}, "spec": {"ports": {"0": {"name": null}}}})
        );
    }
}

//! [`State`], the state of a world in a form that can be compared between two runs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use apimachinery::object;
use serde_json::{Map, Value};

use crate::call::Names;

/// The annotation that a third-party write adds.
pub(crate) const THIRD_PARTY: &str = "chaos.operator-sdk.dev/third-party";

/// Fields that differ between runs, such as counters.
const VOLATILE: [&str; 5] = [
    "collisionCount",
    "resourceVersion",
    "observedGeneration",
    "restartCount",
    "lastState",
];

/// The objects by canonical key, such as `pods default/web-*`. Several objects can have the same key.
pub(crate) type State = BTreeMap<String, Vec<Value>>;

/// A difference between two states.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// The object, such as `configmaps default/a`.
    pub(crate) object: String,
    /// The field, such as `spec.replicas`. Empty for the whole object.
    pub(crate) field: String,
    /// The value without faults. `None` if it is absent.
    pub(crate) expected: Option<Value>,
    /// The value with faults. `None` if it is absent.
    pub(crate) found: Option<Value>,
}

/// Fields that are not compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mask {
    /// Objects and fields that differ between reference runs.
    learned: BTreeSet<(String, String)>,
    /// Prefixes of `RESOURCE FIELD` that the user ignores. `*` is every resource.
    ignored: Vec<(String, String)>,
}

/// Returns the key of an object, which is the same in every run.
pub(crate) fn key_of(resource: &str, object: &Value, names: &Names) -> String {
    let name = names.canonical(object::name(object));
    match object::namespace(object) {
        "" => format!("{resource} {name}"),
        namespace => format!("{resource} {namespace}/{name}"),
    }
}

/// Returns true for resources that do not belong to the state that an operator is responsible for: events, leases, and
/// objects that controllers of Kubernetes derive from others.
pub(crate) fn is_derived(resource: &str) -> bool {
    matches!(
        resource,
        "events"
            | "events.events.k8s.io"
            | "leases.coordination.k8s.io"
            | "endpoints"
            | "endpointslices.discovery.k8s.io"
            | "ipaddresses.networking.k8s.io"
            | "controllerrevisions.apps"
            | "nodes"
            | "persistentvolumes"
    )
}

/// Returns true for a resource of a CustomResourceDefinition.
pub(crate) fn is_custom(resource: &str) -> bool {
    let Some((_, group)) = resource.split_once('.') else {
        return false;
    };
    group.contains('.') && !group.ends_with(".k8s.io")
}

/// Fields of the metadata that differ between runs.
const VOLATILE_METADATA: [&str; 7] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "generateName",
];

/// Annotations that differ between runs.
const VOLATILE_ANNOTATIONS: [&str; 2] = [THIRD_PARTY, "deployment.kubernetes.io/revision"];

/// Returns an object without the parts that differ between runs: UIDs, versions, times, addresses, random names.
pub(crate) fn normalize(object: &Value, names: &Names) -> Value {
    let Value::Object(fields) = object else {
        return clean(object, names);
    };
    let cleaned = fields.iter().map(|(name, value)| {
        let value = match value {
            Value::Object(metadata) if name == "metadata" => clean_metadata(metadata, names),
            value => clean(value, names),
        };
        (name.clone(), value)
    });
    Value::Object(cleaned.collect())
}

fn clean_metadata(metadata: &Map<String, Value>, names: &Names) -> Value {
    let cleaned = kept_metadata(metadata).map(|(name, value)| (name.clone(), clean(&value, names)));
    Value::Object(cleaned.collect())
}

/// Returns the fields of the metadata that do not differ between runs.
fn kept_metadata(metadata: &Map<String, Value>) -> impl Iterator<Item = (&String, Cow<'_, Value>)> {
    let kept = metadata
        .iter()
        .filter(|(name, _)| !VOLATILE_METADATA.contains(&name.as_str()));
    kept.filter_map(|(name, value)| match value {
        Value::Object(annotations) if name == "annotations" => {
            let kept = annotations
                .iter()
                .filter(|(name, _)| !VOLATILE_ANNOTATIONS.contains(&name.as_str()));
            let kept: Map<_, _> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
            (!kept.is_empty()).then_some((name, Cow::Owned(Value::Object(kept))))
        }
        value => Some((name, Cow::Borrowed(value))),
    })
}

/// Returns a hash of an object that is the same in every run. Objects with the same normalized form have the same hash.
pub(crate) fn hash(key: &str, object: &Value, names: &Names) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let Value::Object(fields) = object else {
        hash_clean(object, names, &mut hasher);
        return hasher.finish();
    };
    for (name, value) in fields {
        name.hash(&mut hasher);
        match value {
            Value::Object(metadata) if name == "metadata" => {
                hash_metadata(metadata, names, &mut hasher);
            }
            value => hash_clean(value, names, &mut hasher),
        }
    }
    hasher.finish()
}

/// Hashes the result of [`clean_metadata`] without creating it.
fn hash_metadata(metadata: &Map<String, Value>, names: &Names, hasher: &mut DefaultHasher) {
    for (name, value) in kept_metadata(metadata) {
        name.hash(hasher);
        hash_clean(&value, names, hasher);
    }
}

/// Hashes the result of [`clean`], without creating it where its order is that of the value.
fn hash_clean(value: &Value, names: &Names, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(fields) => {
            let kept = || kept(fields);
            if kept().any(|(name, _)| names.canonical(name) != name) {
                return clean(value, names).hash(hasher);
            }
            std::mem::discriminant(value).hash(hasher);
            kept().count().hash(hasher);
            for (name, value) in kept() {
                name.hash(hasher);
                hash_clean(value, names, hasher);
            }
        }
        Value::Array(items) if items.iter().all(|item| is_unordered(item, names)) => {
            clean(value, names).hash(hasher);
        }
        Value::Array(items) => {
            std::mem::discriminant(value).hash(hasher);
            items.len().hash(hasher);
            items.iter().for_each(|item| hash_clean(item, names, hasher));
        }
        Value::String(text) => {
            std::mem::discriminant(value).hash(hasher);
            clean_text(text, names).hash(hasher);
        }
        other => other.hash(hasher),
    }
}

/// Returns a hash that is the same on every machine.
pub(crate) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn clean(value: &Value, names: &Names) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: Map<String, Value> = kept(fields)
                .map(|(name, value)| (names.canonical(name).to_owned(), clean(value, names)))
                .collect();
            Value::Object(fields)
        }
        Value::Array(items) => {
            let is_set = items.iter().all(|item| is_unordered(item, names));
            let mut items: Vec<Value> = items.iter().map(|item| clean(item, names)).collect();
            if is_set {
                items.sort_by_cached_key(Value::to_string);
            }
            Value::Array(items)
        }
        Value::String(text) => Value::String(clean_text(text, names).into_owned()),
        other => other.clone(),
    }
}

/// Returns the fields of an object that do not differ between runs.
fn kept(fields: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    fields
        .iter()
        .filter(|(name, _)| !VOLATILE.contains(&name.as_str()))
}

/// Returns true for items whose order is not relevant: conditions and generated names.
fn is_unordered(item: &Value, names: &Names) -> bool {
    item.get("lastTransitionTime").is_some()
        || item
            .as_str()
            .is_some_and(|text| clean_text(text, names).ends_with('*'))
}

fn clean_text<'a>(text: &'a str, names: &'a Names) -> Cow<'a, str> {
    let canonical = names.canonical(text);
    if canonical != text {
        return canonical.into();
    }
    let tail = text
        .len()
        .checked_sub(36)
        .and_then(|start| text.split_at_checked(start));
    if let Some((head, _)) = tail.filter(|(_, tail)| is_uuid(tail)) {
        return format!("{head}<uid>").into();
    }
    if text.len() >= 20 && text.as_bytes().get(10) == Some(&b'T') && text.parse::<jiff::Timestamp>().is_ok() {
        return "<time>".into();
    }
    if text.parse::<std::net::IpAddr>().is_ok() {
        return "<address>".into();
    }
    // Messages have names in quotes.
    if !text.contains('"') {
        return text.into();
    }
    let parts: Vec<&str> = text.split('"').map(|part| names.canonical(part)).collect();
    parts.join("\"").into()
}

fn is_uuid(text: &str) -> bool {
    let is_digit = |(index, byte): (usize, u8)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_digit)
}

/// Returns the differences between two states that are not masked.
pub(crate) fn differences(expected: &State, found: &State, mask: &Mask) -> Vec<Difference> {
    let mut all = Vec::new();
    let keys: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    for key in keys {
        let none = Vec::new();
        let (left, right) = (
            expected.get(key).unwrap_or(&none),
            found.get(key).unwrap_or(&none),
        );
        for index in 0..left.len().max(right.len()) {
            compare(key, "", left.get(index), right.get(index), mask, &mut all);
        }
    }
    all
}

/// Returns the changed fields of an object, as `field: before → after`.
pub(crate) fn changes(before: &Value, after: &Value) -> Vec<Difference> {
    let mut all = Vec::new();
    let is_noise = |difference: &Difference| {
        let field = difference.field.as_str();
        field.starts_with("metadata.managedFields")
            || field == "metadata.resourceVersion"
            || field == "metadata.generation"
    };
    compare("", "", Some(before), Some(after), &Mask::default(), &mut all);
    all.retain(|difference| !is_noise(difference));
    all
}

fn compare(
    object: &str,
    field: &str,
    expected: Option<&Value>,
    found: Option<&Value>,
    mask: &Mask,
    all: &mut Vec<Difference>,
) {
    if expected == found || mask.hides(object, field) {
        return;
    }
    let join = |name: &str| match field {
        "" => name.to_owned(),
        field => format!("{field}.{name}"),
    };
    match (expected, found) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                compare(object, &join(name), left.get(name), right.get(name), mask, all);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                let field = format!("{field}[{index}]");
                compare(object, &field, Some(left), Some(right), mask, all);
            }
        }
        (expected, found) => all.push(Difference {
            object: object.to_owned(),
            field: field.to_owned(),
            expected: expected.cloned(),
            found: found.cloned(),
        }),
    }
}

// === impl Mask ===

impl Mask {
    /// Creates a mask from the rules of a user: `RESOURCE FIELD`, or `FIELD` for every resource.
    pub(crate) fn new(ignored: &[String]) -> Self {
        let rule = |text: &String| match text.split_once(' ') {
            Some((resource, field)) => (resource.to_owned(), field.to_owned()),
            None => ("*".to_owned(), text.clone()),
        };
        Self {
            learned: BTreeSet::new(),
            ignored: ignored.iter().map(rule).collect(),
        }
    }

    /// Masks the differences between two reference runs.
    pub(crate) fn learn(&mut self, differences: &[Difference]) {
        let pairs = differences.iter();
        self.learned
            .extend(pairs.map(|difference| (difference.object.clone(), difference.field.clone())));
    }

    /// Returns the number of fields that were learned.
    pub(crate) fn learned(&self) -> usize {
        self.learned.len()
    }

    fn hides(&self, object: &str, field: &str) -> bool {
        if self.learned.contains(&(object.to_owned(), field.to_owned())) {
            return true;
        }
        let resource = object.split(' ').next().unwrap_or_default();
        self.ignored.iter().any(|(wanted, prefix)| {
            let is_below = field
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
            (wanted == "*" || wanted == resource) && (is_below || prefix.is_empty() || prefix == "*")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn run_dependent_values_are_normalized() {
        let mut names = Names::default();
        names.learn(&json!({"metadata": {"name": "web-abcde", "generateName": "web-"}}));
        let object = json!({
            "metadata": {"name": "web-abcde", "generateName": "web-", "uid": "x", "labels": {"a": "b"}},
            "status": {
                "ip": "10.0.0.7", "observedGeneration": 3, "nodes": ["web-abcde"],
                "owner": "0d2c1b4e-1f8a-4d53-9f3e-111111111111",
                "since": "2026-01-02T03:04:05Z",
            },
        });
        let expected = json!({
            "metadata": {"name": "web-*", "labels": {"a": "b"}},
            "status": {"ip": "<address>", "nodes": ["web-*"], "owner": "<uid>", "since": "<time>"},
        });
        assert_eq!(normalize(&object, &names), expected);
    }

    #[test]
    fn objects_have_the_same_hash_if_their_normalized_forms_are_equal() {
        let mut names = Names::default();
        for name in ["web-abcde", "web-fghij"] {
            names.learn(&json!({"metadata": {"name": name, "generateName": "web-"}}));
        }
        let object = |name: &str, time: &str, more: Value| {
            json!({
                "metadata": {"name": name, "uid": name, "annotations": more},
                "status": {
                    "names": [name, "web-abcde"], "message": format!("pod \"{name}\" runs"),
                    "conditions": [
                        {"type": "A", "lastTransitionTime": time},
                        {"type": "B", "lastTransitionTime": time},
                    ],
                },
            })
        };
        let first = object("web-abcde", "2026-01-02T03:04:05Z", json!({THIRD_PARTY: "x"}));
        let mut second = object("web-fghij", "2026-02-03T04:05:06Z", json!({}));
        second["status"]["conditions"].as_array_mut().unwrap().reverse();
        second["metadata"].as_object_mut().unwrap().remove("annotations");
        let hash = |object: &Value| super::hash("pods web-*", object, &names);
        assert_eq!(normalize(&first, &names), normalize(&second, &names));
        assert_eq!(hash(&first), hash(&second));
        let changes = [
            ("/status/message", json!("other")),
            ("/status/names/0", json!("db")),
            ("/status/conditions/1/type", json!("C")),
            ("/metadata/annotations", json!({"note": "x"})),
        ];
        for (pointer, value) in changes {
            let mut changed = first.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            assert_ne!(
                normalize(&first, &names),
                normalize(&changed, &names),
                "{pointer}"
            );
            assert_ne!(hash(&first), hash(&changed), "{pointer}");
        }
    }

    #[test]
    fn a_mask_hides_fields_and_learns() {
        let state = |size: i32, note: &str| {
            State::from([(
                "a b".to_owned(),
                vec![json!({"size": size, "note": {"text": note}})],
            )])
        };
        let (left, right) = (state(1, "x"), state(2, "y"));
        assert_eq!(differences(&left, &right, &Mask::default()).len(), 2);
        let mut mask = Mask::new(&["note".to_owned()]);
        let found = differences(&left, &right, &mask);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].field, "size");
        mask.learn(&found);
        assert_eq!(differences(&left, &right, &mask), []);
        assert_eq!(
            differences(&left, &right, &Mask::new(&["c size".to_owned()])).len(),
            2
        );
    }
}

//! Kubernetes objects as JSON trees: accessors ([`Object`]) and functions that change objects.
//!
//! Missing fields are returned as empty values, because controllers treat both in the same way.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Accessors of a JSON tree by JSON pointers. A field of another type counts as missing.
pub(crate) trait Object {
    /// Returns the string at a pointer, or `""`.
    fn text(&self, pointer: &str) -> &str;
    /// Returns the integer at a pointer, if it is one.
    fn int(&self, pointer: &str) -> Option<i64>;
    /// Returns true if the value at a pointer is `true`.
    fn flag(&self, pointer: &str) -> bool;
    /// Returns the list at a pointer, or an empty one.
    fn items(&self, pointer: &str) -> &[Value];
    /// Returns the string entries of the object at a pointer.
    fn texts(&self, pointer: &str) -> Vec<(&str, &str)>;
    /// Returns the time at a pointer, if it is one.
    fn time(&self, pointer: &str) -> Option<Timestamp>;

    /// Returns `metadata.name`.
    fn name(&self) -> &str {
        self.text("/metadata/name")
    }
    /// Returns `metadata.namespace`; empty if cluster-scoped.
    fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }
    /// Returns `metadata.uid`.
    fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }
    /// Returns `metadata.resourceVersion`.
    fn version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }
    /// Returns `metadata.generation`, or 0.
    fn generation(&self) -> i64 {
        self.int("/metadata/generation").unwrap_or(0)
    }
    /// Returns a label, if it is set.
    fn label(&self, name: &str) -> Option<&str>;
    /// Returns an annotation, if it is set.
    fn annotation(&self, name: &str) -> Option<&str>;
    /// Returns true if the object is being deleted, and waits for its finalizers or its grace period.
    fn is_terminating(&self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }
    /// Returns true if the object has a finalizer.
    fn has_finalizer(&self, name: &str) -> bool {
        self.items("/metadata/finalizers")
            .iter()
            .any(|finalizer| finalizer == name)
    }
    /// Returns the status condition of a type.
    fn condition(&self, kind: &str) -> Option<&Value> {
        self.items("/status/conditions")
            .iter()
            .find(|condition| condition.text("/type") == kind)
    }
    /// Returns true if the status condition of a type is `True`.
    fn is_condition_true(&self, kind: &str) -> bool {
        self.condition(kind)
            .is_some_and(|condition| condition.text("/status") == "True")
    }
}

/// Returns the value at a JSON pointer without escapes. This is the most frequent operation of controllers, and
/// `Value::pointer` allocates two strings for each segment.
fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    let fields = pointer.split('/').skip(1);
    fields.into_iter().try_fold(value, |value, field| match value {
        Value::Object(fields) => fields.get(field),
        Value::Array(items) => items.get(field.parse::<usize>().ok()?),
        _ => None,
    })
}

impl Object for Value {
    fn text(&self, pointer: &str) -> &str {
        at(self, pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn int(&self, pointer: &str) -> Option<i64> {
        at(self, pointer).and_then(Value::as_i64)
    }

    fn flag(&self, pointer: &str) -> bool {
        at(self, pointer).and_then(Value::as_bool).unwrap_or(false)
    }

    fn items(&self, pointer: &str) -> &[Value] {
        at(self, pointer)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    fn texts(&self, pointer: &str) -> Vec<(&str, &str)> {
        let entries = at(self, pointer).and_then(Value::as_object);
        entries
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
            .collect()
    }

    fn time(&self, pointer: &str) -> Option<Timestamp> {
        self.text(pointer).parse().ok()
    }

    fn label(&self, name: &str) -> Option<&str> {
        entry(self, "labels", name)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        entry(self, "annotations", name)
    }
}

fn entry<'a>(object: &'a Value, map: &str, name: &str) -> Option<&'a str> {
    object.get("metadata")?.get(map)?.get(name)?.as_str()
}

/// Returns a time as Kubernetes writes it: whole seconds, UTC.
pub(crate) fn time(at: Timestamp) -> Value {
    Value::String(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Sets `object[path[0]][path[1]]… = value`, and creates missing objects on the path.
pub(crate) fn set(object: &mut Value, path: &[&str], value: Value) {
    let mut at = object;
    for field in path {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(fields) = at else { return };
        at = fields.entry((*field).to_owned()).or_insert(Value::Null);
    }
    *at = value;
}

/// Removes a field, if it exists.
pub(crate) fn unset(object: &mut Value, path: &[&str]) {
    let Some((last, way)) = path.split_last() else {
        return;
    };
    let mut at = object;
    for field in way {
        match at.get_mut(*field) {
            Some(next) => at = next,
            None => return,
        }
    }
    if let Value::Object(fields) = at {
        fields.remove(*last);
    }
}

/// Returns a status with counters. Counters that are zero are omitted, as with `omitempty`.
pub(crate) fn counters(fields: &[(&str, i64)]) -> Map<String, Value> {
    fields
        .iter()
        .filter(|(_, count)| *count != 0)
        .map(|(name, count)| ((*name).to_owned(), json!(count)))
        .collect()
}

/// Returns the object with another status.
pub(crate) fn with_status(object: &Value, status: Value) -> Value {
    let fields = object.as_object().into_iter().flatten();
    let others = fields.filter(|(name, _)| *name != "status");
    let others = others.map(|(name, value)| (name.clone(), value.clone()));
    Value::Object(others.chain([("status".to_owned(), status)]).collect())
}

/// Returns true if two values are equal without the field at a path.
pub(crate) fn equal_without(path: &[&str], one: &Value, other: &Value) -> bool {
    let (Some((first, rest)), Value::Object(fields), Value::Object(others)) =
        (path.split_first(), one, other)
    else {
        return one == other;
    };
    let without = |fields: &Map<String, Value>| fields.len() - usize::from(fields.contains_key(*first));
    let is_equal = |(name, value): (&String, &Value)| match others.get(name) {
        _ if name == first => true,
        other => other == Some(value),
    };
    let inner = match (fields.get(*first), others.get(*first)) {
        _ if rest.is_empty() => true,
        (Some(one), Some(other)) => equal_without(rest, one, other),
        (one, other) => one == other,
    };
    inner && without(fields) == without(others) && fields.iter().all(is_equal)
}

/// Changes to an object, which is copied only if they change something.
pub(crate) struct Draft<'a>(Cow<'a, Value>);

impl<'a> Draft<'a> {
    pub(crate) fn new(object: &'a Value) -> Self {
        Self(Cow::Borrowed(object))
    }

    /// Sets a field as [`set`] does.
    pub(crate) fn set(&mut self, path: &[&str], value: Value) {
        if apimachinery::object::get(&self.0, path) != Some(&value) {
            set(self.0.to_mut(), path, value);
        }
    }

    /// Removes a field as [`unset`] does.
    pub(crate) fn unset(&mut self, path: &[&str]) {
        if apimachinery::object::get(&self.0, path).is_some() {
            unset(self.0.to_mut(), path);
        }
    }

    /// Returns the changed object, or `None` if nothing changed.
    pub(crate) fn changed(self) -> Option<Value> {
        match self.0 {
            Cow::Owned(changed) => Some(changed),
            Cow::Borrowed(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_copies_only_what_it_changes() {
        let object = json!({"metadata": {"labels": {"x": "y"}}});
        let mut draft = Draft::new(&object);
        draft.set(&["metadata", "labels", "x"], json!("y"));
        draft.unset(&["metadata", "annotations", "x"]);
        assert_eq!(draft.changed(), None);
        let mut draft = Draft::new(&object);
        draft.set(&["metadata", "labels", "x"], json!("z"));
        draft.unset(&["metadata", "labels", "y"]);
        assert_eq!(draft.changed(), Some(json!({"metadata": {"labels": {"x": "z"}}})));
        let mut draft = Draft::new(&object);
        draft.unset(&["metadata", "labels"]);
        assert_eq!(draft.changed(), Some(json!({"metadata": {}})));
    }

    #[test]
    fn only_the_field_at_the_path_may_differ() {
        let equal = |one, other| equal_without(&["labels", "x"], &one, &other);
        assert!(equal(
            json!({"labels": {"x": "y", "a": "b"}}),
            json!({"labels": {"a": "b"}})
        ));
        assert!(equal(
            json!({"labels": {"x": "y"}}),
            json!({"labels": {"x": "z"}})
        ));
        assert!(equal(json!({"a": 1}), json!({"a": 1})));
        assert!(!equal(json!({"a": 1}), json!({"a": 2})));
        assert!(!equal(json!({"labels": {"x": "y"}}), json!({})));
        assert!(!equal(
            json!({"labels": {"a": "b"}}),
            json!({"labels": {"a": "c"}})
        ));
        assert!(!equal(
            json!({"labels": {"a": "b"}}),
            json!({"labels": {"x": "b"}})
        ));
    }

    #[test]
    fn set_makes_the_way_and_unset_takes_only_the_leaf() {
        let mut object = json!({"metadata": {"name": "a"}});
        set(&mut object, &["metadata", "labels", "x"], json!("y"));
        assert_eq!(object.label("x"), Some("y"));
        unset(&mut object, &["metadata", "labels", "x"]);
        unset(&mut object, &["metadata", "missing", "x"]);
        assert_eq!(object, json!({"metadata": {"name": "a", "labels": {}}}));
    }

    #[test]
    fn reads_go_through_objects_and_lists_and_stop_at_anything_else() {
        let object = json!({"spec": {"containers": [{"name": "c", "port": 80}], "paused": true}});
        assert_eq!(object.text("/spec/containers/0/name"), "c");
        assert_eq!(object.int("/spec/containers/0/port"), Some(80));
        assert!(object.flag("/spec/paused"));
        for missing in [
            "/spec/containers/1/name",
            "/spec/containers/x/name",
            "/spec/paused/name",
            "/status",
        ] {
            assert_eq!(object.text(missing), "");
        }
    }

    #[test]
    fn times_are_written_in_whole_seconds() {
        let at = Timestamp::from_millisecond(1_704_067_200_999).unwrap();
        assert_eq!(time(at), json!("2024-01-01T00:00:00Z"));
        assert_eq!(
            json!({"t": time(at)}).time("/t").unwrap().as_second(),
            1_704_067_200
        );
    }
}

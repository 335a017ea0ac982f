//! Status conditions: one [`Condition`] per type in [`Conditions`], with the schema of `metav1.Condition`.
//!
//! ```
//! use operator_runtime::{Condition, Conditions};
//!
//! let mut conditions = Conditions::default();
//! conditions.set(Condition::available(false, "Starting", "1 of 3 replicas are ready"));
//! assert!(!conditions.is_true("Available"));
//! let since = conditions[0].last_transition_time.clone();
//! // The status is the same, so the transition time is too.
//! conditions.set(Condition::available(false, "Starting", "2 of 3 replicas are ready"));
//! assert_eq!(conditions[0].last_transition_time, since);
//! ```

use std::borrow::Cow;
use std::ops::Deref;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// One aspect of the state of an object, in the form of `metav1.Condition`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type, in CamelCase or `example.com/CamelCase`; at most 316 characters. One condition per type.
    #[serde(rename = "type")]
    pub type_: String,
    /// The status of the condition.
    pub status: ConditionStatus,
    /// The generation of the object from which the condition was computed. Status writers set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The time when `status` last changed, with a precision of seconds. [`Conditions`] sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// A machine-readable reason: CamelCase, not empty, at most 1024 characters.
    pub reason: String,
    /// A human-readable message, at most 32768 characters. May be empty.
    #[serde(default)]
    pub message: String,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// The state cannot be determined.
    Unknown,
}

/// The conditions of an object, at most one of each type: the type of a status field named `conditions`.
///
/// Its schema is a list of type `map` with the key `type`, so that several writers can own different conditions, with
/// the patterns and lengths of `metav1.Condition`.
///
/// ```
/// use operator_runtime::Conditions;
///
/// #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// pub struct MemcachedStatus {
///     #[serde(default, skip_serializing_if = "Conditions::is_empty")]
///     pub conditions: Conditions,
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conditions(Vec<Condition>);

// === impl Condition ===

impl Condition {
    /// Creates a condition of any type, such as `Available` or `example.com/BackedUp`. `status` is a
    /// [`ConditionStatus`] or a `bool`.
    pub fn new(
        type_: impl Into<String>,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_: type_.into(),
            status: status.into(),
            observed_generation: None,
            last_transition_time: None,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// Creates an `Available` condition: the object works as intended.
    pub fn available(
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::new("Available", status, reason, message)
    }

    /// Creates a `Progressing` condition: the object is moving to the state that its spec describes.
    pub fn progressing(
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::new("Progressing", status, reason, message)
    }

    /// Creates a `Degraded` condition: the object could not reach, or fell behind, the state that its spec describes.
    pub fn degraded(
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::new("Degraded", status, reason, message)
    }

    /// Returns true if the status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

// === impl Conditions ===

impl Conditions {
    /// Returns the condition of a type.
    pub fn find(&self, type_: &str) -> Option<&Condition> {
        self.0.iter().find(|condition| condition.type_ == type_)
    }

    /// Returns true if the condition of a type exists and is `True`.
    pub fn is_true(&self, type_: &str) -> bool {
        self.find(type_).is_some_and(Condition::is_true)
    }

    /// Returns true if there are no conditions, for `skip_serializing_if`.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets the condition of its type and returns true if it changed.
    ///
    /// `lastTransitionTime` becomes the current time, in seconds, if the status differs from the previous one or the
    /// type is new. Otherwise it does not change. If the condition already has a time, that time is used.
    pub fn set(&mut self, condition: Condition) -> bool {
        self.set_at(condition, crate::clock::now())
    }

    /// Sets several conditions; see [`Conditions::set`].
    pub fn set_all(&mut self, conditions: impl IntoIterator<Item = Condition>) {
        for condition in conditions {
            self.set(condition);
        }
    }

    fn set_at(&mut self, condition: Condition, now: Timestamp) -> bool {
        match self.0.iter_mut().find(|old| old.type_ == condition.type_) {
            Some(old) => {
                let new = condition.after(Some(old), now);
                let changed = *old != new;
                *old = new;
                changed
            }
            None => {
                self.0.push(condition.after(None, now));
                true
            }
        }
    }

    /// Removes the condition of a type and returns it.
    pub fn remove(&mut self, type_: &str) -> Option<Condition> {
        let index = self.0.iter().position(|condition| condition.type_ == type_)?;
        Some(self.0.remove(index))
    }
}

impl Condition {
    /// Returns the condition that replaces `old`. It keeps the time of `old` if the status is the same.
    pub(crate) fn after(mut self, old: Option<&Self>, now: Timestamp) -> Self {
        let same = old.filter(|old| old.status == self.status);
        let since = same.and_then(|old| old.last_transition_time.clone());
        let brought = self.last_transition_time.take().filter(|_| same.is_none());
        self.last_transition_time = since.or(brought).or_else(|| Some(Time(whole_second(now))));
        self
    }
}

/// Times in Kubernetes objects have no fractions of a second.
fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

impl Deref for Conditions {
    type Target = [Condition];

    fn deref(&self) -> &[Condition] {
        &self.0
    }
}

impl From<Vec<Condition>> for Conditions {
    fn from(conditions: Vec<Condition>) -> Self {
        Self(conditions)
    }
}

impl FromIterator<Condition> for Conditions {
    fn from_iter<I: IntoIterator<Item = Condition>>(conditions: I) -> Self {
        Self(conditions.into_iter().collect())
    }
}

impl IntoIterator for Conditions {
    type Item = Condition;
    type IntoIter = std::vec::IntoIter<Condition>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Conditions {
    type Item = &'a Condition;
    type IntoIter = std::slice::Iter<'a, Condition>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

// === schema ===

const TYPE_PATTERN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const REASON_PATTERN: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

impl JsonSchema for Condition {
    fn schema_name() -> Cow<'static, str> {
        "Condition".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "One aspect of the current state of this object.",
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "description": "Type of the condition, in CamelCase or in example.com/CamelCase.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": TYPE_PATTERN,
                },
                "status": {
                    "description": "Status of the condition: True, False or Unknown.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "observedGeneration": {
                    "description": "The metadata.generation that the condition was computed from; \
                        an older one than that of the object means that the condition is out of date.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "lastTransitionTime": {
                    "description": "The last time that the status of the condition changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "reason": {
                    "description": "Why the condition last changed, for programs, in CamelCase.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": REASON_PATTERN,
                },
                "message": {
                    "description": "Why the condition last changed, for people.",
                    "type": "string",
                    "maxLength": 32768,
                },
            },
        })
    }
}

impl JsonSchema for Conditions {
    fn schema_name() -> Cow<'static, str> {
        "Conditions".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Conditions: the aspects of the current state of this object, one of each type.",
            "type": "array",
            "items": Condition::json_schema(generator),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        })
    }
}

#[cfg(test)]
mod tests {
    use kube::{CustomResource, CustomResourceExt};
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::new(second, 900_000_000).unwrap()
    }

    fn since(conditions: &Conditions) -> i64 {
        conditions
            .find("Available")
            .unwrap()
            .last_transition_time
            .as_ref()
            .unwrap()
            .0
            .as_second()
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut conditions = Conditions::default();
        assert!(conditions.set_at(Condition::available(false, "Waiting", ""), at(10)));
        assert!(conditions.set_at(Condition::available(false, "Pulling", "image"), at(20)));
        assert_eq!(since(&conditions), 10);
        assert!(conditions.set_at(Condition::available(true, "Ready", ""), at(30)));
        assert_eq!(since(&conditions), 30);
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn setting_the_same_condition_again_changes_nothing() {
        let mut conditions = Conditions::default();
        let ready = Condition {
            observed_generation: Some(2),
            ..Condition::available(true, "Ready", "")
        };
        conditions.set_at(ready.clone(), at(10));
        assert!(!conditions.set_at(ready.clone(), at(20)));
        let newer = Condition {
            observed_generation: Some(3),
            ..ready
        };
        assert!(conditions.set_at(newer, at(20)));
    }

    #[test]
    fn transition_time_has_no_fraction() {
        let mut conditions = Conditions::default();
        conditions.set_at(Condition::available(true, "Ready", ""), at(10));
        let json = serde_json::to_value(&conditions).unwrap();
        assert_eq!(json[0]["lastTransitionTime"], "1970-01-01T00:00:10Z");
    }

    #[test]
    fn removed_condition_is_returned() {
        let mut conditions = Conditions::from(vec![Condition::degraded(false, "Fine", "")]);
        assert_eq!(conditions.remove("Degraded").unwrap().reason, "Fine");
        assert!(conditions.remove("Degraded").is_none());
    }

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "example.com",
        version = "v1",
        kind = "Probe",
        namespaced,
        status = "ProbeStatus"
    )]
    struct ProbeSpec {}

    #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
    struct ProbeStatus {
        #[serde(default, skip_serializing_if = "Conditions::is_empty")]
        conditions: Conditions,
    }

    #[test]
    fn crd_has_conditions_as_a_map_by_type() {
        let crd = serde_json::to_value(Probe::crd()).unwrap();
        let status = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
        let conditions = &status["properties"]["conditions"];
        assert_eq!(conditions["type"], "array");
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
        let condition = &conditions["items"];
        assert_eq!(
            condition["required"],
            json!(["lastTransitionTime", "message", "reason", "status", "type"])
        );
        assert_eq!(condition["properties"]["reason"]["pattern"], REASON_PATTERN);
        assert_eq!(
            condition["properties"]["status"]["enum"],
            json!(["True", "False", "Unknown"])
        );
        assert_eq!(
            condition["properties"]["observedGeneration"]["minimum"].as_f64(),
            Some(0.0)
        );
    }
}

//! Workloads: what users do while the operator runs.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The steps of a user, in order. After each step, the run waits until the cluster is quiet, unless the step says
/// otherwise.
///
/// ```
/// use operator_chaos::Workload;
///
/// let workload = Workload::from_yaml(
///     "
/// steps:
/// - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {size: '1'}}
/// - patch: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {size: '2'}}
///   wait: false
/// - delete: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
/// ",
/// )
/// .unwrap();
/// assert_eq!(workload.steps.len(), 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The steps.
    pub steps: Vec<Step>,
}

/// A step of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The change.
    #[serde(flatten)]
    pub change: Change,
    /// If false, the next step follows at once. Default: true.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub wait: bool,
}

/// A change that a user makes. Objects without a namespace are in `default`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// Applies an object, as `kubectl apply --server-side --force-conflicts` does.
    Apply(Value),
    /// Sends an object as a merge patch.
    Patch(Value),
    /// Deletes the object with this `apiVersion`, `kind` and name.
    Delete(Value),
    /// Sets `spec.replicas` of an object to the value in it.
    Scale(Value),
    /// Passes this many seconds of simulated time.
    Sleep(u64),
}

/// A workload could not be read.
#[derive(Debug, thiserror::Error)]
#[error("invalid workload: {0}")]
pub struct WorkloadError(String);

fn yes() -> bool {
    true
}

// === impl Workload ===

impl Workload {
    /// Creates a workload without steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a workload from YAML.
    ///
    /// # Errors
    /// Returns an error if the text is not a workload, or an object lacks `apiVersion`, `kind` or a name.
    pub fn from_yaml(text: &str) -> Result<Self, WorkloadError> {
        let workload: Self =
            serde_saphyr::from_str(text).map_err(|error| WorkloadError(error.to_string()))?;
        for (index, step) in workload.steps.iter().enumerate() {
            let Some(object) = step.change.object() else {
                continue;
            };
            for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
                if object.pointer(pointer).and_then(Value::as_str).is_none() {
                    let field = pointer.trim_start_matches('/').replace('/', ".");
                    return Err(WorkloadError(format!("step {}: {field} is missing", index + 1)));
                }
            }
        }
        Ok(workload)
    }

    /// Adds a step that applies an object.
    #[must_use]
    pub fn apply(self, object: impl Serialize) -> Self {
        self.step(Change::Apply(to_value(object)))
    }

    /// Adds a step that sends an object as a merge patch.
    #[must_use]
    pub fn patch(self, object: impl Serialize) -> Self {
        self.step(Change::Patch(to_value(object)))
    }

    /// Adds a step that deletes the object with this `apiVersion`, `kind` and name.
    #[must_use]
    pub fn delete(self, object: impl Serialize) -> Self {
        self.step(Change::Delete(to_value(object)))
    }

    /// Lets the next step follow the last one at once.
    #[must_use]
    pub fn and_at_once(mut self) -> Self {
        if let Some(step) = self.steps.last_mut() {
            step.wait = false;
        }
        self
    }

    fn step(mut self, change: Change) -> Self {
        self.steps.push(Step { change, wait: true });
        self
    }
}

fn to_value(object: impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

// === impl Change ===

impl Change {
    /// Returns the object that the change is about.
    pub(crate) fn object(&self) -> Option<&Value> {
        match self {
            Self::Apply(object) | Self::Patch(object) | Self::Delete(object) | Self::Scale(object) => {
                Some(object)
            }
            Self::Sleep(_) => None,
        }
    }

    /// Returns the merge patch of a patch or scale step.
    pub(crate) fn merge_patch(&self) -> Option<Value> {
        match self {
            Self::Patch(object) => Some(object.clone()),
            Self::Scale(object) => Some(json!({"spec": {"replicas": object.pointer("/spec/replicas")}})),
            _ => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Self::Apply(_) => "apply",
            Self::Patch(_) => "patch",
            Self::Delete(_) => "delete",
            Self::Scale(_) => "scale",
            Self::Sleep(seconds) => return write!(formatter, "sleep {seconds} s"),
        };
        let text = |pointer: &str| {
            let object = self.object();
            object
                .and_then(|object| object.pointer(pointer))
                .and_then(Value::as_str)
        };
        let kind = text("/kind").unwrap_or("object");
        let name = text("/metadata/name").unwrap_or_default();
        write!(formatter, "{verb} {kind} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_without_a_name_is_refused() {
        let error = Workload::from_yaml("steps: [{apply: {apiVersion: v1, kind: Secret}}]");
        let message = error.map_err(|error| error.to_string());
        assert_eq!(
            message,
            Err("invalid workload: step 1: metadata.name is missing".to_owned())
        );
    }

    #[test]
    fn a_workload_in_rust_equals_one_in_yaml() {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        let built = Workload::new().apply(&object).and_at_once().delete(&object);
        let yaml = "
steps:
- apply: {apiVersion: v1, kind: Secret, metadata: {name: s}}
  wait: false
- delete: {apiVersion: v1, kind: Secret, metadata: {name: s}}
";
        assert_eq!(Workload::from_yaml(yaml).ok(), Some(built));
    }
}

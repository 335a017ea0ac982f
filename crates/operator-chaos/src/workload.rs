//! [`Workload`], the actions of users while the operator runs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

/// The steps of a user, in order. After each step, the run waits until the cluster is idle, unless [`Step::wait`] is
/// false.
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
    #[serde(default)]
    pub steps: Vec<Step>,
    /// CEL expressions by name that must be true in every state. `objects["deployments.apps"]` is a list of all
    /// Deployments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub always: BTreeMap<String, String>,
    /// CEL expressions by name that must be false in every state.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub never: BTreeMap<String, String>,
    /// CEL expressions by name that must be true in at least one state.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub eventually: BTreeMap<String, String>,
}

/// A step of a user.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The change.
    #[serde(flatten)]
    pub change: Change,
    /// If false, the next step follows immediately. Default: true.
    #[serde(skip_serializing_if = "Clone::clone")]
    pub wait: bool,
}

/// A change that a user makes. The default namespace of objects is `default`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// Applies an object, like `kubectl apply --server-side --force-conflicts`.
    Apply(Value),
    /// Sends an object as a merge patch.
    Patch(Value),
    /// Deletes the object with this `apiVersion`, `kind` and name.
    Delete(Value),
    /// Sets `spec.replicas` of an object to the value in this object.
    Scale(Value),
    /// Waits until an object has a state.
    Wait(Wait),
    /// Replaces the operator, or its CustomResourceDefinitions, by another version.
    Upgrade(Upgrade),
    /// Waits for this number of seconds of simulated time.
    Sleep(u64),
}

/// A state that a step waits for. If it is not reached in time, the step fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// The `apiVersion`, `kind` and `metadata` of the object.
    #[serde(flatten)]
    pub object: Value,
    /// The state, as in `kubectl wait --for`: `condition=Ready`, `condition=Ready=False`, `delete`, `create` or
    /// `jsonpath={.status.phase}=Running`.
    #[serde(rename = "for")]
    pub state: String,
    /// The time limit in seconds. Default: 300.
    #[serde(default = "wait_limit", rename = "timeout")]
    pub limit: u64,
}

/// The parts that an upgrade replaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Upgrade {
    /// A YAML file, or a directory of YAML files, with the new CustomResourceDefinitions and other objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crds: Option<PathBuf>,
    /// The name of a version that was added with [`Chaos::version`](crate::Chaos::version).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The command of the new version, for operators in separate processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// The state of a [`Wait`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    Condition { kind: String, status: String },
    Field { pointer: String, value: String },
    Created,
    Deleted,
}

/// An error of reading a workload.
#[derive(Debug, thiserror::Error)]
#[error("invalid workload: {0}")]
pub struct WorkloadError(String);

/// The possible keys of a step.
const STEPS: &str = "apply, patch, delete, scale, wait, upgrade or sleep";

/// The maximum length of a patch in the name of a step.
const SHOWN: usize = 80;

fn wait_limit() -> u64 {
    300
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
        let workload: Self = serde_saphyr::from_str(text)
            .map_err(|error| WorkloadError(apimachinery::yaml::summary(&error)))?;
        for (index, step) in workload.steps.iter().enumerate() {
            let checked = step.change.check();
            checked.map_err(|problem| WorkloadError(format!("step {}: {problem}", index + 1)))?;
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

    /// Adds a step that waits until the object with this `apiVersion`, `kind` and name has a state, as in
    /// `kubectl wait --for`, for at most five minutes.
    #[must_use]
    pub fn wait_for(self, object: impl Serialize, state: impl Into<String>) -> Self {
        self.step(Change::Wait(Wait {
            object: to_value(object),
            state: state.into(),
            limit: wait_limit(),
        }))
    }

    /// Adds a step that replaces the operator or its CustomResourceDefinitions.
    #[must_use]
    pub fn upgrade(self, upgrade: Upgrade) -> Self {
        self.step(Change::Upgrade(upgrade))
    }

    /// Returns the workload that creates the same objects at once: the last upgrade, and one step for each remaining
    /// object. Returns `None` if this workload already does that.
    pub(crate) fn fresh(&self) -> Option<Self> {
        let mut upgrade = Upgrade::default();
        let mut objects: Vec<Value> = Vec::new();
        let mut changes = 0;
        for step in &self.steps {
            match &step.change {
                Change::Upgrade(next) => {
                    changes += 1;
                    upgrade = upgrade.followed_by(next);
                }
                Change::Wait(_) | Change::Sleep(_) => {}
                change => {
                    let Some(object) = change.object() else {
                        continue;
                    };
                    let known = objects.iter().position(|known| is_same(known, object));
                    changes += usize::from(known.is_some());
                    match (change, known) {
                        (Change::Delete(_), Some(index)) => drop(objects.remove(index)),
                        (Change::Apply(_), Some(index)) => objects[index] = object.clone(),
                        (Change::Apply(_), None) => objects.push(object.clone()),
                        (change, Some(index)) => {
                            merge(&mut objects[index], &change.merge_patch().unwrap_or_default());
                        }
                        // The object belongs to another client.
                        (_, None) => return None,
                    }
                }
            }
        }
        if changes == 0 || objects.is_empty() {
            return None;
        }
        let mut fresh = Self::new();
        if upgrade != Upgrade::default() {
            fresh = fresh.upgrade(upgrade);
        }
        let fresh = objects.into_iter().fold(fresh, Self::apply);
        (fresh.steps != self.steps).then_some(fresh)
    }

    /// Makes the next step follow the last one immediately.
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

/// Returns true if two objects have the same kind, namespace and name.
fn is_same(left: &Value, right: &Value) -> bool {
    let group = |object: &Value| {
        let version = object
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default();
        version.rsplit_once('/').map_or("", |(group, _)| group).to_owned()
    };
    let namespace = |object: &Value| {
        let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
        namespace.unwrap_or("default").to_owned()
    };
    group(left) == group(right)
        && namespace(left) == namespace(right)
        && ["/kind", "/metadata/name"]
            .iter()
            .all(|pointer| left.pointer(pointer) == right.pointer(pointer))
}

/// Returns an object after a JSON merge patch.
pub(crate) fn merged(object: &Value, patch: &Value) -> Value {
    let mut merged = object.clone();
    merge(&mut merged, patch);
    merged
}

/// Applies a JSON merge patch. Its depth is limited, because it was read from a file with a depth limit.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in changes {
        match change {
            Value::Null => drop(fields.remove(name)),
            change => merge(fields.entry(name.clone()).or_insert(Value::Null), change),
        }
    }
}

// === impl Step ===

impl<'de> Deserialize<'de> for Step {
    /// Reads `wait`, which is a modifier if it is a boolean, and a step if it is an object.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::<String, Value>::deserialize(deserializer)?;
        let wait = match fields.get("wait") {
            Some(Value::Bool(wait)) => Some(*wait),
            _ => None,
        };
        if wait.is_some() {
            fields.remove("wait");
        }
        let names: Vec<&str> = fields.keys().map(String::as_str).collect();
        if names.len() != 1 {
            let found = names.join(", ");
            let problem = format!("a step has one of {STEPS}, and not {found:?}");
            return Err(D::Error::custom(problem));
        }
        let change = serde_json::from_value(Value::Object(fields)).map_err(|error| {
            let text = error.to_string();
            match text.strip_prefix("unknown variant ") {
                Some(_) => D::Error::custom(format!("a step has one of {STEPS}: {text}")),
                None => D::Error::custom(text),
            }
        })?;
        Ok(Self {
            change,
            wait: wait.unwrap_or(true),
        })
    }
}

// === impl Upgrade ===

impl Upgrade {
    /// Returns one upgrade with the effect of two consecutive upgrades.
    fn followed_by(self, next: &Self) -> Self {
        let is_new = next.operator.is_some() || !next.command.is_empty();
        let (operator, command) = match is_new {
            true => (next.operator.clone(), next.command.clone()),
            false => (self.operator, self.command),
        };
        Self {
            crds: next.crds.clone().or(self.crds),
            operator,
            command,
        }
    }

    /// Returns the name of the operator after the upgrade, or `None` if the operator is not replaced.
    pub(crate) fn version(&self) -> Option<String> {
        match self.command.is_empty() {
            true => self.operator.clone(),
            false => Some(self.command.join(" ")),
        }
    }

    fn check(&self) -> Result<(), String> {
        if *self == Self::default() {
            return Err("upgrade has neither crds nor operator nor command".to_owned());
        }
        if self.operator.is_some() && !self.command.is_empty() {
            return Err("upgrade has both operator and command".to_owned());
        }
        Ok(())
    }
}

// === impl Wait ===

impl Wait {
    /// Returns the state that is waited for.
    ///
    /// # Errors
    /// Returns a message if the state cannot be parsed.
    pub(crate) fn goal(&self) -> Result<Goal, String> {
        let wrong = || {
            format!(
                "cannot read for: {:?}; write condition=TYPE, condition=TYPE=STATUS, create, delete, or \
                 jsonpath={{.field}}=VALUE",
                self.state
            )
        };
        let (what, rest) = self.state.split_once('=').unwrap_or((&self.state, ""));
        match (what, rest) {
            ("create", "") => Ok(Goal::Created),
            ("delete", "") => Ok(Goal::Deleted),
            ("condition", rest) if !rest.is_empty() => {
                let (kind, status) = rest.split_once('=').unwrap_or((rest, "True"));
                Ok(Goal::Condition {
                    kind: kind.to_owned(),
                    status: status.to_owned(),
                })
            }
            ("jsonpath", rest) => {
                let (path, value) = rest.split_once('=').ok_or_else(wrong)?;
                let path = path.trim_start_matches('{').trim_end_matches('}');
                let path = path.strip_prefix('.').filter(|path| !path.is_empty());
                let pointer: String = path
                    .ok_or_else(wrong)?
                    .replace('[', ".")
                    .replace(']', "")
                    .split('.')
                    .map(|name| format!("/{name}"))
                    .collect();
                Ok(Goal::Field {
                    pointer,
                    value: value.trim_matches('"').to_owned(),
                })
            }
            _ => Err(wrong()),
        }
    }
}

// === impl Goal ===

impl Goal {
    /// Returns true if the object, or its absence, has the state.
    pub(crate) fn is_reached(&self, object: Option<&Value>) -> bool {
        let Some(object) = object else {
            return *self == Self::Deleted;
        };
        match self {
            Self::Created => true,
            Self::Deleted => false,
            Self::Condition { kind, status } => {
                let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
                let mut conditions = conditions.into_iter().flatten();
                let text = |condition: &Value, field: &str| {
                    condition
                        .get(field)
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned()
                };
                conditions.any(|condition| {
                    text(condition, "type") == *kind && text(condition, "status").eq_ignore_ascii_case(status)
                })
            }
            Self::Field { pointer, value } => match object.pointer(pointer) {
                Some(Value::String(found)) => found == value,
                Some(found) => {
                    let found = found.to_string();
                    found == *value
                }
                None => false,
            },
        }
    }
}

// === impl Change ===

impl Change {
    /// Returns the object of the change.
    pub(crate) fn object(&self) -> Option<&Value> {
        match self {
            Self::Apply(object) | Self::Patch(object) | Self::Delete(object) | Self::Scale(object) => {
                Some(object)
            }
            Self::Wait(wait) => Some(&wait.object),
            Self::Upgrade(_) | Self::Sleep(_) => None,
        }
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Self::Upgrade(upgrade) => upgrade.check()?,
            Self::Wait(wait) => drop(wait.goal()?),
            _ => {}
        }
        let Some(object) = self.object() else {
            return Ok(());
        };
        for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
            if object.pointer(pointer).and_then(Value::as_str).is_none() {
                let field = pointer.trim_start_matches('/').replace('/', ".");
                return Err(format!("{field} is missing"));
            }
        }
        let replicas = object.pointer("/spec/replicas");
        if matches!(self, Self::Scale(_)) && replicas.and_then(Value::as_u64).is_none() {
            return Err("scale needs spec.replicas, a number".to_owned());
        }
        Ok(())
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
            Self::Wait(_) => "wait for",
            Self::Upgrade(upgrade) => {
                let version = upgrade.version().unwrap_or_else(|| "the definitions".to_owned());
                return write!(formatter, "upgrade to {version}");
            }
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
        write!(formatter, "{verb} {kind} {name}")?;
        match self {
            Self::Wait(wait) => write!(formatter, " {}", wait.state),
            Self::Patch(patch) => {
                let parts = patch.as_object().into_iter().flatten();
                let parts =
                    parts.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
                let parts: Map<String, Value> =
                    parts.map(|(name, value)| (name.clone(), value.clone())).collect();
                let text = Value::Object(parts).to_string();
                let shown: String = text.chars().take(SHOWN).collect();
                let rest = if shown.len() < text.len() { "…" } else { "" };
                write!(formatter, " with {shown}{rest}")
            }
            _ => Ok(()),
        }
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
    fn wrong_steps_are_refused_with_their_number() {
        let object = "apiVersion: v1, kind: Secret, metadata: {name: s}";
        let cases = [
            ("sleep: 1, apply: {}", "a step has one of apply"),
            ("aply: {}", "unknown variant `aply`"),
            (
                "upgrade: {}",
                "step 1: upgrade has neither crds nor operator nor command",
            ),
            (
                "upgrade: {operator: b, command: [c]}",
                "upgrade has both operator and command",
            ),
            ("upgrade: {crd: b}", "unknown field `crd`"),
            ("scale: {OBJECT}", "step 1: scale needs spec.replicas, a number"),
            ("wait: {OBJECT}", "missing field `for`"),
            ("wait: {OBJECT, for: Ready}", "step 1: cannot read for: \"Ready\""),
            ("wait: {OBJECT, for: jsonpath=phase}", "cannot read for"),
            ("wait: {for: delete}", "step 1: apiVersion is missing"),
        ];
        for (step, expected) in cases {
            let text = format!("steps: [{{{}}}]", step.replace("OBJECT", object));
            let found = Workload::from_yaml(&text).map_err(|error| error.to_string());
            let Err(found) = found else {
                panic!("{step} is accepted");
            };
            assert!(found.contains(expected), "{step}: {found}");
        }
    }

    #[test]
    fn wait_is_a_step_or_a_modifier() {
        let yaml = "
steps:
- delete: {apiVersion: v1, kind: Secret, metadata: {name: s}}
  wait: false
- wait: {apiVersion: v1, kind: Secret, metadata: {name: s}, for: delete, timeout: 20}
";
        let read = Workload::from_yaml(yaml).unwrap_or_default();
        assert!(!read.steps[0].wait && read.steps[1].wait);
        assert_eq!(read.steps[1].change.to_string(), "wait for Secret s delete");
        let json = serde_json::to_string(&read).unwrap_or_default();
        assert_eq!(serde_json::from_str::<Workload>(&json).ok(), Some(read));
    }

    #[test]
    fn goals_are_those_of_kubectl_wait() {
        let object = json!({"status": {
            "phase": "Running", "sizes": [{"n": 3}], "conditions": [{"type": "Ready", "status": "True"}],
        }});
        let is_reached = |state: &str| {
            let wait = Wait {
                object: Value::Null,
                state: state.to_owned(),
                limit: 1,
            };
            wait.goal()
                .map(|goal| (goal.is_reached(Some(&object)), goal.is_reached(None)))
        };
        assert_eq!(is_reached("condition=Ready"), Ok((true, false)));
        assert_eq!(is_reached("condition=Ready=false"), Ok((false, false)));
        assert_eq!(is_reached("jsonpath={.status.phase}=Running"), Ok((true, false)));
        assert_eq!(is_reached("jsonpath={.status.sizes[0].n}=3"), Ok((true, false)));
        assert_eq!(is_reached("delete"), Ok((false, true)));
        assert_eq!(is_reached("create"), Ok((true, false)));
    }

    #[test]
    fn a_fresh_deployment_has_the_last_state_of_each_object() {
        let object = |name: &str, size: i32| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": size}});
        let workload = Workload::new()
            .apply(object("x", 1))
            .apply(object("y", 1))
            .upgrade(Upgrade {
                operator: Some("v2".to_owned()),
                ..Upgrade::default()
            })
            .patch(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": null, "b": 2},
            }))
            .delete(object("y", 1));
        let fresh = workload.fresh().unwrap_or_default();
        let steps: Vec<String> = fresh.steps.iter().map(|step| step.change.to_string()).collect();
        assert_eq!(steps, ["upgrade to v2", "apply ConfigMap x"]);
        assert_eq!(
            fresh.steps[1].change.object().map(|object| &object["data"]),
            Some(&json!({"b": 2}))
        );
        assert_eq!(fresh.fresh(), None);
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

//! Priority: sets the priority of a pod from its priority class.

use apimachinery::object;
use serde_json::{Value, json};

use crate::admission::Admission;
use crate::status::Status;
use crate::write::Write;

const TABLE: &str = "priorityclasses.scheduling.k8s.io";

pub(super) fn admit(admission: &Admission, write: &Write, pod: &mut Value) -> Result<(), Status> {
    let wanted = object::text(pod, &["spec", "priorityClassName"]).to_owned();
    let class = if wanted.is_empty() {
        default_class(admission)
    } else {
        let Some(class) = admission.store.get(TABLE, &wanted) else {
            let why = format!("no PriorityClass with name {wanted} was found");
            return Err(write.forbidden(Some(pod), &why));
        };
        Some(class.value.clone())
    };
    let value = class
        .as_ref()
        .and_then(|class| class.get("value")?.as_i64())
        .unwrap_or_default();
    let policy = class
        .as_ref()
        .map(|class| object::text(class, &["preemptionPolicy"]))
        .filter(|policy| !policy.is_empty())
        .unwrap_or("PreemptLowerPriority");
    let spec = object::child_mut(pod, "spec");
    if let Some(class) = class.as_ref() {
        spec.insert("priorityClassName".to_owned(), object::name(class).into());
    }
    let given = spec.get("priority").and_then(Value::as_i64);
    if given.is_some_and(|given| given != value) {
        let why = format!(
            "the integer value of priority ({}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name",
            given.unwrap_or_default()
        );
        return Err(write.forbidden(Some(pod), &why));
    }
    spec.insert("priority".to_owned(), value.into());
    let given = spec.get("preemptionPolicy").and_then(Value::as_str);
    if let Some(given) = given.filter(|given| *given != policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(write.forbidden(Some(pod), &why));
    }
    spec.insert("preemptionPolicy".to_owned(), json!(policy));
    Ok(())
}

/// Keeps the priority of a changed pod that omits it.
pub(super) fn keep(pod: &mut Value, old: &Value) {
    let spec = object::child_mut(pod, "spec");
    for field in ["priority", "preemptionPolicy"] {
        let kept = old.get("spec").and_then(|spec| spec.get(field));
        if let Some(kept) = kept.filter(|_| spec.get(field).is_none_or(Value::is_null)) {
            spec.insert(field.to_owned(), kept.clone());
        }
    }
}

/// Returns the class of pods without a class: the one that is marked as the default; the lowest if there are several.
fn default_class(admission: &Admission) -> Option<std::sync::Arc<Value>> {
    let classes = admission.store.list(TABLE, "").objects;
    classes
        .iter()
        .filter(|class| class.value.get("globalDefault") == Some(&Value::Bool(true)))
        .min_by_key(|class| class.value.get("value").and_then(Value::as_i64))
        .map(|class| class.value.clone())
}

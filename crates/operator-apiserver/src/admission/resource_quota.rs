//! ResourceQuota: rejects writes beyond a quota of the namespace. Accepted writes are charged in the same commit.

use apimachinery::object;
use serde_json::{Map, Value};

use super::Operation;
use super::attributes::Attributes;
use crate::admission::Admission;
use crate::clock::rfc3339;
use crate::identity::authn::User;
use crate::patch::managed_fields;
use crate::resource::builtin_catalog;
use crate::status::{self, Status};
use crate::store::{JointUpdate, Stored};
use crate::write::{Warnings, Write};
use builtin_kinds::quota::{self, Change, Evaluator, Refusal, Uncovered};

const TABLE: &str = "resourcequotas";

/// Returns the writes that must be committed together with a write: the charged quotas, with their new status.
pub(super) fn charge(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
) -> Result<Vec<JointUpdate>, Status> {
    if !write.definition.namespaced || write.namespace.is_empty() {
        return Ok(Vec::new());
    }
    let prefix = write.definition.key_prefix(&write.namespace);
    let quotas = admission.store.list(TABLE, &prefix).objects;
    let subject = &write.definition.subject;
    let (Some(change), Some(evaluator)) = (
        change(write, operation, old),
        Evaluator::of(&subject.group, &subject.resource),
    ) else {
        return Ok(Vec::new());
    };
    let limited = &admission.configuration.limited_resources;
    if quotas.is_empty() && limited.is_empty() || !evaluator.handles(change, object) {
        return Ok(Vec::new());
    }
    let mut charges = Vec::new();
    let attributes = Attributes {
        admission,
        write,
        operation,
        object: Some(object),
        old,
    };
    let now = admission.clock.now();
    let stored = quotas.iter().map(|quota| quota.value.as_ref());
    let covered = quota::check_limited(limited, stored, &evaluator, object, now);
    for live in quotas {
        let used = quota::charge(&live.value, &evaluator, change, object, now);
        let used = used.map_err(|refusal| match refusal {
            Refusal::Exceeded(why) => attributes.forbidden(&why),
            Refusal::Scopes(why) => status::plain(why),
        })?;
        if let Some(used) = used {
            charges.extend(charged(admission, live, used));
        }
    }
    covered.map_err(|uncovered| match uncovered {
        Uncovered::Amounts(names) => attributes.forbidden(&format!("insufficient quota to consume: {names}")),
        Uncovered::Scopes(scopes) => {
            status::plain(format!("insufficient quota to match these scopes: [{scopes}]"))
        }
    })?;
    if write.dry_run {
        charges.clear();
    }
    Ok(charges)
}

/// Returns the change of a write to its object; `None` for subresources that create another object.
fn change<'a>(write: &'a Write, operation: Operation, old: Option<&'a Value>) -> Option<Change<'a>> {
    let subresource = write.subresource.as_str();
    match (operation, old) {
        (Operation::Create, _) => subresource.is_empty().then_some(Change::Create),
        (Operation::Update, Some(old)) => Some(Change::Update { old, subresource }),
        _ => None,
    }
}

/// Returns the write of a quota with a higher usage, as the server itself.
fn charged(
    admission: &Admission,
    live: std::sync::Arc<Stored>,
    used: Map<String, Value>,
) -> Option<JointUpdate> {
    let definition = builtin_catalog().find("", "v1", TABLE)?;
    let mut value = Value::clone(&live.value);
    object::child_mut(&mut value, "status").insert("used".to_owned(), used.into());
    let write = Write {
        namespace: object::namespace(&value).to_owned(),
        name: object::name(&value).to_owned(),
        subresource: "status".to_owned(),
        user: User::admin(),
        manager: "kube-apiserver".to_owned(),
        tracked: false,
        replaces: true,
        dry_run: false,
        options: Value::Null,
        warnings: Warnings::default(),
        in_collection: false,
        conversions: std::sync::Arc::default(),
        decisions: std::sync::Arc::default(),
        requested_name: Default::default(),
        deadline: None,
        definition,
    };
    managed_fields::update(
        &rfc3339(admission.clock.now()),
        &write,
        Some(&live.value),
        &mut value,
    );
    Some(JointUpdate {
        table: write.definition.table.clone(),
        gvr: write.definition.storage.clone(),
        live,
        value,
    })
}

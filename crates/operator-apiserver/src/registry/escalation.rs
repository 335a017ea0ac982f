//! Privilege escalation: rejects roles and bindings that grant permissions that the writer does not have.

use std::collections::BTreeSet;

use apimachinery::go::quote;
use apimachinery::object;
use serde_json::Value;

use crate::identity::authz::Attributes;
use crate::identity::authz::coverage::missing;
use crate::identity::authz::rbac::{self, GROUP, Unresolved, aggregate, list};
use crate::identity::authz::rule::{Rule, compact, go_list};
use crate::registry::Registry;
use crate::status::{self, Status};
use crate::write::Write;

/// Checks a role or a binding before it is created, or changed from `old`. Other objects are accepted.
///
/// # Errors
/// Returns an error if the writer does not hold the granted permissions and may neither `escalate` the role nor `bind`
/// it.
pub(crate) async fn check(
    registry: &Registry,
    write: &Write,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let subject = &write.definition.subject;
    if subject.group != GROUP || write.user.is_master() || !write.subresource.is_empty() {
        return Ok(());
    }
    if old.is_some_and(|old| only_releases(object, old)) {
        return Ok(());
    }
    match subject.resource.as_str() {
        "roles" | "clusterroles" => check_role(registry, write, object, old).await,
        "rolebindings" | "clusterrolebindings" => check_binding(registry, write, object).await,
        _ => Ok(()),
    }
}

/// Returns true if a change only affects garbage collection: owners and finalizers.
fn only_releases(object: &Value, old: &Value) -> bool {
    let mut object = object.clone();
    for field in ["ownerReferences", "finalizers", "managedFields"] {
        object::copy_meta(&mut object, old, field);
    }
    builtin_kinds::tree::is_equivalent(&object, old)
}

async fn check_role(
    registry: &Registry,
    write: &Write,
    role: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let asked = Attributes {
        name: &write.name,
        namespace: &write.namespace,
        ..Attributes::resource(&write.user, "escalate", GROUP, &write.definition.subject.resource)
    };
    if registry.authorizer.authorize(&asked).await.allowed {
        return Ok(());
    }
    let rules: Vec<Rule> = list(role, "rules").iter().map(Rule::read).collect();
    confirm(registry, write, &rules).map_err(|why| forbidden(write, role, &why))?;
    if aggregates(role) || old.is_some_and(aggregates) {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        confirm(registry, write, &Rule::full_authority()).map_err(|_| forbidden(write, role, why))?;
    }
    Ok(())
}

fn aggregates(role: &Value) -> bool {
    let selectors = object::get(role, &["aggregationRule", "clusterRoleSelectors"]);
    selectors
        .and_then(Value::as_array)
        .is_some_and(|selectors| !selectors.is_empty())
}

async fn check_binding(registry: &Registry, write: &Write, binding: &Value) -> Result<(), Status> {
    let Some(reference) = binding.get("roleRef") else {
        return Ok(());
    };
    let resource = match object::text(reference, &["kind"]) {
        "Role" => "roles",
        "ClusterRole" => "clusterroles",
        _ => "",
    };
    let asked = Attributes {
        group: object::text(reference, &["apiGroup"]),
        name: object::text(reference, &["name"]),
        namespace: &write.namespace,
        ..Attributes::resource(&write.user, "bind", GROUP, resource)
    };
    if !resource.is_empty() && registry.authorizer.authorize(&asked).await.allowed {
        return Ok(());
    }
    let rules = rbac::rules(&registry.store, reference, &write.namespace)
        .map_err(|error| unresolved(write, &error))?;
    confirm(registry, write, &rules).map_err(|why| forbidden(write, binding, &why))
}

/// Returns the error of an unreadable role. The API server reads the role by the path of the request, and so the error
/// names the wrong resource.
fn unresolved(write: &Write, error: &Unresolved) -> Status {
    match error {
        Unresolved::Missing { name, .. } => status::not_found(&write.definition.subject, name),
        Unresolved::Kind(_) => status::plain(error.to_string()),
    }
}

fn forbidden(write: &Write, object: &Value, why: &str) -> Status {
    status::forbidden(&write.definition.subject, object::name(object), why)
}

/// Checks that the writer has the permissions of some rules; the error lists the missing rules.
fn confirm(registry: &Registry, write: &Write, wanted: &[Rule]) -> Result<(), String> {
    let user = &write.user;
    let (held, errors) = registry.authorizer.rules_of_user(user, &write.namespace);
    let missing = missing(&held, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let lines: BTreeSet<String> = compact(missing).iter().map(Rule::to_string).collect();
    let lines: Vec<String> = lines.into_iter().collect();
    let mut why = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&user.name),
        go_list(&user.groups),
        lines.join("\n")
    );
    if !errors.is_empty() {
        let errors = errors.iter().map(|error| unresolved(write, error).to_string());
        let errors = aggregate(errors.collect());
        why = format!("{why}; resolution errors: [{errors}]");
    }
    Err(why)
}

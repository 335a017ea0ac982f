//! RBAC: roles and their bindings, read from the store by each request.

use std::fmt::{Display, Formatter};
use std::ops::ControlFlow;
use std::sync::Arc;

use apimachinery::go::quote;
use apimachinery::object;
use serde_json::Value;

use super::{Attributes, Decision, Rule};
use crate::identity::authn::{User, service_account_name};
use crate::store::Store;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// Allows a request if a binding gives the user a rule that covers it.
pub(crate) fn authorize(store: &Store, asked: &Attributes<'_>) -> Decision {
    let mut decision = Decision::default();
    let mut unresolved = Vec::new();
    visit(store, asked.user, asked.namespace, &mut |found| match found {
        Ok((grant, rule)) if rule.allows(asked) => {
            decision = Decision::allow(&format!("RBAC: allowed by {grant}"));
            ControlFlow::Break(())
        }
        Ok(_) => ControlFlow::Continue(()),
        Err(error) => {
            unresolved.push(error.to_string());
            ControlFlow::Continue(())
        }
    });
    if !decision.allowed && !unresolved.is_empty() {
        decision.reason = format!("RBAC: {}", aggregate(unresolved));
    }
    decision
}

/// Returns the rules of a user in a namespace, and the roles that could not be read.
pub(crate) fn rules_of_user(store: &Store, user: &User, namespace: &str) -> (Vec<Rule>, Vec<Unresolved>) {
    let (mut rules, mut unresolved) = (Vec::new(), Vec::new());
    visit(store, user, namespace, &mut |found| {
        match found {
            Ok((_, rule)) => rules.push(rule),
            Err(error) => unresolved.push(error),
        }
        ControlFlow::Continue(())
    });
    (rules, unresolved)
}

/// Joins errors as Go's aggregate does, without duplicates.
pub(crate) fn aggregate(mut texts: Vec<String>) -> String {
    let mut seen = std::collections::BTreeSet::new();
    texts.retain(|text| seen.insert(text.clone()));
    match texts.as_slice() {
        [only] => only.clone(),
        _ => format!("[{}]", texts.join(", ")),
    }
}

/// The error of a role that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// The role does not exist.
    Missing {
        /// `role` or `clusterrole`.
        resource: &'static str,
        name: String,
    },
    /// The binding refers to a kind that is not a role.
    Kind(String),
}

impl Display for Unresolved {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { resource, name } => {
                write!(formatter, "{resource}.{GROUP} {} not found", quote(name))
            }
            Self::Kind(kind) => write!(formatter, "unsupported role reference kind: {}", quote(kind)),
        }
    }
}

/// The source of a rule for a user: `RoleBinding "b/ns" of Role "r" to User "jane"`.
struct Grant<'a> {
    binding: &'a Value,
    subject: &'a Value,
}

impl Display for Grant<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let (name, namespace) = (object::name(self.binding), object::namespace(self.binding));
        let (kind, binding) = if namespace.is_empty() {
            ("ClusterRoleBinding", name.to_owned())
        } else {
            ("RoleBinding", format!("{name}/{namespace}"))
        };
        let role = |field: &str| object::text(self.binding, &["roleRef", field]);
        write!(
            formatter,
            "{kind} {} of {} {} to {}",
            quote(&binding),
            role("kind"),
            quote(role("name")),
            describe(self.subject, namespace)
        )
    }
}

fn describe(subject: &Value, namespace: &str) -> String {
    let (kind, name) = (object::text(subject, &["kind"]), object::text(subject, &["name"]));
    if kind != "ServiceAccount" {
        return format!("{kind} {}", quote(name));
    }
    let namespace = account_namespace(subject, namespace);
    format!("{kind} {}", quote(&format!("{name}/{namespace}")))
}

/// Returns the namespace of a service account subject: its own, or the namespace of the binding.
fn account_namespace<'a>(subject: &'a Value, namespace: &'a str) -> &'a str {
    match object::text(subject, &["namespace"]) {
        "" => namespace,
        given => given,
    }
}

type Found<'a> = Result<(&'a Grant<'a>, Rule), Unresolved>;
type Visitor<'v> = dyn FnMut(Found<'_>) -> ControlFlow<()> + 'v;

/// Passes every rule of a user in a namespace to the visitor, cluster-wide rules first.
fn visit(store: &Store, user: &User, namespace: &str, visitor: &mut Visitor<'_>) {
    let cluster = visit_bindings(store, user, ("clusterrolebindings", ""), visitor);
    if cluster.is_continue() && !namespace.is_empty() {
        let _ = visit_bindings(store, user, ("rolebindings", namespace), visitor);
    }
}

fn visit_bindings(
    store: &Store,
    user: &User,
    (resource, namespace): (&str, &str),
    visitor: &mut Visitor<'_>,
) -> ControlFlow<()> {
    for binding in bindings(store, resource, namespace) {
        let subjects = list(&binding, "subjects");
        let Some(subject) = subjects
            .iter()
            .find(|subject| is_subject(subject, user, namespace))
        else {
            continue;
        };
        let Some(reference) = binding.get("roleRef") else {
            continue;
        };
        let grant = Grant {
            binding: &binding,
            subject,
        };
        match rules(store, reference, namespace) {
            Ok(rules) => rules
                .into_iter()
                .try_for_each(|rule| visitor(Ok((&grant, rule))))?,
            Err(error) => visitor(Err(error))?,
        }
    }
    ControlFlow::Continue(())
}

fn bindings(store: &Store, resource: &str, namespace: &str) -> Vec<Arc<Value>> {
    let prefix = if namespace.is_empty() {
        String::new()
    } else {
        format!("{namespace}/")
    };
    let listing = store.list(&format!("{resource}.{GROUP}"), &prefix);
    listing
        .objects
        .iter()
        .map(|stored| stored.value.clone())
        .collect()
}

fn is_subject(subject: &Value, user: &User, namespace: &str) -> bool {
    let name = object::text(subject, &["name"]);
    match object::text(subject, &["kind"]) {
        "User" => user.name == name,
        "Group" => user.is_in(name),
        "ServiceAccount" => {
            let namespace = account_namespace(subject, namespace);
            !namespace.is_empty() && user.name == service_account_name(namespace, name)
        }
        _ => false,
    }
}

/// Returns the rules of the referenced role; a Role is looked up in the given namespace.
pub(crate) fn rules(store: &Store, reference: &Value, namespace: &str) -> Result<Vec<Rule>, Unresolved> {
    let name = object::text(reference, &["name"]);
    let (resource, table, key) = match object::text(reference, &["kind"]) {
        "Role" => ("role", "roles", format!("{namespace}/{name}")),
        "ClusterRole" => ("clusterrole", "clusterroles", name.to_owned()),
        kind => return Err(Unresolved::Kind(kind.to_owned())),
    };
    let role = store.get(&format!("{table}.{GROUP}"), &key);
    let role = role.ok_or_else(|| Unresolved::Missing {
        resource,
        name: name.to_owned(),
    })?;
    Ok(list(&role.value, "rules").iter().map(Rule::read).collect())
}

pub(crate) fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value
        .get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

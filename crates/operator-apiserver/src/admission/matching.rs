//! Matches requests against the rules and selectors of a policy, a binding or a webhook.

use std::sync::Arc;

use apimachinery::object;
use serde_json::Value;

use super::Operation;
use super::attributes::Attributes;
use crate::resource::{Definition, builtin_catalog};
use crate::status::{self, NamedResource, Status};
use builtin_kinds::{is_empty_selector, selects};

/// Parsed rules and selectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Criteria {
    rules: Vec<Rule>,
    exclude: Vec<Rule>,
    /// True if a rule for one version of a resource applies to all versions.
    equivalent: bool,
    namespaces: Value,
    objects: Value,
}

#[derive(Clone, Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

impl Criteria {
    /// Returns the criteria of `matchConstraints` or `matchResources`.
    pub(crate) fn of_policy(value: &Value) -> Self {
        Self {
            exclude: rules(value, "excludeResourceRules"),
            rules: rules(value, "resourceRules"),
            ..Self::selectors(value)
        }
    }

    /// Returns the criteria of a webhook.
    pub(crate) fn of_webhook(webhook: &Value) -> Self {
        Self {
            rules: rules(webhook, "rules"),
            ..Self::selectors(webhook)
        }
    }

    fn selectors(value: &Value) -> Self {
        let selector = |field: &str| value.get(field).cloned().unwrap_or(Value::Null);
        Self {
            equivalent: object::text(value, &["matchPolicy"]) != "Exact",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            ..Self::default()
        }
    }

    /// Returns the version of the resource in the matching rule; `None` if no rule matches.
    ///
    /// # Errors
    /// Returns an error if the request's namespace is needed and missing.
    pub(crate) fn matches(&self, attributes: &Attributes<'_>) -> Result<Option<Arc<Definition>>, Status> {
        if self.excludes(attributes) || !self.selects_object(attributes) {
            return Ok(None);
        }
        let Some(target) = self.target(attributes) else {
            return Ok(None);
        };
        Ok(self.selects_namespace(attributes)?.then_some(target))
    }

    /// Like [`matches`](Self::matches) for `matchResources` of a binding, which match everything if they have no rules.
    pub(crate) fn narrows_to(&self, attributes: &Attributes<'_>) -> Result<bool, Status> {
        if self.excludes(attributes) || !self.selects_object(attributes) {
            return Ok(false);
        }
        if !self.rules.is_empty() && self.target(attributes).is_none() {
            return Ok(false);
        }
        self.selects_namespace(attributes)
    }

    fn excludes(&self, attributes: &Attributes<'_>) -> bool {
        !self.exclude.is_empty() && find(&self.exclude, self.equivalent, attributes).is_some()
    }

    fn target(&self, attributes: &Attributes<'_>) -> Option<Arc<Definition>> {
        find(&self.rules, self.equivalent, attributes)
    }

    fn selects_object(&self, attributes: &Attributes<'_>) -> bool {
        if self.objects.is_null() || is_empty_selector(&self.objects) {
            return true;
        }
        let objects = attributes.object.into_iter().chain(attributes.old);
        objects.into_iter().any(|object| {
            selects(
                &self.objects,
                object::meta(object, "labels").unwrap_or(&Value::Null),
            )
        })
    }

    fn selects_namespace(&self, attributes: &Attributes<'_>) -> Result<bool, Status> {
        let is_namespace = attributes.is_namespace();
        let everywhere = self.namespaces.is_null() || is_empty_selector(&self.namespaces);
        if everywhere || (attributes.namespace().is_empty() && !is_namespace) {
            return Ok(true);
        }
        let own = is_namespace && attributes.write.subresource.is_empty();
        if own && let Some(namespace) = attributes.object {
            return Ok(self.selects_labels_of(namespace));
        }
        let namespace = namespace(attributes)?;
        Ok(self.selects_labels_of(&namespace))
    }

    fn selects_labels_of(&self, namespace: &Value) -> bool {
        let labels = object::meta(namespace, "labels").unwrap_or(&Value::Null);
        selects(&self.namespaces, labels)
    }
}

/// Returns the Namespace of a request.
pub(super) fn namespace(attributes: &Attributes<'_>) -> Result<Arc<Value>, Status> {
    let name = attributes.namespace();
    let found = attributes.admission.store.get("namespaces", name);
    found.map(|stored| stored.value.clone()).ok_or_else(|| {
        let subject = NamedResource {
            group: String::new(),
            resource: "namespaces".to_owned(),
            kind: "Namespace".to_owned(),
        };
        status::not_found(&subject, name)
    })
}

fn rules(value: &Value, field: &str) -> Vec<Rule> {
    let rules = value.get(field).and_then(Value::as_array);
    rules.into_iter().flatten().map(Rule::read).collect()
}

/// Returns the first version of the request's resource in a rule: its own, or an equivalent one.
fn find(rules: &[Rule], equivalent: bool, attributes: &Attributes<'_>) -> Option<Arc<Definition>> {
    let own = &attributes.write.definition;
    if rules.iter().any(|rule| rule.covers(attributes, own)) {
        return Some(own.clone());
    }
    if !equivalent {
        return None;
    }
    let custom = attributes.admission.resources.custom();
    let all = builtin_catalog()
        .definitions()
        .iter()
        .chain(custom.versions(&own.table));
    let others = all.filter(|other| other.table == own.table && !Arc::ptr_eq(other, own));
    others
        .into_iter()
        .find(|other| rules.iter().any(|rule| rule.covers(attributes, other)))
        .cloned()
}

impl Rule {
    fn read(value: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            let texts = value.get(field).and_then(Value::as_array);
            let texts = texts.into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            scope: object::text(value, &["scope"]).to_owned(),
        }
    }

    fn covers(&self, attributes: &Attributes<'_>, definition: &Definition) -> bool {
        has(&self.operations, attributes.operation.name())
            && has(&self.groups, &definition.subject.group)
            && has(&self.versions, &definition.version)
            && self.covers_resource(&definition.subject.resource, &attributes.write.subresource)
            && self.covers_scope(attributes)
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name()))
    }

    fn covers_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|rule| {
            let (wanted, sub) = rule.split_once('/').unwrap_or((rule, ""));
            (wanted == "*" || wanted == resource) && (sub == "*" || sub == subresource)
        })
    }

    fn covers_scope(&self, attributes: &Attributes<'_>) -> bool {
        let cluster = attributes.is_namespace() || attributes.namespace().is_empty();
        match self.scope.as_str() {
            "Namespaced" => !cluster,
            "Cluster" => cluster,
            _ => true,
        }
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|known| known == "*" || known == wanted)
}

/// Resources of some groups.
type Resources = [(&'static str, &'static [&'static str])];

/// The resources for which webhooks are not called, so that a webhook cannot prevent its own removal.
const WEBHOOK_EXEMPT: &Resources = &[(
    "admissionregistration.k8s.io",
    &[
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    ],
)];

/// The resources for which policies are not evaluated: policies themselves, and the reviews that authentication and
/// authorization depend on.
const POLICY_EXEMPT: &Resources = &[
    (
        "admissionregistration.k8s.io",
        &[
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ],
    ),
    ("authentication.k8s.io", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io",
        &[
            "localsubjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "subjectaccessreviews",
        ],
    ),
];

fn contains(resources: &Resources, definition: &Definition) -> bool {
    let subject = &definition.subject;
    !definition.is_custom()
        && resources.iter().any(|(group, resources)| {
            *group == subject.group && resources.contains(&subject.resource.as_str())
        })
}

/// Returns true if webhooks are not called for a resource.
pub(super) fn is_exempt_from_webhooks(definition: &Definition) -> bool {
    contains(WEBHOOK_EXEMPT, definition)
}

/// Returns true if policies are not evaluated for a resource.
pub(super) fn is_exempt_from_policies(definition: &Definition) -> bool {
    contains(POLICY_EXEMPT, definition)
}

impl Operation {
    /// Returns the name of the operation in rules.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

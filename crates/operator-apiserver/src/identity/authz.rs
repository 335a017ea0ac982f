//! Authorization: `system:masters` has all permissions, other users those of their roles.

mod abac;
pub(crate) mod coverage;
mod node;
pub(crate) mod rbac;
pub(crate) mod rule;

use std::sync::Arc;

pub use self::abac::AbacPolicies;
pub(crate) use self::node::refers_to_any;
pub(crate) use self::rbac::{Unresolved, aggregate};
pub(crate) use self::rule::{Rule, go_list};
use crate::identity::authn::User;
use crate::metrics::Metrics;
use crate::status::{self, NamedResource, Status};
use crate::store::Store;

/// An authorization mode. Members of `system:masters` have all permissions in each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authorization {
    /// Roles and their bindings.
    #[default]
    Rbac,
    /// No authorizer: everything is allowed.
    AlwaysAllow,
    /// No authorizer: nothing is allowed.
    AlwaysDeny,
    /// The Node authorizer: kubelets may access the objects of the pods on their nodes.
    Node,
    /// The policies of a file.
    Abac(AbacPolicies),
}

impl Authorization {
    /// Returns the name in `--authorization-mode`.
    fn name(&self) -> &'static str {
        match self {
            Self::Rbac => "RBAC",
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Node => "Node",
            Self::Abac(_) => "ABAC",
        }
    }

    fn decide(&self, store: &Store, asked: &Attributes<'_>) -> Decision {
        match self {
            Self::Rbac => rbac::authorize(store, asked),
            Self::AlwaysAllow => Decision::allow(""),
            Self::AlwaysDeny => Decision::no_opinion("Everything is forbidden."),
            Self::Node => node::authorize(store, asked),
            Self::Abac(policies) if policies.allow(asked) => Decision::allow(""),
            Self::Abac(_) => Decision::no_opinion("No policy matched."),
        }
    }
}

/// The request and its user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    pub(crate) user: &'a User,
    pub(crate) verb: &'a str,
    /// True for a resource request; false for a path.
    pub(crate) is_resource: bool,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) path: &'a str,
    /// The node to which the field selector of a list or a watch is limited.
    pub(crate) selected_node: &'a str,
}

/// A decision, and its reason. Rejections usually have no reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    pub(crate) reason: String,
}

impl Decision {
    fn allow(reason: &str) -> Self {
        Self {
            allowed: true,
            reason: reason.to_owned(),
        }
    }

    fn no_opinion(reason: &str) -> Self {
        Self {
            allowed: false,
            reason: reason.to_owned(),
        }
    }
}

/// Authorizes requests: the first mode that allows a request decides.
#[derive(Debug)]
pub(crate) struct Authorizer {
    store: Arc<Store>,
    modes: Vec<Authorization>,
    metrics: Arc<Metrics>,
}

impl Authorizer {
    pub(crate) fn new(store: Arc<Store>, modes: Vec<Authorization>, metrics: Arc<Metrics>) -> Self {
        Self {
            store,
            modes,
            metrics,
        }
    }

    /// Decides on a request: the first authorizer that allows it. A rejection has the reasons of all.
    pub(crate) fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.is_master() {
            return Decision::allow("");
        }
        let mut reasons: Vec<String> = Vec::new();
        for authorizer in &self.modes {
            let decision = authorizer.decide(&self.store, attributes);
            if decision.allowed {
                self.metrics.authorized(authorizer.name());
                return decision;
            }
            if !decision.reason.is_empty() {
                reasons.push(decision.reason);
            }
        }
        Decision::no_opinion(&reasons.join("\n"))
    }

    /// Returns the reason if the request is allowed, else an error.
    pub(crate) fn check_and_explain(&self, attributes: &Attributes<'_>) -> Result<String, Box<Refused>> {
        let decision = self.authorize(attributes);
        if decision.allowed {
            return Ok(decision.reason);
        }
        Err(Box::new(Refused {
            status: refusal(attributes, &decision.reason),
            reason: decision.reason,
        }))
    }

    /// Returns an error unless the request is allowed.
    pub(crate) fn check(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let decision = self.check_and_explain(attributes);
        decision.map(drop).map_err(|refused| refused.status)
    }

    /// The rules that a user has in a namespace, and the roles that could not be read.
    pub(crate) fn rules_of_user(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<Unresolved>) {
        rbac::rules_of_user(&self.store, user, namespace)
    }
}

/// A rejected request: the reason, and the answer.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) reason: String,
    pub(crate) status: Status,
}

/// Returns the answer to a rejected request.
pub(crate) fn refusal(attributes: &Attributes<'_>, reason: &str) -> Status {
    let mut why = sentence(attributes);
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    let subject = NamedResource {
        group: attributes.group.to_owned(),
        resource: attributes.resource.to_owned(),
        kind: String::new(),
    };
    if attributes.is_resource {
        return status::forbidden(&subject, attributes.name, &why);
    }
    let mut refused = status::forbidden(&subject, "", &why);
    refused.body["message"] = format!("forbidden: {why}").into();
    refused
}

fn sentence(attributes: &Attributes<'_>) -> String {
    let quote = apimachinery::go::quote;
    let (user, verb) = (quote(&attributes.user.name), attributes.verb);
    if !attributes.is_resource {
        return format!("User {user} cannot {verb} path {}", quote(attributes.path));
    }
    let resource = if attributes.subresource.is_empty() {
        quote(attributes.resource)
    } else {
        quote(&format!("{}/{}", attributes.resource, attributes.subresource))
    };
    let scope = if attributes.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {}", quote(attributes.namespace))
    };
    let group = quote(attributes.group);
    format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
}

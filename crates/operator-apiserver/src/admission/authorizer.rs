//! The CEL variable `authorizer`: checks permissions of the user or of a service account.

use std::sync::Arc;

use kubernetes_cel::Host;
use kubernetes_cel::value::Value;

use super::attributes::Attributes;
use crate::identity::authn::{self, User};
use crate::identity::authz::{self, Authorizer, Decision, DecisionMemo};

/// Returns the variables `authorizer` and `authorizer.requestResource`.
pub(super) fn values<'a>(attributes: &Attributes<'_>) -> [(&'static str, Value<'a>); 2] {
    let authorizer = UserAuthorizer {
        authorizer: attributes.admission.authorizer.clone(),
        decisions: attributes.write.decisions.clone(),
        user: attributes.write.user.clone(),
    };
    let definition = &attributes.write.definition;
    let request = Resource {
        group: definition.subject.group.clone(),
        resource: definition.subject.resource.clone(),
        subresource: attributes.write.subresource.clone(),
        namespace: attributes.namespace().to_owned(),
        name: attributes.name().to_owned(),
    };
    let resource = Check::Resource(authorizer.clone(), request);
    [
        ("authorizer", Value::host(Arc::new(Check::Anything(authorizer)))),
        ("authorizer.requestResource", Value::host(Arc::new(resource))),
    ]
}

/// The authorizer, and the user whose permissions it checks.
#[derive(Clone, Debug)]
struct UserAuthorizer {
    authorizer: Arc<Authorizer>,
    /// The decisions of webhooks.
    decisions: Arc<DecisionMemo>,
    user: User,
}

#[derive(Clone, Debug, Default)]
struct Resource {
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

/// A value of the type `authorizer`, of one of its checks, or of a decision.
#[derive(Clone, Debug)]
enum Check {
    Anything(UserAuthorizer),
    Path(UserAuthorizer, String),
    Group(UserAuthorizer, String),
    Resource(UserAuthorizer, Resource),
    Decided(Decision),
}

impl Check {
    fn next(&self, function: &str, args: &[&str]) -> Option<Self> {
        Some(match (self, function, args) {
            (Self::Anything(authorizer), "path", [path]) => {
                Self::Path(authorizer.clone(), (*path).to_owned())
            }
            (Self::Anything(authorizer), "group", [group]) => {
                Self::Group(authorizer.clone(), (*group).to_owned())
            }
            (Self::Anything(authorizer), "serviceAccount", [namespace, name]) => {
                Self::Anything(UserAuthorizer {
                    user: service_account(namespace, name),
                    ..authorizer.clone()
                })
            }
            (Self::Group(authorizer, group), "resource", [resource]) => {
                let resource = Resource {
                    group: group.clone(),
                    resource: (*resource).to_owned(),
                    ..Resource::default()
                };
                Self::Resource(authorizer.clone(), resource)
            }
            (Self::Resource(authorizer, resource), "check", [verb]) => {
                Self::Decided(authorizer.about_resource(verb, resource))
            }
            (Self::Path(authorizer, path), "check", [verb]) => {
                Self::Decided(authorizer.about_path(verb, path))
            }
            (Self::Resource(authorizer, resource), field, [value]) => {
                let mut resource = resource.clone();
                match field {
                    "namespace" => resource.namespace = (*value).to_owned(),
                    "name" => resource.name = (*value).to_owned(),
                    "subresource" => resource.subresource = (*value).to_owned(),
                    // Roles do not support selectors.
                    "fieldSelector" | "labelSelector" => {}
                    _ => return None,
                }
                Self::Resource(authorizer.clone(), resource)
            }
            _ => return None,
        })
    }
}

/// Returns the user name and the groups of a service account.
fn service_account(namespace: &str, name: &str) -> User {
    let mut groups = authn::service_account_groups(namespace);
    groups.push(authn::AUTHENTICATED.to_owned());
    User {
        name: authn::service_account_name(namespace, name),
        groups,
        ..User::default()
    }
}

impl UserAuthorizer {
    fn about_resource(&self, verb: &str, resource: &Resource) -> Decision {
        self.decide(&authz::Attributes {
            is_resource: true,
            group: &resource.group,
            version: "*",
            resource: &resource.resource,
            subresource: &resource.subresource,
            namespace: &resource.namespace,
            name: &resource.name,
            ..self.nothing(verb)
        })
    }

    fn about_path(&self, verb: &str, path: &str) -> Decision {
        self.decide(&authz::Attributes {
            path,
            ..self.nothing(verb)
        })
    }

    fn nothing<'a>(&'a self, verb: &'a str) -> authz::Attributes<'a> {
        authz::Attributes::path(&self.user, verb)
    }

    fn decide(&self, attributes: &authz::Attributes<'_>) -> Decision {
        self.authorizer.authorize_with(&self.decisions, attributes)
    }
}

impl Host for Check {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Anything(_) => "kubernetes.authorization.Authorizer",
            Self::Path(..) => "kubernetes.authorization.PathCheck",
            Self::Group(..) => "kubernetes.authorization.GroupCheck",
            Self::Resource(..) => "kubernetes.authorization.ResourceCheck",
            Self::Decided(_) => "kubernetes.authorization.Decision",
        }
    }

    fn call<'a>(&self, function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>, String>> {
        if let Self::Decided(decision) = self {
            return match (function, args) {
                ("allowed", []) => Some(Ok(Value::Bool(decision.allowed))),
                ("reason", []) => Some(Ok(Value::String(decision.reason.clone().into()))),
                ("errored", []) => Some(Ok(Value::Bool(!decision.error.is_empty()))),
                ("error", []) => Some(Ok(Value::String(decision.error.clone().into()))),
                _ => None,
            };
        }
        let texts: Option<Vec<&str>> = args
            .iter()
            .map(|arg| match arg {
                Value::String(text) => Some(text.as_ref()),
                _ => None,
            })
            .collect();
        let next = self.next(function, &texts?)?;
        Some(Ok(Value::host(Arc::new(next))))
    }
}

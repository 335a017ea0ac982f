//! Authorization: decides whether a user may make a request ([`Authorizer`]).

mod abac;
mod configuration;
pub(crate) mod coverage;
mod memo;
mod node;
pub(crate) mod rbac;
mod review;
pub(crate) mod rule;
mod selectors;
mod webhook;

use std::sync::Arc;

use parking_lot::RwLock;

pub use self::abac::AbacPolicies;
pub use self::configuration::AuthorizationConfiguration;
pub(crate) use self::memo::DecisionMemo;
pub(crate) use self::node::refers_to_any;
pub(crate) use self::rbac::{Unresolved, aggregate};
use self::review::spec_of;
pub(crate) use self::review::{asked_by, user_of};
pub(crate) use self::rule::{Rule, go_list};
pub(crate) use self::selectors::Selectors;
pub use self::webhook::AuthorizationWebhook;
use self::webhook::WebhookAuthorizer;
use crate::identity::authn::User;
use crate::metrics::Metrics;
use crate::status::{self, NamedResource, Status};
use crate::store::Store;
use crate::webhook_client::Services;

/// An authorization mode. Members of `system:masters` have all permissions in each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authorization {
    /// Roles and their bindings.
    #[default]
    Rbac,
    /// Allows everything.
    AlwaysAllow,
    /// Denies everything.
    AlwaysDeny,
    /// The Node authorizer: kubelets may access the objects of the pods on their nodes.
    Node,
    /// The attribute-based policies of a file.
    Abac(AbacPolicies),
    /// A webhook.
    Webhook(Box<AuthorizationWebhook>),
}

/// An authorizer with its state.
#[derive(Debug)]
struct Mode {
    authorization: Authorization,
    /// The client of a webhook.
    webhook: Option<WebhookAuthorizer>,
}

impl Mode {
    fn new(authorization: Authorization) -> Result<Self, String> {
        let webhook = match &authorization {
            Authorization::Webhook(options) => Some(WebhookAuthorizer::new(options)?),
            _ => None,
        };
        Ok(Self {
            authorization,
            webhook,
        })
    }

    /// Returns the name in `--authorization-mode`.
    fn name(&self) -> &'static str {
        match &self.authorization {
            Authorization::Rbac => "RBAC",
            Authorization::AlwaysAllow => "AlwaysAllow",
            Authorization::AlwaysDeny => "AlwaysDeny",
            Authorization::Node => "Node",
            Authorization::Abac(_) => "ABAC",
            Authorization::Webhook(_) => "Webhook",
        }
    }

    /// Decides without I/O; returns `None` for a webhook.
    fn decide(&self, store: &Store, asked: &Attributes<'_>) -> Option<Decision> {
        Some(match &self.authorization {
            Authorization::Rbac => rbac::authorize(store, asked),
            Authorization::AlwaysAllow => Decision::allow(""),
            Authorization::AlwaysDeny => Decision::no_opinion("Everything is forbidden."),
            Authorization::Node => node::authorize(store, asked),
            Authorization::Abac(policies) if policies.allow(asked) => Decision::allow(""),
            Authorization::Abac(_) => Decision::no_opinion("No policy matched."),
            Authorization::Webhook(_) => return None,
        })
    }
}

/// A request and its user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    pub(crate) user: &'a User,
    pub(crate) verb: &'a str,
    /// True for a resource request; false for a path.
    pub(crate) is_resource: bool,
    pub(crate) group: &'a str,
    /// The version of the resource; `*` for all versions. Only webhooks use it.
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) path: &'a str,
    /// The node in the field selector of a list or a watch.
    pub(crate) selected_node: &'a str,
    /// The selectors of the request. Only webhooks use them.
    pub(crate) selectors: Option<&'a Selectors>,
}

impl<'a> Attributes<'a> {
    /// Returns a request for a path. The path is empty, and set by the caller.
    pub(crate) fn path(user: &'a User, verb: &'a str) -> Self {
        Self {
            user,
            verb,
            is_resource: false,
            group: "",
            version: "",
            resource: "",
            subresource: "",
            namespace: "",
            name: "",
            path: "",
            selected_node: "",
            selectors: None,
        }
    }

    /// Returns a request for all objects of a resource, in all its versions.
    pub(crate) fn resource(user: &'a User, verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Self {
            is_resource: true,
            group,
            version: "*",
            resource,
            ..Self::path(user, verb)
        }
    }
}

/// A decision and its reason. Rejections usually have no reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// True if later authorizers may not allow the request.
    pub(crate) denied: bool,
    pub(crate) reason: String,
    /// The error of an authorizer that could not decide, or an empty string.
    pub(crate) error: String,
}

impl Decision {
    fn allow(reason: &str) -> Self {
        Self {
            allowed: true,
            reason: reason.to_owned(),
            ..Self::default()
        }
    }

    fn no_opinion(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
            ..Self::default()
        }
    }
}

/// Authorizes requests. The first mode that allows or denies a request decides.
#[derive(Debug)]
pub(crate) struct Authorizer {
    store: Arc<Store>,
    services: Arc<Services>,
    modes: RwLock<Arc<Vec<Mode>>>,
    metrics: Arc<Metrics>,
}

impl Authorizer {
    /// Returns an authorizer without modes; see [`set_modes`](Self::set_modes).
    pub(crate) fn new(store: Arc<Store>, services: Arc<Services>, metrics: Arc<Metrics>) -> Self {
        Self {
            store,
            services,
            modes: RwLock::default(),
            metrics,
        }
    }

    /// Replaces the authorizers.
    ///
    /// # Errors
    /// Returns an error if the kubeconfig of a webhook is invalid.
    pub(crate) fn set_modes(&self, modes: Vec<Authorization>) -> Result<(), String> {
        let modes: Result<Vec<Mode>, String> = modes.into_iter().map(Mode::new).collect();
        *self.modes.write() = Arc::new(modes?);
        Ok(())
    }

    fn modes(&self) -> Arc<Vec<Mode>> {
        self.modes.read().clone()
    }

    /// Decides on a request. The first authorizer that allows or denies it decides; a rejection has the reasons of all.
    pub(crate) async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.is_master() {
            return Decision::allow("");
        }
        let mut rejection = Rejection::default();
        for mode in self.modes().iter() {
            let decision = match (mode.decide(&self.store, attributes), &mode.webhook) {
                (Some(decision), _) => decision,
                (None, Some(webhook)) => webhook.decide(&self.services, spec_of(attributes)).await,
                (None, None) => Decision::default(),
            };
            if let Some(decision) = rejection.add(self, mode, decision) {
                return decision;
            }
        }
        rejection.decision()
    }

    /// Decides like [`authorize`](Self::authorize), for expressions, which cannot wait. A webhook's decision that is
    /// not in `memo` is recorded there as missing, and the request is not allowed.
    pub(crate) fn authorize_with(&self, memo: &DecisionMemo, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.is_master() {
            return Decision::allow("");
        }
        let mut rejection = Rejection::default();
        for (index, mode) in self.modes().iter().enumerate() {
            let decision = match mode.decide(&self.store, attributes) {
                Some(decision) => decision,
                None => match memo.get(index, attributes) {
                    Some(decision) => decision,
                    None => return Decision::default(),
                },
            };
            if let Some(decision) = rejection.add(self, mode, decision) {
                return decision;
            }
        }
        rejection.decision()
    }

    /// Returns true if one of the authorizers is a webhook.
    pub(crate) fn has_webhooks(&self) -> bool {
        self.modes().iter().any(|mode| mode.webhook.is_some())
    }

    /// Requests the missing decisions of `memo`; returns false if there were none.
    pub(crate) async fn fill(&self, memo: &DecisionMemo) -> bool {
        let missing = memo.take_missing();
        let modes = self.modes();
        let is_incomplete = !missing.is_empty();
        for asked in missing {
            let webhook = modes.get(asked.mode).and_then(|mode| mode.webhook.as_ref());
            let decision = match webhook {
                Some(webhook) => webhook.decide(&self.services, asked.spec()).await,
                None => Decision::default(),
            };
            memo.set(asked, decision);
        }
        is_incomplete
    }

    /// Returns the reason if the request is allowed, or else an error.
    pub(crate) async fn check_and_explain(
        &self,
        attributes: &Attributes<'_>,
    ) -> Result<String, Box<Refused>> {
        let decision = self.authorize(attributes).await;
        if decision.allowed {
            return Ok(decision.reason);
        }
        Err(Box::new(Refused {
            status: refusal(attributes, &decision.reason),
            reason: decision.reason,
            error: decision.error,
        }))
    }

    /// Returns an error unless the request is allowed.
    pub(crate) async fn check(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let decision = self.check_and_explain(attributes).await;
        decision.map(drop).map_err(|refused| refused.status)
    }

    /// Returns the rules of a user in a namespace, and an error for each role that could not be read.
    pub(crate) fn rules_of_user(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<Unresolved>) {
        rbac::rules_of_user(&self.store, user, namespace)
    }
}

/// The reasons and errors of the authorizers that did not allow a request.
#[derive(Default)]
struct Rejection {
    reasons: Vec<String>,
    errors: Vec<String>,
}

impl Rejection {
    /// Adds the decision of one authorizer; returns it if it is final.
    fn add(&mut self, authorizer: &Authorizer, mode: &Mode, decision: Decision) -> Option<Decision> {
        if decision.allowed || decision.denied {
            if decision.allowed {
                authorizer.metrics.authorized(mode.name());
            }
            return Some(decision);
        }
        if !decision.reason.is_empty() {
            self.reasons.push(decision.reason);
        }
        if !decision.error.is_empty() {
            self.errors.push(decision.error);
        }
        None
    }

    fn decision(self) -> Decision {
        let error = if self.errors.is_empty() {
            String::new()
        } else {
            rbac::aggregate(self.errors)
        };
        Decision {
            error,
            ..Decision::no_opinion(&self.reasons.join("\n"))
        }
    }
}

/// A rejected request: the reason, and the error response.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) reason: String,
    /// The error of the authorizers, or an empty string.
    pub(crate) error: String,
    pub(crate) status: Status,
}

/// Returns the error response to a rejected request.
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

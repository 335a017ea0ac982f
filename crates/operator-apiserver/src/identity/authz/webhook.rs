//! The authorizer that sends SubjectAccessReviews to a webhook: [`AuthorizationWebhook`].

use std::sync::LazyLock;
use std::time::Duration;

use apimachinery::object;
use builtin_kinds::expression::{Environment, PolicyVariables, Program, Returns, Scope};
use kubernetes_cel::Variables;
use kubernetes_cel::types::{ObjectType, Type};
use kubernetes_cel::value::Value as CelValue;
use serde_json::{Value, json};

use super::Decision;
use super::rbac::aggregate;
use crate::identity::ttl_cache::TtlCache;
use crate::webhook_client::{Services, WebhookClient};

/// The maximum size of a request whose decision is cached.
const CACHED_BYTES_MAX: usize = 10_000;
/// The cost limit of all conditions of a webhook together.
const CONDITIONS_BUDGET: u64 = 2_500_000;

/// A webhook that authorizes requests: `--authorization-webhook-*` of kube-apiserver, or an entry of
/// [`AuthorizationConfiguration`](super::AuthorizationConfiguration).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthorizationWebhook {
    /// The kubeconfig with the address and the credentials of the webhook.
    pub kubeconfig: String,
    /// The version of SubjectAccessReviews: `v1` or `v1beta1`. Default: `v1`.
    pub version: String,
    /// The time limit of one attempt. Default: 30 seconds.
    pub timeout: Duration,
    /// The time for which an allowed request is cached; zero disables the cache. Default: 5 minutes.
    pub authorized_ttl: Duration,
    /// The time for which a request that is not allowed is cached; zero disables the cache. Default: 30 seconds.
    pub unauthorized_ttl: Duration,
    /// True to deny a request if the call of the webhook fails; false to continue with the next authorizer. Default:
    /// false.
    pub denies_on_failure: bool,
    /// The CEL expressions that must all be true for the webhook to be called.
    pub match_conditions: Vec<String>,
}

impl AuthorizationWebhook {
    /// Returns options for the webhook of a kubeconfig, with the defaults of kube-apiserver.
    pub fn new(kubeconfig: impl Into<String>) -> Self {
        Self {
            kubeconfig: kubeconfig.into(),
            version: "v1".to_owned(),
            timeout: Duration::from_secs(30),
            authorized_ttl: Duration::from_secs(300),
            unauthorized_ttl: Duration::from_secs(30),
            denies_on_failure: false,
            match_conditions: Vec::new(),
        }
    }
}

/// The client of a webhook, and its cached responses.
#[derive(Debug)]
pub(super) struct WebhookAuthorizer {
    options: AuthorizationWebhook,
    client: WebhookClient,
    conditions: Vec<Program>,
    cache: TtlCache<Decision>,
}

impl WebhookAuthorizer {
    pub(super) fn new(options: &AuthorizationWebhook) -> Result<Self, String> {
        if !matches!(options.version.as_str(), "v1" | "v1beta1") {
            return Err(format!(
                "unsupported webhook authorizer version {:?}, supported versions are \"v1\", \"v1beta1\"",
                options.version
            ));
        }
        let conditions = options.match_conditions.iter();
        Ok(Self {
            client: WebhookClient::from_kubeconfig(&options.kubeconfig)?,
            conditions: conditions
                .map(|source| Program::new(environment(), source, Returns::Bool))
                .collect(),
            cache: TtlCache::default(),
            options: options.clone(),
        })
    }

    /// Decides on the `spec` of a `v1` SubjectAccessReview.
    pub(super) async fn decide(&self, services: &Services, spec: Value) -> Decision {
        match self.matches(&spec) {
            Ok(true) => {}
            Ok(false) => return Decision::default(),
            Err(why) => return self.failed(why),
        }
        let key = spec.to_string();
        if let Some(known) = self.cache.get(&key) {
            return known;
        }
        let review = self.review(spec);
        let answer = self.client.review(services, &review, self.options.timeout).await;
        let status = match answer {
            Ok(mut answer) => answer.get_mut("status").map(Value::take).unwrap_or_default(),
            Err(why) => {
                tracing::warn!(why, "the authorization webhook failed");
                return self.failed(why);
            }
        };
        let flag = |field: &str| status.get(field) == Some(&Value::Bool(true));
        let decision = match (flag("allowed"), flag("denied")) {
            (true, true) => Decision {
                denied: true,
                error: "webhook subject access review returned both allow and deny response".to_owned(),
                ..Decision::default()
            },
            (allowed, denied) => Decision {
                allowed,
                denied,
                reason: object::text(&status, &["reason"]).to_owned(),
                error: String::new(),
            },
        };
        let ttl = if decision.allowed {
            self.options.authorized_ttl
        } else {
            self.options.unauthorized_ttl
        };
        if key.len() <= CACHED_BYTES_MAX && decision.error.is_empty() {
            self.cache.set(&key, decision.clone(), ttl);
        }
        decision
    }

    fn failed(&self, error: String) -> Decision {
        Decision {
            denied: self.options.denies_on_failure,
            error,
            ..Decision::default()
        }
    }

    /// Returns the review of a request in the version of the webhook.
    fn review(&self, mut spec: Value) -> Value {
        let version = &self.options.version;
        if version == "v1beta1"
            && let Some(fields) = spec.as_object_mut()
            && let Some(groups) = fields.remove("groups")
        {
            fields.insert("group".to_owned(), groups);
        }
        json!({
            "kind": "SubjectAccessReview", "apiVersion": format!("authorization.k8s.io/{version}"),
            "metadata": {}, "spec": spec, "status": {"allowed": false},
        })
    }

    /// Returns true if all conditions of the webhook are true. A condition that is false takes precedence over errors
    /// of other conditions.
    fn matches(&self, spec: &Value) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let variables = PolicyVariables::default();
        let mut scope = Scope::new(&variables);
        scope.set("request", Some(spec));
        let (mut budget, mut errors) = (CONDITIONS_BUDGET, Vec::new());
        for condition in &self.conditions {
            let result = condition.run(&scope, &mut budget);
            match result.map_err(|spent| spent.to_string())? {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(why) => errors.push(format!("cel evaluation error: {why}")),
            }
        }
        if errors.is_empty() {
            Ok(true)
        } else {
            Err(aggregate(errors))
        }
    }
}

/// Returns the environment of match conditions: `request` is the `spec` of a `v1` SubjectAccessReview.
pub(super) fn environment() -> &'static Environment {
    static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
        let text = || Type::String;
        let selector = |name: &str| {
            let requirement = object_type(
                &format!("kubernetes.{name}Requirement"),
                [
                    ("key", text()),
                    ("operator", text()),
                    ("values", Type::list(text())),
                ],
            );
            object_type(
                &format!("kubernetes.{name}Attributes"),
                [("rawSelector", text()), ("requirements", Type::list(requirement))],
            )
        };
        let resource = object_type(
            "kubernetes.ResourceAttributes",
            [
                ("namespace", text()),
                ("verb", text()),
                ("group", text()),
                ("version", text()),
                ("resource", text()),
                ("subresource", text()),
                ("name", text()),
                ("fieldSelector", selector("FieldSelector")),
                ("labelSelector", selector("LabelSelector")),
            ],
        );
        let path = object_type(
            "kubernetes.NonResourceAttributes",
            [("path", text()), ("verb", text())],
        );
        let request = object_type(
            "kubernetes.SubjectAccessReviewSpec",
            [
                ("resourceAttributes", resource),
                ("nonResourceAttributes", path),
                ("user", text()),
                ("groups", Type::list(text())),
                ("extra", Type::map(text(), Type::list(text()))),
                ("uid", text()),
            ],
        );
        Environment::of(Variables::from([("request".to_owned(), request)]))
    });
    &ENVIRONMENT
}

fn object_type<const N: usize>(name: &str, fields: [(&str, Type); N]) -> Type {
    let fields = fields.into_iter().map(|(name, kind)| (name.to_owned(), kind));
    Type::Object(std::sync::Arc::new(ObjectType {
        name: name.to_owned(),
        fields: fields.collect(),
    }))
}

//! [`Webhook`]: the webhooks of one kind, their handlers, and their registration for the API server.

use std::fmt;
use std::sync::Arc;

use http::Extensions;
use http::request::Parts;
use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Serialize;
use serde_json::{Value, json};

use super::admission::{AdmissionHandler, Defaulter, Defaulting, Validating, Validator};
use super::conversion::{Conversion, Converter};
use super::endpoint::{AdmissionEndpoint, ContextHook, SpanHook};
use super::review::{AdmissionRequest, Operation};
use super::{mutate_path, validate_path};
use crate::object::{Kind, Object};

/// The path of all conversions.
pub(super) const CONVERT: &str = "/convert";
/// The Service of scaffolded webhooks, before kustomize adds the prefix and the namespace of the project.
const SERVICE: &str = "webhook-service";
const NAMESPACE: &str = "system";

/// The webhooks of one kind. [`Operator::webhook`](crate::Operator::webhook) serves them and adds them to the
/// manifests.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap as Memcached;
/// use operator_runtime::webhook::{AdmissionRequest, Defaulter, Denied, Webhook};
///
/// struct MemcachedWebhook;
///
/// impl Defaulter<Memcached> for MemcachedWebhook {
///     async fn default(&self, _: &AdmissionRequest, memcached: &mut Memcached) -> Result<(), Denied> {
///         memcached.data.get_or_insert_default().entry("size".to_owned()).or_insert_with(|| "3".to_owned());
///         Ok(())
///     }
/// }
///
/// pub fn memcached_webhook() -> Webhook<Memcached> {
///     Webhook::new().defaulter(MemcachedWebhook)
/// }
/// ```
#[must_use = "give it to `Manager::add_webhook`"]
pub struct Webhook<K> {
    admissions: Vec<Admission>,
    conversion: Option<Conversion<K>>,
    context: Option<ContextHook>,
    span: Option<SpanHook>,
}

/// An admission webhook.
pub(super) struct Admission {
    pub(super) path: String,
    pub(super) endpoint: AdmissionEndpoint,
    mutating: bool,
    description: Value,
}

/// The registration of an admission webhook, and options of its handler. The defaults are those of kubebuilder's
/// scaffolds.
///
/// ```
/// use operator_runtime::webhook::{Operation, WebhookOptions};
///
/// let options = WebhookOptions {
///     operations: vec![Operation::Create, Operation::Update, Operation::Delete],
///     ..WebhookOptions::default()
/// };
/// assert!(options.path.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// The name in the configuration, a DNS name. Default: `mKIND-VERSION.kb.io` or `vKIND-VERSION.kb.io`, in lower
    /// case.
    pub name: Option<String>,
    /// The path. Default: `/mutate-GROUP-VERSION-KIND` or `/validate-GROUP-VERSION-KIND`, as in kubebuilder.
    pub path: Option<String>,
    /// The resources, such as `memcacheds` or `memcacheds/status`. Default: that of the kind.
    pub resources: Vec<String>,
    /// The operations. Default: `CREATE` and `UPDATE`.
    pub operations: Vec<Operation>,
    /// The handling of requests if the webhook cannot be reached. Default: they fail.
    pub failure_policy: FailurePolicy,
    /// The handling of requests for other versions of the kind. Default: they are converted and sent.
    pub match_policy: MatchPolicy,
    /// The side effects of the webhook. Default: none.
    pub side_effects: SideEffects,
    /// Timeout of the API server in seconds, from 1 to 30. Default: 10.
    pub timeout_seconds: Option<u8>,
    /// The repetition of a mutating webhook after a later one changed the object. Default: never.
    pub reinvocation_policy: ReinvocationPolicy,
    /// The namespaces whose objects are sent. Default: all.
    pub namespace_selector: Option<LabelSelector>,
    /// The labels of objects that are sent. Default: all.
    pub object_selector: Option<LabelSelector>,
    /// CEL expressions that must all be true for a request to be sent.
    pub match_conditions: Vec<MatchCondition>,
    /// Answers a panic with 500. If false, the connection is closed, and the API server follows the failure policy.
    /// Panics are counted in any case. Default: true.
    pub recover_panics: bool,
    /// Removes the fields that the type of a defaulter lacks, and empty fields that it does not serialize. Default:
    /// false.
    pub remove_unknown_fields: bool,
}

/// The handling of requests if a webhook cannot be reached or does not respond in time. Default: they fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum FailurePolicy {
    /// The requests fail.
    #[default]
    Fail,
    /// The requests are allowed.
    Ignore,
}

/// The requests that match the version of a rule. Default: requests for any version of the kind, converted to the
/// version of the webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum MatchPolicy {
    /// Requests for any version of the kind.
    #[default]
    Equivalent,
    /// Requests for this version.
    Exact,
}

/// The side effects of a webhook. Default: none. `admissionregistration.k8s.io/v1` allows no other values: side effects
/// must not happen in a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum SideEffects {
    /// No side effects.
    #[default]
    None,
    /// Side effects, but not if [`AdmissionRequest::dry_run`](super::AdmissionRequest::dry_run) is set.
    NoneOnDryRun,
}

/// The repetition of a mutating webhook after a later one changed the object. Default: never. Validating webhooks are
/// never repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum ReinvocationPolicy {
    /// The webhook is called once.
    #[default]
    Never,
    /// The webhook is called again.
    IfNeeded,
}

/// The webhooks of one kind for the manifests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Description {
    /// Entries of a `MutatingWebhookConfiguration`.
    pub(crate) mutating_webhooks: Vec<Value>,
    /// Entries of a `ValidatingWebhookConfiguration`.
    pub(crate) validating_webhooks: Vec<Value>,
    /// The conversion of a CRD, by its name.
    pub(crate) conversions: Vec<Value>,
}

// === impl Webhook ===

impl<K: Object> Default for Webhook<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Object> Webhook<K> {
    /// Creates an empty set of webhooks.
    pub fn new() -> Self {
        Self {
            admissions: Vec::new(),
            conversion: None,
            context: None,
            span: None,
        }
    }

    /// Adds a mutating webhook, by default at a path such as `/mutate-cache-example-com-v1-memcached`.
    pub fn defaulter(self, defaulter: impl Defaulter<K>) -> Self {
        let options = defaulter.options();
        let handler = Defaulting::<K, _>::new(defaulter, options.remove_unknown_fields);
        self.mutating(handler, options)
    }

    /// Adds a validating webhook, by default at a path such as `/validate-cache-example-com-v1-memcached`.
    pub fn validator(self, validator: impl Validator<K>) -> Self {
        let options = validator.options();
        self.validating(Validating::<K, _>::new(validator), options)
    }

    /// Adds a mutating webhook for kinds or subresources that a [`Defaulter`] does not cover. Each webhook needs its
    /// own path.
    pub fn mutating(mut self, handler: impl AdmissionHandler, options: WebhookOptions) -> Self {
        let admission = Admission::new::<K>(true, mutate_path::<K>(), handler, options);
        self.admissions.push(admission);
        self
    }

    /// Adds a validating webhook for kinds or subresources that a [`Validator`] does not cover. Each webhook needs its
    /// own path.
    pub fn validating(mut self, handler: impl AdmissionHandler, options: WebhookOptions) -> Self {
        let admission = Admission::new::<K>(false, validate_path::<K>(), handler, options);
        self.admissions.push(admission);
        self
    }

    /// Converts between the versions of the kind at `/convert`. `K` is the hub.
    pub fn conversion(mut self, conversion: Conversion<K>) -> Self {
        self.conversion = Some(conversion);
        self
    }

    /// Copies values of each HTTP request, such as a header, into the
    /// [`extensions`](super::AdmissionRequest::extensions) of the admission request.
    pub fn with_context(mut self, context: impl Fn(&Parts, &mut Extensions) + Send + Sync + 'static) -> Self {
        self.context = Some(Arc::new(context));
        self
    }

    /// Sets the span of each request. The default span has its kind, namespace, name, resource, user and UID.
    pub fn span(
        mut self,
        make_span: impl Fn(&AdmissionRequest) -> tracing::Span + Send + Sync + 'static,
    ) -> Self {
        self.span = Some(Arc::new(make_span));
        self
    }

    /// Returns the paths of the webhooks.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let convert = self.conversion.as_ref().map(|_| CONVERT);
        self.admissions
            .iter()
            .map(|admission| admission.path.as_str())
            .chain(convert)
    }

    pub(crate) fn describe(&self) -> Description {
        let of = |mutating| {
            self.admissions
                .iter()
                .filter(move |admission| admission.mutating == mutating)
                .map(|admission| admission.description.clone())
                .collect()
        };
        let conversions = self.conversion.iter().map(|_| {
            let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": client_config(CONVERT)});
            json!({"crd": crd::<K>(), "conversion": {"strategy": "Webhook", "webhook": webhook}})
        });
        Description {
            mutating_webhooks: of(true),
            validating_webhooks: of(false),
            conversions: conversions.collect(),
        }
    }

    pub(super) fn into_parts(self) -> (Vec<Admission>, Option<Box<dyn Converter>>) {
        let converter = self
            .conversion
            .map(|conversion| Box::new(conversion) as Box<dyn Converter>);
        let mut admissions = self.admissions;
        for admission in &mut admissions {
            admission.endpoint.context = self.context.clone();
            admission.endpoint.span = self.span.clone();
        }
        (admissions, converter)
    }
}

/// Returns the name of the CRD, such as `memcacheds.cache.example.com`.
pub(super) fn crd<K: Object>() -> String {
    let kind = Kind::of::<K>();
    format!("{}.{}", kind.plural, kind.group)
}

fn client_config(path: &str) -> Value {
    json!({"service": {"name": SERVICE, "namespace": NAMESPACE, "path": path}})
}

impl<K> fmt::Debug for Webhook<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.admissions.iter().map(|admission| &admission.path);
        formatter
            .debug_struct("Webhook")
            .field("paths", &paths.collect::<Vec<_>>())
            .field("converts", &self.conversion.is_some())
            .finish()
    }
}

// === impl Admission ===

impl Admission {
    fn new<K: Object>(
        mutating: bool,
        default_path: String,
        handler: impl AdmissionHandler,
        mut options: WebhookOptions,
    ) -> Self {
        let path = options.path.take().unwrap_or(default_path);
        let mut endpoint = AdmissionEndpoint::new(Box::new(handler));
        endpoint.recover_panics = options.recover_panics;
        Self {
            description: options.describe(&Kind::of::<K>(), mutating, &path),
            endpoint,
            mutating,
            path,
        }
    }
}

// === impl WebhookOptions ===

impl Default for WebhookOptions {
    fn default() -> Self {
        Self {
            name: None,
            path: None,
            resources: Vec::new(),
            operations: vec![Operation::Create, Operation::Update],
            failure_policy: FailurePolicy::default(),
            match_policy: MatchPolicy::default(),
            side_effects: SideEffects::default(),
            timeout_seconds: None,
            reinvocation_policy: ReinvocationPolicy::default(),
            namespace_selector: None,
            object_selector: None,
            match_conditions: Vec::new(),
            recover_panics: true,
            remove_unknown_fields: false,
        }
    }
}

impl WebhookOptions {
    /// Returns the entry of a webhook configuration, without the defaults of the API server.
    fn describe(self, kind: &Kind, mutating: bool, path: &str) -> Value {
        let name = self.name.unwrap_or_else(|| {
            let letter = if mutating { 'm' } else { 'v' };
            format!("{letter}{}-{}.kb.io", kind.kind.to_lowercase(), kind.version)
        });
        let resources = match self.resources.is_empty() {
            true => vec![kind.plural.clone()],
            false => self.resources,
        };
        let rule = json!({
            "apiGroups": [kind.group],
            "apiVersions": [kind.version],
            "operations": self.operations,
            "resources": resources,
        });
        let mut entry = json!({
            "admissionReviewVersions": ["v1"],
            "clientConfig": client_config(path),
            "failurePolicy": self.failure_policy,
            "name": name,
            "rules": [rule],
            "sideEffects": self.side_effects,
        });
        let mut put = |field: &str, value: Value| entry[field] = value;
        if self.match_policy != MatchPolicy::default() {
            put("matchPolicy", json!(self.match_policy));
        }
        if mutating && self.reinvocation_policy != ReinvocationPolicy::default() {
            put("reinvocationPolicy", json!(self.reinvocation_policy));
        }
        if let Some(seconds) = self.timeout_seconds {
            put("timeoutSeconds", json!(seconds));
        }
        if let Some(selector) = &self.namespace_selector {
            put("namespaceSelector", json!(selector));
        }
        if let Some(selector) = &self.object_selector {
            put("objectSelector", json!(selector));
        }
        if !self.match_conditions.is_empty() {
            put("matchConditions", json!(self.match_conditions));
        }
        entry
    }
}

//! The file of `--authorization-config`: [`AuthorizationConfiguration`].

use std::collections::BTreeSet;
use std::fs;
use std::path::Path as FilePath;
use std::time::Duration;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::{names, object, time};
use builtin_kinds::expression::Returns;
use serde_json::{Value, json};

use super::webhook::environment;
use super::{AbacPolicies, Authorization, AuthorizationWebhook};
use crate::identity::strict::{self, Kind, Shape, Struct};

/// The authorizers of an `AuthorizationConfiguration`, the file of `--authorization-config`.
#[derive(Clone, Debug)]
pub struct AuthorizationConfiguration {
    authorizers: Vec<Value>,
}

const KIND: Kind = Kind {
    group: "apiserver.config.k8s.io",
    versions: &["v1", "v1beta1", "v1alpha1"],
    shape: &Struct {
        name: "AuthorizationConfiguration",
        fields: &[("authorizers", Shape::List(&AUTHORIZER))],
    },
    scheme: "k8s.io/apiserver/pkg/apis/apiserver/load/load.go:32",
};

const AUTHORIZER: Struct = Struct {
    name: "AuthorizerConfiguration",
    fields: &[
        ("type", Shape::Text),
        ("name", Shape::Text),
        ("webhook", Shape::Object(&WEBHOOK)),
    ],
};

const WEBHOOK: Struct = Struct {
    name: "WebhookConfiguration",
    fields: &[
        ("authorizedTTL", Shape::Duration),
        ("cacheAuthorizedRequests", Shape::Bool),
        ("unauthorizedTTL", Shape::Duration),
        ("cacheUnauthorizedRequests", Shape::Bool),
        ("timeout", Shape::Duration),
        ("subjectAccessReviewVersion", Shape::Text),
        ("matchConditionSubjectAccessReviewVersion", Shape::Text),
        ("failurePolicy", Shape::Text),
        ("connectionInfo", Shape::Object(&CONNECTION)),
        ("matchConditions", Shape::List(&CONDITION)),
    ],
};

const CONNECTION: Struct = Struct {
    name: "WebhookConnectionInfo",
    fields: &[("type", Shape::Text), ("kubeConfigFile", Shape::Text)],
};

const CONDITION: Struct = Struct {
    name: "WebhookMatchCondition",
    fields: &[("expression", Shape::Text)],
};

/// The types of authorizers.
const TYPES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
/// The maximum number of conditions of one webhook.
const CONDITIONS_MAX: usize = 64;
const IN_CLUSTER: &str = "InClusterConfig";
const KUBECONFIG: &str = "KubeConfigFile";

impl AuthorizationConfiguration {
    /// Parses and validates the configuration.
    ///
    /// # Errors
    /// Returns an error with the text of kube-apiserver if the configuration is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read = if text.trim().is_empty() {
            Ok(Value::Null)
        } else {
            KIND.read(text)
        };
        let value =
            read.map_err(|why| format!("failed to load AuthorizationConfiguration from file: {why}"))?;
        let authorizers = value.get("authorizers").and_then(Value::as_array);
        let authorizers = authorizers.cloned().unwrap_or_default();
        let errors = validate(&authorizers);
        if !errors.is_empty() {
            return Err(strict::join(&errors));
        }
        Ok(Self { authorizers })
    }

    /// Returns true if there is an authorizer of the type `ABAC`, whose policies are in a separate file.
    pub fn needs_policies(&self) -> bool {
        self.authorizers.iter().any(|one| text(one, "type") == "ABAC")
    }

    /// Returns the authorizers in their order. Reads the kubeconfigs of webhooks.
    ///
    /// # Errors
    /// Returns an error if a kubeconfig cannot be read, or policies are missing.
    pub fn authorizers(&self, policies: Option<&AbacPolicies>) -> Result<Vec<Authorization>, String> {
        let authorizers = self.authorizers.iter();
        authorizers
            .map(|one| {
                Ok(match text(one, "type") {
                    "AlwaysAllow" => Authorization::AlwaysAllow,
                    "AlwaysDeny" => Authorization::AlwaysDeny,
                    "Node" => Authorization::Node,
                    "ABAC" => {
                        let missing = "authorization-mode ABAC's authorization policy file not passed";
                        Authorization::Abac(policies.cloned().ok_or(missing)?)
                    }
                    "Webhook" => {
                        let webhook = one.get("webhook").unwrap_or(&Value::Null);
                        Authorization::Webhook(Box::new(options(webhook)?))
                    }
                    _ => Authorization::Rbac,
                })
            })
            .collect()
    }
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    object::text(value, &[field])
}

/// Returns the options of a validated webhook.
fn options(webhook: &Value) -> Result<AuthorizationWebhook, String> {
    let path = object::text(webhook, &["connectionInfo", "kubeConfigFile"]);
    let invalid = |why: String| format!("invalid authorization config: {why}");
    if path.is_empty() {
        return Err(invalid(
            "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"
                .to_owned(),
        ));
    }
    let kubeconfig = fs::read_to_string(path)
        .map_err(|error| invalid(format!("error loading config file {path:?}: {error}")))?;
    let mut options = AuthorizationWebhook::new(kubeconfig);
    version(webhook).clone_into(&mut options.version);
    options.timeout = positive(webhook, "timeout").unwrap_or(options.timeout);
    options.authorized_ttl = ttl(
        webhook,
        "authorizedTTL",
        "cacheAuthorizedRequests",
        options.authorized_ttl,
    );
    options.unauthorized_ttl = ttl(
        webhook,
        "unauthorizedTTL",
        "cacheUnauthorizedRequests",
        options.unauthorized_ttl,
    );
    options.denies_on_failure = text(webhook, "failurePolicy") == "Deny";
    let conditions = list(webhook, "matchConditions").iter();
    options.match_conditions = conditions
        .map(|condition| text(condition, "expression").to_owned())
        .collect();
    Ok(options)
}

fn version(webhook: &Value) -> &str {
    text(webhook, "subjectAccessReviewVersion")
}

fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    let list = value.get(field).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// Returns the nanoseconds of a duration; zero if it is missing.
fn nanos(value: &Value, field: &str) -> i64 {
    time::parse_duration(text(value, field)).unwrap_or(0)
}

fn positive(value: &Value, field: &str) -> Option<Duration> {
    let nanos = u64::try_from(nanos(value, field)).ok()?;
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

fn ttl(webhook: &Value, field: &str, enabled: &str, default: Duration) -> Duration {
    if webhook.get(enabled) == Some(&Value::Bool(false)) {
        return Duration::ZERO;
    }
    positive(webhook, field).unwrap_or(default)
}

fn validate(authorizers: &[Value]) -> ErrorList {
    let root = Path::new("authorizers");
    if authorizers.is_empty() {
        let detail = "at least one authorization mode must be defined";
        return Error::required(root, detail).into();
    }
    let mut errors = ErrorList::new();
    let (mut kinds, mut named) = (BTreeSet::new(), BTreeSet::new());
    for (index, one) in authorizers.iter().enumerate() {
        let path = root.index(index);
        let (kind, name) = (text(one, "type"), text(one, "name"));
        if kind.is_empty() {
            errors.push(Error::required(path.child("type"), ""));
            continue;
        }
        if !TYPES.contains(&kind) {
            errors.push(Error::not_supported(path.child("type"), &json!(kind), &TYPES));
            continue;
        }
        if !kinds.insert(kind) && kind != "Webhook" {
            errors.push(Error::duplicate(path.child("type"), &json!(kind)));
            continue;
        }
        if name.is_empty() {
            errors.push(Error::required(path.child("name"), ""));
        } else if !named.insert(name) {
            errors.push(Error::duplicate(path.child("name"), &json!(name)));
        } else {
            for fault in names::dns1123_subdomain(name) {
                let why = format!("authorizer name is invalid: {fault}");
                errors.push(Error::invalid(path.child("name"), json!(name), why));
            }
        }
        let webhook = one.get("webhook").filter(|webhook| !webhook.is_null());
        match (kind, webhook) {
            ("Webhook", Some(webhook)) => validate_webhook(&mut errors, &path, webhook),
            ("Webhook", None) => errors.push(Error::required(
                path.child("webhook"),
                "required when type=Webhook",
            )),
            (_, Some(_)) => errors.push(Error::invalid(
                path.child("webhook"),
                json!("non-null"),
                "may only be specified when type=Webhook",
            )),
            (_, None) => {}
        }
    }
    errors
}

/// The longest timeout of a webhook, in nanoseconds.
const TIMEOUT_MAX: i64 = 30_000_000_000;

fn validate_webhook(errors: &mut ErrorList, path: &Path, webhook: &Value) {
    let given = |field: &str| json!(text(webhook, field));
    match nanos(webhook, "timeout") {
        0 => errors.push(Error::required(path.child("timeout"), "")),
        nanos if !(0..=TIMEOUT_MAX).contains(&nanos) => errors.push(Error::invalid(
            path.child("timeout"),
            given("timeout"),
            "must be > 0s and <= 30s",
        )),
        _ => {}
    }
    supported(
        errors,
        path,
        webhook,
        "subjectAccessReviewVersion",
        &["v1", "v1beta1"],
    );
    const MATCH_VERSION: &str = "matchConditionSubjectAccessReviewVersion";
    let conditions = list(webhook, "matchConditions");
    if !text(webhook, MATCH_VERSION).is_empty() {
        supported(errors, path, webhook, MATCH_VERSION, &["v1"]);
    } else if !conditions.is_empty() {
        errors.push(Error::required(
            path.child(MATCH_VERSION),
            "required if match conditions are specified",
        ));
    }
    for field in ["authorizedTTL", "unauthorizedTTL"] {
        if nanos(webhook, field) < 0 {
            errors.push(Error::invalid(path.child(field), given(field), "must be > 0s"));
        }
    }
    supported(errors, path, webhook, "failurePolicy", &["NoOpinion", "Deny"]);
    validate_connection(errors, &path.child("connectionInfo"), webhook);
    validate_conditions(errors, &path.child("matchConditions"), conditions);
}

fn supported(errors: &mut ErrorList, path: &Path, webhook: &Value, field: &str, known: &[&str]) {
    match text(webhook, field) {
        "" => errors.push(Error::required(path.child(field), "")),
        given if !known.contains(&given) => {
            errors.push(Error::not_supported(path.child(field), &json!(given), known));
        }
        _ => {}
    }
}

fn validate_connection(errors: &mut ErrorList, path: &Path, webhook: &Value) {
    let connection = webhook.get("connectionInfo").unwrap_or(&Value::Null);
    let file = text(connection, "kubeConfigFile");
    let at = path.child("kubeConfigFile");
    match text(connection, "type") {
        "" => errors.push(Error::required(path.child("type"), "")),
        IN_CLUSTER if !file.is_empty() => errors.push(Error::invalid(
            at,
            json!(file),
            "can only be set when type=KubeConfigFile",
        )),
        IN_CLUSTER => {}
        KUBECONFIG if file.is_empty() => errors.push(Error::required(at, "")),
        KUBECONFIG if !FilePath::new(file).is_absolute() => {
            errors.push(Error::invalid(at, json!(file), "must be an absolute path"));
        }
        KUBECONFIG => match fs::metadata(file) {
            Ok(found) if !found.is_file() => {
                errors.push(Error::invalid(at, json!(file), "must be a regular file"));
            }
            Ok(_) => {}
            Err(error) => {
                let why = match error.kind() {
                    std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
                    std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
                    _ => error.to_string(),
                };
                let why = format!("error loading file: stat {file}: {why}");
                errors.push(Error::invalid(at, json!(file), why));
            }
        },
        other => {
            let known = [IN_CLUSTER, KUBECONFIG];
            let mut error = Error::not_supported(path.child("type"), &Value::Null, &known);
            // The real server prints the struct, which has its own order of fields.
            let file = connection.get("kubeConfigFile").unwrap_or(&Value::Null);
            error.value = Some(format!("{{\"Type\":{},\"KubeConfigFile\":{file}}}", json!(other)));
            errors.push(error);
        }
    }
}

fn validate_conditions(errors: &mut ErrorList, path: &Path, conditions: &[Value]) {
    if conditions.len() > CONDITIONS_MAX {
        errors.push(Error::too_many(path.clone(), conditions.len(), CONDITIONS_MAX));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = path.index(index).child("expression");
        let source = text(condition, "expression").trim();
        if source.is_empty() {
            errors.push(Error::required(at, ""));
        } else if !seen.insert(source) {
            errors.push(Error::duplicate(at, &json!(source)));
        } else if let Err(why) = environment().compile(source, Returns::Bool) {
            errors.push(Error::invalid(at, json!(source), why));
        }
    }
}

//! Admission webhooks: selection, order, and handling of the responses.

mod review;

use std::sync::Arc;
use std::time::Duration;

use apimachinery::object;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use tokio::time::Instant;

use self::review::{ReviewVersion, Verdict};
use super::attributes::Attributes;
use super::matching::{self, Criteria};
use super::mutation::{MutatedObject, Reinvocation};
use super::policy::PolicyObjects;
use super::rounds::ROUNDS_MAX;
use crate::admission::Admission;
use crate::metrics::Step;
use crate::patch::json as json_patch;
use crate::resource::Definition;
use crate::resource::crd::conversion;
use crate::status::{self, Status};
use crate::webhook_client::{WebhookClient, WebhookCredentials};
use builtin_kinds::expression::{Conditions, Mentions, PolicyVariables};

/// The user agent of the API server in calls to webhooks.
const USER_AGENT: &str = "kube-apiserver-admission";
/// The time in which a request ends after its timeout.
const GRACE: Duration = Duration::from_secs(1);
/// The default timeout of a webhook in seconds.
const TIMEOUT_SECONDS: u64 = 10;

/// One webhook of a configuration.
#[derive(Debug)]
pub(crate) struct Webhook {
    name: String,
    /// Unique among the webhooks of a kind.
    key: String,
    /// The state of the configuration from which it was parsed.
    identity: (String, i64),
    criteria: Criteria,
    conditions: Conditions,
    client: WebhookClient,
    timeout: Duration,
    fails_open: bool,
    side_effects: String,
    version: Option<ReviewVersion>,
    /// True if its reinvocation policy is IfNeeded.
    again: bool,
}

/// Returns the webhooks of a kind, by the names of their configurations and in their order; those of configurations
/// that did not change since `known` was read are kept, with their connections.
pub(super) fn read(admission: &Admission, resource: &str, known: &[Arc<Webhook>]) -> Vec<Arc<Webhook>> {
    let table = format!("{resource}.admissionregistration.k8s.io");
    let credentials = match resource {
        "mutatingwebhookconfigurations" => &admission.configuration.mutating_credentials,
        _ => &admission.configuration.validating_credentials,
    };
    let mut webhooks = Vec::new();
    for stored in admission.store.list(&table, "").objects {
        let configuration = &stored.value;
        let identity = (
            object::uid(configuration).to_owned(),
            object::generation(configuration),
        );
        let list = configuration.get("webhooks").and_then(Value::as_array);
        for webhook in list.into_iter().flatten() {
            let key = format!(
                "{}/{}",
                object::name(configuration),
                object::text(webhook, &["name"])
            );
            let same = |known: &&Arc<Webhook>| known.key == key && known.identity == identity;
            let kept = known.iter().find(same).cloned();
            let read = || Arc::new(Webhook::read(webhook, key, identity.clone(), credentials));
            webhooks.push(kept.unwrap_or_else(read));
        }
    }
    webhooks
}

impl Webhook {
    fn read(webhook: &Value, key: String, identity: (String, i64), credentials: &WebhookCredentials) -> Self {
        let text = |field: &str| object::text(webhook, &[field]);
        let seconds = webhook.get("timeoutSeconds").and_then(Value::as_u64);
        let mentions = Mentions {
            authorizer: true,
            ..Mentions::default()
        };
        Self {
            name: text("name").to_owned(),
            key,
            identity,
            criteria: Criteria::of_webhook(webhook),
            conditions: Conditions::read(webhook, mentions),
            client: WebhookClient::with_credentials(
                webhook.get("clientConfig").unwrap_or(&Value::Null),
                credentials,
            ),
            timeout: Duration::from_secs(seconds.unwrap_or(TIMEOUT_SECONDS)),
            fails_open: text("failurePolicy") == "Ignore",
            side_effects: text("sideEffects").to_owned(),
            version: ReviewVersion::first_known(webhook),
            again: text("reinvocationPolicy") == "IfNeeded",
        }
    }

    /// Returns the version of the resource that the webhook requests, if it must be called. A failed conversion to this
    /// version rejects the request even if the failure policy is Ignore.
    async fn target(
        &self,
        attributes: &Attributes<'_>,
        mutating: bool,
    ) -> Result<Option<Arc<Definition>>, Status> {
        if matching::is_exempt_from_webhooks(&attributes.write.definition) {
            return Ok(None);
        }
        let Some(target) = self.criteria.matches(attributes)? else {
            return Ok(None);
        };
        let prepared = attributes.prepare(&target).await;
        prepared.map_err(|failed| unconverted(&failed, mutating))?;
        if self.conditions.is_empty() {
            return Ok(Some(target));
        }
        let subjects = PolicyObjects::without_namespace(attributes, &target);
        let variables = PolicyVariables::default();
        let hold = || {
            let scope = subjects.scope(attributes, &variables, None);
            self.conditions.hold(&scope)
        };
        let mut result = hold();
        let authorizer = &attributes.admission.authorizer;
        for _ in 1..ROUNDS_MAX {
            if !authorizer.fill(&attributes.write.decisions).await {
                break;
            }
            result = hold();
        }
        match result {
            Ok(hold) => Ok(hold.then_some(target)),
            Err(_) if self.fails_open => Ok(None),
            Err(why) => Err(attributes.forbidden(&why)),
        }
    }

    /// Calls the webhook. If the call fails and the failure policy is Ignore, the request is accepted.
    async fn ask(
        &self,
        attributes: &Attributes<'_>,
        target: &Definition,
        mutating: bool,
    ) -> Result<Verdict, Status> {
        if attributes.write.dry_run && !matches!(self.side_effects.as_str(), "None" | "NoneOnDryRun") {
            let name = &self.name;
            return Err(status::bad_request(format!(
                "admission webhook {name:?} does not support dry run"
            )));
        }
        let begun = Instant::now();
        let called = self.call(attributes, target, mutating).await;
        let code = match &called {
            Ok(verdict) if verdict.allowed => 200,
            Ok(verdict) => review::denial(&self.name, &verdict.result).code,
            Err(_) => 503,
        };
        let step = Step {
            name: &self.name,
            operation: attributes.operation.name(),
            mutates: mutating,
            rejected: !called.as_ref().is_ok_and(|verdict| verdict.allowed),
            code,
            time: begun.elapsed(),
        };
        attributes.admission.metrics.webhook(step, called.is_err());
        let verdict = match called {
            Ok(verdict) => verdict,
            Err(why) if self.fails_open => {
                tracing::warn!(
                    webhook = self.name,
                    "{why}; ignored because of its failure policy"
                );
                return Ok(Verdict::allowed());
            }
            Err(why) => {
                let name = &self.name;
                return Err(status::internal(&format!(
                    "failed calling webhook {name:?}: {why}"
                )));
            }
        };
        for warning in &verdict.warnings {
            attributes.write.warnings.add(warning.as_str());
        }
        if verdict.allowed {
            Ok(verdict)
        } else {
            Err(review::denial(&self.name, &verdict.result))
        }
    }

    /// Returns the timeout of the webhook, or the remaining time of the request if that is shorter.
    fn time_left(&self, attributes: &Attributes<'_>) -> Duration {
        let left = attributes.write.deadline;
        let left = left.map(|end| end.saturating_duration_since(Instant::now()));
        left.map_or(self.timeout, |left| left.min(self.timeout))
    }

    async fn call(
        &self,
        attributes: &Attributes<'_>,
        target: &Definition,
        mutating: bool,
    ) -> Result<Verdict, String> {
        let version = self
            .version
            .ok_or("could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)")?;
        let uid = attributes.admission.random.uuid();
        let versioned = |object: Option<&'_ Value>| {
            object.map(|object| attributes.versioned(object, target).into_owned())
        };
        let review = version.request(
            &uid,
            attributes.request(target),
            versioned(attributes.object),
            versioned(attributes.old),
        );
        let answer = self
            .client
            .post(
                &attributes.admission.services,
                USER_AGENT,
                &review,
                self.time_left(attributes),
            )
            .await;
        let is_late = |end| Instant::now() >= end;
        if answer.is_err() && attributes.write.deadline.is_some_and(is_late) {
            // The timeout of the request is its response, and not the failure of the webhook.
            tokio::time::sleep(GRACE).await;
        }
        let answer = answer.map_err(|error| error.to_string())?;
        version
            .verdict(&uid, mutating, &answer)
            .map_err(|why| format!("received invalid webhook response: {why}"))
    }
}

/// Returns a failed conversion as an internal error; the API server wraps it twice for mutating webhooks.
fn unconverted(failed: &Status, mutating: bool) -> Status {
    let once = status::internal(failed.message());
    if mutating {
        status::internal(once.message())
    } else {
        once
    }
}

/// Calls the validating webhooks in parallel; returns the rejection of the first one in their order.
pub(super) async fn validate(attributes: &Attributes<'_>, webhooks: &[Arc<Webhook>]) -> Result<(), Status> {
    let mut calls = Vec::new();
    for webhook in webhooks {
        if let Some(target) = webhook.target(attributes, false).await? {
            calls.push(async move { webhook.ask(attributes, &target, false).await.map(drop) });
        }
    }
    futures::future::join_all(calls).await.into_iter().collect()
}

/// Calls the mutating webhooks, one after the other.
pub(super) async fn mutate(
    mutated: &mut MutatedObject<'_>,
    webhooks: &[Arc<Webhook>],
    reinvocation: &mut Reinvocation,
) -> Result<(), Status> {
    reinvocation.begin(mutated.object());
    for webhook in webhooks {
        if !reinvocation.is_due(&webhook.key) {
            continue;
        }
        let before = mutated.object().cloned();
        let attributes = mutated.attributes(before.as_ref());
        let Some(target) = webhook.target(&attributes, true).await? else {
            continue;
        };
        let verdict = webhook.ask(&attributes, &target, true).await?;
        if let Some(patch) = verdict.patch {
            let shown = before
                .as_ref()
                .map(|object| attributes.versioned(object, &target));
            let changed = patched(&webhook.name, shown.as_deref(), &patch)?;
            if let Some(changed) = changed {
                let own = &attributes.write.definition;
                if own.is_custom() && !own.is_same_version(&target) {
                    let changed = Arc::new(changed.clone());
                    conversion::prepare(&attributes.admission.converter, own, [&changed]).await?;
                }
                mutated.replace(changed, &target, false)?;
            }
            if mutated.object() != before.as_ref() {
                reinvocation.changed();
            }
        }
        if webhook.again {
            reinvocation.invoked(webhook.key.clone());
        }
    }
    reinvocation.end(mutated.object());
    Ok(())
}

/// Applies the JSON patch (in base64) of a webhook to an object; returns `None` if the patch has no operation.
fn patched(webhook: &str, object: Option<&Value>, patch: &str) -> Result<Option<Value>, Status> {
    let bytes = BASE64_STANDARD
        .decode(patch)
        .map_err(|error| status::internal(&error.to_string()))?;
    let operations = apimachinery::json::parse(&bytes)
        .map_err(|why| status::internal(&why))?
        .value;
    let Value::Array(operations) = operations else {
        let why = crate::codec::body::cannot_unmarshal(&operations, "jsonpatch.Patch");
        return Err(status::internal(&why));
    };
    if operations.is_empty() {
        return Ok(None);
    }
    let Some(object) = object else {
        return Err(status::internal(&format!(
            "admission webhook {webhook:?} attempted to modify the object, which is not supported for this operation"
        )));
    };
    let mut changed = object.clone();
    json_patch::apply(&mut changed, &operations).map_err(|error| status::internal(&error.to_string()))?;
    Ok(Some(changed))
}

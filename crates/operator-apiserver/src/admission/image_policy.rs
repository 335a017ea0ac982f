//! ImagePolicyWebhook: a webhook reviews the images of pods. It is off by default.

use std::time::Duration;

use apimachinery::object;
use serde_json::{Map, Value, json};

use super::attributes::Attributes;
use super::configuration::ImagePolicy;
use crate::admission::Operation;
use crate::identity::ttl_cache::TtlCache;
use crate::status::Status;
use crate::webhook_client::{Services, WebhookClient};

/// Annotations of pods that the webhook receives contain this part.
const ANNOTATIONS: &str = ".image-policy.k8s.io/";
const TIMEOUT: Duration = Duration::from_secs(30);

/// The client of the webhook, and its cached answers.
#[derive(Debug)]
pub(crate) struct ImageReviewer {
    policy: ImagePolicy,
    client: Result<WebhookClient, String>,
    cache: TtlCache<Answer>,
}

#[derive(Clone, Debug)]
struct Answer {
    allowed: bool,
    reason: String,
}

impl ImageReviewer {
    pub(crate) fn new(policy: &ImagePolicy) -> Self {
        Self {
            client: WebhookClient::from_kubeconfig(&policy.kubeconfig),
            cache: TtlCache::default(),
            policy: policy.clone(),
        }
    }

    /// Checks the images of a pod, or of its ephemeral containers.
    pub(super) async fn check(&self, services: &Services, attributes: &Attributes<'_>) -> Result<(), Status> {
        let write = attributes.write;
        let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
        let lists: &[&str] = match write.subresource.as_str() {
            "" => &["containers", "initContainers"],
            "ephemeralcontainers" => &["ephemeralContainers"],
            _ => return Ok(()),
        };
        let Some(pod) = attributes
            .object
            .filter(|_| is_write && write.definition.is("", "pods"))
        else {
            return Ok(());
        };
        match self.review(services, spec(pod, &write.namespace, lists)).await {
            Ok(answer) if answer.allowed => Ok(()),
            Ok(answer) if answer.reason.is_empty() => {
                Err(attributes.forbidden("one or more images rejected by webhook backend"))
            }
            Ok(answer) => Err(attributes.forbidden(&format!(
                "image policy webhook backend denied one or more images: {}",
                answer.reason
            ))),
            Err(why) if self.policy.default_allow => {
                tracing::warn!(why, "the image policy webhook failed, and the pod is allowed");
                Ok(())
            }
            Err(why) => Err(attributes.forbidden(&why)),
        }
    }

    async fn review(&self, services: &Services, spec: Value) -> Result<Answer, String> {
        let key = spec.to_string();
        if let Some(known) = self.cache.get(&key) {
            return Ok(known);
        }
        let client = self.client.as_ref().map_err(Clone::clone)?;
        let review = json!({
            "kind": "ImageReview", "apiVersion": "imagepolicy.k8s.io/v1alpha1",
            "metadata": {}, "spec": spec, "status": {"allowed": false},
        });
        let answered = client.review(services, &review, TIMEOUT).await?;
        let status = answered.get("status").unwrap_or(&Value::Null);
        let answer = Answer {
            allowed: status.get("allowed") == Some(&Value::Bool(true)),
            reason: object::text(status, &["reason"]).to_owned(),
        };
        let ttl = match answer.allowed {
            true => self.policy.allow_ttl,
            false => self.policy.deny_ttl,
        };
        if !ttl.is_zero() {
            self.cache.set(&key, answer.clone(), ttl);
        }
        Ok(answer)
    }
}

/// Returns the `spec` of an ImageReview.
fn spec(pod: &Value, namespace: &str, lists: &[&str]) -> Value {
    let containers = lists
        .iter()
        .filter_map(|list| object::get(pod, &["spec", list])?.as_array());
    let images: Vec<Value> = containers
        .flatten()
        .map(|container| json!({"image": object::text(container, &["image"])}))
        .collect();
    let annotations = object::meta(pod, "annotations").and_then(Value::as_object);
    let annotations: Map<String, Value> = annotations
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.contains(ANNOTATIONS))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut spec = json!({"containers": images, "namespace": namespace});
    if !annotations.is_empty() {
        spec["annotations"] = annotations.into();
    }
    spec
}

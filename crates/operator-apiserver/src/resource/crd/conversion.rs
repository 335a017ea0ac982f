//! Conversion of custom resources between versions by a webhook.
//!
//! The webhook is called before an object is served ([`prepare`]) or stored ([`to_storage`]). The result is cached, so
//! that serving the same object again in the same version needs no call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::field::Path;
use apimachinery::object;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use structured_merge::go;

use crate::random::Random;
use crate::resource::{Definition, Source, labels};
use crate::status::{self, Status};
use crate::webhook_client::{Services, WebhookClient};

const TIMEOUT: Duration = Duration::from_secs(30);
const USER_AGENT: &str = "kube-apiserver";
const V1: &str = "apiextensions.k8s.io/v1";
const V1BETA1: &str = "apiextensions.k8s.io/v1beta1";
/// The maximum number of converted objects in the cache.
const REMEMBERED_MAX: usize = 10_000;

/// The key of a converted object: the hash of the stored object, and the version.
pub(super) type Key = ([u8; 32], String);

/// Calls conversion webhooks.
#[derive(Debug)]
pub(crate) struct Converter {
    pub(crate) services: Arc<Services>,
    pub(crate) random: Arc<Random>,
}

/// The conversion webhook of a definition, and its cached results.
#[derive(Debug)]
pub(crate) struct Conversion {
    client: WebhookClient,
    /// The API version of the reviews.
    review_version: &'static str,
    converted: Mutex<HashMap<Key, Arc<Value>>>,
}

impl Conversion {
    /// Parses the specification of a CRD; returns `None` if conversion only changes the apiVersion.
    pub(crate) fn read(spec: &Value) -> Option<Arc<Self>> {
        if object::text(spec, &["conversion", "strategy"]) != "Webhook" {
            return None;
        }
        let config = object::get(spec, &["conversion", "webhook", "clientConfig"])?;
        let versions = object::get(spec, &["conversion", "webhook", "conversionReviewVersions"]);
        let mut versions = versions.and_then(Value::as_array).into_iter().flatten();
        let review_version = versions.find_map(|version| match version.as_str()? {
            "v1" => Some(V1),
            "v1beta1" => Some(V1BETA1),
            _ => None,
        });
        Some(Arc::new(Self {
            client: WebhookClient::new(config),
            review_version: review_version.unwrap_or(V1),
            converted: Mutex::default(),
        }))
    }

    /// Returns a stored object in another version, if the conversion is cached.
    pub(crate) fn known(&self, stored: &Value, api_version: &str) -> Option<Arc<Value>> {
        self.converted.lock().get(&key(stored, api_version)).cloned()
    }

    fn remember(&self, converted: Vec<(Key, Value)>) {
        let mut known = self.converted.lock();
        if known.len() + converted.len() > REMEMBERED_MAX {
            known.clear();
        }
        known.extend(converted.into_iter().map(|(key, value)| (key, Arc::new(value))));
    }

    /// Calls the webhook to convert objects.
    async fn convert(
        &self,
        converter: &Converter,
        objects: &[&Value],
        wanted: &str,
    ) -> Result<Vec<Value>, Status> {
        let Some(first) = objects.first() else {
            return Ok(Vec::new());
        };
        let kind = format!(
            "{}, Kind={}",
            object::text(first, &["apiVersion"]),
            object::text(first, &["kind"])
        );
        let uid = converter.random.uuid();
        let review = json!({
            "kind": "ConversionReview", "apiVersion": self.review_version,
            "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": objects},
        });
        let answer = self
            .client
            .post(&converter.services, USER_AGENT, &review, TIMEOUT)
            .await;
        let converted = match answer {
            Ok(answer) => read_response(self.review_version, &answer, &uid),
            Err(error) => Err(error.why().to_owned()),
        };
        let converted = converted.map_err(|why| format!("conversion webhook for {kind} failed: {why}"));
        let finished = converted.and_then(|converted| {
            finish(objects, converted, wanted)
                .map_err(|why| format!("conversion webhook for {kind} returned {why}"))
        });
        finished.map_err(status::plain)
    }
}

pub(super) fn key(stored: &Value, api_version: &str) -> Key {
    let digest = Sha256::digest(stored.to_string().as_bytes());
    (digest.into(), api_version.to_owned())
}

/// Returns the objects in a response, or its error.
fn read_response(review_version: &str, answer: &Value, uid: &str) -> Result<Vec<Value>, String> {
    let version = object::text(answer, &["apiVersion"]);
    let kind = object::text(answer, &["kind"]);
    // Responses of v1beta1 need neither a type nor a uid.
    let is_strict = review_version == V1;
    if is_strict && (version != V1 || kind != "ConversionReview") {
        // A version without a group is shown with the slash after the empty group.
        let slash = if version.contains('/') { "" } else { "/" };
        return Err(format!(
            "expected webhook response of {V1}, Kind=ConversionReview, got {slash}{version}, Kind={kind}"
        ));
    }
    let response = answer.get("response").filter(|response| response.is_object());
    let response = response.ok_or("no response provided")?;
    let text = |path: &[&str]| object::text(response, path);
    if is_strict && text(&["uid"]) != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(&["uid"])));
    }
    let state = text(&["result", "status"]);
    if state != "Success" {
        return Err(match text(&["result", "message"]) {
            "" => format!("response.result.status was '{state}', not 'Success'"),
            message => message.to_owned(),
        });
    }
    let objects = response.get("convertedObjects").and_then(Value::as_array);
    Ok(objects.cloned().unwrap_or_default())
}

/// Checks the converted objects of a webhook, and restores the metadata that it must not change.
///
/// kube-apiserver converts the objects of a list one by one, so its errors are those of single objects.
fn finish(objects: &[&Value], converted: Vec<Value>, wanted: &str) -> Result<Vec<Value>, String> {
    if converted.len() != objects.len() {
        return Err(format!("{} objects, expected {}", converted.len(), objects.len()));
    }
    let pairs = objects.iter().zip(converted);
    pairs
        .map(|(original, mut converted)| {
            let version = object::text(&converted, &["apiVersion"]);
            if version != wanted {
                return Err(format!(
                    "invalid object at index 0: invalid groupVersion (expected {wanted}, received {version})"
                ));
            }
            check_identity(original, &converted).map_err(|why| format!("invalid object: {why}"))?;
            restore_metadata(original, &mut converted).map_err(|why| format!("invalid metadata: {why}"))?;
            Ok(converted)
        })
        .collect()
}

/// Checks that a conversion has not changed the kind, name, namespace or uid.
fn check_identity(original: &Value, converted: &Value) -> Result<(), String> {
    let same: [(&str, &[&str]); 4] = [
        ("kind", &["kind"]),
        ("name", &["metadata", "name"]),
        ("namespace", &["metadata", "namespace"]),
        ("UID", &["metadata", "uid"]),
    ];
    for (what, path) in same {
        let (before, after) = (object::text(original, path), object::text(converted, path));
        if before != after {
            return Err(format!("must have the same {what}: {before} != {after}"));
        }
    }
    Ok(())
}

/// Restores the metadata, except for labels and annotations, which a conversion may change.
fn restore_metadata(original: &Value, converted: &mut Value) -> Result<(), String> {
    let mut metadata = original
        .get("metadata")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let given = match converted.get("metadata") {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(given)) => given.clone(),
        Some(other) => {
            let found = go::type_name(other);
            return Err(format!("invalid metadata of type {found} in converted object"));
        }
    };
    for field in ["labels", "annotations"] {
        let texts = match given.get(field) {
            None | Some(Value::Null) => {
                metadata.remove(field);
                continue;
            }
            Some(Value::Object(texts)) => texts,
            Some(other) => {
                let found = go::type_name(other);
                return Err(format!(
                    "invalid metadata.{field} of type {found} in converted object"
                ));
            }
        };
        if let Some((key, other)) = texts.iter().find(|(_, text)| !text.is_string()) {
            let found = go::type_name(other);
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {found} in converted object"
            ));
        }
        if metadata.get(field).and_then(Value::as_object) != Some(texts) {
            let path = Path::new("metadata");
            let errors = match field {
                "labels" => labels::validate_labels(converted, &path.child("labels")),
                _ => labels::validate_annotations(converted, &path.child("annotation")),
            };
            if !errors.is_empty() {
                return Err(status::aggregate(&errors));
            }
        }
        metadata.insert(field.to_owned(), Value::Object(texts.clone()));
    }
    if let Some(converted) = converted.as_object_mut() {
        converted.insert("metadata".to_owned(), Value::Object(metadata));
    }
    Ok(())
}

fn webhook(definition: &Definition) -> Option<(&super::CustomVersion, &Conversion)> {
    match &definition.source {
        Source::Custom(version) => Some((version, version.conversion.as_deref()?)),
        Source::Builtin { .. } => None,
    }
}

/// Converts stored objects to the version of the definition in one call, so that the definition can serve them.
pub(crate) async fn prepare(
    converter: &Converter,
    definition: &Definition,
    stored: impl IntoIterator<Item = &Arc<Value>>,
) -> Result<(), Status> {
    let Some((version, conversion)) = webhook(definition) else {
        return Ok(());
    };
    let wanted = version.api_version.as_str();
    let missing: Vec<&Value> = stored
        .into_iter()
        .map(|stored| &**stored)
        .filter(|stored| object::text(stored, &["apiVersion"]) != wanted)
        .filter(|stored| conversion.known(stored, wanted).is_none())
        .collect();
    let converted = conversion.convert(converter, &missing, wanted).await?;
    let keys = missing.iter().map(|stored| key(stored, wanted));
    conversion.remember(keys.zip(converted).collect());
    Ok(())
}

/// Returns true if a webhook converts the objects of a definition.
pub(crate) fn has_webhook(definition: &Definition) -> bool {
    webhook(definition).is_some()
}

/// Converts one object with the webhook of its definition.
pub(super) async fn convert(
    converter: &Converter,
    definition: &Definition,
    object: &Value,
    wanted: &str,
) -> Result<Value, Status> {
    let Some((_, conversion)) = webhook(definition) else {
        return Err(status::internal("no webhook converts the objects of this kind"));
    };
    let converted = conversion.convert(converter, &[object], wanted).await?;
    let converted = converted.into_iter().next();
    converted.ok_or_else(|| status::internal("the conversion has no object"))
}

/// Converts an object of a request to its stored form.
pub(crate) async fn to_storage(
    converter: &Converter,
    definition: &Definition,
    object: Value,
) -> Result<Value, Status> {
    let Some((version, conversion)) = webhook(definition) else {
        return Ok(definition.to_storage(object));
    };
    if version.api_version == version.storage_api_version {
        return Ok(object);
    }
    let wanted = &version.storage_api_version;
    let converted = conversion.convert(converter, &[&object], wanted).await?;
    let mut stored = converted.into_iter().next().unwrap_or(object);
    version.fit_storage(&mut stored);
    Ok(stored)
}

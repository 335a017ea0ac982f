//! [`Objects`] of any kind in a cluster, which are applied, found and deleted by their manifests.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::api::{Api, ApiError, ApplyOptions};

/// The result of applying an object, or of a dry run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) effect: Effect,
    pub(crate) before: Option<Value>,
    pub(crate) after: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Created,
    Configured,
    Unchanged,
}

/// The API resource of a kind.
#[derive(Clone, Debug, PartialEq)]
struct Served {
    plural: String,
    namespaced: bool,
}

/// The objects of a cluster, by manifest.
pub(crate) struct Objects {
    api: Api,
    /// The kinds by `apiVersion` and kind. Kinds that are not served are looked up again.
    served: BTreeMap<(String, String), Served>,
}

/// The path of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) collection: String,
    pub(crate) name: String,
}

// === impl Effect ===

impl Effect {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

// === impl Place ===

impl Place {
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.collection, self.name)
    }
}

// === impl Objects ===

impl Objects {
    pub(crate) fn new(api: Api) -> Self {
        Self {
            api,
            served: BTreeMap::new(),
        }
    }

    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    /// Returns the path of an object, or `None` if its kind is not served.
    pub(crate) async fn place(&mut self, object: &Value) -> Result<Option<Place>, ApiError> {
        let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        let Some(served) = self.served(api_version, kind).await? else {
            return Ok(None);
        };
        let namespace = match text(object, "/metadata/namespace") {
            "" => "default",
            namespace => namespace,
        };
        Ok(Some(Place {
            collection: collection(api_version, &served, Some(namespace)),
            name: text(object, "/metadata/name").to_owned(),
        }))
    }

    async fn served(&mut self, api_version: &str, kind: &str) -> Result<Option<Served>, ApiError> {
        let key = (api_version.to_owned(), kind.to_owned());
        if !self.served.contains_key(&key) {
            let list = self.api.get(&root(api_version)).await?.unwrap_or_default();
            for resource in list["resources"].as_array().into_iter().flatten() {
                let name = text(resource, "/name");
                if !name.contains('/') {
                    let served = Served {
                        plural: name.to_owned(),
                        namespaced: resource["namespaced"] == true,
                    };
                    let key = (api_version.to_owned(), text(resource, "/kind").to_owned());
                    self.served.insert(key, served);
                }
            }
        }
        Ok(self.served.get(&key).cloned())
    }

    /// Applies an object. With `dry_run` the cluster only returns the result.
    pub(crate) async fn apply(
        &mut self,
        place: &Place,
        object: &Value,
        how: ApplyOptions,
    ) -> Result<Change, ApiError> {
        let before = self.api.get(&place.path()).await?;
        let after = self.api.apply(&place.path(), object, how).await?;
        let effect = match &before {
            None => Effect::Created,
            Some(before) if plain(before) == plain(&after) => Effect::Unchanged,
            Some(_) => Effect::Configured,
        };
        Ok(Change {
            effect,
            before,
            after,
        })
    }

    /// Returns the objects of a kind with a label, in all namespaces. Returns none if the kind is not served.
    pub(crate) async fn labelled(
        &mut self,
        api_version: &str,
        kind: &str,
        label: &str,
        value: &str,
    ) -> Result<Vec<Value>, ApiError> {
        let Some(served) = self.served(api_version, kind).await? else {
            return Ok(Vec::new());
        };
        let path = collection(api_version, &served, None);
        let label = label.replace('/', "%2F");
        let list = self
            .api
            .get(&format!("{path}?labelSelector={label}%3D{value}"))
            .await?;
        Ok(items_of(&list.unwrap_or_default(), api_version, kind))
    }

    /// Returns all objects of a kind, in all namespaces.
    pub(crate) async fn all(&mut self, api_version: &str, kind: &str) -> Result<Vec<Value>, ApiError> {
        let Some(served) = self.served(api_version, kind).await? else {
            return Ok(Vec::new());
        };
        let list = self.api.get(&collection(api_version, &served, None)).await?;
        let items = list.unwrap_or_default()["items"].as_array().cloned();
        Ok(items.unwrap_or_default())
    }
}

/// Returns the API version for reading the objects of a CRD.
pub(crate) fn served_version(definition: &Value) -> Option<String> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array)?;
    let version = versions.iter().find(|version| version["served"] == true)?;
    let group = text(definition, "/spec/group");
    Some(format!("{group}/{}", text(version, "/name")))
}

/// Returns the finalizers that block the deletion of an object: those of its objects for a CRD, otherwise its own.
pub(crate) async fn holders(api: &Api, object: &Value) -> Vec<String> {
    let of_objects = match served_version(object) {
        Some(version) => {
            let path = format!("{}/{}", root(&version), text(object, "/spec/names/plural"));
            let list = api.get(&path).await.ok().flatten().unwrap_or_default();
            let kind = text(object, "/spec/names/kind");
            let items = list["items"].as_array().into_iter().flatten();
            items
                .filter_map(|item| {
                    let name = text(item, "/metadata/name");
                    let name = match text(item, "/metadata/namespace") {
                        "" => name.to_owned(),
                        namespace => format!("{namespace}/{name}"),
                    };
                    Some(format!("{kind} {name} waits for {}", finalizers(item)?))
                })
                .collect()
        }
        None => Vec::new(),
    };
    if of_objects.is_empty() {
        let own = finalizers(object).map(|names| format!("it waits for {names}"));
        return own.into_iter().collect();
    }
    of_objects
}

fn finalizers(object: &Value) -> Option<String> {
    let names = object.pointer("/metadata/finalizers")?.as_array()?;
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Returns the items of a list with their type, which lists omit. Items that are not objects are skipped.
fn items_of(list: &Value, api_version: &str, kind: &str) -> Vec<Value> {
    let items = list["items"].as_array().into_iter().flatten();
    let objects = items.filter_map(Value::as_object).map(|item| {
        let mut item = item.clone();
        item.insert("apiVersion".to_owned(), json!(api_version));
        item.insert("kind".to_owned(), json!(kind));
        Value::Object(item)
    });
    objects.collect()
}

/// Returns an object without the fields that every write changes.
pub(crate) fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
        metadata.remove("generation");
    }
    object
}

/// Returns `deployment.apps/name`, the form in which kubectl names objects.
pub(crate) fn name_of(object: &Value) -> String {
    let kind = text(object, "/kind").to_lowercase();
    let name = text(object, "/metadata/name");
    match text(object, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn root(api_version: &str) -> String {
    if api_version.contains('/') {
        format!("/apis/{api_version}")
    } else {
        format!("/api/{api_version}")
    }
}

fn collection(api_version: &str, served: &Served, namespace: Option<&str>) -> String {
    let namespace = namespace.filter(|_| served.namespaced);
    let within = namespace.map(|namespace| format!("/namespaces/{namespace}"));
    format!(
        "{}{}/{}",
        root(api_version),
        within.unwrap_or_default(),
        served.plural
    )
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_are_not_objects_are_left_out() {
        let list = json!({"items": [5, "text", null, {"metadata": {"name": "a"}}]});
        let items = items_of(&list, "v1", "Secret");
        assert_eq!(
            items,
            [json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})]
        );
        assert!(items_of(&json!(5), "v1", "Secret").is_empty());
    }
}

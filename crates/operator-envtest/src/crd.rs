//! Installation of CustomResourceDefinitions.

use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::Value;

use crate::file::{self, FileError};

const KIND: &str = "CustomResourceDefinition";

/// An error of installing a CustomResourceDefinition.
///
/// ```
/// # use operator_envtest::TestEnv;
/// use operator_envtest::{CrdError, Error};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let env = TestEnv::start().await?;
/// let crd = json!({
///     "apiVersion": "apiextensions.k8s.io/v1",
///     "kind": "CustomResourceDefinition",
///     "metadata": {"name": "memcacheds.example.com"},
/// });
/// let refused = env.install_crds([crd]).await;
/// assert!(matches!(refused, Err(Error::Crd(CrdError::Refused { name, .. })) if name == "memcacheds.example.com"));
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// A value could not be serialized as JSON.
    #[error("not a JSON value")]
    Serialize(#[source] serde_json::Error),
    /// A file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The API server rejected a definition.
    #[error("the API server rejected {name}")]
    Refused {
        /// The name of the definition.
        name: String,
        /// The error of the server.
        #[source]
        source: Box<kube::Error>,
    },
    /// A definition was not served in time.
    #[error("{name} was not established within {timeout:?}; its conditions: {conditions}")]
    NotEstablished {
        /// The name of the definition.
        name: String,
        /// The time limit.
        timeout: Duration,
        /// The last conditions, as JSON.
        conditions: String,
    },
}

/// Reads the definitions in a YAML file, or in all YAML files of a directory. Other documents are ignored.
pub(crate) fn read(path: &Path) -> Result<Vec<Value>, CrdError> {
    let mut documents = file::documents(path, false)?;
    documents.retain(|document| document.get("kind").is_some_and(|kind| kind == KIND));
    Ok(documents)
}

/// Creates or replaces a definition, and waits until it is established.
pub(crate) async fn install(client: &Client, crd: Value, timeout: Duration) -> Result<(), CrdError> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apiextensions.k8s.io", "v1", KIND));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut crd: DynamicObject = serde_json::from_value(crd).map_err(CrdError::Serialize)?;
    let name = crd.metadata.name.clone().unwrap_or_default();
    let refused = |source| CrdError::Refused {
        name: name.clone(),
        source: Box::new(source),
    };
    if let Some(status) = crd.data.as_object_mut() {
        status.remove("status");
    }
    match api.create(&PostParams::default(), &crd).await {
        Ok(created) if is_established(&created) => return Ok(()),
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            let found = api.get(&name).await.map_err(refused)?;
            crd.metadata.resource_version = found.metadata.resource_version;
            api.replace(&name, &PostParams::default(), &crd)
                .await
                .map_err(refused)?;
        }
        Err(error) => return Err(refused(error)),
    }
    established(api, &name, timeout).await
}

/// Deletes a definition and its objects. A missing definition is not an error.
pub(crate) async fn uninstall(client: &Client, name: &str) -> Result<(), CrdError> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apiextensions.k8s.io", "v1", KIND));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    match api.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        deleted => deleted.map(drop).map_err(|source| CrdError::Refused {
            name: name.to_owned(),
            source: Box::new(source),
        }),
    }
}

async fn established(api: Api<DynamicObject>, name: &str, timeout: Duration) -> Result<(), CrdError> {
    let mut last = Value::Null;
    let wait = async {
        let mut states = std::pin::pin!(watcher::watch_object(api, name).default_backoff());
        while let Some(state) = states.next().await {
            let Ok(Some(crd)) = state else { continue };
            if is_established(&crd) {
                return;
            }
            last = crd
                .data
                .pointer("/status/conditions")
                .cloned()
                .unwrap_or_default();
        }
    };
    let reached = tokio::time::timeout(timeout, wait).await;
    reached.map_err(|_| CrdError::NotEstablished {
        name: name.to_owned(),
        timeout,
        conditions: last.to_string(),
    })
}

fn is_established(crd: &DynamicObject) -> bool {
    let conditions = crd.data.pointer("/status/conditions").and_then(Value::as_array);
    let is = |condition: &Value, field: &str, value: &str| {
        condition.get(field).is_some_and(|found| found == value)
    };
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| is(condition, "type", "Established") && is(condition, "status", "True"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_definitions_are_taken_from_a_file_of_several_documents() {
        let text = "kind: ConfigMap\n---\nkind: CustomResourceDefinition\nmetadata: {name: a}\n---\n";
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x.yaml"), text).unwrap();
        let found = read(folder.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["metadata"]["name"], "a");
    }

    #[test]
    fn missing_file_is_named() {
        let error = read(Path::new("missing/crd.yaml")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read missing/crd.yaml");
    }
}

//! Reads that go to the API server instead of the cache.

use std::sync::Arc;

use kube::api::{GetParams, ListParams};
use kube::core::ObjectList;

use super::request::Target;
use super::{Client, ClientError};
use crate::cache::ListOptions;
use crate::cache::item::from_value;
use crate::object::View;

impl Client {
    /// Returns an object, or `None` if it does not exist.
    pub(super) async fn get_live<K: View>(&self, target: &Target) -> Result<Option<Arc<K>>, ClientError> {
        let (name, parameters) = (target.key.name(), GetParams::default());
        let request = if K::metadata_api() {
            target.request().get_metadata(name, &parameters)
        } else {
            target.request().get(name, &parameters)
        };
        match self.send(target, request).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => {
                let object = from_value(answer?).map_err(|error| target.malformed(error))?;
                Ok(Some(Arc::new(object)))
            }
        }
    }

    /// Lists the objects in the namespace of `target`, or all, with one request.
    pub(super) async fn list_live<K: View>(
        &self,
        target: &Target,
        options: &ListOptions,
    ) -> Result<Vec<Arc<K>>, ClientError> {
        if !options.indexes.is_empty() {
            let what = target.to_string();
            return Err(ClientError::LiveIndex { what });
        }
        let parameters = ListParams {
            limit: options.limit.and_then(|limit| u32::try_from(limit).ok()),
            label_selector: (!options.labels.selects_all()).then(|| options.labels.to_string()),
            field_selector: options.field_selector(),
            ..ListParams::default()
        };
        let request = if K::metadata_api() {
            target.request().list_metadata(&parameters)
        } else {
            target.request().list(&parameters)
        };
        let list: ObjectList<K> = self.send(target, request).await?;
        Ok(list.items.into_iter().map(Arc::new).collect())
    }
}

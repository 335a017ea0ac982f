//! Lists of the objects that another object controls, using an index.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cache::{CacheError, ListOptions};
use crate::client::{Client, ClientError};
use crate::object::Object;

/// The name of the index. It is not a field path, so it differs from users' indexes.
const INDEX: &str = "operator-runtime/controller-uid";

/// Lists the objects of type `C` that this owner controls.
pub(super) async fn by<C: Object>(client: &Client, owner: &ObjectMeta) -> Result<Vec<Arc<C>>, ClientError> {
    let Some(uid) = owner.uid.as_deref() else {
        return Ok(Vec::new());
    };
    let added = client.cache().add_index(INDEX, |object: &C| {
        let references = object.meta().owner_references.iter().flatten();
        let controllers = references.filter(|reference| reference.controller == Some(true));
        controllers.map(|reference| reference.uid.clone()).collect()
    });
    match added {
        // The index exists after the first call.
        Ok(()) | Err(CacheError::IndexExists { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let mut options = ListOptions {
        indexes: vec![(INDEX.to_owned(), uid.to_owned())],
        ..ListOptions::default()
    };
    if let Some(namespace) = owner.namespace.as_deref().filter(|_| is_namespaced::<C>()) {
        options = options.within(Some(namespace));
    }
    client.list::<C>().options(options).await
}

fn is_namespaced<C: Object>() -> bool {
    crate::object::Kind::of::<C>().namespaced
}

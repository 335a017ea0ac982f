//! What the commands of Operator Lifecycle Manager share: catalogs in ConfigMaps.

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use operator_apiserver::client::Gvr;
use operator_olm::catalog::{Catalog, parts};
use serde_json::{Value, json};

use super::catalog::{CatalogError, load};
use crate::failure::Failure;
use crate::process::cluster::Cluster;

/// The namespace whose catalogs serve all namespaces.
const GLOBAL: &str = "olm";

/// Offers a file-based catalog in an embedded cluster to all namespaces.
pub(crate) async fn add_catalog(cluster: &Cluster, directory: &Path) -> Result<(), Failure> {
    let catalog = load(directory)?;
    let path = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase().replace(['_', ' '], "-"))
        .unwrap_or_else(|| "catalog".to_owned());
    let sources = Gvr::new("operators.coreos.com", "v1alpha1", "catalogsources");
    let source = json!({
        "metadata": {"name": name},
        "spec": {
            "sourceType": "grpc", "displayName": name, "publisher": "operator-sdk",
            "address": format!("{name}.{GLOBAL}.svc:50051"),
        },
    });
    let created = cluster.create(&sources, GLOBAL, source).await?;
    let config_maps = Gvr::new("", "v1", "configmaps");
    for config_map in config_maps_of(&catalog, &created)? {
        cluster.create(&config_maps, GLOBAL, config_map).await?;
    }
    Ok(())
}

/// The ConfigMaps of a catalog, owned by its CatalogSource.
pub(crate) fn config_maps_of(catalog: &Catalog, source: &Value) -> Result<Vec<Value>, CatalogError> {
    let name = source["metadata"]["name"].as_str().unwrap_or_default();
    let parts = parts(catalog).map_err(|error| CatalogError::Load {
        path: name.to_owned(),
        reason: error.to_string(),
    })?;
    let owner = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": name,
        "uid": source["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    });
    let config_map = |(index, part): (usize, Vec<u8>)| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": format!("{name}-configmap-partition-{}", index + 1),
                "namespace": source["metadata"]["namespace"],
                "annotations": {"olm.contentEncoding": "gzip+base64"},
                "ownerReferences": [owner],
            },
            "binaryData": {"extraFBC": BASE64_STANDARD.encode(part)},
        })
    };
    Ok(parts.into_iter().enumerate().map(config_map).collect())
}

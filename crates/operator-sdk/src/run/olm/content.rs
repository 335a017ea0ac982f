//! The content of the catalogs that `run bundle` creates, to which `run bundle-upgrade` adds bundles.

use std::collections::BTreeSet;
use std::io::Read;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use operator_olm::catalog::{Bundle, Catalog, Entry, validate};
use serde_json::{Value, json};

use super::OlmError;
use super::install::CHANNEL;
use super::session::{Resource, Session};
use crate::failure::Failure;
use crate::process::objects::text;

/// The maximum decompressed size of a part of a catalog, in bytes.
const PART_MAX: u64 = 64 << 20;

/// Returns the ConfigMaps that a CatalogSource or a ClusterCatalog owns, by name.
pub(super) async fn config_maps(
    session: &Session<'_>,
    resource: Resource,
    owner: &Value,
) -> Result<Vec<Value>, Failure> {
    let mut owned = session.list(resource).await?;
    owned.retain(|config_map| {
        let owners = config_map
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        owners
            .into_iter()
            .flatten()
            .any(|reference| reference["uid"] == owner["metadata"]["uid"])
    });
    owned.sort_by_key(|config_map| text(config_map, "/metadata/name").to_owned());
    Ok(owned)
}

/// Reads the catalog in ConfigMaps.
pub(super) fn read(config_maps: &[Value]) -> Result<Catalog, OlmError> {
    let mut catalog = Catalog::default();
    for config_map in config_maps {
        let name = text(config_map, "/metadata/name");
        let failed = |reason: String| OlmError::Catalog(format!("configmap {name}: {reason}"));
        let bytes = BASE64_STANDARD
            .decode(text(config_map, "/binaryData/extraFBC"))
            .map_err(|error| failed(error.to_string()))?;
        let mut part = String::new();
        GzDecoder::new(bytes.as_slice())
            .take(PART_MAX)
            .read_to_string(&mut part)
            .map_err(|error| failed(error.to_string()))?;
        catalog.merge(Catalog::load(&part).map_err(failed)?);
    }
    Ok(catalog)
}

/// Adds a bundle that replaces the head of the channel.
pub(super) fn append(catalog: &mut Catalog, bundle: Bundle) -> Result<(), OlmError> {
    if catalog.bundles.iter().any(|known| known.name == bundle.name) {
        return Err(OlmError::HasBundle(bundle.name));
    }
    let index = validate(catalog).map_err(OlmError::Catalog)?;
    let heads = index.packages.get(&bundle.package).map(|package| &package.heads);
    let head = heads.and_then(|heads| heads.get(CHANNEL)).cloned();
    let channel = catalog
        .channels
        .iter_mut()
        .find(|channel| channel.package == bundle.package && channel.name == CHANNEL);
    if let Some(channel) = channel {
        channel.entries.get_or_insert_default().push(Entry {
            name: bundle.name.clone(),
            replaces: head.unwrap_or_default(),
            ..Entry::default()
        });
    }
    catalog.bundles.push(bundle);
    validate(catalog).map_err(OlmError::Catalog)?;
    Ok(())
}

/// Replaces the existing parts of a catalog.
pub(super) async fn write(
    session: &mut Session<'_>,
    resource: Resource,
    parts: &[Value],
    owned: &[Value],
) -> Result<(), Failure> {
    let names: BTreeSet<&str> = owned
        .iter()
        .map(|config_map| text(config_map, "/metadata/name"))
        .collect();
    for part in parts {
        let name = text(part, "/metadata/name");
        if !names.contains(name) {
            session.create(resource, part).await?;
            continue;
        }
        let before = owned.iter().find(|known| text(known, "/metadata/name") == name);
        let before = before.map_or(Value::Null, |known| known["binaryData"].clone());
        session
            .patch(
                resource,
                name,
                &json!({"binaryData": part["binaryData"]}),
                json!({"binaryData": before}),
            )
            .await?;
    }
    Ok(())
}

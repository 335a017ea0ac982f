//! The content of CatalogSources: file-based catalogs in ConfigMaps, parsed once for each change.
//!
//! A source of type `grpc` is read from the ConfigMaps that it owns. They have the annotation `olm.contentEncoding:
//! gzip+base64`, and `run bundle` writes them. A source of type `configmap` or `internal` is read from the data of the
//! ConfigMap in `spec.configMap`.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use operator_olm::catalog::{Catalog, Index, validate};
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::NAMESPACE;
use super::kinds::{CATALOG_SOURCE, OPERATOR_GROUP};
use super::unpack::is_of_bundle;
use crate::kind::CONFIG_MAP;
use crate::object::Object;
use crate::objects::Objects;

/// The annotation of a ConfigMap with a compressed part of a catalog.
pub(crate) const ENCODING: &str = "olm.contentEncoding";
const GZIP: &str = "gzip+base64";
/// The annotation of an OperatorGroup whose namespace does not use global catalogs.
const EXCLUDE_GLOBAL: &str = "olm.operatorframework.io/exclude-global-namespace-resolution";
/// The maximum size of a decompressed part of a catalog, in bytes.
const PART_MAX: u64 = 64 << 20;

/// A valid catalog.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) catalog: Catalog,
    pub(crate) index: Index,
    /// The SHA-256 of the content.
    pub(crate) digest: String,
}

/// A catalog, or the reason why it cannot be read.
pub(crate) type Content = Result<Arc<Loaded>, Fault>;

/// The error of a source without content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The specification of the source is invalid.
    Spec(String),
    /// The ConfigMap is missing or cannot be read.
    ConfigMap(String),
    /// The content is in an image, which cannot be read here.
    Image(String),
}

impl Fault {
    /// Returns `status.reason` of the source.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Spec(_) => "SpecInvalidError",
            Self::ConfigMap(_) => "ConfigMapError",
            Self::Image(_) => "RegistryServerError",
        }
    }

    /// Returns `status.message` of the source.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Spec(message) | Self::ConfigMap(message) | Self::Image(message) => message,
        }
    }
}

/// The parsed catalogs by the uid of their source, with the versions of the objects that they were parsed from.
#[derive(Clone, Default)]
pub(crate) struct Catalogs(Arc<Mutex<HashMap<String, (String, Content)>>>);

impl Catalogs {
    /// Returns the content of a source.
    pub(crate) fn content(&self, objects: &Objects, source: &Value) -> Content {
        let parts = parts(objects, source);
        self.cached(objects, source, &parts, || read(source, &parts))
    }

    /// Returns the content of a ClusterCatalog of OLM v1.
    pub(crate) fn of_cluster(&self, objects: &Objects, catalog: &Value) -> Content {
        let parts = owned_parts(objects, catalog);
        self.cached(objects, catalog, &parts, || match parts.as_slice() {
            [] => Err(Fault::Image(format!(
                "the embedded control plane pulls no images: it reads a catalog from the ConfigMaps that it owns in the \
                 namespace {} with the annotation {ENCODING}: {GZIP}",
                super::v1::NAMESPACE
            ))),
            parts => load(parts),
        })
    }

    fn cached(
        &self,
        objects: &Objects,
        owner: &Value,
        parts: &[&Arc<Value>],
        read: impl FnOnce() -> Result<Loaded, Fault>,
    ) -> Content {
        let mut version = format!("{};", owner.generation());
        for part in parts {
            version.push_str(part.uid());
            version.push(':');
            version.push_str(part.version());
            version.push(';');
        }
        let known = self.0.lock().get(owner.uid()).cloned();
        if let Some((_, content)) = known.filter(|(known, _)| *known == version) {
            return content;
        }
        let content = read().map(Arc::new);
        let mut all = self.0.lock();
        all.retain(|uid, _| objects.by_uid(uid).is_some());
        all.insert(owner.uid().to_owned(), (version, content.clone()));
        content
    }

    /// Returns the readable catalogs that serve a namespace: its own and the global ones, by priority, then name.
    pub(crate) fn visible<'a>(
        &self,
        objects: &'a Objects,
        namespace: &'a str,
    ) -> Vec<(&'a Arc<Value>, Arc<Loaded>)> {
        let mut found: Vec<_> = sources(objects, namespace)
            .filter_map(|source| Some((source, self.content(objects, source).ok()?)))
            .collect();
        found.sort_by_key(|(source, _)| {
            let priority = source.int("/spec/priority").unwrap_or(0);
            (std::cmp::Reverse(priority), source.namespace() != namespace)
        });
        found
    }
}

/// Returns the sources for a namespace: its own, and those of the global namespace unless the OperatorGroup excludes
/// them.
pub(crate) fn sources<'a>(objects: &'a Objects, namespace: &'a str) -> impl Iterator<Item = &'a Arc<Value>> {
    let excluded = objects
        .list(&OPERATOR_GROUP, namespace)
        .any(|group| group.annotation(EXCLUDE_GLOBAL) == Some("true"));
    let global = (namespace != NAMESPACE && !excluded).then_some(NAMESPACE);
    let own = objects.list(&CATALOG_SOURCE, namespace);
    let global = global
        .into_iter()
        .flat_map(|namespace| objects.list(&CATALOG_SOURCE, namespace));
    own.chain(global).filter(|source| !source.is_terminating())
}

/// Returns true if the content of catalogs may depend on a ConfigMap.
pub(crate) fn is_part(config_map: &Value, objects: &Objects) -> bool {
    config_map.annotation(ENCODING).is_some()
        || objects
            .list(&CATALOG_SOURCE, config_map.namespace())
            .any(|source| source.text("/spec/configMap") == config_map.name())
}

/// Returns the ConfigMaps of a source, by name.
fn parts<'a>(objects: &'a Objects, source: &'a Value) -> Vec<&'a Arc<Value>> {
    let named = source.text("/spec/configMap");
    if !named.is_empty() {
        return objects
            .get(&CONFIG_MAP, source.namespace(), named)
            .into_iter()
            .collect();
    }
    owned_parts(objects, source)
}

/// Returns the ConfigMaps with the parts of a catalog that an object owns, by name.
fn owned_parts<'a>(objects: &'a Objects, owner: &Value) -> Vec<&'a Arc<Value>> {
    let owned = objects.owned(&CONFIG_MAP, owner.uid());
    let mut parts: Vec<_> = owned
        .filter(|part| part.annotation(ENCODING) == Some(GZIP) && !is_of_bundle(part))
        .collect();
    parts.sort_by_key(|part| part.name().to_owned());
    parts
}

fn read(source: &Value, parts: &[&Arc<Value>]) -> Result<Loaded, Fault> {
    let (address, image) = (source.text("/spec/address"), source.text("/spec/image"));
    let config_map = source.text("/spec/configMap");
    match source.text("/spec/sourceType") {
        "grpc" if address.is_empty() && image.is_empty() && parts.is_empty() => Err(Fault::Spec(
            "image and address unset: at least one must be set for sourcetype: grpc".to_owned(),
        )),
        "grpc" if parts.is_empty() => Err(Fault::Image(
            "the embedded control plane runs no registry images: a grpc source is read from the ConfigMaps that it \
             owns with the annotation olm.contentEncoding: gzip+base64"
                .to_owned(),
        )),
        "configmap" | "internal" if config_map.is_empty() => Err(Fault::Spec(
            "configmap name unset: must be set for sourcetype: internal".to_owned(),
        )),
        "configmap" | "internal" if parts.is_empty() => Err(Fault::ConfigMap(format!(
            "failed to get catalogsource configmap {config_map}"
        ))),
        "grpc" | "configmap" | "internal" => load(parts),
        other => Err(Fault::Spec(format!("unknown sourcetype: {other}"))),
    }
}

fn load(parts: &[&Arc<Value>]) -> Result<Loaded, Fault> {
    let mut catalog = Catalog::default();
    let mut digest = Sha256::new();
    for part in parts {
        for text in texts(part).map_err(Fault::ConfigMap)? {
            digest.update(&text);
            let loaded = Catalog::load(&text);
            catalog.merge(loaded.map_err(|error| unreadable(part, &error))?);
        }
    }
    let index = validate(&catalog).map_err(Fault::ConfigMap)?;
    let digest = digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(Loaded {
        catalog,
        index,
        digest,
    })
}

fn unreadable(part: &Value, error: &str) -> Fault {
    Fault::ConfigMap(format!("configmap {}: {error}", part.name()))
}

/// Returns the file-based catalogs in a ConfigMap.
fn texts(part: &Value) -> Result<Vec<String>, String> {
    let mut texts: Vec<String> = part
        .texts("/data")
        .into_iter()
        .map(|(_, text)| text.to_owned())
        .collect();
    for (name, data) in part.texts("/binaryData") {
        let failed = |error: String| format!("configmap {}: binaryData.{name}: {error}", part.name());
        let bytes = STANDARD.decode(data).map_err(|error| failed(error.to_string()))?;
        let mut text = String::new();
        let mut decoder = GzDecoder::new(bytes.as_slice()).take(PART_MAX + 1);
        decoder
            .read_to_string(&mut text)
            .map_err(|error| failed(error.to_string()))?;
        if u64::try_from(text.len()).is_ok_and(|length| length > PART_MAX) {
            return Err(failed(format!("larger than {PART_MAX} bytes")));
        }
        texts.push(text);
    }
    Ok(texts)
}

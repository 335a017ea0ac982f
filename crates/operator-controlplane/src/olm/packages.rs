//! PackageManifests: the packages of the catalogs that are available in a namespace.
//!
//! OLM serves them by an extension API server; here they are custom resources, one for each package and namespace. If
//! several catalogs have a package, the catalog with the highest priority is used.

use std::collections::BTreeMap;

use operator_apiserver::client::Event;
use operator_olm::catalog::{Bundle, Catalog, Channel, Package, objects};
use serde_json::{Map, Value, json};

use super::catalog::{Catalogs, Loaded, is_part};
use super::kinds::{CATALOG_SOURCE, OPERATOR_GROUP, PACKAGE_MANIFEST};
use super::resolve::{ordered, version_of};
use crate::engine::Controller;
use crate::kind::{CONFIG_MAP, NAMESPACE};
use crate::object::{Object, set};
use crate::objects::{Key, Objects};
use crate::plan::{Action, Plan, World, create, delete, update};

/// Returns the controller; its keys are namespaces.
pub(crate) fn controller(catalogs: Catalogs) -> Controller {
    Controller {
        name: "olm-package-server",
        keys,
        plan: Box::new(move |world, key| plan(world, key, &catalogs)),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    let object = &event.object;
    if NAMESPACE.is(&event.gvr) {
        keys.push(Key::new("", object.name()));
    } else if PACKAGE_MANIFEST.is(&event.gvr) || OPERATOR_GROUP.is(&event.gvr) {
        keys.push(Key::new("", object.namespace()));
    } else if CATALOG_SOURCE.is(&event.gvr) || CONFIG_MAP.is(&event.gvr) && is_part(object, objects) {
        keys.extend(
            objects
                .list(&NAMESPACE, "")
                .map(|namespace| Key::new("", namespace.name())),
        );
    }
}

pub(super) fn plan(world: &World<'_>, key: &Key, catalogs: &Catalogs) -> Plan {
    let namespace = world.objects.get(&NAMESPACE, "", &key.name);
    if namespace.is_none_or(|namespace| namespace.is_terminating()) {
        return Plan::done();
    }
    let mut wanted = BTreeMap::new();
    for (source, loaded) in catalogs.visible(world.objects, &key.name) {
        for package in &loaded.catalog.packages {
            if !wanted.contains_key(&package.name)
                && let Some(manifest) = manifest(source, &loaded, package, &key.name)
            {
                wanted.insert(package.name.clone(), manifest);
            }
        }
    }
    let mut actions: Vec<Action> = world
        .objects
        .list(&PACKAGE_MANIFEST, &key.name)
        .filter(|known| !wanted.contains_key(known.name()))
        .map(|known| delete(&PACKAGE_MANIFEST, known, None))
        .collect();
    for (name, manifest) in wanted {
        match world.objects.get(&PACKAGE_MANIFEST, &key.name, &name) {
            None => actions.push(create(&PACKAGE_MANIFEST, manifest, None)),
            Some(known) => {
                let mut changed = Value::clone(known);
                set(
                    &mut changed,
                    &["metadata", "labels"],
                    manifest["metadata"]["labels"].clone(),
                );
                changed["status"] = manifest["status"].clone();
                if changed != **known {
                    actions.push(update(&PACKAGE_MANIFEST, changed, None));
                }
            }
        }
    }
    Plan::actions(actions)
}

fn manifest(source: &Value, loaded: &Loaded, package: &Package, namespace: &str) -> Option<Value> {
    let catalog = &loaded.catalog;
    let heads = &loaded.index.packages.get(&package.name)?.heads;
    let channels: Vec<Value> = catalog
        .channels
        .iter()
        .filter(|channel| channel.package == package.name)
        .filter_map(|channel| Some(channel_status(catalog, channel, heads.get(&channel.name)?)))
        .collect();
    let default = heads
        .get(&package.default_channel)
        .and_then(|head| csv_of(catalog, package, head));
    let default = default.unwrap_or_default();
    let provider = default.pointer("/spec/provider").cloned().unwrap_or(json!({}));
    let mut labels = Map::new();
    for object in [source, &default] {
        let own = object.texts("/metadata/labels").into_iter();
        labels.extend(own.map(|(name, value)| (name.to_owned(), value.into())));
    }
    labels.extend([
        ("catalog".to_owned(), source.name().into()),
        ("catalog-namespace".to_owned(), source.namespace().into()),
        ("provider".to_owned(), provider.text("/name").into()),
        ("provider-url".to_owned(), provider.text("/url").into()),
    ]);
    labels.retain(|_, value| builtin_label(value.as_str().unwrap_or_default()));
    let mut status = json!({
        "catalogSource": source.name(),
        "catalogSourceDisplayName": source.text("/spec/displayName"),
        "catalogSourcePublisher": source.text("/spec/publisher"),
        "catalogSourceNamespace": source.namespace(),
        "provider": provider,
        "packageName": package.name,
        "channels": channels,
        "defaultChannel": package.default_channel,
    });
    if let Some(message) = deprecation(catalog, package.name.as_str(), "olm.package", "") {
        status["deprecation"] = json!({"message": message});
    }
    Some(json!({
        "metadata": {"name": package.name, "namespace": namespace, "labels": labels},
        "status": status,
    }))
}

/// Returns true if a string is a valid label value; provider names with spaces are not.
fn builtin_label(value: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    let inner = |byte: u8| plain(byte) || b"-_.".contains(&byte);
    value.len() <= 63
        && value.bytes().all(inner)
        && value.bytes().next().is_none_or(plain)
        && value.bytes().last().is_none_or(plain)
}

fn channel_status(catalog: &Catalog, channel: &Channel, head: &str) -> Value {
    let package = |name: &str| catalog.bundles.iter().find(|bundle| bundle.name == name);
    let version = |bundle: &Bundle| version_of(bundle).map(|version| version.to_string());
    let entries: Vec<Value> = ordered(channel, head)
        .into_iter()
        .map(|name| match package(name).and_then(version) {
            Some(version) => json!({"name": name, "version": version}),
            None => json!({"name": name}),
        })
        .collect();
    let csv = package(head).and_then(bundle_csv).unwrap_or_default();
    let field = |name: &str| csv.pointer(&format!("/spec/{name}")).cloned();
    let mut description = Map::new();
    for name in [
        "displayName",
        "version",
        "icon",
        "installModes",
        "keywords",
        "links",
        "maintainers",
        "provider",
        "description",
        "minKubeVersion",
        "nativeAPIs",
        "customresourcedefinitions",
        "apiservicedefinitions",
    ] {
        if let Some(value) = field(name) {
            let name = if name == "nativeAPIs" { "nativeApis" } else { name };
            description.insert(name.to_owned(), value);
        }
    }
    if let Some(annotations) = csv.pointer("/metadata/annotations") {
        description.insert("annotations".to_owned(), annotations.clone());
    }
    let images = package(head).map(|bundle| &bundle.related_images);
    let images: Vec<&str> = images
        .into_iter()
        .flatten()
        .map(|image| image.image.as_str())
        .collect();
    if !images.is_empty() {
        description.insert("relatedImages".to_owned(), json!(images));
    }
    let mut status = json!({
        "name": channel.name,
        "currentCSV": head,
        "currentCSVDesc": description,
        "entries": entries,
    });
    if let Some(message) = deprecation(catalog, &channel.package, "olm.channel", &channel.name) {
        status["deprecation"] = json!({"message": message});
    }
    status
}

fn csv_of(catalog: &Catalog, package: &Package, name: &str) -> Option<Value> {
    let mut bundles = catalog.bundles.iter();
    let bundle = bundles.find(|bundle| bundle.package == package.name && bundle.name == name)?;
    bundle_csv(bundle)
}

/// Returns the ClusterServiceVersion of a bundle, or its metadata in the format of a ClusterServiceVersion.
pub(super) fn bundle_csv(bundle: &Bundle) -> Option<Value> {
    let objects = objects(bundle).ok()?;
    let csv = objects
        .into_iter()
        .find(|object| object.text("/kind") == "ClusterServiceVersion");
    csv.or_else(|| metadata_csv(bundle))
}

fn metadata_csv(bundle: &Bundle) -> Option<Value> {
    let mut properties = bundle.properties.iter();
    let metadata = properties.find(|property| property.kind == "olm.csv.metadata")?;
    let mut spec = metadata.value.clone();
    for (from, to) in [
        ("crdDescriptions", "customresourcedefinitions"),
        ("apiServiceDefinitions", "apiservicedefinitions"),
    ] {
        if let Some(value) = spec.get(from).cloned() {
            spec[to] = value;
        }
    }
    let field = |name: &str| metadata.value.get(name).cloned().unwrap_or(json!({}));
    let metadata = json!({
        "name": bundle.name, "labels": field("labels"), "annotations": field("annotations"),
    });
    Some(json!({"kind": "ClusterServiceVersion", "metadata": metadata, "spec": spec}))
}

/// Returns the message of a deprecated package, channel or bundle.
pub(super) fn deprecation<'a>(
    catalog: &'a Catalog,
    package: &str,
    schema: &str,
    name: &str,
) -> Option<&'a str> {
    let of_package = catalog
        .deprecations
        .iter()
        .filter(|deprecations| deprecations.package == package);
    let mut entries = of_package.flat_map(|deprecations| deprecations.entries.iter().flatten());
    let found = entries.find(|entry| entry.schema == schema && entry.name == name);
    found.map(|entry| entry.message.as_str())
}

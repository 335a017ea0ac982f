//! [`Queries`], the responses of the registry's gRPC API, with the errors of operator-registry.

use std::collections::BTreeMap;

use operator_olm::catalog::{self, Catalog, Entry, Index, validate};
use serde_json::{Value, json};
use tonic::Status;

use super::messages::{
    Bundle, BundleRequest, Channel, ChannelEntry, GetReplacementRequest, GroupVersionKind, Package, Property,
};

/// The type of properties with an object of the bundle.
const OBJECT: &str = "olm.bundle.object";
/// The type of the property with the metadata of the ClusterServiceVersion.
const METADATA: &str = "olm.csv.metadata";

/// A valid catalog.
pub(super) struct Queries {
    catalog: Catalog,
    index: Index,
    /// The positions of bundles by package and name.
    bundles: BTreeMap<(String, String), usize>,
}

/// An entry of a channel, with its bundle.
#[derive(Clone, Copy)]
struct Found<'a> {
    channel: &'a catalog::Channel,
    entry: &'a Entry,
    bundle: &'a catalog::Bundle,
}

impl Queries {
    /// Returns the reason if the catalog is invalid.
    pub(super) fn new(catalog: Catalog) -> Result<Self, String> {
        let index = validate(&catalog)?;
        let bundles = catalog.bundles.iter().enumerate();
        let bundles = bundles
            .map(|(at, bundle)| ((bundle.package.clone(), bundle.name.clone()), at))
            .collect();
        Ok(Self {
            catalog,
            index,
            bundles,
        })
    }

    /// Returns the names of the packages, sorted.
    pub(super) fn packages(&self) -> impl Iterator<Item = &String> {
        self.index.packages.keys()
    }

    pub(super) fn package(&self, name: &str) -> Result<Package, Status> {
        let package = self.index.packages.get(name);
        let package = package.ok_or_else(|| Status::unknown(format!("package {name:?} not found")))?;
        let channels = package.heads.iter().map(|(channel, head)| Channel {
            name: channel.clone(),
            csv_name: head.clone(),
        });
        Ok(Package {
            name: name.to_owned(),
            channels: channels.collect(),
            default_channel_name: package.default_channel.clone(),
        })
    }

    pub(super) fn bundle(&self, request: &BundleRequest) -> Result<Bundle, Status> {
        let (package, channel, name) = (&request.package, &request.channel, &request.csv_name);
        self.channel(package, channel)?;
        let found = self.of_channel(package, channel);
        let found = found.into_iter().find(|found| found.entry.name == *name);
        let missing = format!("package {package:?}, channel {channel:?}, bundle {name:?} not found");
        short(found.ok_or_else(|| Status::unknown(missing))?)
    }

    /// Returns the head of a channel, including its ClusterServiceVersion even if the bundle is in an image.
    pub(super) fn head(&self, request: &BundleRequest) -> Result<Bundle, Status> {
        let (package, channel) = (&request.package, &request.channel);
        let head = self.channel(package, channel)?;
        let found = self.of_channel(package, channel);
        let found = found.into_iter().find(|found| found.entry.name == *head);
        full(found.ok_or_else(|| {
            Status::unknown(format!("package {package:?}, channel {channel:?} has no head"))
        })?)
    }

    pub(super) fn replacing(&self, name: &str) -> Result<Vec<ChannelEntry>, Status> {
        let replaces = |entry: &ChannelEntry| entry.replaces == name;
        let entries: Vec<ChannelEntry> = self.all().flat_map(edges).filter(replaces).collect();
        if entries.is_empty() {
            return Err(Status::unknown(format!(
                "no channel entries found that replace {name}"
            )));
        }
        Ok(entries)
    }

    pub(super) fn replacement(&self, request: &GetReplacementRequest) -> Result<Bundle, Status> {
        let (package, channel) = (&request.package, &request.channel);
        self.channel(package, channel)?;
        let found = self.of_channel(package, channel);
        let found = found
            .into_iter()
            .find(|found| found.entry.replaces == request.csv_name);
        short(found.ok_or_else(|| {
            Status::unknown(format!(
                "no entry found for package {package:?}, channel {channel:?}"
            ))
        })?)
    }

    /// Returns the entries of bundles that provide a kind.
    pub(super) fn providing(&self, kind: &GroupVersionKind) -> Result<Vec<ChannelEntry>, Status> {
        let found = self.all().filter(|found| provides(found.bundle, kind));
        some(found.flat_map(edges).collect(), kind)
    }

    /// Returns the heads of channels that provide a kind.
    pub(super) fn latest(&self, kind: &GroupVersionKind) -> Result<Vec<ChannelEntry>, Status> {
        let found = self.heads().filter(|found| provides(found.bundle, kind));
        some(found.flat_map(edges).collect(), kind)
    }

    /// Returns the head of a default channel that provides a kind.
    pub(super) fn default_provider(&self, kind: &GroupVersionKind) -> Result<Bundle, Status> {
        let is_default = |found: &Found<'_>| {
            let package = self.index.packages.get(&found.channel.package);
            package.is_some_and(|package| package.default_channel == found.channel.name)
        };
        let mut heads = self.heads();
        let found = heads.find(|found| is_default(found) && provides(found.bundle, kind));
        short(found.ok_or_else(|| Status::unknown(nothing(kind)))?)
    }

    pub(super) fn all_bundles(&self) -> Result<Vec<Bundle>, Status> {
        self.all().map(short).collect()
    }

    /// Returns the head of a channel.
    fn channel(&self, package: &str, channel: &str) -> Result<&String, Status> {
        let found = self.index.packages.get(package);
        let found = found.ok_or_else(|| Status::unknown(format!("package {package:?} not found")))?;
        let head = found.heads.get(channel);
        head.ok_or_else(|| Status::unknown(format!("package {package:?}, channel {channel:?} not found")))
    }

    fn all(&self) -> impl Iterator<Item = Found<'_>> {
        self.catalog
            .channels
            .iter()
            .flat_map(|channel| self.entries(channel))
    }

    fn entries<'a>(&'a self, channel: &'a catalog::Channel) -> impl Iterator<Item = Found<'a>> {
        channel.entries().iter().filter_map(|entry| {
            let key = (channel.package.clone(), entry.name.clone());
            let bundle = self.catalog.bundles.get(*self.bundles.get(&key)?)?;
            Some(Found {
                channel,
                entry,
                bundle,
            })
        })
    }

    fn of_channel(&self, package: &str, name: &str) -> Vec<Found<'_>> {
        let mut channels = self.catalog.channels.iter();
        let channel = channels.find(|channel| channel.package == package && channel.name == name);
        channel
            .into_iter()
            .flat_map(|channel| self.entries(channel))
            .collect()
    }

    fn heads(&self) -> impl Iterator<Item = Found<'_>> {
        self.all().filter(|found| {
            let package = self.index.packages.get(&found.channel.package);
            let head = package.and_then(|package| package.heads.get(&found.channel.name));
            head == Some(&found.entry.name)
        })
    }
}

fn nothing(kind: &GroupVersionKind) -> String {
    format!(
        "no channel entries found that provide group:{:?} version:{:?} kind:{:?}",
        kind.group, kind.version, kind.kind
    )
}

fn some(entries: Vec<ChannelEntry>, kind: &GroupVersionKind) -> Result<Vec<ChannelEntry>, Status> {
    if entries.is_empty() {
        return Err(Status::unknown(nothing(kind)));
    }
    Ok(entries)
}

/// Returns an entry for the replaced bundle and each skipped one, or one entry without `replaces` if there are none.
fn edges(found: Found<'_>) -> Vec<ChannelEntry> {
    let entry = |replaces: &str| ChannelEntry {
        package_name: found.channel.package.clone(),
        channel_name: found.channel.name.clone(),
        bundle_name: found.entry.name.clone(),
        replaces: replaces.to_owned(),
    };
    let replaced = Some(&found.entry.replaces).filter(|replaced| !replaced.is_empty());
    let edges: Vec<ChannelEntry> = replaced
        .into_iter()
        .chain(&found.entry.skips)
        .map(|name| entry(name))
        .collect();
    if edges.is_empty() {
        return vec![entry("")];
    }
    edges
}

fn kinds(bundle: &catalog::Bundle, property: &str) -> Vec<GroupVersionKind> {
    let properties = bundle.properties.iter().filter(|found| found.kind == property);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = |found: &catalog::Property| GroupVersionKind {
        group: text(&found.value["group"]),
        version: text(&found.value["version"]),
        kind: text(&found.value["kind"]),
        plural: String::new(),
    };
    properties.map(kind).collect()
}

fn provides(bundle: &catalog::Bundle, kind: &GroupVersionKind) -> bool {
    // Catalogs do not contain the plural.
    let wanted = GroupVersionKind {
        plural: String::new(),
        ..kind.clone()
    };
    kinds(bundle, "olm.gvk").contains(&wanted)
}

/// Returns a bundle. A bundle in an image has no objects, because OLM reads them from the image.
fn short(found: Found<'_>) -> Result<Bundle, Status> {
    let mut bundle = full(found)?;
    if !bundle.bundle_path.is_empty() {
        bundle.csv_json.clear();
        bundle.object.clear();
    }
    Ok(bundle)
}

fn full(found: Found<'_>) -> Result<Bundle, Status> {
    let Found {
        channel,
        entry,
        bundle,
    } = found;
    let objects = catalog::objects(bundle).map_err(Status::unknown)?;
    let csv = objects
        .iter()
        .find(|object| object["kind"] == "ClusterServiceVersion");
    let csv = csv.cloned().or_else(|| described(bundle));
    let mut properties = bundle.properties.iter();
    let version = properties.find(|property| property.kind == "olm.package");
    let version = version.and_then(|property| property.value["version"].as_str());
    let small = bundle.properties.iter();
    let small = small.filter(|property| ![OBJECT, METADATA].contains(&property.kind.as_str()));
    Ok(Bundle {
        csv_name: bundle.name.clone(),
        package_name: bundle.package.clone(),
        channel_name: channel.name.clone(),
        csv_json: csv.map(|csv| csv.to_string()).unwrap_or_default(),
        object: objects.iter().map(Value::to_string).collect(),
        bundle_path: bundle.image.clone(),
        provided_apis: kinds(bundle, "olm.gvk"),
        required_apis: kinds(bundle, "olm.gvk.required"),
        version: version.unwrap_or_default().to_owned(),
        skip_range: entry.skip_range.clone(),
        dependencies: bundle.properties.iter().filter_map(dependency).collect(),
        properties: small
            .map(|property| Property {
                kind: property.kind.clone(),
                value: property.value.to_string(),
            })
            .collect(),
        replaces: entry.replaces.clone(),
        skips: entry.skips.clone(),
    })
}

/// Returns a dependency in the older form of the API.
fn dependency(property: &catalog::Property) -> Option<Property> {
    let value = &property.value;
    let (kind, value) = match property.kind.as_str() {
        "olm.gvk.required" => ("olm.gvk", value.clone()),
        "olm.package.required" => (
            "olm.package",
            json!({"packageName": value["packageName"], "version": value["versionRange"]}),
        ),
        _ => return None,
    };
    Some(Property {
        kind: kind.to_owned(),
        value: value.to_string(),
    })
}

/// Returns a ClusterServiceVersion with the metadata of a bundle that is in an image.
fn described(bundle: &catalog::Bundle) -> Option<Value> {
    let mut properties = bundle.properties.iter();
    let metadata = properties.find(|property| property.kind == METADATA)?;
    let mut spec = metadata.value.as_object()?.clone();
    let annotations = spec.remove("annotations").unwrap_or_default();
    let labels = spec.remove("labels").unwrap_or_default();
    for (from, to) in [
        ("apiServiceDefinitions", "apiservicedefinitions"),
        ("crdDescriptions", "customresourcedefinitions"),
    ] {
        if let Some(value) = spec.remove(from) {
            spec.insert(to.to_owned(), value);
        }
    }
    let mut packages = bundle.properties.iter();
    let package = packages.find(|property| property.kind == "olm.package")?;
    spec.insert("version".to_owned(), package.value["version"].clone());
    Some(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": bundle.name, "annotations": annotations, "labels": labels},
        "spec": spec,
    }))
}

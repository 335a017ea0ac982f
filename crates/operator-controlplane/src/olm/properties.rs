//! Properties of bundles and of installed operators: the APIs that they provide and require.

use std::collections::BTreeSet;

use operator_olm::catalog::Property;
use operator_olm::catalog::rule::Rule;
use operator_olm::catalog::version::{Range, Version};
use serde_json::Value;

use crate::object::Object;

/// The maximum depth of nested constraints.
const DEPTH_MAX: usize = 64;

/// An API: group, version, kind.
pub(super) type Gvk = (String, String, String);

pub(super) fn gvk(property: &Property) -> Gvk {
    let text = |pointer: &str| property.value.text(pointer).to_owned();
    (text("/group"), text("/version"), text("/kind"))
}

pub(super) fn is_requirement(property: &&Property) -> bool {
    matches!(
        property.kind.as_str(),
        "olm.gvk.required" | "olm.package.required" | "olm.constraint"
    )
}

/// Returns true if a bundle with some properties meets a requirement.
pub(super) fn provides(properties: &[Property], requirement: &Property, depth: usize) -> bool {
    match requirement.kind.as_str() {
        "olm.gvk.required" => has_api(properties, &requirement.value),
        "olm.package.required" => {
            let value = &requirement.value;
            has_package(
                properties,
                value.text("/packageName"),
                value.text("/versionRange"),
            )
        }
        _ => satisfies(properties, &requirement.value, depth),
    }
}

/// Returns true if a bundle with some properties satisfies a constraint.
fn satisfies(properties: &[Property], constraint: &Value, depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    let nested = |pointer: &str| constraint.items(pointer).iter();
    if let Some(gvk) = constraint.get("gvk") {
        return has_api(properties, gvk);
    }
    if let Some(package) = constraint.get("package") {
        return has_package(
            properties,
            package.text("/packageName"),
            package.text("/versionRange"),
        );
    }
    if let Some(cel) = constraint.get("cel") {
        return Rule::parse(cel.text("/rule")).is_ok_and(|rule| rule.holds(properties));
    }
    let holds = |nested: &Value| satisfies(properties, nested, depth + 1);
    if constraint.get("all").is_some() {
        return nested("/all/constraints").all(holds);
    }
    if constraint.get("any").is_some() {
        return nested("/any/constraints").any(holds);
    }
    constraint.get("not").is_some() && !nested("/not/constraints").any(holds)
}

fn has_api(properties: &[Property], wanted: &Value) -> bool {
    let wanted = (
        wanted.text("/group"),
        wanted.text("/version"),
        wanted.text("/kind"),
    );
    let apis = properties.iter().filter(|property| property.kind == "olm.gvk");
    apis.map(|property| &property.value)
        .any(|api| (api.text("/group"), api.text("/version"), api.text("/kind")) == wanted)
}

fn has_package(properties: &[Property], name: &str, range: &str) -> bool {
    let Ok(range) = Range::parse(range) else {
        return false;
    };
    let packages = properties
        .iter()
        .filter(|property| property.kind == "olm.package");
    packages
        .map(|property| &property.value)
        .filter(|package| package.text("/packageName") == name)
        .filter_map(|package| Version::parse(package.text("/version")).ok())
        .any(|version| range.includes(&version))
}

pub(super) fn described(requirement: &Property) -> String {
    let value = &requirement.value;
    match requirement.kind.as_str() {
        "olm.gvk.required" => format!(
            "providing an API with group: {}, version: {}, kind: {}",
            value.text("/group"),
            value.text("/version"),
            value.text("/kind")
        ),
        "olm.package.required" => format!(
            "with package: {}, with version in range: {}",
            value.text("/packageName"),
            value.text("/versionRange")
        ),
        _ => format!(
            "with constraint: {value} and message: \"{}\"",
            value.text("/failureMessage")
        ),
    }
}

/// Returns the properties of an installed operator: those of its annotation, and the APIs that it owns.
pub(super) fn properties_of(csv: &Value) -> Vec<Property> {
    let mut properties = annotated(csv);
    properties.retain(|property| property.kind != "olm.gvk");
    properties.extend(
        owned_apis(csv)
            .into_iter()
            .map(|(group, version, kind)| Property {
                kind: "olm.gvk".to_owned(),
                value: serde_json::json!({"group": group, "version": version, "kind": kind}),
            }),
    );
    properties
}

/// Returns the APIs that a ClusterServiceVersion owns: group, version, kind.
pub(crate) fn owned_apis(csv: &Value) -> BTreeSet<Gvk> {
    let definitions = csv.items("/spec/customresourcedefinitions/owned").iter();
    let definitions = definitions.map(|definition| {
        let group = definition.text("/name").split_once('.');
        (group.map_or("", |(_, group)| group), definition)
    });
    let services = csv.items("/spec/apiservicedefinitions/owned").iter();
    let services = services.map(|service| (service.text("/group"), service));
    definitions
        .chain(services)
        .map(|(group, api)| {
            (
                group.to_owned(),
                api.text("/version").to_owned(),
                api.text("/kind").to_owned(),
            )
        })
        .collect()
}

fn annotated(csv: &Value) -> Vec<Property> {
    let text = csv
        .annotation("operatorframework.io/properties")
        .unwrap_or_default();
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    value
        .items("/properties")
        .iter()
        .map(|property| Property {
            kind: property.text("/type").to_owned(),
            value: property.get("value").cloned().unwrap_or_default(),
        })
        .collect()
}

/// Returns the package of an installed operator, if its properties name one.
pub(crate) fn package_of(csv: &Value) -> Option<String> {
    let properties = annotated(csv);
    let package = properties
        .iter()
        .find(|property| property.kind == "olm.package")?;
    Some(package.value.text("/packageName").to_owned())
}

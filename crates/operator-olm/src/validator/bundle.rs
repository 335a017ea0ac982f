//! `bundle`: compares the CRDs of the bundle with those that the ClusterServiceVersion owns, and checks the size.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::bundle::{Bundle, list, size, text};
use crate::catalog::image;
use crate::document::group_version_kind;
use crate::finding::{Finding, Findings, Level};

const NAME: &str = "bundle";
const KIND: &str = "BundleNotValid";
/// The maximum size of a ConfigMap, into which OLM unpacks a bundle.
const SIZE_MAX: u64 = 1 << 20;

pub(super) fn validate(bundle: &Bundle) -> Vec<Finding> {
    let mut findings = Findings::new(NAME);
    definitions(bundle, &mut findings);
    service_accounts(bundle, &mut findings);
    release(bundle, &mut findings);
    related_images(bundle, &mut findings);
    check_size(bundle, &mut findings);
    findings.list
}

/// Returns the keys of all CRDs with the indexes of their manifests, CRDs of v1 first.
fn keys(bundle: &Bundle) -> Vec<(String, usize, String)> {
    let mut keys = Vec::new();
    for old in [false, true] {
        for (index, crd) in &bundle.crds {
            if is_old(crd) != old {
                continue;
            }
            let (group, kind) = (text(crd, "/spec/group"), text(crd, "/spec/names/kind"));
            let versions = list(crd, "/spec/versions");
            for (at, version) in versions.iter().enumerate() {
                let key = group_version_kind(group, text(version, "/name"), kind);
                keys.push((key, *index, format!("/spec/versions/{at}")));
            }
            if old && versions.is_empty() {
                let key = group_version_kind(group, text(crd, "/spec/version"), kind);
                keys.push((key, *index, "/spec/version".to_owned()));
            }
        }
    }
    keys
}

pub(crate) fn is_old(crd: &Value) -> bool {
    text(crd, "/apiVersion") == "apiextensions.k8s.io/v1beta1"
}

fn definitions(bundle: &Bundle, findings: &mut Findings) {
    let name = bundle.name();
    let keys = keys(bundle);
    let mut present = BTreeSet::new();
    // A CRD is owned as a whole if one of its versions is owned.
    let mut owned_kinds = BTreeSet::new();
    for (key, index, pointer) in &keys {
        if !present.insert(key.as_str()) {
            let detail = format!("duplicate CRD {key:?} in bundle {name:?}");
            let at = (&bundle.manifests[*index], pointer.as_str());
            findings.add(Level::Error, KIND, Some(key.clone()), detail, at);
        }
    }
    let owned = bundle.csv_list("/spec/customresourcedefinitions/owned");
    for (index, owned) in owned.iter().enumerate() {
        let name_of_crd = text(owned, "/name");
        let group = name_of_crd
            .split_once('.')
            .map_or(name_of_crd, |(_, group)| group);
        let key = group_version_kind(group, text(owned, "/version"), text(owned, "/kind"));
        if present.remove(key.as_str()) {
            owned_kinds.insert((group, text(owned, "/kind")));
        } else {
            let detail = format!("owned CRD {key:?} not found in bundle {name:?}");
            let pointer = format!("/spec/customresourcedefinitions/owned/{index}");
            let at = (bundle.csv_manifest(), pointer.as_str());
            findings.add(Level::Error, KIND, Some(key), detail, at);
        }
    }
    for (key, index, pointer) in &keys {
        let definition = bundle.crds.iter().find(|(at, _)| at == index);
        let is_owned = definition.is_some_and(|(_, crd)| {
            owned_kinds.contains(&(text(crd, "/spec/group"), text(crd, "/spec/names/kind")))
        });
        if present.remove(key.as_str()) && !is_owned {
            let detail = format!("CRD {key:?} is present in bundle {name:?} but not defined in CSV");
            let at = (&bundle.manifests[*index], pointer.as_str());
            findings.add(Level::Error, KIND, Some(key.clone()), detail, at);
        }
    }
}

/// Rejects service accounts of the Deployments, because OLM creates them.
fn service_accounts(bundle: &Bundle, findings: &mut Findings) {
    let deployments = bundle.csv_list("/spec/install/spec/deployments");
    let used: BTreeSet<&str> = deployments
        .iter()
        .map(|deployment| text(deployment, "/spec/template/spec/serviceAccountName"))
        .filter(|name| !name.is_empty())
        .collect();
    for manifest in &bundle.manifests {
        let name = manifest.name();
        if manifest.kind() == "ServiceAccount" && used.contains(name) {
            let detail = format!(
                "invalid service account found in bundle. This service account {name} in your bundle is not valid, because a service account with the same name was already specified in your CSV. If this was unintentional, please remove the service account manifest from your bundle. If it was intentional to specify a separate service account, please rename the SA in either the bundle manifest or the CSV."
            );
            let at = (manifest, "/metadata/name");
            findings.add(Level::Error, KIND, Some(name.to_owned()), detail, at);
        }
    }
}

/// Checks the name of a bundle with a release.
fn release(bundle: &Bundle, findings: &mut Findings) {
    let release = bundle.csv_at("/spec/release").and_then(Value::as_str);
    let Some(release) = release.filter(|release| !release.is_empty()) else {
        return;
    };
    let (name, version) = (bundle.csv_name(), text(&bundle.csv, "/spec/version"));
    let expected = format!("{}-v{version}-{release}", bundle.annotations.package());
    if name != expected {
        let detail =
            format!("bundle name with release versioning {name:?} does not match expected name {expected:?}");
        let at = (bundle.csv_manifest(), "/metadata/name");
        findings.add(Level::Error, KIND, Some(name.to_owned()), detail, at);
    }
}

fn related_images(bundle: &Bundle, findings: &mut Findings) {
    for (index, related) in bundle.csv_list("/spec/relatedImages").iter().enumerate() {
        let reference = text(related, "/image");
        let detail = if reference.is_empty() {
            format!("relatedImages[{index}] has an empty image field")
        } else {
            let Err(reason) = image::check(reference) else {
                continue;
            };
            let reason = match reason.strip_prefix("invalid reference format: repository name (") {
                Some(_) => "invalid reference format: repository name must be lowercase",
                None => reason.as_str(),
            };
            format!("relatedImages[{index}] has an invalid image pullspec {reference:?}: {reason}")
        };
        let pointer = format!("/spec/relatedImages/{index}/image");
        let value = Some(format!("spec.relatedImages[{index}].image"));
        let at = (bundle.csv_manifest(), pointer.as_str());
        findings.add(Level::Error, KIND, value, detail, at);
    }
}

fn check_size(bundle: &Bundle, findings: &mut Findings) {
    let compressed = bundle.size.compressed;
    let (level, before) = if compressed > SIZE_MAX {
        (
            Level::Error,
            "maximum bundle compressed size with gzip size exceeded",
        )
    } else if compressed * 100 > SIZE_MAX * 85 {
        (Level::Warning, "nearing maximum bundle compressed size with gzip")
    } else {
        return;
    };
    let detail = format!(
        "{before}: size=~{} , max={}. Bundle uncompressed size is {}",
        size::shown(compressed),
        size::shown(SIZE_MAX),
        size::shown(bundle.size.plain)
    );
    let value = Some(bundle.name().to_owned());
    findings.add(level, KIND, value, detail, (bundle.csv_manifest(), ""));
}

//! `multiarch`: compares the platforms of the images with those that the labels declare.
//!
//! The caller inspects the images; this module does no I/O.

use std::collections::BTreeSet;

use super::Options;
use super::removed_apis::quoted_list;
use crate::bundle::{Bundle, list, text};
use crate::finding::{Finding, Findings, Level};

const ARCH: &str = "operatorframework.io/arch.";
const OS: &str = "operatorframework.io/os.";

/// A platform of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Platform {
    /// The operating system.
    pub os: String,
    /// The architecture.
    pub architecture: String,
}

/// Returns the images whose platforms the validator `multiarch` checks: those of the Deployments and the related images.
pub fn images_of(bundle: &Bundle) -> BTreeSet<String> {
    let Images { managers, others } = images(bundle);
    managers.into_iter().chain(others).collect()
}

/// The images of a bundle.
#[derive(Default)]
struct Images {
    /// The images of the containers `manager`, or of all containers if no container has that name.
    managers: BTreeSet<String>,
    /// The other images.
    others: BTreeSet<String>,
}

fn images(bundle: &Bundle) -> Images {
    let mut images = Images::default();
    let deployments = bundle.csv_list("/spec/install/spec/deployments");
    let containers = |deployment| list(deployment, "/spec/template/spec/containers").iter();
    for deployment in deployments {
        let mut managers = containers(deployment).filter(|container| text(container, "/name") == "manager");
        if let Some(manager) = managers.next() {
            images.managers.insert(text(manager, "/image").to_owned());
            continue;
        }
        let others = containers(deployment).filter(|container| text(container, "/name") != "kube-rbac-proxy");
        images
            .managers
            .extend(others.map(|container| text(container, "/image").to_owned()));
    }
    let used = deployments.iter().flat_map(containers);
    let used = used.map(|container| text(container, "/image").to_owned());
    images
        .others
        .extend(used.filter(|image| !images.managers.contains(image)));
    let related = bundle.csv_list("/spec/relatedImages").iter();
    images
        .others
        .extend(related.map(|image| text(image, "/image").to_owned()));
    images
}

pub(super) fn validate(bundle: &Bundle, options: &Options) -> Vec<Finding> {
    let mut findings = Findings::new("multiarch");
    let platforms = &options.platforms;
    let images = images(bundle);
    for (image, result) in platforms {
        if let Err(reason) = result {
            let detail = format!("unable to inspect the image ({image}) : {reason}");
            findings.failed(Level::Warning, bundle, detail, "/spec");
        }
    }
    let declared = |prefix: &str, default: &str| -> BTreeSet<String> {
        let labels = bundle
            .csv_at("/metadata/labels")
            .and_then(serde_json::Value::as_object);
        let labels = labels
            .into_iter()
            .flatten()
            .filter(|(_, value)| *value == "supported");
        let found: BTreeSet<String> = labels
            .filter_map(|(name, _)| Some(name.strip_prefix(prefix)?.to_owned()))
            .collect();
        if found.is_empty() {
            BTreeSet::from([default.to_owned()])
        } else {
            found
        }
    };
    let (architectures, systems) = (declared(ARCH, "amd64"), declared(OS, "linux"));
    let known = |image: &String| platforms.get(image).and_then(|result| result.as_ref().ok());
    check_declared(bundle, &images, &architectures, &systems, &known, &mut findings);
    let of_managers = |part: fn(&Platform) -> &String| -> BTreeSet<String> {
        let found = images.managers.iter().filter_map(known).flatten();
        found.map(part).filter(|text| !text.is_empty()).cloned().collect()
    };
    let managers: Vec<String> = images.managers.iter().cloned().collect();
    let kinds = [
        (
            "Arch",
            ARCH,
            &architectures,
            of_managers(|platform| &platform.architecture),
        ),
        ("SO", OS, &systems, of_managers(|platform| &platform.os)),
    ];
    for (word, prefix, declared, found) in &kinds {
        let missing: Vec<String> = found.difference(declared).cloned().collect();
        if !missing.is_empty() {
            let more = match *word {
                "Arch" => "amd64 architectures,",
                _ => "linux SO",
            };
            let detail = format!(
                "check if the CSV is missing the label ({prefix}<value>) for the {word}(s): {}. Be aware that your Operator manager image {} provides this support. Thus, it is very likely that you want to provide it and if you support more than {more} you MUST,use the required labels for all which are supported.Otherwise, your solution cannot be listed on the cluster for these architectures",
                quoted_list(&missing),
                quoted_list(&managers)
            );
            findings.failed(Level::Warning, bundle, detail, "/metadata/labels");
        }
    }
    for image in &images.others {
        let Some(supported) = known(image) else {
            continue;
        };
        for (word, _, declared, found) in &kinds {
            let has = |wanted: &String| {
                supported.iter().any(|platform| match *word {
                    "Arch" => platform.architecture == *wanted,
                    _ => platform.os == *wanted,
                })
            };
            let missing: Vec<String> = found
                .union(declared)
                .filter(|wanted| !has(wanted))
                .cloned()
                .collect();
            if !missing.is_empty() {
                let detail = format!(
                    "check if the image {image} should not support {}. Note that this CSV has labels for this {word}(s) Your manager image {} are providing this support OR the CSV is configured via labels to support it. Then, please verify if this image should not support it",
                    quoted_list(&missing),
                    quoted_list(&managers)
                );
                findings.failed(Level::Warning, bundle, detail, "/spec");
            }
        }
    }
    findings.list
}

fn check_declared<'a>(
    bundle: &Bundle,
    images: &Images,
    architectures: &BTreeSet<String>,
    systems: &BTreeSet<String>,
    known: &dyn Fn(&String) -> Option<&'a BTreeSet<Platform>>,
    findings: &mut Findings,
) {
    for os in systems {
        for architecture in architectures {
            let platform = Platform {
                os: os.clone(),
                architecture: architecture.clone(),
            };
            let all = images.managers.iter().chain(&images.others);
            let missing: BTreeSet<&str> = all
                .filter(|image| known(image).is_some_and(|found| !found.contains(&platform)))
                .map(String::as_str)
                .collect();
            if !missing.is_empty() {
                let missing: Vec<&str> = missing.into_iter().collect();
                let detail = format!(
                    "not all images specified are providing the support described via the CSV labels. Note that (SO.architecture): ({os}.{architecture}) was not found for the image(s) [{}]",
                    missing.join(" ")
                );
                findings.failed(Level::Error, bundle, detail, "/metadata/labels");
            }
        }
    }
}

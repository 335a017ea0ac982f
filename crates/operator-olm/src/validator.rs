//! The validators of `operator-sdk bundle validate`.

use std::collections::BTreeMap;

use crate::Manifest;
use crate::bundle::Bundle;
use crate::files::Files;
use crate::finding::{Finding, Findings, Level};

mod bundle;
mod capabilities;
mod categories;
mod community;
mod crd;
mod csv;
mod example;
mod format;
mod good_practices;
pub mod multiarch;
mod object;
mod object_metadata;
mod olmv1;
mod operatorhub;
mod removed_apis;
mod strict;

pub(crate) use bundle::is_old as is_old_crd;
pub(crate) use crd::converted as converted_crd;
pub(crate) use csv::api_of;
pub(crate) use example::{Examples, examples};
pub use format::format;
pub(crate) use object_metadata::SUPPORTED;

/// The options of validators.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The values of `--optional-values`, by key.
    pub values: BTreeMap<String, String>,
    /// The categories that replace the standard ones. Default: `None`.
    pub categories: Option<Vec<String>>,
    /// The content of the file in the value `index-path`, or the reason why it cannot be read.
    pub index: Option<Result<String, String>>,
}

impl Options {
    fn value(&self, key: &str) -> &str {
        self.values.get(key).map(String::as_str).unwrap_or_default()
    }
}

/// An optional validator.
#[derive(Debug)]
pub struct Optional {
    /// The name, which is also the label `name`.
    pub name: &'static str,
    /// The value of the label `suite`.
    pub suite: Option<&'static str>,
    /// The description, which is one sentence.
    pub description: &'static str,
    run: fn(&Bundle, &Options) -> Vec<Finding>,
}

impl Optional {
    /// Returns the labels that selectors match.
    pub fn labels(&self) -> BTreeMap<&'static str, &'static str> {
        let name = Some(("name", self.name));
        let suite = self.suite.map(|suite| ("suite", suite));
        name.into_iter().chain(suite).collect()
    }

    /// Runs the validator.
    pub fn run(&self, bundle: &Bundle, options: &Options) -> Vec<Finding> {
        (self.run)(bundle, options)
    }
}

const SUITE: Option<&str> = Some("operatorframework");

/// The optional validators, in the order in which they run. `multiarch` is not included, because it inspects images.
pub const OPTIONAL: &[Optional] = &[
    Optional {
        name: "operatorhub",
        suite: None,
        description: "(deprecated) OperatorHub.io metadata validation: operatorhubv2, capabilities and categories",
        run: operatorhub::deprecated,
    },
    Optional {
        name: "operatorhubv2",
        suite: SUITE,
        description: "OperatorHub.io metadata validation",
        run: operatorhub::validate,
    },
    Optional {
        name: "capabilities",
        suite: SUITE,
        description: "the capability level is one of the standard levels",
        run: capabilities::validate,
    },
    Optional {
        name: "categories",
        suite: SUITE,
        description: "the categories are standard categories, or those of the file in OPERATOR_BUNDLE_CATEGORIES",
        run: categories::validate,
    },
    Optional {
        name: "community",
        suite: None,
        description: "(deprecated, alpha) criteria of community operators; value index-path=FILE",
        run: community::validate,
    },
    Optional {
        name: "alpha-deprecated-apis",
        suite: SUITE,
        description: "(alpha) APIs that Kubernetes removed; value k8s-version=VERSION",
        run: removed_apis::validate,
    },
    Optional {
        name: "good-practices",
        suite: SUITE,
        description: "recommendations: resource requests, descriptions, names, permissions",
        run: good_practices::validate,
    },
    Optional {
        name: "olmv1",
        suite: None,
        description: "OLM v1 accepts the bundle: no dependencies, no API services, valid webhooks and install modes",
        run: olmv1::validate,
    },
    Optional {
        name: "strict",
        suite: None,
        description: "mistakes that the other validators accept: duplicate install modes, channels, labels",
        run: strict::validate,
    },
];

/// Runs the required validators, in the order in which `bundle validate` prints their findings.
pub fn validate(bundle: &Bundle) -> Vec<Finding> {
    let parts = [
        bundle::validate(bundle),
        csv::validate(bundle),
        object_metadata::validate(bundle),
        crd::validate(bundle),
    ];
    parts.into_iter().flat_map(warnings_first).collect()
}

/// Runs the validator of objects, which no command of operator-sdk runs.
pub fn validate_objects(bundle: &Bundle) -> Vec<Finding> {
    object::validate(bundle)
}

/// Runs one validator by its name: `bundle`, `csv`, `crd`, or an optional one with its default options. Returns no
/// findings for an unknown validator.
pub fn validate_with(name: &str, bundle: &Bundle) -> Vec<Finding> {
    match name {
        "bundle" => bundle::validate(bundle),
        "csv" => csv::validate(bundle),
        "crd" => crd::validate(bundle),
        _ => OPTIONAL
            .iter()
            .find(|optional| optional.name == name)
            .map(|optional| (optional.run)(bundle, &Options::default()))
            .unwrap_or_default(),
    }
}

/// Sorts the findings of a validator in the order of the command's output: warnings first.
pub fn warnings_first(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| finding.level);
    findings
}

/// Returns true if the files contain a manifests directory of a registry+v1 bundle.
pub fn is_registry_v1(files: &Files) -> bool {
    crate::bundle::media_type(files, "manifests") == Ok(crate::bundle::MediaType::RegistryV1)
}

impl Findings {
    /// Adds a finding `CSVFileNotValid` about a node of the ClusterServiceVersion.
    fn csv(&mut self, level: Level, bundle: &Bundle, detail: impl AsRef<str>, pointer: &str) -> &mut Finding {
        let detail = format!("({}) {}", bundle.csv_name(), detail.as_ref());
        let at = (bundle.csv_manifest(), pointer);
        self.add(level, "CSVFileNotValid", Some(String::new()), detail, at)
    }

    /// Adds a finding `ValidationFailed` about a node of the ClusterServiceVersion.
    fn failed(
        &mut self,
        level: Level,
        bundle: &Bundle,
        detail: impl Into<String>,
        pointer: &str,
    ) -> &mut Finding {
        let value = Some(bundle.csv_name().to_owned());
        let at = (bundle.csv_manifest(), pointer);
        self.add(level, "ValidationFailed", value, detail, at)
    }
}

/// Returns the file of the labels as a manifest, so that findings can refer to its positions.
fn annotations_manifest(bundle: &Bundle) -> Manifest {
    Manifest {
        path: bundle.annotations.path.clone(),
        document: bundle.annotations.document.clone(),
    }
}

/// Escapes a key for a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
